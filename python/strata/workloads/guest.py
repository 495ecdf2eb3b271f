"""`guest/boot`: how long the guest took from its start to the first command that it carried out."""

from __future__ import annotations

from strata.errors import WorkloadFailed
from strata.model import (
    BOOT_TIME,
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
from strata.workloads._common import declared, last_lines


class Boot:
    """Every visit boots its guests once, so that is what was timed; this asks for it, and lets it decide."""

    info = WorkloadInfo(
        name="guest/boot",
        about=(
            "From the start of QEMU to the first command carried out in the guest, by ssh, as this visit booted it. "
            "Its own system is in read-only memory: of the disk only its start plays a part."
        ),
        params=(),
        metrics=(Metric("boot_s", "s", "lower", "from the start of QEMU to the first command", merge="largest"),),
        primary="boot_s",
        accepts=frozenset({Kind.BLOCK, Kind.DIRECTORY}),
        in_guest=True,
        tools={"cat": "coreutils"},
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
        return TrialPlan((), Command(("cat", BOOT_TIME), timeout_s=60.0), {}, expect_s=0.0, earlier=True)

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        try:
            return Measured({"boot_s": float(output.stdout)})
        except ValueError:
            said = last_lines(output.stderr) or "nothing was noted"
            raise WorkloadFailed(f"how long the guest took to boot is not known: {said}") from None


WORKLOADS: tuple[Workload, ...] = (Boot(),)
