"""`vagrant:PATH`: how long `vagrant up` takes for a Vagrantfile of the user's, and `vagrant destroy` after it.

What the machines are is read from `vagrant status --machine-readable`: lines "time,machine,type,data", with `%!(VAGRANT
_COMMA)` for a comma in the data. Source: "Machine Readable Output" of Vagrant's documentation.
"""

from __future__ import annotations

import csv

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

_UP = Metric("up_s", "s", "lower", "vagrant up, from its start until every machine runs")

# $1 directory of the Vagrantfile. The machines go whatever came of them, and times are of the machine's own clock.
_SCRIPT = """\
cd -- "$1" || exit 1
export VAGRANT_CWD="$1" VAGRANT_DOTFILE_PATH="$1/.vagrant" VAGRANT_NO_COLOR=1
now() { cut -d ' ' -f 1 /proc/uptime; }
trap 'vagrant destroy -f >> log 2>&1; exit 1' TERM INT
echo "begin=$(now)" > times
vagrant up > log 2>&1 & wait $!
code=$?
echo "up=$(now)" >> times
vagrant status --machine-readable > status 2>> log
echo "asked=$(now)" >> times
vagrant destroy -f >> log 2>&1
gone=$?
echo "gone=$(now)" >> times
if [ "$code" -ne 0 ] || [ "$gone" -ne 0 ]; then tail -n 20 log >&2; exit 1; fi"""


class Vagrant:
    info = WorkloadInfo(
        name="vagrant:",
        about="A Vagrantfile of your own: `vagrant up`, timed until its machines run, then `vagrant destroy -f`.",
        params=(Param("timeout", ParamType.TIME, "stop it after this long", default=3600.0, minimum=1.0),),
        metrics=(
            _UP,
            Metric("destroy_s", "s", "lower", "vagrant destroy of all of them"),
            Metric("machines", "count", "neither", "machines that ran"),
        ),
        primary=_UP.name,
        accepts=frozenset({Kind.DIRECTORY}),
        tools={"sh": "dash", "vagrant": "vagrant"},
        on="vagrant",
    )

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return []  # the layer says what it needs

    def checks(self, spec: Call) -> list[Command]:
        return []

    def data_bytes(self, spec: Call) -> int:
        return 0

    def primary_of(self, spec: Call) -> Metric:
        return declared(self.info, self.info.primary)

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        return TrialPlan(
            prepare=(),
            measure=Command(("sh", "-c", _SCRIPT, "sh", scratch), timeout_s=float(spec["timeout"] or 0)),
            collect={name: f"{scratch}/{name}" for name in ("times", "status", "log")},
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
        return Measured({_UP.name: up - begin, "destroy_s": gone - asked, "machines": float(len(states))})


def states_of(text: str) -> dict[str, str]:
    """Machine -> its state ("running", "poweroff", "not_created"), from the machine-readable status."""
    rows = csv.reader(text.splitlines())
    return {row[1]: row[3] for row in rows if len(row) >= 4 and row[1] and row[2] == "state"}


WORKLOADS: tuple[Workload, ...] = (Vagrant(),)
