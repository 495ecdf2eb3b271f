"""`filebench/NAME`: workloads of filebench's names and parameters, in our own text, run by strata-engine."""

from __future__ import annotations

from dataclasses import dataclass

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
from strata.workloads import _wml
from strata.workloads._common import declared

_KIB, _MIB = 1 << 10, 1 << 20


@dataclass(frozen=True, slots=True)
class _Program:
    name: str
    about: str
    size_bytes: int  # of its files as laid out, with the defaults
    files: tuple[str, int] | None = None  # the variable that says how many, and its default
    threads: tuple[str, int] | None = None
    per_file: int = 0  # mean size
    per_thread: int = 10 * _MIB + _MIB  # memsize=10m, and what it writes from, iosize=1m
    more_threads: int = 0  # beside those that `threads` says


_PROGRAMS = (
    _Program(
        "fileserver",
        "50 threads that write, append to, read, delete and look at files of 128 KiB in the mean.",
        10_000 * 128 * _KIB,
        ("nfiles", 10_000),
        ("nthreads", 50),
        128 * _KIB,
    ),
    _Program(
        "varmail",
        "16 threads that deliver mails, each with an fsync, and read them. 10000 mails, where filebench has 1000 and "
        "ends early on fast storage; nfiles=1000 is as published.",
        10_000 * 16 * _KIB,
        ("nfiles", 10_000),
        ("nthreads", 16),
        16 * _KIB,
    ),
    _Program(
        "webserver",
        "100 threads that each read ten files of 16 KiB in the mean and write to one log.",
        1_000 * 16 * _KIB,
        ("nfiles", 1_000),
        ("nthreads", 100),
        16 * _KIB,
    ),
    _Program(
        "webproxy",
        "100 threads that each replace one object and read five, in one flat directory.",
        10_000 * 16 * _KIB,
        ("nfiles", 10_000),
        ("nthreads", 100),
        16 * _KIB,
    ),
    _Program(
        "oltp",
        "200 readers of random 2 KiB blocks, ten writers and a log writer that wait for each other.",
        11 * 10 * _MIB,
        ("nfiles", 10),
        ("nshadows", 200),
        10 * _MIB,
        per_thread=_MIB,
        more_threads=11,
    ),
    _Program(
        "videoserver",
        "48 readers at a stated rate and one writer that replaces a video every 10 s. Videos of 64 MiB, where "
        "filebench has 10 GiB.",
        (32 + 194) * 64 * _MIB,
        None,
        ("nthreads", 48),
        per_thread=10 * _MIB,
        more_threads=1,
    ),
)


def _params(program: _Program) -> tuple[Param, ...]:
    params = [Param("runtime", ParamType.TIME, "how long to measure, in whole seconds", default=30.0, minimum=1.0)]
    if program.files:
        params.append(Param(program.files[0], ParamType.INT, "how many files", default=program.files[1], minimum=1))
    if program.threads:
        params.append(
            Param(program.threads[0], ParamType.INT, "how many threads", default=program.threads[1], minimum=1)
        )
    return (*params, _wml.COMPRESSIBLE)


class Filebench:
    def __init__(self, program: _Program) -> None:
        self._program = program
        self.info = WorkloadInfo(
            name=f"filebench/{program.name}",
            about=f"{program.about} filebench's own parameters and rules, by strata-engine.",
            params=_params(program),
            metrics=_wml.METRICS,
            primary="ops",
            accepts=frozenset({Kind.DIRECTORY}),
            tools=_wml.TOOLS,
        )

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        runtime_s = float(spec["runtime"] or 0)
        return [] if runtime_s == round(runtime_s) else [f"{spec.text}: the runtime is in whole seconds; round it"]

    def checks(self, spec: Call) -> list[Command]:
        return [Command(("strata-engine", "wml", "check", *self._what(spec)), timeout_s=60.0)]

    def data_bytes(self, spec: Call) -> int:
        program = self._program
        if program.files is None:
            return program.size_bytes
        name, default = program.files
        return program.size_bytes + (int(spec[name] or 0) - default) * program.per_file

    def memory_bytes(self, spec: Call) -> int:
        """As the engine counts before it starts (crates/engine/src/wml/run.rs), which refuses what is not there."""
        program = self._program
        threads = int(spec[program.threads[0]] or 0) if program.threads else 0
        return (threads + program.more_threads) * program.per_thread

    def primary_of(self, spec: Call) -> Metric:
        return declared(self.info, self.info.primary)

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        runtime_s = float(spec["runtime"] or 0)
        program = (*self._what(spec), *_wml.data(spec))
        timed = (*program, f"--seconds={round(runtime_s)}")
        measure = _wml.run(timed, target.path, scratch, seed, runtime_s + 600.0)
        return TrialPlan(
            prepare=(_wml.create(program, target.path, 600.0 + self.data_bytes(spec) / _MIB),),
            measure=measure,
            collect={_wml.JSON: f"{scratch}/{_wml.JSON}"},
            expect_s=runtime_s,
            buffered=True,
            uses_up=True,
            gated=measure,
        )

    def _what(self, spec: Call) -> tuple[str, ...]:
        names = [given[0] for given in (self._program.files, self._program.threads) if given]
        return (f"builtin:{self._program.name}", *(f"--set={name}={spec[name]}" for name in names))

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        return _wml.read(output)


WORKLOADS: tuple[Workload, ...] = tuple(Filebench(program) for program in _PROGRAMS)
