"""What fio leaves behind, read: its JSON output (3.16 to 3.40) and its 1 s logs. Pure."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from strata.errors import WorkloadFailed
from strata.model import AccessPattern, Measured, Metric, TrialOutput
from strata.units import parse_size
from strata.workloads._common import last_lines

JSON = "fio.json"  # names of the collected files
IOPS_LOG = "iops.log"
BANDWIDTH_LOG = "bw.log"

_MIB = 1 << 20
_NS_PER_MS = 1e6
# metric suffix -> key of fio's percentile object
_PERCENTILES = {"p50": "50.000000", "p95": "95.000000", "p99": "99.000000", "p99.9": "99.900000"}


def _declare() -> Iterator[Metric]:
    yield Metric("iops", "IOPS", "higher", "reads and writes completed per second", merge="sum")
    yield Metric("bandwidth", "MiB/s", "higher", "bytes read and written per second", merge="sum")
    for way in ("read", "write"):
        yield Metric(f"{way}_iops", "IOPS", "higher", f"{way}s completed per second", merge="sum")
        yield Metric(f"{way}_bandwidth", "MiB/s", "higher", f"bytes of {way}s per second", merge="sum")
    for way, what in (("read", "a read"), ("write", "a write"), ("sync", "an fsync or fdatasync")):
        yield Metric(f"{way}_lat_mean_ms", "ms", "lower", f"mean time of {what} from its submission to its completion")
        for name in _PERCENTILES:
            yield Metric(f"{way}_lat_{name}_ms", "ms", "lower", f"{name[1:]} % of these took no longer than this")
        yield Metric(f"{way}_lat_max_ms", "ms", "lower", f"longest time of {what}", merge="largest")
    yield Metric("runtime_s", "s", "lower", "fio's own run time of its jobs, without laying out files", merge="largest")
    yield Metric("cpu_usr_pct", "%", "lower", "user time of fio's jobs, in % of one CPU per job")
    yield Metric("cpu_sys_pct", "%", "lower", "kernel time of fio's jobs, in % of one CPU per job")


METRICS: tuple[Metric, ...] = tuple(_declare())


def log_name(log: str, group: int) -> str:
    """Of the collected file with a log of one group of jobs, 0 the first."""
    return f"group{group + 1}.{log}" if group else log


def read(output: TrialOutput, *, sequential_groups: int = 1) -> Measured:
    """The figures of one fio run made with --output-format=json and group reporting.

    `sequential_groups`: so many groups of jobs ran one after another, so that with more than one run times add up and
    rates are totals over the summed time; otherwise they ran at once and rates add up.
    Raises WorkloadFailed with fio's own words when there is no figure to trust.
    """
    jobs = _jobs(output)
    try:
        _refuse_errors(jobs, output)
        return _measured(jobs, output, sequential_groups)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as problem:
        raise WorkloadFailed(
            f"fio's JSON output has another shape than that of fio 3.16 to 3.40 ({problem!r}); "
            "look at `fio --version` and at the trial's fio.json"
        ) from problem


def _jobs(output: TrialOutput) -> list[Mapping[str, Any]]:
    text = output.files.get(JSON)
    said = last_lines(output.stderr)
    because = f": {said}" if said else "; run the command by hand to see why"
    if text is None or "{" not in text:
        raise WorkloadFailed(f"fio ended with exit code {output.exit_code} and left no results{because}")
    try:
        # fio prints notes and warnings before the JSON, into the same file
        document, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
    except (ValueError, RecursionError) as problem:
        raise WorkloadFailed(
            f"fio's JSON output is cut off or damaged ({type(problem).__name__}); "
            f"fio ended with exit code {output.exit_code}{because}"
        ) from problem
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(jobs, list) or not jobs or not all(isinstance(job, dict) for job in jobs):
        raise WorkloadFailed(f"fio reports no jobs (exit code {output.exit_code}){because}")
    shared = document.get("global options", {})
    return [{**job, "job options": {**shared, **job.get("job options", {})}} for job in jobs]


def _refuse_errors(jobs: Sequence[Mapping[str, Any]], output: TrialOutput) -> None:
    said = last_lines(output.stderr)
    for job in jobs:
        name = job.get("jobname", "?")
        error = int(job.get("error", 0))
        if error:
            raise WorkloadFailed(
                f"fio's job '{name}' stopped with error {error}, {os.strerror(error)}{f': {said}' if said else ''}"
            )
        if total := int(job.get("total_err", 0)):
            raise WorkloadFailed(f"fio's job '{name}' had {total} I/O errors{f': {said}' if said else ''}")
        for way in ("read", "write", "trim"):
            figures = job.get(way, {})
            for key, what in (("short_ios", "cut short"), ("drop_ios", "dropped")):
                if way == "read" and key == "short_ios" and "fdatasync" in job["job options"]:
                    continue  # fio 3.33 counts every fdatasync as a read cut short, even where nothing is read
                if count := int(figures.get(key, 0)):
                    raise WorkloadFailed(
                        f"{count} {way}s of fio's job '{name}' were {what}; see whether the target is full or damaged"
                    )
    if output.exit_code != 0:
        raise WorkloadFailed(f"fio ended with exit code {output.exit_code}: {said or 'it said nothing more'}")
    if not any(int(job[way]["io_bytes"]) > 0 for job in jobs for way in ("read", "write")):
        raise WorkloadFailed("fio read and wrote nothing; see whether its size or run time is too small")


def _measured(jobs: Sequence[Mapping[str, Any]], output: TrialOutput, sequential_groups: int) -> Measured:
    job_seconds = [max(float(job[way]["runtime"]) for way in ("read", "write")) / 1000 for job in jobs]
    one_by_one = sequential_groups > 1
    runtime_s = sum(job_seconds) if one_by_one else max(job_seconds)
    if not 0 <= runtime_s <= output.wall_s + 1:
        raise ValueError(f"a run time of {runtime_s} s in {output.wall_s} s")
    metrics = dict(_rates(jobs, runtime_s if one_by_one else None))
    if metrics.get("iops", 0) <= 0 or runtime_s == 0:
        raise WorkloadFailed("fio ran for so short a time that it has no rate; give it a larger size or run time")
    metrics["runtime_s"] = runtime_s
    notes: tuple[str, ...] = ()
    if len(jobs) == 1:
        for way in ("read", "write", "sync"):
            metrics.update(_latencies(way, jobs[0].get(way, {})))
        metrics["cpu_usr_pct"] = float(jobs[0]["usr_cpu"])
        metrics["cpu_sys_pct"] = float(jobs[0]["sys_cpu"])
    else:
        notes = (f"fio reported {len(jobs)} groups; latencies and CPU of several groups cannot be put into one",)
    if any(not math.isfinite(value) or value < 0 for value in metrics.values()):
        raise ValueError("a figure that is negative or no number")
    series = dict(_series(output.files, 0, runtime_s if not one_by_one else None))
    groups: list[int] = []
    for group in range(1, sequential_groups):
        groups.append(len(series.get("iops", ())))
        series = _joined(series, dict(_series(output.files, group, None)))
    return Measured(
        metrics=metrics,
        series=series,
        groups=tuple(groups) if series else (),
        bytes_read=sum(int(job["read"]["io_bytes"]) for job in jobs),
        bytes_written=sum(int(job["write"]["io_bytes"]) for job in jobs),
        notes=notes,
    )


def _rates(jobs: Sequence[Mapping[str, Any]], shared_s: float | None) -> Iterator[tuple[str, float]]:
    """Rates by direction and together. `shared_s`: the time of all groups, when they followed one another."""
    iops: list[float] = []
    bandwidth: list[float] = []
    for way in ("read", "write"):
        ios = sum(int(job[way]["total_ios"]) for job in jobs)
        if not ios or shared_s == 0:
            continue
        if shared_s is None:
            iops.append(math.fsum(float(job[way]["iops"]) for job in jobs))
            bandwidth.append(math.fsum(float(job[way]["bw_bytes"]) for job in jobs) / _MIB)
        else:
            iops.append(ios / shared_s)
            bandwidth.append(sum(int(job[way]["io_bytes"]) for job in jobs) / _MIB / shared_s)
        yield f"{way}_iops", iops[-1]
        yield f"{way}_bandwidth", bandwidth[-1]
    if iops:
        yield "iops", math.fsum(iops)
        yield "bandwidth", math.fsum(bandwidth)


_Series = Sequence[tuple[float, float]]


def _series(files: Mapping[str, str], group: int, runtime_s: float | None) -> Iterator[tuple[str, _Series]]:
    for name, log, scale in (("iops", IOPS_LOG, 1.0), ("bandwidth", BANDWIDTH_LOG, 1 / 1024)):
        text = files.get(log_name(log, group), "")
        for prefix, direction in (("", None), ("read_", "0"), ("write_", "1")):
            points = read_log(text, runtime_s, direction)
            if points:
                yield f"{prefix}{name}", tuple((t, value * scale) for t, value in points)


def _joined(before: Mapping[str, _Series], after: Mapping[str, _Series]) -> dict[str, _Series]:
    """Series of groups of jobs that ran one after another. One that does not read, read nothing in that time."""
    lengths = [max(map(len, series.values()), default=0) for series in (before, after)]
    found: dict[str, _Series] = {}
    for name in {**before, **after}:
        values = [
            value
            for series, length in zip((before, after), lengths, strict=True)
            for _, value in series.get(name, ((0.0, 0.0),) * length)
        ]
        found[name] = tuple((float(second), value) for second, value in enumerate(values, start=1))
    return found


def _latencies(way: str, figures: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    lat_ns = figures.get("lat_ns", {})
    if not lat_ns.get("max"):  # gtod_reduce, or nothing of this kind: not measured, not 0
        return
    yield f"{way}_lat_mean_ms", float(lat_ns["mean"]) / _NS_PER_MS
    # asked for percentiles of the whole latency only, as we do, older fio files them under clat_ns all the same
    percentiles = lat_ns.get("percentile") or figures.get("clat_ns", {}).get("percentile", {})
    for name, key in _PERCENTILES.items():
        if key in percentiles:
            # fio gives the upper end of the histogram's step, which may lie above the longest time, known exactly.
            yield f"{way}_lat_{name}_ms", min(float(percentiles[key]), float(lat_ns["max"])) / _NS_PER_MS
    yield f"{way}_lat_max_ms", float(lat_ns["max"]) / _NS_PER_MS


_PATTERNS = {
    "read": False,
    "write": False,
    "rw": False,
    "readwrite": False,
    "randread": True,
    "randwrite": True,
    "randrw": True,
}  # rw -> at random
# With any option of a job that is not among these, what it does is not one plain pattern.
_PLAIN = frozenset(
    {
        *("rw", "readwrite", "bs", "blocksize", "iodepth", "numjobs", "size", "direct", "ioengine", "fsync"),
        *("fdatasync", "sync", "rwmixread", "rwmixwrite", "runtime", "time_based", "filename", "name"),
        *("description", "end_fsync", "randrepeat", "randseed", "refill_buffers", "thread", "stonewall"),
        *("group_reporting", "norandommap", "fallocate", "write_iops_log", "write_bw_log", "log_avg_msec"),
        *("invalidate", "loops", "overwrite"),
    }
)
_ENGINES = frozenset({"libaio", "io_uring", "posixaio", "psync", "sync", "pvsync", "pvsync2", "vsync"})


def pattern(options: Mapping[str, str | None], measured: Measured) -> AccessPattern | None:
    """What the only job of a fio run did; None where it is not one plain pattern. `options`: of the job."""
    way = options.get("rw") or options.get("readwrite") or "read"
    block = _bytes(options.get("bs") or options.get("blocksize") or "4096")
    span = _bytes(options.get("size"))
    depth, jobs = (_bytes(options.get(name) or "1") for name in ("iodepth", "numjobs"))
    plain = way in _PATTERNS and options.get("ioengine", "psync") in _ENGINES and _PLAIN.issuperset(options)
    seconds = measured.metrics.get("runtime_s", 0.0)
    if not (plain and block and span and depth and jobs and seconds):
        return None
    synced = [options.get(name) for name in ("fsync", "fdatasync") if name in options]
    return AccessPattern(
        random=_PATTERNS[way],
        block_bytes=block,
        span_bytes=span,
        depth=depth * jobs,
        direct=options.get("direct", "0") in (None, "1"),
        durable="1" in synced or options.get("sync", "0") in (None, "1", "sync", "dsync"),
        seconds=seconds,
        reads_per_s=measured.metrics.get("read_iops", 0.0),
        writes_per_s=measured.metrics.get("write_iops", 0.0),
    )


def _bytes(text: str | None) -> int:
    """0 for what is no plain number with a unit: a range, a share."""
    try:
        return parse_size(text or "0")
    except ValueError:
        return 0


def read_log(text: str, runtime_s: float | None, direction: str | None = None) -> list[tuple[float, float]]:
    """(end of the second, value) for each whole second of a fio log made with log_avg_msec=1000.

    Lines are "ms, value, direction, block size, ..."; those of all jobs and directions of a second are added.
    fio writes no line for a second in which nothing completed: it counts as 0. The last second, which only some of
    the jobs may have logged, is left out. `runtime_s`: of all jobs; None: until the last line. `direction`: "0" reads,
    "1" writes. Raises ValueError on a line that is none.
    """
    seconds: dict[int, float] = {}
    last_ms = 0
    for line in text.splitlines():
        if line.strip():
            at_ms, value, way = (field.strip() for field in line.split(",")[:3])
            last_ms = max(last_ms, int(at_ms))
            if direction in (None, way):
                second = max(1, round(int(at_ms) / 1000))
                seconds[second] = seconds.get(second, 0.0) + float(value)
    if not seconds:
        return []
    # A run of 30.001 s has 29 whole seconds that every job has logged.
    last = math.ceil((last_ms / 1000 if runtime_s is None else runtime_s) - 0.1) - 1
    return [(float(second), seconds.get(second, 0.0)) for second in range(1, last + 1)]
