"""`feature/NAME`: tries what a stack can do, once, and keeps what showed it. See `strata.probes`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strata.errors import BadInput, WorkloadFailed
from strata.model import (
    Call,
    Command,
    Facts,
    Kind,
    Measured,
    Metric,
    Step,
    Target,
    TrialOutput,
    TrialPlan,
    Workload,
    WorkloadInfo,
)
from strata.probes import Probe, probes
from strata.probes._probe import words
from strata.probes._undo import MAKE_NOTES, REMOVE_NOTES, UNDO
from strata.probes._undo import TOOLS as OF_UNDO
from strata.workloads._common import declared, last_lines

HOLDS = Metric("holds", "ratio", "higher", "1: it was done; 0: it was tried and is not so")
_TOOK = Metric("probe_s", "s", "lower", "how long trying it took", merge="largest")


@dataclass(slots=True)
class Feature:
    info: WorkloadInfo
    probe: Probe

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        # Beside root only what every Debian has, and what the layers of the stack ask for themselves.
        return [] if facts.root else [f"{spec.text} needs root; run Strata as root"]

    def checks(self, spec: Call) -> list[Command]:
        return []

    def data_bytes(self, spec: Call) -> int:
        return self.probe.data_bytes

    def primary_of(self, spec: Call) -> Metric:
        return declared(self.info, self.info.primary)

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        if target.on_existing and self.info.reaches_below:  # the plan refuses it, and this is the last to hold it
            raise BadInput(
                f"{self.info.name} reaches what lies below {target.path}, which belongs to you and not to Strata; try "
                "it on a disk that Strata makes, or on one that you give with --device."
            )
        reaches = self.info.reaches_below and target.kind is not Kind.ENGINE
        make, script, undo = (
            ("sh", "-c", text, "sh", target.path, scratch)
            for text in (MAKE_NOTES, self.probe.script, UNDO if reaches else REMOVE_NOTES)
        )
        cleanup = Step(Command(make), Command(undo), f"make notes of what {self.info.name} changes")
        measure = Command(script, timeout_s=1800.0)
        return TrialPlan(prepare=(), measure=measure, collect={}, buffered=True, cleanup=cleanup)

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        if output.exit_code != 0:
            said = last_lines(output.stderr) or "it said nothing"
            raise WorkloadFailed(f"the probe {self.probe.name} ended with exit code {output.exit_code}: {said}")
        printed = words(output.stdout)
        found = self.probe.judge(printed)
        metrics: Mapping[str, float] = {_TOOK.name: output.wall_s, **found.figures}
        if found.holds is not None:
            metrics = {**metrics, HOLDS.name: float(found.holds)}
        # what it was judged by, so that anybody can judge it again
        evidence = " ".join(f"{name}={value}" for name, value in printed.items())
        return Measured(metrics=metrics, notes=(f"{self.probe.name}: {found.why}", *((evidence,) if evidence else ())))


def _feature(probe: Probe) -> Feature:
    info = WorkloadInfo(
        name=f"feature/{probe.name}",
        about=probe.about,
        params=(),
        metrics=(_TOOK, HOLDS, *probe.metrics),
        primary=_TOOK.name,  # what it holds is no figure to rank by: a feature that is not there is 0
        accepts=probe.accepts,
        tools=probe.tools if probe.own_files_only else {**probe.tools, **OF_UNDO},
        reaches_below=not probe.own_files_only,
    )
    return Feature(info, probe)


WORKLOADS: tuple[Workload, ...] = tuple(_feature(probe) for probe in probes().values())
