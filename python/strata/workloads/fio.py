"""fio presets: one row of the table below each."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
from strata.workloads import _fio, _fio_json
from strata.workloads._common import declared

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30
_ENGINES = ("libaio", "io_uring", "psync", "sync", "posixaio")


@dataclass(frozen=True, slots=True)
class _Preset:
    name: str
    about: str
    rw: str
    bs: int
    iodepth: int
    numjobs: int = 1
    size: int = _GIB
    extra: tuple[str, ...] = ()
    study: bool = False  # it was published as one command, run to its end

    @property
    def primary(self) -> str:
        return "iops" if self.rw.startswith("rand") else "bandwidth"


def _both_ways(prefix: str, title: str, pattern: str, bs: int, iodepth: int, numjobs: int = 1) -> tuple[_Preset, ...]:
    """CrystalDiskMark reads and writes with each of its patterns; `pattern` is "" (sequential) or "rand"."""
    kept = "The mean of the run, where CrystalDiskMark shows its best pass."
    return tuple(
        _Preset(f"{prefix}-{way}", f"{title}: {way}s. {kept}", f"{pattern}{way}", bs, iodepth, numjobs)
        for way in ("read", "write")
    )


_PRESETS = (
    _Preset(
        "fio/randrw-75-25",
        "Random 4 KiB, 75 % reads and 25 % writes, queue depth 64, bypassing the page cache.",
        "randrw",
        4 * _KIB,
        64,
        extra=("--rwmixread=75",),
        study=True,
    ),
    _Preset("fio/randread-4k-qd32", "Random 4 KiB reads, queue depth 32.", "randread", 4 * _KIB, 32),
    _Preset("fio/randwrite-4k-qd32", "Random 4 KiB writes, queue depth 32.", "randwrite", 4 * _KIB, 32),
    _Preset("fio/seqread-1m", "Sequential 1 MiB reads, queue depth 8.", "read", _MIB, 8),
    _Preset("fio/seqwrite-1m", "Sequential 1 MiB writes, queue depth 8.", "write", _MIB, 8),
    _Preset(
        "fio/randwrite-4k-fsync",
        "Random 4 KiB writes one at a time, an fsync after each, as a database commits.",
        "randwrite",
        4 * _KIB,
        1,
        extra=("--fsync=1",),
    ),
    # CrystalDiskMark up to 6 read and wrote its sequential pattern in 128 KiB blocks, 8 on in 1 MiB
    *_both_ways("cdm6/seq-q32t1", "CrystalDiskMark 6, Seq Q32T1 (128 KiB)", "", 128 * _KIB, 32),
    *_both_ways("cdm6/4k-q8t8", "CrystalDiskMark 6, 4K Q8T8", "rand", 4 * _KIB, 8, 8),
    *_both_ways("cdm6/4k-q32t1", "CrystalDiskMark 6, 4K Q32T1", "rand", 4 * _KIB, 32),
    *_both_ways("cdm6/4k-q1t1", "CrystalDiskMark 6, 4K Q1T1", "rand", 4 * _KIB, 1),
    *_both_ways("cdm8/seq1m-q8t1", "CrystalDiskMark 8, SEQ1M Q8T1", "", _MIB, 8),
    *_both_ways("cdm8/seq1m-q1t1", "CrystalDiskMark 8, SEQ1M Q1T1", "", _MIB, 1),
    *_both_ways("cdm8/seq128k-q32t1", "CrystalDiskMark 8, NVMe profile, SEQ128K Q32T1", "", 128 * _KIB, 32),
    *_both_ways("cdm8/rnd4k-q32t16", "CrystalDiskMark 8, NVMe profile, RND4K Q32T16", "rand", 4 * _KIB, 32, 16),
    *_both_ways("cdm8/rnd4k-q32t1", "CrystalDiskMark 8, RND4K Q32T1", "rand", 4 * _KIB, 32),
    *_both_ways("cdm8/rnd4k-q1t1", "CrystalDiskMark 8, RND4K Q1T1", "rand", 4 * _KIB, 1),
)


def _params(preset: _Preset) -> tuple[Param, ...]:
    return (
        Param("runtime", ParamType.TIME, "how long to measure", default=30.0, minimum=1.0),
        Param("size", ParamType.SIZE, "size of the file or part of the device used", default=preset.size, minimum=_MIB),
        Param("bs", ParamType.SIZE, "block size", default=preset.bs, minimum=512),
        Param("iodepth", ParamType.INT, "requests in flight per job", default=preset.iodepth, minimum=1),
        Param("numjobs", ParamType.INT, "jobs at once, all on the same file", default=preset.numjobs, minimum=1),
        Param("ioengine", ParamType.CHOICE, "fio I/O engine", default="libaio", choices=_ENGINES),
        Param("direct", ParamType.FLAG, "bypass the page cache (O_DIRECT)", default=True),
        Param(
            "compressible",
            ParamType.PERCENT,
            "how much of the data a compressing stack can save; 0 is random data",
            default=0.0,
            minimum=0.0,
            maximum=1.0,
        ),
    )


class FioPreset:
    def __init__(self, preset: _Preset) -> None:
        self._preset = preset
        self.info = WorkloadInfo(
            name=preset.name,
            about=preset.about,
            params=_params(preset),
            metrics=_fio_json.METRICS,
            primary=preset.primary,
            accepts=frozenset({Kind.DIRECTORY, Kind.BLOCK}),
            variants=("study",) if preset.study else (),
            tools={"fio": "fio", "sh": "dash"},
        )

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        found = _fio.reasons(facts) + _fio.block_reasons(spec, direct=bool(spec["direct"]))
        if spec["ioengine"] == "io_uring" and facts.io_uring_lacking:
            found.append(f"{spec.text}: {facts.io_uring_lacking}, or choose another ioengine.")
        runtime = next(param for param in self.info.params if param.name == "runtime")
        if spec.variant == "study" and spec["runtime"] != runtime.default:
            found.append(f"{spec.text}: the study runs to its end; leave out runtime, or leave out @study")
        return found

    def checks(self, spec: Call) -> list[Command]:
        # fio is built with fewer engines on some systems, and says so only here
        return [Command(("fio", f"--enghelp={spec['ioengine']}"), timeout_s=60.0)]

    def data_bytes(self, spec: Call) -> int:
        return int(spec["size"] or 0)

    def primary_of(self, spec: Call) -> Metric:
        return declared(self.info, "runtime_s" if spec.variant == "study" else self.info.primary)

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        path = target.path if target.kind is Kind.BLOCK else f"{target.path}/strata.data"
        # on a device the file must be there: fio would otherwise make one in /dev, which is memory
        there = ("--allow_file_create=0",) if target.kind is Kind.BLOCK else ()
        study = spec.variant == "study"
        measure = self._study(spec, path) if study else self._timed(spec, path, scratch, seed)
        # else fio writes the same buffers again and again, which a stack that compresses makes smaller
        measure += ("--refill_buffers=1", *_compressible(spec), *there)
        runtime_s = None if study else float(spec["runtime"] or 0)
        collect = {_fio_json.JSON: f"{scratch}/fio.json"}
        if not study:
            collect |= _fio.logs(scratch, runtime_s)
        timeout_s = runtime_s + 600.0 if runtime_s else 3600.0 + _fio.patience_s(self.data_bytes(spec))
        plain, gated = (
            tuple(f"--{option}={value}" for option, value in _fio.around_jobs(target.kind, gated=gate).items())
            for gate in (False, True)
        )
        return TrialPlan(
            prepare=(_fio.layout(path, self.data_bytes(spec), scratch, seed, _compressible(spec) + there),),
            measure=Command(measure + plain + _fio.output(scratch), timeout_s),
            collect=collect,
            expect_s=runtime_s,
            buffered=not spec["direct"],
            gated=Command(measure + gated + _fio.output(scratch), timeout_s),
        )

    def _timed(self, spec: Call, path: str, scratch: str, seed: int) -> tuple[str, ...]:
        runtime_s = float(spec["runtime"] or 0)
        before, filename = _fio.reach(path)
        return (
            *before,
            "fio",
            "--name=strata",
            f"--filename={filename}",
            f"--rw={self._preset.rw}",
            *self._preset.extra,
            f"--bs={format_size(int(spec['bs'] or 0))}",
            f"--iodepth={spec['iodepth']}",
            f"--numjobs={spec['numjobs']}",
            f"--ioengine={spec['ioengine']}",
            f"--direct={int(bool(spec['direct']))}",
            f"--size={format_size(self.data_bytes(spec))}",
            "--time_based",
            f"--runtime={_fio.seconds(runtime_s)}",
            # not randrepeat: with it every pass over the file would visit the blocks in the same order
            "--randrepeat=0",
            f"--randseed={_fio.randseed(seed)}",
            "--group_reporting",
            *(f"--{option}" for option in _fio.reporting(scratch, runtime_s)),
        )

    def _study(self, spec: Call, path: str) -> tuple[str, ...]:
        """The published command, but for --refill_buffers. Its file is laid out before, as fio itself did before its
        clock started."""
        before, filename = _fio.reach(path)
        return (
            *before,
            "fio",
            "--randrepeat=1",
            f"--ioengine={spec['ioengine']}",
            f"--direct={int(bool(spec['direct']))}",
            "--gtod_reduce=1",
            "--name=test",
            f"--filename={filename}",
            f"--bs={format_size(int(spec['bs'] or 0))}",
            f"--iodepth={spec['iodepth']}",
            f"--size={format_size(self.data_bytes(spec))}",
            f"--readwrite={self._preset.rw}",
            *self._preset.extra,
            *((f"--numjobs={spec['numjobs']}", "--group_reporting") if spec["numjobs"] != 1 else ()),
        )

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        measured = _fio_json.read(output)
        return replace(measured, pattern=_fio_json.pattern(self._pattern_options(spec), measured))

    def _pattern_options(self, spec: Call) -> dict[str, str | None]:
        extra = (option.removeprefix("--").split("=", 1) for option in self._preset.extra)
        given = {name: str(int(spec[name] or 0)) for name in ("bs", "iodepth", "numjobs", "size", "direct")}
        return {"rw": self._preset.rw, "ioengine": str(spec["ioengine"]), **given, **dict(extra)}


def _compressible(spec: Call) -> tuple[str, ...]:
    percent = round(float(spec["compressible"] or 0) * 100)
    return (f"--buffer_compress_percentage={percent}",) if percent else ()


WORKLOADS: tuple[Workload, ...] = tuple(FioPreset(preset) for preset in _PRESETS)
