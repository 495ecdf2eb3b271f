"""`vagrant:PATH`: how long `vagrant up` takes for a Vagrantfile of the user's, and `vagrant destroy` after it.

What lies beside the Vagrantfile comes along (a provisioning script, a directory that is shared), and boxes that it
names in plain words are fetched before the clock starts. What the machines are is read from `vagrant status
--machine-readable`: lines "time,machine,type,data", with `%!(VAGRANT_COMMA)` for a comma in the data. Source: "Machine
Readable Output" of Vagrant's documentation.
"""

from __future__ import annotations

import csv
import re

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
    Workload,
    WorkloadInfo,
)
from strata.workloads._common import declared, last_lines

_UP = Metric("up_s", "s", "lower", "vagrant up, from its start until every machine runs", merge="largest")

# More than this is not a Vagrantfile's directory, but one that it happens to lie in: a home, a repository of images.
_MOST = 64 << 20

# In a Vagrantfile, `config.vm.box = "debian/trixie64"`. A box that is named by an expression is fetched by vagrant up.
_BOX = re.compile(r"""^[^#\n]*\.vm\.box\s*=\s*["']([^"'#]+)["']""", re.MULTILINE)

# $1 the user's Vagrantfile, $2 bytes. On another machine there is none, or it may be another's.
_SMALL = """\
if [ -f "$1" ]; then
  size=$(du --summarize --bytes --exclude=.vagrant --exclude=.git -- "${1%/*}/" | cut -f 1)
  if [ "$size" -gt "$2" ]; then
    echo "the directory of $1 is copied for every trial, and holds $size bytes, more than $2; give the Vagrantfile a" \
      "directory with only what it needs" >&2
    exit 1
  fi
fi
"""

# As above, and $3 directory where its text was written. A file there of the same name is ours already.
_BRING = (
    _SMALL
    + """\
mkdir -p -- "$3/.strata" || exit 1
if cmp -s -- "$1" "$3/Vagrantfile"; then
  tar --create --directory "${1%/*}/" --exclude=./.vagrant --exclude=./.git . |
    tar --extract --directory "$3" --skip-old-files
else
  echo "only the text of $1 was brought here: what lies beside it is on another machine" > "$3/.strata/alone"
fi"""
)

# $1 directory, the rest: names of boxes. One that cannot be fetched so (another version, a URL of its own) is left to
# vagrant up.
_FETCH = """\
export VAGRANT_CWD="$1" VAGRANT_DOTFILE_PATH="$1/.vagrant" VAGRANT_NO_COLOR=1
mkdir -p -- "$1/.strata" && cd -- "$1" && shift || exit 1
for box; do
  vagrant box list | grep -qF -e "$box " && continue
  vagrant box add --provider "$VAGRANT_DEFAULT_PROVIDER" -- "$box" >> .strata/log 2>&1
done
exit 0"""

# $1 directory of the Vagrantfile. The machines go whatever came of them, and times are of the machine's own clock.
_SCRIPT = """\
cd -- "$1" || exit 1
export VAGRANT_CWD="$1" VAGRANT_DOTFILE_PATH="$1/.vagrant" VAGRANT_NO_COLOR=1
now() { cut -d ' ' -f 1 /proc/uptime; }
mkdir -p .strata
trap 'vagrant destroy -f >> .strata/log 2>&1; exit 1' TERM INT
vagrant box list > .strata/before 2>> .strata/log
echo "begin=$(now)" > .strata/times
vagrant up >> .strata/log 2>&1 & wait $!
code=$?
echo "up=$(now)" >> .strata/times
vagrant box list > .strata/after 2>> .strata/log
vagrant status --machine-readable > .strata/status 2>> .strata/log
echo "asked=$(now)" >> .strata/times
vagrant destroy -f >> .strata/log 2>&1
gone=$?
echo "gone=$(now)" >> .strata/times
if [ "$code" -ne 0 ] || [ "$gone" -ne 0 ]; then
  tail -n 20 .strata/log >&2; cat .strata/alone >&2 2>/dev/null; exit 1
fi"""

