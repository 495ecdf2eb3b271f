"""Programs in filebench's language, run by strata-engine: what the built-in ones and a user's own have in common."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from strata.errors import WorkloadFailed
from strata.model import Call, Command, Measured, Metric, Param, ParamType, TrialOutput
from strata.workloads._common import last_lines

JSON = "wml.json"  # name of the collected file
TOOLS = {"sh": "dash"}

_MIB = 1 << 20
# $1 where the result goes, the rest: the engine's arguments
_RUN = 'result=$1; shift; exec strata-engine "$@" > "$result"'
_PERCENTILES = {"p50": "p50", "p95": "p95", "p99": "p99", "p99.9": "p99_9"}


def _declare() -> Iterator[Metric]:
    yield Metric(
        "ops",
        "1/s",
        "higher",
        "operations per second, each with weight 1: open, close, stat and delete too",
        merge="sum",
    )
    yield Metric("read_ops", "1/s", "higher", "reads per second; a whole file is one", merge="sum")
    yield Metric("write_ops", "1/s", "higher", "writes and appends per second; a whole file is one", merge="sum")
    yield Metric("bandwidth", "MiB/s", "higher", "bytes read and written per second", merge="sum")
    yield Metric("lat_mean_ms", "ms", "lower", "mean time of an operation")
    for name in _PERCENTILES:
        yield Metric(f"lat_{name}_ms", "ms", "lower", f"{name[1:]} % of the operations took no longer than this")
    yield Metric("lat_max_ms", "ms", "lower", "longest time of an operation", merge="largest")
    yield Metric("cpu_us_per_op", "us", "lower", "CPU time of the engine, the kernel's part included, per operation")


METRICS: tuple[Metric, ...] = tuple(_declare())

COMPRESSIBLE = Param(
    "compressible",
    ParamType.PERCENT,
    "how much of the data a compressing stack can save; 0 is random data, 100 % the zeros that filebench writes",
    default=0.0,
    minimum=0.0,
    maximum=1.0,
)


def data(spec: Call) -> tuple[str, ...]:
    """The engine's option for `COMPRESSIBLE`."""
    percent = round(float(spec["compressible"] or 0) * 100)
    return ("--data=" + {0: "random", 100: "zeros"}.get(percent, f"compressible={percent}"),)


def randseed(seed: int) -> int:
    """The engine reads 32 bits here."""
    return seed % (1 << 32)


def create(program: Sequence[str], directory: str, timeout_s: float) -> Command:
    """Makes the files and forces them to the disk; with the same `program` a run finds them as they are."""
    return Command(
        ("strata-engine", "wml", "run", *program, f"--dir={directory}", "--stage=create"), timeout_s=timeout_s
    )


def run(program: Sequence[str], directory: str, scratch: str, seed: int, timeout_s: float) -> Command:
    options = (f"--dir={directory}", "--stage=run", f"--seed={randseed(seed)}", "--json")
    argv = ("sh", "-c", _RUN, "sh", f"{scratch}/{JSON}", "wml", "run", *program, *options)
    return Command(argv, timeout_s=timeout_s)


def read(output: TrialOutput) -> Measured:
    """The figures of one run. Raises WorkloadFailed with the engine's own words when it did not run to its end."""
    said = last_lines(output.stderr) or "it said nothing"
    text = output.files.get(JSON) or ""
    if not text.strip():
        raise WorkloadFailed(f"strata-engine ended with exit code {output.exit_code} and left no result: {said}")
    try:
        document = json.loads(text)
        ended = document["ended"]
        if ended["early"]:
            done = document["summary"]["count"]
            raise WorkloadFailed(
                f"the run ended early after {document['window_s']:.3f} s and {done} operations: {ended['why']}"
            )
        if output.exit_code != 0:
            raise WorkloadFailed(f"strata-engine ended with exit code {output.exit_code}: {said}")
        return _measured(document)
    except (KeyError, TypeError, ValueError) as problem:
        raise WorkloadFailed(
            f"the result of strata-engine cannot be read ({problem!r}); see whether it is of this version"
        ) from problem


def _measured(document: Mapping[str, Any]) -> Measured:
    summary = document["summary"]
    if not summary["count"]:
        raise WorkloadFailed("not one operation was done in the time of the run; give it a longer runtime")
    latency = summary["latency_ms"]
    values: dict[str, float | None] = {
        "ops": summary["per_s"],
        "read_ops": summary["reads_per_s"],
        "write_ops": summary["writes_per_s"],
        "bandwidth": summary["bytes_per_s"] / _MIB,
        "lat_mean_ms": summary["mean_ms"],
        "lat_max_ms": latency["max"],
        "cpu_us_per_op": document["cpu"]["us_per_op"],
        **{f"lat_{name}_ms": latency[key] for name, key in _PERCENTILES.items()},
    }
    return Measured(
        metrics={name: float(value) for name, value in values.items() if value is not None},
        series={
            "ops": [(float(second), float(count)) for second, count in enumerate(summary["count_series"], 1)],
            "bandwidth": [(float(second), size / _MIB) for second, size in enumerate(summary["bytes_series"], 1)],
        },
        bytes_read=int(summary["read_bytes"]),
        bytes_written=int(summary["written_bytes"]),
        notes=tuple(_notes(document)),
    )


def _notes(document: Mapping[str, Any]) -> Iterator[str]:
    yield from document["warnings"]
    if skipped := document["summary"]["skipped_deletes"]:
        yield f"{skipped} deletes skipped a file that was open elsewhere, as in filebench"
    for fileset in document["filesets"]:
        if drift := fileset["drift"]:
            yield (
                f"fileset {fileset['name']} began with {fileset['at_start']} files and ended with {fileset['at_end']} "
                f"of {fileset['files']} ({drift:+d})"
            )
