"""`guest/fio`: fio in a guest from an image of the user's own, by ssh, on the bare disk that it was given.

With windowsaio in Windows, libaio in Linux. fio is the guest's; what it says comes back by its standard output, so
there is no series. Sources: fio(1), "windowsaio", and its notes on Windows: threads, and how disks are named.
"""

from __future__ import annotations

from dataclasses import replace

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
from strata.workloads import _fio_json
from strata.workloads._common import declared
from strata.workloads._fio import block_reasons, patience_s, randseed, seconds

_PATTERNS = ("randread", "randwrite", "read", "write", "randrw")


class OwnGuestFio:
    info = WorkloadInfo(
        name="guest/fio",
        about="fio on the disk of a guest from an image of your own, by ssh; with windowsaio in Windows.",
        params=(
            Param("rw", ParamType.CHOICE, "fio's pattern", default="randread", choices=_PATTERNS),
            Param("bs", ParamType.SIZE, "bytes of each request", default=4096, minimum=512),
            Param("iodepth", ParamType.INT, "requests in flight", default=32, minimum=1, maximum=4096),
            Param("numjobs", ParamType.INT, "jobs at once, all on the same part", default=1, minimum=1, maximum=256),
            Param("size", ParamType.SIZE, "how much of the disk is used", default=1 << 30, minimum=1 << 20),
            Param("runtime", ParamType.TIME, "how long", default=30.0, minimum=1.0),
        ),
        metrics=_fio_json.METRICS,
        primary="iops",
        accepts=frozenset({Kind.GUEST}),
    )

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return block_reasons(spec, direct=True)  # the programs are the guest's, which nobody can ask before it runs

    def checks(self, spec: Call) -> list[Command]:
        return []

    def data_bytes(self, spec: Call) -> int:
        return int(spec["size"] or 0)

    def primary_of(self, spec: Call) -> Metric:
        return declared(self.info, self.info.primary)

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        size, runtime_s = int(spec["size"] or 0), float(spec["runtime"] or 0)
        windows = target.path.startswith("\\\\")
        common = (
            f"--filename={target.path}",
            f"--ioengine={'windowsaio' if windows else 'libaio'}",
            *(("--thread",) if windows else ()),
            "--direct=1",
            f"--size={format_size(size)}",
            f"--randseed={randseed(seed)}",
            "--eta=never",
        )
        layout = ("fio", "--name=layout", "--rw=write", "--bs=1M", "--iodepth=8")
        layout += ("--refill_buffers=1", "--end_fsync=1", *common)
        measure = (
            *("fio", "--name=measured", f"--rw={spec['rw']}", f"--bs={format_size(int(spec['bs'] or 0))}"),
            *(f"--iodepth={spec['iodepth']}", f"--numjobs={spec['numjobs']}"),
            *(f"--runtime={seconds(runtime_s)}", "--time_based", *common),
            *("--randrepeat=0", "--norandommap", "--refill_buffers=1", "--group_reporting"),
            *("--lat_percentiles=1", "--clat_percentiles=0", "--output-format=json"),
        )
        return TrialPlan(
            prepare=(Command(layout, timeout_s=patience_s(size)),),
            measure=Command(measure, timeout_s=runtime_s + 300.0),
            collect={},
            expect_s=runtime_s,
        )

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        return _fio_json.read(replace(output, files={_fio_json.JSON: output.stdout}))


WORKLOADS: tuple[Workload, ...] = (OwnGuestFio(),)
