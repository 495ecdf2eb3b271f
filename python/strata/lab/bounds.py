"""What modelled disks can do at most, and what a trial did beyond that. Pure.

Every bound here holds whatever the stack: more means that something other than the disk answered. Three sources:

- a disk's own counters, which need no knowledge of the load: requests, bytes and flushes, by the time that the model
  takes for each at least;
- what the workload asked for, where that is one plain pattern of I/O: each durable write waits for the disk;
- for disks with arms under random I/O, `strata-engine disk bounds` (crates/disks/src/bounds.rs): what the arm takes.
  It says nothing where the disk's own memory could answer much of the load, or where a layer may have made other
  requests of the random ones; then neither do we.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strata.lab import models
from strata.lab.models import DiskModel
from strata.model import AccessPattern
from strata.text import listed
from strata.units import human_size

# The formula is checked against the models to this (crates/disks/tests/bounds.rs).
_TOLERANCE = 1.02
_SIZES = (4 << 10, 128 << 10, 1 << 20)  # that the engine computes
_DEPTHS = (1, 8, 32)
_LARGEST_REQUEST = 4 << 20  # of any model, bytes
_SMALLEST_SPAN = 64 << 20  # likewise
_TIMES_MEMORY = 4  # of the disk's memory: in a smaller range it may answer too much of random I/O

Rates = Mapping[tuple[str, int, int], float]
"""Random requests a second at most, by kind (read, write, fua), block size and queue depth."""


@dataclass(frozen=True, slots=True)
class ServedDisk:
    """A modelled disk in a lab machine on the virtual clock."""

    name: str
    model: DiskModel
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Counters:
    """What one disk completed in a trial, as the kernel counted it."""

    seconds: float
    reads: float
    writes: float
    read_bytes: float
    write_bytes: float
    flushes: float = 0.0


@dataclass(frozen=True, slots=True)
class Above:
    """What stands between a workload and the disks."""

    in_place: bool  # every layer writes a block where it read it, so that random I/O is random on the disks
    fifo: bool  # no I/O scheduler chooses among the requests that wait for a disk
    durable: bool  # an acknowledged fsync or O_DSYNC is on the disk: the stack has no known hazard
    caches: tuple[str, ...]  # that may serve reads


@dataclass(frozen=True, slots=True)
class Findings:
    excess: tuple[str, ...] = ()  # more than the disks can do: the figure is wrong
    served: tuple[str, ...] = ()  # more than the disks can do, and a cache above them did the rest


def parse_rates(text: str) -> Rates:
    """The output of `strata-engine disk bounds`."""
    entries: list[Mapping[str, Any]] = json.loads(text)["bounds"]
    return {
        (entry["kind"], entry["block_bytes"], entry["depth"]): float(entry["most_per_s"])
        for entry in entries
        if entry["random"]
    }


def of_counters(disk: ServedDisk, seen: Counters) -> list[str]:
    """Sentences for what one disk did beyond its model."""
    model, seconds = disk.model, seen.seconds
    if any(model.faults.values()) or seconds <= 0:
        return []  # a request that fails, and a flush that is dropped, takes no time
    depth = int(model.device["queue_depth"])
    found = []
    if model.kind == "fixed":
        servers, read_us, write_us = _servers(disk)
        flush_us = _flush_us(model) * (seen.flushes or 0)
        busy_us = seen.reads * read_us + seen.writes * write_us + flush_us
        # What was under way when the trial began may have had most of its time by then.
        allowed_us = (servers * seconds * 1e6) * _TOLERANCE + depth * max(read_us, write_us)
        if busy_us > allowed_us:
            found.append(_more(disk, seen.reads + seen.writes, seconds, servers * seconds * 1e6 / busy_us, "requests"))
    else:
        least_us = models.shortest(model)[0]
        busy_us = (seen.reads + seen.writes) * least_us
        if busy_us > depth * (seconds * 1e6 * _TOLERANCE + least_us):
            share = depth * seconds * 1e6 / busy_us
            found.append(_more(disk, seen.reads + seen.writes, seconds, share, "requests"))
    rate = _interface_bytes_per_s(disk)
    if rate is not None:
        both = not model.service.get("full_duplex", False)
        moved = seen.read_bytes + seen.write_bytes if both else max(seen.read_bytes, seen.write_bytes)
        if moved > rate * seconds * _TOLERANCE + depth * _LARGEST_REQUEST:
            found.append(
                f"the disk {disk.name} moved {human_size(round(moved / seconds))} a second, and its model {model.name} "
                f"can move at most {human_size(round(rate))}"
            )
    return found


def of_pattern(
    disks: Sequence[ServedDisk],
    seen: Sequence[Counters],
    pattern: AccessPattern,
    above: Above,
    rates: Callable[[ServedDisk, int], Rates],
) -> Findings:
    """What a workload did beyond the models of its disks, which are alike. `seen`: of each disk.

    `rates`: of a disk, for so many bytes of it.
    """
    disk = disks[0]
    model = disk.model
    if any(any(each.model.faults.values()) for each in disks):
        return Findings()
    found: list[str] = []
    durable = pattern.durable and above.durable
    depth = max(1, math.ceil(pattern.depth / len(disks)))  # the rate grows less than the depth: alike on all is best
    if durable and pattern.writes_per_s:
        most = _durable_per_s(disks, pattern, above, depth)
        if pattern.writes_per_s > most * _TOLERANCE:
            found.append(_beyond(disks, f"{pattern.writes_per_s:,.0f} durable writes a second", f"{most:,.0f}"))
    # The counters are of a longer time than the load: fio takes some to start and to end.
    disk_reads = sum(each.reads for each in seen) / pattern.seconds
    disk_writes = sum(each.writes for each in seen) / pattern.seconds
    reads = pattern.reads_per_s
    limits = _random_limits(disk, len(disks), depth, pattern, above, rates)
    most_reads = limits.reads_per_s * len(disks) if limits else _plain_reads(disks)
    served: list[str] = []
    if reads > most_reads * _TOLERANCE and disk_reads < reads:
        by = listed(above.caches) if above.caches else "memory above the disks"
        served.append(
            f"{reads:,.0f} reads a second are more than {_disks(disks)} can do (at most {most_reads:,.0f}): {by} "
            f"served at least {1 - disk_reads / reads:.0%} of them"
        )
    direct_writes = pattern.writes_per_s if pattern.direct or durable else 0.0
    if limits and not found:
        figure = min(reads, disk_reads) + min(direct_writes, disk_writes)
        used = limits.share_of_time(min(reads, disk_reads), min(direct_writes, disk_writes), len(disks))
        if used > _TOLERANCE:
            what = "reads and writes" if direct_writes and reads else "reads" if reads else "writes"
            kind = "durable " if durable and not reads else ""
            found.append(_beyond(disks, f"{figure:,.0f} random {kind}{what} a second", f"{figure / used:,.0f}"))
    if model.kind == "hdd" and not pattern.random:
        found += _sequential(disks, seen, pattern)
    return Findings(tuple(found), tuple(served))


@dataclass(frozen=True, slots=True)
class _Limits:
    """Of one disk with arms under random I/O."""

    seconds: float
    read_s: float  # of the arm for each
    write_s: float
    reads_per_s: float  # of reads alone
    cached_writes: int  # that may wait in the cache; 0: none is acknowledged from there
    window: int  # of these, so many are no reason to write between reads
    blocks: float  # of the range

    def share_of_time(self, reads_per_s: float, writes_per_s: float, disks: int) -> float:
        """Of the arms' time, what these took at least. Writes that may still lie in the cache at the end took none.

        With more than `window` of them cached, the disk writes one after each read: so they are few after mixed I/O.
        """
        reads, writes = reads_per_s * self.seconds / disks, writes_per_s * self.seconds / disks
        held = min(self.cached_writes, self.window + max(0.0, writes - 0.9 * reads))
        in_cache = min(held / self.blocks, 1.0)
        spent = reads * (1 - in_cache) * self.read_s + max(0.0, writes - held) * self.write_s
        return spent / self.seconds


def _random_limits(
    disk: ServedDisk,
    count: int,
    depth: int,
    pattern: AccessPattern,
    above: Above,
    rates: Callable[[ServedDisk, int], Rates],
) -> _Limits | None:
    """None where nothing is known: another kind of disk, requests that a layer may change, a range that fits into the
    disk's own memory."""
    model, service = disk.model, disk.model.service
    if model.kind != "hdd" or not pattern.random or not above.in_place:
        return None
    span = min(pattern.span_bytes // count, disk.size_bytes)
    block = max((size for size in _SIZES if size <= pattern.block_bytes), default=_SIZES[0])
    cached_writes = min(service["cache_bytes"] // block, service["cached_writes"])
    segment = min(service["read_ahead_bytes"] + block, 16 * block)
    memory = cached_writes * block + service["read_segments"] * segment
    if span < max(_SMALLEST_SPAN, _TIMES_MEMORY * memory):
        return None
    known = rates(disk, span)
    if above.fifo:
        depth = min(depth, int(model.device["queue_depth"]))
    durable = pattern.durable and above.durable and model.write_cache == "volatile"
    kind = "fua" if durable or model.write_cache == "none" else "write"
    read = _at_depth(known, "read", block, depth)
    write = _at_depth(known, kind, block, depth)
    window = int(service["destage_window"])
    if kind == "write" and not above.fifo:
        # What a scheduler sorted lies closer together in the cache, too.
        write *= math.pow((window + depth) / window, _slope(known, "read", block))
    read_s = 1 / read
    if depth == 1 and kind == "write" and pattern.writes_per_s:
        read_s -= models.shortest(model)[0] / 1e6  # the arm may write while a read's command is taken
    held = cached_writes if kind == "write" else 0
    return _Limits(pattern.seconds, read_s, 1 / write, read, held, window, span / pattern.block_bytes)


def _at_depth(known: Rates, kind: str, block: int, depth: int) -> float:
    """At the next depth that is known; beyond the last one as it grew before."""
    for at in _DEPTHS:
        if depth <= at:
            return known[kind, block, at]
    return known[kind, block, _DEPTHS[-1]] * math.pow(depth / _DEPTHS[-1], _slope(known, kind, block))


def _slope(known: Rates, kind: str, block: int) -> float:
    before, last = _DEPTHS[-2:]
    return math.log(known[kind, block, last] / known[kind, block, before]) / math.log(last / before)


def _durable_per_s(disks: Sequence[ServedDisk], pattern: AccessPattern, above: Above, depth: int) -> float:
    """Writes a second of which each waits until a disk has it: its own time, and the flush after it."""
    disk = disks[0]
    model = disk.model
    if model.kind == "hdd" and model.write_cache != "protected":
        turn_us = 60e6 / float(model.service["rpm"])
        command_us = float(model.service["command_us"])
        if not above.in_place:
            return len(disks) * depth * 1e6 / command_us
        # In order, the next place is a whole turn away; at random, the nearest of so many.
        waits_us = turn_us / (depth + 1) if pattern.random else turn_us / depth
        return len(disks) * 1e6 / max(waits_us, command_us / depth)
    waits_us = _programmed_us(model) if model.kind == "ssd" else _flush_us(model)
    return pattern.depth * 1e6 / (_servers(disk)[2] + waits_us)


def _flush_us(model: DiskModel) -> float:
    """Of a disk of fixed times; only a volatile cache is flushed."""
    return float(model.service.get("flush_us", 0)) if model.write_cache == "volatile" else 0.0


def _programmed_us(model: DiskModel) -> float:
    """What a write of flash with FUA takes at least beside the time of one that is cached: there is no flush, and it is
    sent to a die and programmed (crates/disks, ssd). One that fills an operation is on its way before its answer."""
    if model.write_cache != "volatile":
        return 0.0
    service = model.service
    there_us = float(service["program_bytes"] * 1e6 / service["channel_bytes_per_s"] + service["program_us"])
    if service["program_bytes"] <= 4096:
        there_us -= service["write_latency_us"] + service["command_us"]
    return max(there_us, 0.0)


def _sequential(disks: Sequence[ServedDisk], seen: Sequence[Counters], pattern: AccessPattern) -> list[str]:
    """Bytes a second, past what the disks' own memory may have had: once, and again each time round the range."""
    service, count = disks[0].model.service, len(disks)
    moved = sum(each.read_bytes + each.write_bytes for each in seen)
    asked = pattern.block_bytes * pattern.seconds
    asked *= pattern.reads_per_s + (pattern.writes_per_s if pattern.direct else 0.0)
    through = min(moved, asked)
    memory = count * (service["cache_bytes"] + service["read_segments"] * service["read_ahead_bytes"])
    laps = 1 + asked / pattern.span_bytes
    most = count * service["outer_bytes_per_s"]
    if through - memory * laps <= most * pattern.seconds * _TOLERANCE:
        return []
    done = f"{human_size(round(through / pattern.seconds))} a second"
    return [_beyond(disks, done, f"{human_size(round(most))} a second besides what its memory holds")]


def _plain_reads(disks: Sequence[ServedDisk]) -> float:
    """Reads a second at most, whatever they are."""
    return sum(servers * 1e6 / read_us for servers, read_us, _ in map(_servers, disks))


def _servers(disk: ServedDisk) -> tuple[float, float, float]:
    """Requests at a time, and the shortest time of a read and of a write, us."""
    model = disk.model
    if model.kind == "fixed":
        return tuple(float(model.service[name]) for name in ("servers", "read_us", "write_us"))  # type: ignore
    least_us = models.shortest(model)[0]
    return int(model.device["queue_depth"]), least_us, least_us


def _interface_bytes_per_s(disk: ServedDisk) -> float | None:
    service = disk.model.service
    if disk.model.kind == "fixed":
        rate = service.get("bytes_per_s")
        return None if rate is None else float(rate) * service["servers"]
    return float(service["interface_bytes_per_s"])


def _more(disk: ServedDisk, count: float, seconds: float, share: float, what: str) -> str:
    rate = count / seconds
    return (
        f"the disk {disk.name} did {rate:,.0f} {what} a second, and its model {disk.model.name} can do at most "
        f"{rate * share:,.0f}"
    )


def _beyond(disks: Sequence[ServedDisk], done: str, most: str) -> str:
    model = disks[0].model.name
    can = f"its model {model}" if len(disks) == 1 else f"{len(disks)} of the model {model}"
    return f"{_disks(disks)} did {done}, and {can} can do at most {most}"


def _disks(disks: Sequence[ServedDisk]) -> str:
    return f"the disk{'s' if len(disks) > 1 else ''} {listed([disk.name for disk in disks])}"
