"""The figures of a trial once more, from its raw record alone (strata/store/raw.py), to hold the stored ones against.

It shares no code with what made them: what programs wrote is read here by other means. Keep it so: a mistake that both
had in common would not be seen. Pure.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from strata.model import TrialResult

# Both ways are sums of the same numbers, in another order.
_WITHIN = 1e-9
_MIB = 1024 * 1024


@dataclass(slots=True)
class Recomputed:
    figures: dict[str, float] = field(default_factory=dict)
    courses: dict[str, list[float]] = field(default_factory=dict)  # values at 1 s, of figures that lose their warm-up
    settled: dict[str, list[float]] = field(default_factory=dict)  # the mean of one without it; several: any of them
    read_bytes: int | None = None
    written_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """One trial."""

    same: int
    different: tuple[str, ...]  # a sentence each
    untried: tuple[str, ...]  # names of figures that the record does not give


def hold(trial: TrialResult, parts: Sequence[Mapping[str, Any]]) -> Held:
    """The stored figures of a trial against those of its record. Raises ValueError where that has another shape."""
    found = Recomputed()
    try:
        for part in parts:
            one = recompute(part)
            prefix = "" if len(parts) == 1 else f"tenant{part['tenant']}."
            found.figures |= {f"{prefix}{name}": value for name, value in one.figures.items()}
            found.settled |= {f"{prefix}{name}": means for name, means in one.settled.items()}
    except (KeyError, TypeError, AttributeError, IndexError, ArithmeticError) as problem:
        raise ValueError(f"its raw record has another shape than Strata writes ({problem!r})") from problem
    same, different, untried = 0, [], []
    for name, stored in trial.metrics.items():
        given = _given(found, name, settled=f"{name}_whole_run" in trial.metrics)
        if not given:
            untried.append(name)
        elif any(_alike(stored, each) for each in given):
            same += 1
        else:
            different.append(f"{name} is stored as {stored!r}, and the raw record gives {given[0]!r}")
    return Held(same, tuple(different), tuple(untried))


def _alike(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_WITHIN, abs_tol=1e-12)


def _given(found: Recomputed, name: str, *, settled: bool) -> list[float]:
    """`settled`: a figure of the whole run stands beside it, so that it may lack its warm-up."""
    whole = found.figures.get(name.removesuffix("_whole_run"))
    if whole is None:
        return []
    return found.settled.get(name) or [whole] if settled else [whole]


def _means(part: Mapping[str, Any], whole: float | None, course: Sequence[float]) -> list[float]:
    """Of a figure that may lack the warm-up which its record names. Records of older versions name none: there it may
    be the mean of all seconds after any of at most half of them."""
    cut_s = part.get("cut_s")
    kept = [] if cut_s or whole is None else [whole]
    cuts = range(len(course) // 2 + 1) if cut_s is None else [round(cut_s)] if cut_s else []
    return kept + [math.fsum(course[cut:]) / len(course[cut:]) for cut in cuts if course[cut:]]


def recompute(part: Mapping[str, Any]) -> Recomputed:
    found = Recomputed()
    family = str(part["workload"]).partition("(")[0].partition("@")[0]
    if "fio.json" in part["files"]:
        _fio(found, part["files"])
    elif "wml.json" in part["files"]:
        _wml(found, json.loads(part["files"]["wml.json"]))
    elif family == "postgres/oltp-complex":
        _sysbench(found, part["stdout"])
    elif family == "dd/seqwrite-sync":
        _dd(found, part)
    if part["tenant"] is None:  # the machine of several tenants is watched once for all, and that is not kept
        _machine(found, part)
    found.settled = {name: _means(part, found.figures.get(name), each) for name, each in found.courses.items()}
    return found


# ---------------------------------------------------------------- what programs wrote


def _fio(found: Recomputed, files: Mapping[str, str]) -> None:
    text = files["fio.json"]
    report = json.JSONDecoder().raw_decode(text[text.index("{") :])[0]
    if any(name.startswith("group") for name in files):
        return  # groups of jobs that follow each other have a time of their own each
    rates: dict[str, float] = {}
    seconds = 0.0
    moved = {"read": 0, "write": 0}
    for job in report["jobs"]:
        for way in moved:
            side = job[way]
            moved[way] += side["io_bytes"]
            seconds = max(seconds, side["runtime"] / 1000)
            if side["total_ios"]:
                for name, value in ((f"{way}_iops", side["iops"]), (f"{way}_bandwidth", side["bw_bytes"] / _MIB)):
                    rates[name] = rates.get(name, 0.0) + value
    for kind in ("iops", "bandwidth"):
        rates[kind] = sum(value for name, value in rates.items() if name.endswith(f"_{kind}"))
    found.figures |= {**rates, "runtime_s": seconds}
    found.read_bytes, found.written_bytes = moved["read"], moved["write"]
    if len(report["jobs"]) == 1:
        found.figures |= dict(_fio_times(report["jobs"][0]))
    ways: dict[str, str | None] = {"": None, "read_": "0", "write_": "1"}
    for name, log, scale in (("iops", "iops.log", 1.0), ("bandwidth", "bw.log", 1024.0)):
        lines = [line.split(", ") for line in files.get(log, "").splitlines()]
        for prefix, wanted in ways.items():
            course = [0.0] * max(math.ceil(seconds - 0.1) - 1, 0)
            for at, value, direction, *_ in lines:
                place = max(1, round(int(at) / 1000)) - 1
                if wanted in (None, direction) and place < len(course):
                    course[place] += float(value) / scale
            found.courses[f"{prefix}{name}"] = course


def _fio_times(job: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    yield from (("cpu_usr_pct", job["usr_cpu"]), ("cpu_sys_pct", job["sys_cpu"]))
    for way in ("read", "write", "sync"):
        side = job.get(way) or {}
        times = side.get("lat_ns") or {}
        if times.get("max"):
            steps = times.get("percentile") or (side.get("clat_ns") or {}).get("percentile") or {}
            yield from ((f"{way}_lat_p{float(p):g}_ms", min(at, times["max"]) / 1e6) for p, at in steps.items())
            yield from ((f"{way}_lat_{what}_ms", times[what] / 1e6) for what in ("mean", "max"))


def _wml(found: Recomputed, report: Mapping[str, Any]) -> None:
    summary = report["summary"]
    times = {f"lat_{name.replace('_', '.')}_ms": at for name, at in summary["latency_ms"].items()}
    given = {
        **times,
        "ops": summary["per_s"],
        "read_ops": summary["reads_per_s"],
        "write_ops": summary["writes_per_s"],
        "bandwidth": summary["bytes_per_s"] / _MIB,
        "lat_mean_ms": summary["mean_ms"],
        "cpu_us_per_op": report["cpu"]["us_per_op"],
    }
    found.figures |= {name: value for name, value in given.items() if value is not None}
    found.courses = {"ops": summary["count_series"], "bandwidth": [size / _MIB for size in summary["bytes_series"]]}
    found.read_bytes, found.written_bytes = summary["read_bytes"], summary["written_bytes"]


def _sysbench(found: Recomputed, said: str) -> None:
    names = {"transactions": "tps", "queries": "qps", "ignored errors": "errors_per_s"}
    times = {"avg": "latency_mean_ms", "95th percentile": "latency_p95_ms", "max": "latency_max_ms"}
    for line in said.splitlines():
        label, colon, rest = line.strip().partition(":")
        if colon and label in names and "(" in rest:
            found.figures[names[label]] = float(rest.split("(")[1].split()[0])
        elif colon and label in times:
            found.figures[times[label]] = float(rest)
        elif line.startswith("[ ") and " tps: " in line:
            found.courses.setdefault("tps", []).append(float(line.split(" tps: ")[1].split()[0]))


def _dd(found: Recomputed, part: Mapping[str, Any]) -> None:
    """`532676608 bytes (533 MB, 508 MiB) copied, 1.5 s, 355 MB/s`"""
    found.figures["duration_s"] = part["wall_s"]
    for size, took in re.findall(r"^(\d+) bytes? .*copied, ([0-9.e-]+) s,", part["stderr"], re.MULTILINE):
        found.figures["throughput"] = int(size) / _MIB / part["wall_s"]
        found.figures["dd_throughput"] = int(size) / _MIB / float(took)
        found.written_bytes = int(size)


# ---------------------------------------------------------------- what the machines counted


def _machine(found: Recomputed, part: Mapping[str, Any]) -> None:
    header, *rows, _ = [json.loads(line) for line in part["samples"].splitlines()]
    outer = part["outside"]
    if "window" in part:  # records of older versions: what counts was cut out by the first way
        began, ended = part["window"]
        rows = [row for row in rows if began - 1e-3 <= row["t_s"] <= ended + 1e-3]
    elif part["gate"] is not None:
        rows = list(_during(rows, *(at - header["started_unix_s"] for at in part["gate"])))
        if outer is not None:
            times = [at - part["ahead_s"] + outer["ahead_s"] - outer["started_unix_s"] for at in part["gate"]]
            outer = {**outer, "rows": list(_during(outer["rows"], *times))}
    inner = dict(_counted(rows, part["devices"], found))
    if part["in_guest"]:
        cpu = {"cpu_busy_pct", "cpu_user_s", "cpu_system_s", "cpu_iowait_pct"}
        inner = {
            name.replace("host.", "guest."): value
            for name, value in inner.items()
            if not name.startswith(("host.", "psi.")) or name.removeprefix("host.") in cpu
        }
    found.figures |= inner
    if outer is not None:
        found.figures |= dict(_counted(outer["rows"], outer["devices"], found))


def _during(rows: Sequence[Mapping[str, Any]], began: float, ended: float) -> Iterator[Mapping[str, Any]]:
    """Rows of a load, whose times are those of its machine's samples: with the last one before it and the first one
    after it."""
    for number, row in enumerate(rows):
        after = rows[number + 1]["t_s"] if number + 1 < len(rows) else math.inf
        before = rows[number - 1]["t_s"] if number else -math.inf
        if after > began and before < ended:
            yield row


def _counted(
    rows: Sequence[Mapping[str, Any]], devices: Sequence[str], load: Recomputed
) -> Iterator[tuple[str, float]]:
    """`devices`: the layer of each, in the order of their names d0, d1 ..."""
    if len(rows) < 2:
        return
    span = rows[-1]["t_s"] - rows[0]["t_s"]
    busy = None
    cpu = {mode: d for mode, d in _grown(rows, "cpu_s") if d is not None}
    if sum(cpu.values()) > 0:
        modes = {"user": ("user", "nice"), "system": ("system", "irq", "softirq")}
        spent = {name: sum(cpu.get(mode, 0.0) for mode in of) for name, of in modes.items()}
        busy = spent["user"] + spent["system"]
        yield from ((f"host.cpu_{name}_s", value) for name, value in spent.items())
        yield "host.cpu_busy_pct", busy / sum(cpu.values()) * 100
        if "iowait" in cpu:
            yield "host.cpu_iowait_pct", cpu["iowait"] / sum(cpu.values()) * 100
    for name, waited in _grown(rows, "psi"):
        if waited is not None and span > 0:
            yield f"psi.{name.removesuffix('_us')}_pct", waited / (span * 1e6) * 100
    dirty = [(row.get("memory") or {}).get("dirty_bytes") or 0 for row in rows]
    if max(dirty):
        yield "host.dirty_max_bytes", max(dirty)
    totals = {layer: dict(_layer(rows, devices, layer, span)) for layer in dict.fromkeys(devices)}
    yield from ((f"{layer}.{name}", value) for layer, each in totals.items() for name, value in each.items())
    yield from _ratios(busy, totals.get("disk", {}), load)


def _ratios(busy: float | None, disk: Mapping[str, float], load: Recomputed) -> Iterator[tuple[str, float]]:
    """Of what the application moved; of less than 1 MiB there are none."""
    read, written = load.read_bytes or 0, load.written_bytes or 0
    if busy is not None and disk.get("reads", 0) + disk.get("writes", 0):
        yield "host.cpu_per_io_us", busy / (disk.get("reads", 0) + disk.get("writes", 0)) * 1e6
    if busy is not None and read + written >= _MIB:
        yield "host.cpu_per_gib_s", busy / (read + written) * 1024 * _MIB
    if written >= _MIB and "write_bytes" in disk:
        yield "disk.write_amplification", disk["write_bytes"] / written
    if read >= _MIB and "read_bytes" in disk:
        yield "disk.read_ratio", disk["read_bytes"] / read


def _grown(rows: Sequence[Mapping[str, Any]], group: str) -> Iterator[tuple[str, float | None]]:
    before, after = rows[0].get(group) or {}, rows[-1].get(group) or {}
    for name in after:
        known = after[name] is not None and before.get(name) is not None
        yield name, after[name] - before[name] if known else None


def _layer(
    rows: Sequence[Mapping[str, Any]], devices: Sequence[str], layer: str, span: float
) -> Iterator[tuple[str, float]]:
    names = [f"d{number}" for number, each in enumerate(devices) if each == layer]

    def column(counter: str, row: Mapping[str, Any]) -> list[Any]:
        return [((row.get("devices") or {}).get(name) or {}).get(counter) for name in names]

    for counter in ("reads", "writes", "read_bytes", "write_bytes", "flushes"):
        ends = [*column(counter, rows[-1]), *column(counter, rows[0])]
        if None not in ends:
            yield counter, sum(ends[: len(names)]) - sum(ends[len(names) :])
    ends = [*column("busy_ms", rows[-1]), *column("busy_ms", rows[0])]
    if None not in ends and span > 0:
        yield "busy_pct", (sum(ends[: len(names)]) - sum(ends[len(names) :])) / len(names) / (span * 1000) * 100
    depths = _whole(column("in_flight", row) for row in rows)
    if depths:
        yield "in_flight_mean", sum(map(sum, depths)) / len(depths)


def _whole(columns: Iterable[list[Any]]) -> list[list[float]]:
    return [column for column in columns if None not in column]
