"""`null`: measures nothing. What it reports is what the instrument itself costs."""

from __future__ import annotations

from strata.errors import WorkloadFailed
from strata.model import (
    Call,
    Command,
    Facts,
    Kind,
    Measured,
    Metric,
    Target,
    TrialOutput,
    TrialPlan,
    Workload,
    WorkloadInfo,
)
from strata.workloads._common import declared

_DURATION = Metric("duration_s", "s", "lower", "wall time of a program that does nothing", merge="largest")


class Null:
    info = WorkloadInfo(
        name="null",
        about="Does nothing: shows what starting and watching a workload costs by itself.",
        params=(),
        metrics=(_DURATION,),
        primary=_DURATION.name,
        accepts=frozenset(Kind) - {Kind.GRANT},
        tools={"true": "coreutils"},
    )

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return []

    def checks(self, spec: Call) -> list[Command]:
        return []

    def data_bytes(self, spec: Call) -> int:
        return 0

    def primary_of(self, spec: Call) -> Metric:
        return declared(self.info, self.info.primary)

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        return TrialPlan(prepare=(), measure=Command(("true",), timeout_s=60.0), collect={}, expect_s=0.0)

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        if output.exit_code != 0:
            raise WorkloadFailed(
                f"`true` ended with exit code {output.exit_code}; see whether this machine can start programs at all"
            )
        return Measured(metrics={_DURATION.name: output.wall_s})


WORKLOADS: tuple[Workload, ...] = (Null(),)
