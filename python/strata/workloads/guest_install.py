"""`guest/install`: an unattended installation of Debian onto the stack, timed (study 2 has four of them at once).

The packages lie in the lab's own system, in read-only memory, as a repository for apt (the feature `install`, made by
lab/scripts/install.sh): no network is in it. What is measured is what an installer does to the disk: copy the packages
onto it, unpack them, sync after every one, configure them.
"""

from __future__ import annotations

from strata.errors import WorkloadFailed
from strata.model import (
    Call,
    Command,
    Facts,
    Kind,
    Measured,
    Metric,
    Param,
    ParamType,
    Target,
    TrialOutput,
    TrialPlan,
    Work,
    Workload,
    WorkloadInfo,
)
from strata.workloads._common import declared, last_lines

_MIB = 1 << 20

# What mmdebstrap installs; the room that it takes while the packages lie there too, measured and rounded up; and how
# long it takes: `minimal` and `standard` not emulated, `extract` and `minimal` emulated (benchmarks/results), the rest
# by these.
_CHOICES = {
    "extract": (("--variant=extract", "--include=apt,?essential"), 300 * _MIB, Work(10.0, 60.0)),
    "minimal": (("--variant=minbase",), 300 * _MIB, Work(32.0, 180.0)),
    "standard": (("--variant=important", "--include=linux-image-amd64"), 700 * _MIB, Work(145.0, 800.0)),
}

# $1 a directory on the stack, $2 one that is not, the rest: what to install. All of it is on the disk when it ends.
_INSTALL = """\
target=$1 elsewhere=$2; shift 2
packages=$(strata-packages) || exit 1
TMPDIR=$elsewhere DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 mmdebstrap --quiet --mode=root --format=directory \\
  --aptopt='APT::Install-Recommends "false"' --aptopt='APT::Sandbox::User "root"' "$@" \\
  strata "$target/root" "deb [trusted=yes] copy:$packages ./" >&2 || exit 1
sync -f "$target"
if [ ! -x "$target/root/usr/bin/dpkg" ]; then echo "nothing was installed from $packages" >&2; exit 1; fi
"""


class Install:
    info = WorkloadInfo(
        name="guest/install",
        about=(
            "A Debian is installed onto the target by mmdebstrap, from packages in memory: copied, unpacked, synced "
            "and configured as an installer does it. In guests, or in the lab."
        ),
        params=(
            Param(
                "packages",
                ParamType.CHOICE,
                "extract: what every Debian has, and apt, unpacked and not configured, for a first look; minimal: the "
                "same, configured; standard: what the installer's smallest system has, with a kernel",
                default="standard",
                choices=tuple(_CHOICES),
                positional=True,
            ),
        ),
        metrics=(Metric("install_s", "s", "lower", "until all of it is on the disk", merge="largest"),),
        primary="install_s",
        accepts=frozenset({Kind.DIRECTORY}),
        tools={"mmdebstrap": "mmdebstrap", "strata-packages": "a lab with the feature install"},
    )

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        reasons = []
        if any(tool not in facts.tools for tool in self.info.tools):
            reasons.append(
                f"{spec.text}: the packages that it installs are in guests and labs with the feature install; type "
                "`strata lab build --with install` (with all that the campaign needs: --with install,postgres), and "
                "put a vm below, or run it --on lab (testbed: {lab: {features: [install]}})."
            )
        if not facts.root:
            reasons.append(f"{spec.text}: only root installs a system; run as root.")
        return reasons

    def checks(self, spec: Call) -> list[Command]:
        return []

    def data_bytes(self, spec: Call) -> int:
        return _CHOICES[str(spec["packages"])][1]

    def primary_of(self, spec: Call) -> Metric:
        return declared(self.info, self.info.primary)

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        argv = ("sh", "-c", _INSTALL, "sh", target.path, scratch, *_CHOICES[str(spec["packages"])][0])
        work = _CHOICES[str(spec["packages"])][2]
        return TrialPlan((), Command(argv, timeout_s=7200.0), {}, buffered=True, work=work)

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        if output.exit_code != 0:
            said = last_lines(output.stderr) or last_lines(output.stdout) or "it said nothing"
            raise WorkloadFailed(f"the installation ended with exit code {output.exit_code}: {said}")
        return Measured({"install_s": output.wall_s})


WORKLOADS: tuple[Workload, ...] = (Install(),)
