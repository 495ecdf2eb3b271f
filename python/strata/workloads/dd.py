"""`dd/seqwrite-sync`: one large file written through the page cache, the sync inside the clock (study 1).

The study of 2016 published the line that dd itself prints, which leaves the sync out: `@study` decides by that.
"""

from __future__ import annotations

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
from strata.units import format_size
from strata.workloads._common import declared, last_lines

_MIB = 1 << 20

# `sync -f` and not `sync`: the plain one writes back the whole machine, so that other people's dirty
# pages would be in the figure. This file system itself has been synced before the clock starts.
_SCRIPT = 'LC_ALL=C dd if=/dev/zero of="$1" bs=1M count="$2" && sync -f "$1"'

# dd ends with a line such as "1048576 bytes (1.0 MB, 1.0 MiB) copied, 0.003 s, 350 MB/s"
_SUMMARY = re.compile(r"^(\d+) bytes\b.* copied, ([0-9.]+(?:e[-+]?\d+)?) s\b", re.MULTILINE)


class SeqwriteSync:
    info = WorkloadInfo(
        name="dd/seqwrite-sync",
        about=(
            "dd writes one file of zeros in 1 MiB blocks and syncs that file system, the sync inside the clock. "
            "A stack that compresses or drops zeros hardly writes anything here: its figure says little of real data."
        ),
        params=(Param("size", ParamType.SIZE, "size of the file, in whole MiB", default=1 << 30, minimum=_MIB),),
        metrics=(
            Metric(
                "throughput", "MiB/s", "higher", "size of the file by the time of dd and sync together", merge="sum"
            ),
            Metric(
                "dd_throughput", "MiB/s", "higher", "dd's own figure, without the sync: the page cache's", merge="sum"
            ),
            Metric("duration_s", "s", "lower", "wall time of dd and sync together", merge="largest"),
        ),
        primary="throughput",
        accepts=frozenset({Kind.DIRECTORY}),
        variants=("study",),
        tools={"sh": "dash", "dd": "coreutils", "sync": "coreutils"},
    )

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        if self.data_bytes(spec) % _MIB:
            return [f"{spec.text}: dd writes whole MiB; give a size such as {format_size(_MIB)} or 1G"]
        return []

    def checks(self, spec: Call) -> list[Command]:
        return []

    def data_bytes(self, spec: Call) -> int:
        return int(spec["size"] or 0)

    def primary_of(self, spec: Call) -> Metric:
        return declared(self.info, "dd_throughput" if spec.variant == "study" else self.info.primary)

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        count = self.data_bytes(spec) // _MIB
        return TrialPlan(
            prepare=(),
            measure=Command(
                ("sh", "-c", _SCRIPT, "sh", f"{target.path}/tempfile", str(count)),
                timeout_s=600.0 + count,  # slower than 1 MiB/s is not a result any more
            ),
            collect={},
            buffered=True,
            unsynced=spec.variant == "study",
        )

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        if output.exit_code != 0:
            # dd prints its summary after the error
            errors = [line for line in output.stderr.splitlines() if line.startswith(("dd:", "sync:"))]
            said = last_lines("\n".join(errors)) or last_lines(output.stderr) or "it said nothing"
            raise WorkloadFailed(f"dd or sync ended with exit code {output.exit_code}: {said}")
        size = self.data_bytes(spec)
        summary = _SUMMARY.search(output.stderr)
        if summary and int(summary[1]) != size:
            raise WorkloadFailed(f"dd wrote {summary[1]} bytes instead of {size}; see whether the target is full")
        if output.wall_s <= 0:
            raise WorkloadFailed("the clock showed no time passing during dd; this machine's clock cannot be used")
        metrics = {"throughput": size / _MIB / output.wall_s, "duration_s": output.wall_s}
        notes: tuple[str, ...] = ()
        if summary and float(summary[2]) > 0:
            metrics["dd_throughput"] = size / _MIB / float(summary[2])
        elif spec.variant == "study":
            raise WorkloadFailed(
                "dd printed no summary that can be read, and @study decides by dd's own figure; "
                "leave out @study, or see whether dd is that of GNU coreutils"
            )
        else:
            notes = ("dd printed no summary that can be read, so its own figure is missing",)
        return Measured(metrics=metrics, bytes_read=0, bytes_written=size, notes=notes)


WORKLOADS: tuple[Workload, ...] = (SeqwriteSync(),)
