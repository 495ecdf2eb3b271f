"""What machines counted during a trial, read for the second time (strata/analysis/recomputed.py).

It shares no code with strata/run, which read it first. Pure.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_MIB = 1024 * 1024
# Of a guest's processors; all else that is counted in there is not kept.
_IN_GUEST = frozenset({"cpu_busy_pct", "cpu_user_s", "cpu_system_s", "cpu_iowait_pct"})

Row = Mapping[str, Any]
Moved = tuple[int | None, int | None]
"""Bytes that applications read and wrote."""


def of_load(part: Mapping[str, Any], moved: Moved) -> dict[str, float]:
    """Of the machine that a load ran on, and of the one that carries that, where the load had it for itself."""
    header, *rows, _ = [json.loads(line) for line in part["samples"].splitlines()]
    outer = part["outside"]
    if "window" in part:  # records of older versions: what counts was cut out by the first way
        began, ended = part["window"]
        rows = [row for row in rows if began - 1e-3 <= row["t_s"] <= ended + 1e-3]
    elif part["gate"] is not None:
        rows = list(_during(rows, *(at - header["started_unix_s"] for at in part["gate"])))
    figures = dict(_counted(rows, part["devices"], moved)) | _spent(rows, "qemu")
    if part["in_guest"]:
        figures = _as_guest(figures)
    elif part["tenant"] is not None:  # the machine is everybody's
        figures = {name: value for name, value in figures.items() if not name.startswith(("host.", "psi."))}
    if outer is not None:
        gate = part["gate"] and [at - part["ahead_s"] for at in part["gate"]]
        figures |= of_carrier(outer, gate, moved)
    return figures | dict(remembered(part.get("memory") or []))


def of_carrier(outer: Mapping[str, Any], gate: Sequence[float] | None, moved: Moved) -> dict[str, float]:
    """Of the machine that carries guests or tenants. `gate`: by the controller's clock; None: all of it."""
    rows = outer["rows"]
    if gate is not None:
        rows = list(_during(rows, *(at + outer["ahead_s"] - outer["started_unix_s"] for at in gate)))
    figures = dict(_counted(rows, outer["devices"], moved))
    guests = outer.get("guests") or []
    return figures | (of_guest(outer, guests[0], gate) if len(guests) == 1 else {})


def of_guest(outer: Mapping[str, Any], name: str, gate: Sequence[float] | None) -> dict[str, float]:
    """Of the process that is a guest, on the machine that started it."""
    starter, ahead_s = (outer["starter"], 0.0) if outer.get("starter") else (outer, outer["ahead_s"])
    rows = starter["rows"]
    if gate is not None:
        rows = list(_during(rows, *(at + ahead_s - starter["started_unix_s"] for at in gate)))
    return _spent(rows, name)


def flush_s(part: Mapping[str, Any]) -> float | None:
    times = part.get("flush_s")
    return None if times is None else math.fsum(times)


def _as_guest(figures: Mapping[str, float]) -> dict[str, float]:
    return {
        name.replace("host.", "guest."): value
        for name, value in figures.items()
        if not name.startswith(("host.", "psi.")) or name.removeprefix("host.") in _IN_GUEST
    }


def _during(rows: Sequence[Row], began: float, ended: float) -> Iterator[Row]:
    """Rows of a load, whose times are those of its machine's samples: with the last one before it and the first one
    after it."""
    for number, row in enumerate(rows):
        after = rows[number + 1]["t_s"] if number + 1 < len(rows) else math.inf
        before = rows[number - 1]["t_s"] if number else -math.inf
        if after > began and before < ended:
            yield row


def _spent(rows: Sequence[Row], name: str) -> dict[str, float]:
    times: list[Any] = [(row.get("processes") or {}).get(name) for row in (*rows[:1], *rows[-1:])]
    return {} if not times or None in times else {"guest.qemu_cpu_s": times[-1] - times[0]}


def remembered(machines: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    """What memory kept at the start on each machine, and what the ARC of ZFS served from then on. A text of a machine
    is its /proc/meminfo with its arcstats: lines of a name and its last number, or of a name, a type and a number."""
    for each in machines:
        start, name = _table(each["start"]), each["name"]
        sums = {
            "dirty_bytes": [("Dirty:", 1024), ("Writeback:", 1024)],
            "page_cache_bytes": [("Cached:", 1024), ("Buffers:", 1024), ("Shmem:", -1024)],
            "arc_bytes": [("data_size", 1)],
        }
        for figure, parts in sums.items():
            if all(label in start for label, _ in parts):
                yield f"{name}.start_{figure}", sum(start[label] * times for label, times in parts)
        if each["end"] is not None:
            end = _table(each["end"])
            reads, misses = (
                sum(end.get(label, 0) - start.get(label, 0) for label in labels)
                for labels in (
                    ("demand_data_hits", "demand_data_iohits", "demand_data_misses"),
                    ("demand_data_misses", "prefetch_data_misses"),
                )
            )
            if reads >= 100:
                yield f"{name}.arc_served_pct", max(reads - misses, 0) / reads * 100


def _table(text: str) -> dict[str, int]:
    rows = re.findall(r"^(\S+)\s+(?:\d+\s+)?(\d+)(?: kB)?$", text, re.MULTILINE)
    return {name: int(value) for name, value in rows}


def _counted(rows: Sequence[Row], devices: Sequence[str], moved: Moved) -> Iterator[tuple[str, float]]:
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
    yield from _ratios(busy, totals.get("disk", {}), moved)


def _ratios(busy: float | None, disk: Mapping[str, float], moved: Moved) -> Iterator[tuple[str, float]]:
    """Of what the application moved; of less than 1 MiB there are none."""
    read, written = (each or 0 for each in moved)
    if busy is not None and disk.get("reads", 0) + disk.get("writes", 0):
        yield "host.cpu_per_io_us", busy / (disk.get("reads", 0) + disk.get("writes", 0)) * 1e6
    if busy is not None and read + written >= _MIB:
        yield "host.cpu_per_gib_s", busy / (read + written) * 1024 * _MIB
    if written >= _MIB and "write_bytes" in disk:
        yield "disk.write_amplification", disk["write_bytes"] / written
    if read >= _MIB and "read_bytes" in disk:
        yield "disk.read_ratio", disk["read_bytes"] / read


def _grown(rows: Sequence[Row], group: str) -> Iterator[tuple[str, float | None]]:
    before, after = rows[0].get(group) or {}, rows[-1].get(group) or {}
    for name in after:
        known = after[name] is not None and before.get(name) is not None
        yield name, after[name] - before[name] if known else None


def _layer(rows: Sequence[Row], devices: Sequence[str], layer: str, span: float) -> Iterator[tuple[str, float]]:
    names = [f"d{number}" for number, each in enumerate(devices) if each == layer]

    def column(counter: str, row: Row) -> list[Any]:
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