_COLLECTED = ("times", "status", "log", "before", "after")


class Vagrant:
    info = WorkloadInfo(
        name="vagrant:",
        about=(
            "A Vagrantfile of your own, with what lies beside it: `vagrant up`, timed until its machines run, then "
            "`vagrant destroy -f`."
        ),
        params=(Param("timeout", ParamType.TIME, "stop it after this long", default=3600.0, minimum=1.0),),
        metrics=(
            _UP,
            Metric("destroy_s", "s", "lower", "vagrant destroy of all of them", merge="largest"),
            Metric("machines", "count", "neither", "machines that ran", merge="sum"),
        ),
        primary=_UP.name,
        accepts=frozenset({Kind.DIRECTORY}),
        tools={"sh": "dash", "vagrant": "vagrant", "tar": "tar", "cmp": "diffutils", "du": "coreutils"},
        on="vagrant",
    )

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return []  # the layer says what it needs

    def checks(self, spec: Call) -> list[Command]:
        file = spec.values.get("file")
        return [_sh(_SMALL, str(file), str(_MOST), timeout_s=60.0)] if file else []

    def data_bytes(self, spec: Call) -> int:
        return 0

    def primary_of(self, spec: Call) -> Metric:
        return declared(self.info, self.info.primary)

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        return TrialPlan(
            prepare=tuple(_prepare(spec, scratch)),
            measure=_sh(_SCRIPT, scratch, timeout_s=float(spec["timeout"] or 0)),
            collect={name: f"{scratch}/.strata/{name}" for name in _COLLECTED},
            put={f"{scratch}/Vagrantfile": str(spec["content"])},
        )

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        if output.exit_code != 0:
            said = last_lines(output.stderr) or last_lines(output.files.get("log", "")) or "it said nothing"
            raise WorkloadFailed(f"vagrant up or destroy of {spec.path} failed: {said}")
        states = states_of(output.files.get("status", ""))
        if not states:
            raise WorkloadFailed(f"vagrant status says of no machine of {spec.path} what it does; look at its log")
        idle = [f"{machine} is {state}" for machine, state in states.items() if state != "running"]
        if idle:
            raise WorkloadFailed(f"vagrant up ended and {', '.join(idle)}; see what vagrant says of it")
        times = dict(line.split("=", 1) for line in output.files.get("times", "").split())
        try:
            begin, up, asked, gone = (float(times[name]) for name in ("begin", "up", "asked", "gone"))
        except (KeyError, ValueError):
            raise WorkloadFailed("the times of vagrant were not all noted; run it again") from None
        fetched = sorted(_boxes(output, "after") - _boxes(output, "before"))
        notes = [f"{_UP.name} has the download of the box {box} in it, which vagrant up fetched" for box in fetched]
        figures = {_UP.name: up - begin, "destroy_s": gone - asked, "machines": float(len(states))}
        return Measured(figures, notes=tuple(notes))


def _sh(script: str, *words: str, timeout_s: float) -> Command:
    return Command(("sh", "-c", script, "sh", *words), timeout_s=timeout_s)


def _prepare(spec: Call, scratch: str) -> list[Command]:
    file, boxes = spec.values.get("file"), sorted(set(_BOX.findall(str(spec["content"]))))
    steps = [_sh(_BRING, str(file), str(_MOST), scratch, timeout_s=600.0)] if file else []
    return steps + ([_sh(_FETCH, scratch, *boxes, timeout_s=float(spec["timeout"] or 0))] if boxes else [])


def _boxes(output: TrialOutput, when: str) -> set[str]:
    """Lines of `vagrant box list`: "debian/trixie64 (libvirt, 13.20250801.1)"."""
    return {line.strip() for line in output.files.get(when, "").splitlines() if "(" in line}


def states_of(text: str) -> dict[str, str]:
    """Machine -> its state ("running", "poweroff", "not_created"), from the machine-readable status."""
    rows = csv.reader(text.splitlines())
    return {row[1]: row[3] for row in rows if len(row) >= 4 and row[1] and row[2] == "state"}


WORKLOADS: tuple[Workload, ...] = (Vagrant(),)
