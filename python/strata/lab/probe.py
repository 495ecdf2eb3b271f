"""Fits a model to a disk from what reading it tells, and, on a file made for it, what writing does. Pure.

fio measures: random reads of 4 KiB at growing depth, and of growing size one at a time; reads in order at both ends;
and on a disk that turns random reads within growing parts of it, from which its seek curve follows. What cannot be seen
from outside (how flash is divided into channels and dies, what a flush costs when nothing may be written) is that of a
class of disks, and marked so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brute, fmin, least_squares

from strata.campaign import document
from strata.lab import models
from strata.model import Command, WriteCache

DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128)
SIZES = (4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20)
"""Bytes of random reads, one at a time."""

SPANS = (0.001, 0.01, 0.1, 0.3, 1.0)
_SOME_S = 5  # for which a load may have run, where it matters little
_PLACES = 64  # on a disk, between all of which an arm goes
"""Parts of the disk within which random reads tell how long its seeks are."""

BURSTS = (8 << 20, 64 << 20, 128 << 20, 256 << 20, 512 << 20, 1 << 30)
"""Bytes of random writes, one at a time after the cache was empty: those that it does not hold take longer."""

_KIB4 = 4096
_OF_A_BURST = 256 << 10
# Bytes a second of random writes of that size that any disk can do.
_SLOWEST = 1e6
_IN_ORDER = 128 << 10
_GIVE_UP_S = 60.0
# One page, and some of them; all divide the block of the class.
_PROGRAMS = (4 << 10, 8 << 10, 16 << 10, 32 << 10, 48 << 10, 64 << 10, 96 << 10)
# More than this for one random read, and something turns.
_TURNS_US = 2000.0


@dataclass(frozen=True, slots=True)
class Device:
    """What the kernel says of a disk, or of the file that stands for one."""

    path: str
    size_bytes: int
    rotational: bool
    write_cache: WriteCache
    queue_depth: int
    logical_block_bytes: int = 512
    physical_block_bytes: int = 4096
    scratch: bool = False  # a file of ours, which may be written


@dataclass(frozen=True, slots=True)
class Load:
    """One run of fio. `share`: the part of the disk, from its start, or, `at_end`, from its end."""

    name: str
    rw: str
    depth: int = 1
    block_bytes: int = _KIB4
    share: float = 1.0
    at_end: bool = False
    fsync: bool = False
    burst_bytes: int | None = None  # so many, and no time: from an empty cache to an empty cache


@dataclass(frozen=True, slots=True)
class Seen:
    """What one load gave: per second, bytes per second, mean time of a request in microseconds."""

    per_s: float
    bytes_per_s: float
    mean_us: float


# ---------------------------------------------------------------- measuring


def loads(device: Device) -> list[Load]:
    """All of them read, but for the last ones, which only a file of ours gets. The first is a lone read of 4 KiB."""
    depths = [depth for depth in DEPTHS if depth <= max(device.queue_depth, 1)]
    found = [Load(f"depth {depth}", "randread", depth) for depth in depths]
    found += [Load(_of(size), "randread", block_bytes=size) for size in SIZES[1:] if size <= device.size_bytes]
    found += [
        Load("start", "read", min(32, depths[-1]), _IN_ORDER, 1 / 16),
        Load("end", "read", min(32, depths[-1]), _IN_ORDER, 1 / 16, at_end=True),
    ]
    if device.rotational:
        found += [Load(f"span {share:g}", "randread", share=share) for share in SPANS]
    if device.scratch:
        found += [
            # on a disk that turns no more of them than any cache takes, and not as many as fit into some seconds
            Load("write", "randwrite", burst_bytes=BURSTS[0] if device.rotational else None),
            Load("writes", "randwrite", depths[-1]),
            Load("written", "write", min(32, depths[-1]), _IN_ORDER),
            Load("flushed", "randwrite", fsync=True),
        ]
        # the load before them leaves nothing in the cache
        if device.rotational:
            found += [
                Load(_burst(size), "randwrite", block_bytes=_OF_A_BURST, burst_bytes=size)
                for size in BURSTS
                if size <= device.size_bytes // 2
            ]
    return found


def _of(size: int) -> str:
    return f"of {size >> 10} KiB"


def _burst(size: int) -> str:
    return f"burst {size >> 20} MiB"


def fill(device: Device, seconds: float) -> Command:
    """Before a file of ours is read: what was never written is read from nowhere."""
    argv = (*_fio(device, Load("fill", "write", 16, 1 << 20), None), "--end_fsync=1", "--refill_buffers")
    return Command(argv, timeout_s=_GIVE_UP_S + seconds * 60 + device.size_bytes / 1e7)


def command(device: Device, load: Load, seconds: float) -> Command:
    if load.burst_bytes is not None:
        argv = (*_fio(device, load, None), f"--io_size={load.burst_bytes}", "--end_fsync=1")
        return Command(argv, timeout_s=_GIVE_UP_S + load.burst_bytes / _SLOWEST)
    return Command(_fio(device, load, seconds), timeout_s=_GIVE_UP_S + 3 * seconds)


def _fio(device: Device, load: Load, seconds: float | None) -> tuple[str, ...]:
    span = max(int(device.size_bytes * load.share) // _IN_ORDER * _IN_ORDER, _IN_ORDER)
    start = (device.size_bytes - span) // _IN_ORDER * _IN_ORDER if load.at_end else 0
    return (
        "fio",
        "--name=probe",
        f"--filename={device.path.replace(':', chr(92) + ':')}",
        "--output-format=json",
        "--direct=1",
        "--ioengine=libaio",
        "--thread",
        "--allow_file_create=0",
        f"--rw={load.rw}",
        f"--bs={load.block_bytes}",
        f"--iodepth={load.depth}",
        f"--offset={start}",
        f"--size={span}",
        "--randrepeat=0",
        *(() if device.scratch else ("--readonly",)),
        *(("--fsync=1",) if load.fsync else ()),
        *(() if seconds is None else ("--time_based", f"--runtime={seconds:g}")),
        # The queue of the kernel and the disk's read-ahead get going.
        *(() if seconds is None else (f"--ramp_time={seconds / 8:g}",)),
    )


def read(stdout: str, load: Load) -> Seen:
    """From fio's JSON. Raises ValueError when it did nothing."""
    (job,) = json.loads(stdout[stdout.index("{") :])["jobs"]
    way = job["read" if load.rw.endswith("read") else "write"]
    if job["error"] or not way["iops"]:
        raise ValueError(f"fio did nothing under {load.name} (error {job['error']})")
    mean_us = float(way["lat_ns"]["mean"]) / 1e3
    if load.fsync:
        mean_us += float(job["sync"]["lat_ns"]["mean"]) / 1e3
    return Seen(float(way["iops"]), float(way["bw_bytes"]), mean_us)


# ---------------------------------------------------------------- fitting


@dataclass(frozen=True, slots=True)
class Fit:
    """`kind`, `service` and `limits` as a model file holds them; `assumed`: parameter -> the class it is of."""

    kind: str
    service: Mapping[str, Any]
    limits: Mapping[str, float]
    assumed: Mapping[str, str]
    queue_depth: int


def fit(device: Device, seen: Mapping[str, Seen]) -> Fit:
    """`seen`: by the names of the loads."""
    turns = device.rotational and seen["depth 1"].mean_us > _TURNS_US
    service, assumed = _hdd(device, seen) if turns else _ssd(device, seen)
    written = device.scratch
    reads, in_order = _cap(seen), max(seen["start"].bytes_per_s, seen["end"].bytes_per_s)
    like = models.find("hdd-7200" if turns else "ssd-sata")
    assert like.limits is not None
    limits = {
        "read_iops": reads,
        "write_iops": seen["writes"].per_s if written else reads * like.limits.write_iops / like.limits.read_iops,
        "read_bytes_per_s": in_order,
        "write_bytes_per_s": (
            seen["written"].bytes_per_s
            if written
            else in_order * like.limits.write_bytes_per_s / like.limits.read_bytes_per_s
        ),
    }
    if not written:
        assumed = dict(assumed) | {"write_iops": like.name, "write_bytes_per_s": like.name}
    return Fit(
        "hdd" if turns else "ssd",
        service,
        {name: round(value) for name, value in limits.items()},
        assumed,
        min(max(device.queue_depth, 1), DEPTHS[-1]),
    )


def _cap(seen: Mapping[str, Seen]) -> float:
    """Random reads a second at most."""
    return max(found.per_s for name, found in seen.items() if name.startswith("depth "))


def _ssd(device: Device, seen: Mapping[str, Seen]) -> tuple[dict[str, Any], dict[str, str]]:
    """Flash, or whatever answers without turning.

    One read takes `command_us + read_latency_us + read_us` and its way; commands are taken one after the other, so that
    `1 / command_us` bounds the reads a second; and there are dies enough not to bound them earlier. Which part of a
    lone read is the flash's, and how fast a channel is, follow from how much longer large ones take.
    """
    like = models.find("ssd-sata")
    service: dict[str, Any] = dict(like.service)
    cap, one = _cap(seen), seen["depth 1"].mean_us
    command_us = 1e6 / cap
    interface = round(max(seen["start"].bytes_per_s, seen["end"].bytes_per_s))
    # Twice as many dies as reads are worked on at a time: random reads do not find all of them free.
    at_a_time = cap * one / 1e6
    dies = max(4, 2 ** math.ceil(math.log2(max(2 * at_a_time, 1))))
    channels = min(8, dies)
    service |= {
        "channels": channels,
        "dies_per_channel": min(dies // channels, 64),
        "interface_bytes_per_s": interface,
        "command_us": round(command_us, 2),
    }
    fitted = ["command_us", "interface_bytes_per_s", "channel_bytes_per_s", "read_us", "read_latency_us"]
    larger = {size: seen[_of(size)].mean_us for size in SIZES[1:] if _of(size) in seen}
    if device.scratch:
        found = _written(service, seen, one, larger)
        fitted += ["page_bytes", "program_bytes", "program_us", "flush_us", "write_latency_us"]
    else:
        found = _lone(service, one, larger)
    unseen = [name for name in like.service if name not in fitted]
    return {**service, **found}, dict.fromkeys(unseen, like.name)


def _written(
    service: Mapping[str, Any], seen: Mapping[str, Seen], one: float, larger: Mapping[int, float]
) -> dict[str, float]:
    """What decides how long writes take, and with it lone reads, of `one` and `larger`. All dies program without a
    pause when writes come as fast as they are taken.

    A lone write that is flushed is programmed by itself, and waits for that operation: operations are as large as they
    can be within the time that was seen, and shorter where the smallest would not be.
    """
    dies = service["channels"] * service["dies_per_channel"]
    write_us = seen["write"].mean_us
    bytes_per_s = max(seen["writes"].per_s * _KIB4, seen["written"].bytes_per_s)
    waited_us = max(seen["flushed"].mean_us - write_us, 0.0)
    arrived_us = service["command_us"] + _KIB4 * 1e6 / service["interface_bytes_per_s"]

    def program_us(size: int) -> float:
        return float(dies * size * 1e6 / bytes_per_s)

    for size in reversed(_PROGRAMS):
        if program_us(size) > waited_us and size > _PROGRAMS[0]:
            continue
        found: dict[str, float] = {
            "page_bytes": min(size, service["page_bytes"]),
            "program_bytes": size,
            "program_us": round(max(program_us(size), 0.1), 1),
            "flush_us": 0.0,
            "write_latency_us": round(max(write_us - arrived_us, 0.0), 2),
        }
        found |= _lone({**service, **found}, one, larger)
        left_us = waited_us - flush_us({**service, **found})
        if left_us >= 0:
            break
    if left_us < 0:
        # Nothing can be programmed in that time as fast as was written: the flush is met, and lasting writes are then
        # bounded by the interface.
        found["program_us"] = round(max(found["program_us"] + left_us, 0.1), 1)
    return found | {"flush_us": round(max(left_us, 0.0), 1)}


def flush_us(service: Mapping[str, Any]) -> float:
    """Of a flush of flash right after a write of 4 KiB, which is sent and programmed first (crates/disks, ssd). One
    that fills an operation is on its way before it is answered."""
    program_bytes = service["program_bytes"]
    there_us = program_bytes * 1e6 / service["channel_bytes_per_s"] + service["program_us"]
    if program_bytes <= _KIB4:
        waited_us = max(service["command_us"], there_us - service["write_latency_us"])
    else:
        waited_us = service["command_us"] + there_us
    return float(round(waited_us + service.get("flush_us", 0), 1))


def _lone(service: Mapping[str, Any], one: float, larger: Mapping[int, float]) -> dict[str, float]:
    """What decides how long lone reads take: `one` of 4 KiB, met to the point, and larger ones, by their bytes."""
    interface = service["interface_bytes_per_s"]
    slowest = interface / service["channels"]  # or the channels, and not the interface, would bound reads in order

    def with_these(share: float, times: float) -> dict[str, float]:
        channel = max(round(slowest * times), 1 << 20)
        left_us = max(one - service["command_us"] - _KIB4 * 1e6 / interface - _KIB4 * 1e6 / channel, 0.4)
        flash_us = round(max(left_us * share, 0.1), 2)
        return {
            "channel_bytes_per_s": channel,
            "read_us": flash_us,
            "read_latency_us": round(max(left_us - flash_us, 0.0), 2),
        }

    def within(tried: np.ndarray) -> dict[str, float]:
        return with_these(float(np.clip(tried[0], 0, 1)), float(np.exp(np.clip(tried[1], *channels))))

    def miss(tried: np.ndarray) -> float:
        model = {**service, **within(tried)}
        return sum(math.log(lone_read_us(model, size) / took) ** 2 for size, took in larger.items())

    # The times have kinks, where one part begins to hide behind another: a search alone would end at the first hollow.
    channels = (math.log(1.2), math.log(64))
    return within(brute(miss, ((0, 1), channels), Ns=25, finish=fmin, disp=False))


def lone_read_us(service: Mapping[str, Any], size: int) -> float:
    """A read of so many bytes that were written in order, on flash that does nothing else (crates/disks, ssd).

    What one operation programmed lies on one die, which reads its pages one after the other; while it reads the next, a
    page goes over its channel. Neighbouring operations are on neighbouring channels.
    """
    page, program, channels = service["page_bytes"], service["program_bytes"], service["channels"]
    page_us = min(size, page) * 1e6 / service["channel_bytes_per_s"]
    pages, operations = math.ceil(min(size, program) / page), math.ceil(size / program)
    of_a_channel = pages * math.ceil(operations / channels)
    flash_us = max(pages * service["read_us"] + page_us, service["read_us"] + of_a_channel * page_us)
    way_us = size * 1e6 / service["interface_bytes_per_s"] + service["read_latency_us"]
    return float(service["command_us"] + flash_us + way_us)


def _hdd(device: Device, seen: Mapping[str, Seen]) -> tuple[dict[str, Any], dict[str, str]]:
    """The class's disk with this one's rates, and with both parts of its seek curve stretched to fit."""
    like = models.find("hdd-7200")
    service: dict[str, Any] = dict(like.service)
    ends = seen["start"].bytes_per_s, seen["end"].bytes_per_s
    # of the last sixteenth as much was read as comes in some seconds
    middle = 15 / 16 + min(1 / 32, min(ends) * _SOME_S / 2 / device.size_bytes)
    outer, inner = edge_rates(max(ends), min(ends), middle, service["zones"])
    service |= {
        "capacity_bytes": device.size_bytes,
        "outer_bytes_per_s": round(outer),
        "inner_bytes_per_s": round(inner),
    }
    fitted = {"capacity_bytes", "outer_bytes_per_s", "inner_bytes_per_s"}
    if device.scratch:
        written = _written_by_arm(device, service, seen)
        service |= written
        fitted |= set(written)
    spans = [(share, seen[f"span {share:g}"].mean_us / 1e3) for share in SPANS if f"span {share:g}" in seen]
    rest_ms = service["command_us"] / 1e3 + 60_000 / service["rpm"] / 2

    def misses(stretch: np.ndarray) -> list[float]:
        return [math.log((rest_ms + seek_ms(service, share, *np.exp(stretch))) / measured) for share, measured in spans]

    found = least_squares(misses, [0.0, 0.0], bounds=([-4, -4], [2, 2]))
    short, long = np.exp(found.x)
    for name in ("seek_short_ms", "seek_short_sqrt_ms"):
        service[name] = round(service[name] * float(short), 3)
    for name in ("seek_long_ms", "seek_long_linear_ms"):
        service[name] = round(service[name] * float(long), 3)
    unseen = [name for name in like.service if name not in fitted and not name.startswith("seek_")]
    return service, dict.fromkeys(unseen, like.name)


def _written_by_arm(device: Device, service: Mapping[str, Any], seen: Mapping[str, Seen]) -> dict[str, float]:
    """What decides how long writes take on a disk that turns.

    A write into the cache is a command and its way; a flush takes the arm to where the write belongs, as a read does,
    and waits until it has settled.
    """
    write_us, read_us = seen["write"].mean_us, seen["depth 1"].mean_us
    if device.write_cache == "none":
        return {"write_settle_ms": _settle_ms(write_us - read_us)}
    way_us = _KIB4 * 1e6 / service["interface_bytes_per_s"]
    command_us = max(write_us - way_us, 0.0)
    found = {
        "command_us": round(command_us, 1),
        "write_settle_ms": _settle_ms((seen["flushed"].mean_us - write_us) - (read_us - command_us - way_us)),
    }
    held = cache_bytes([(size, seen[_burst(size)].mean_us) for size in BURSTS if _burst(size) in seen])
    return found if held is None else found | {"cache_bytes": held}


def _settle_ms(took_us: float) -> float:
    return round(min(max(took_us / 1e3, 0.0), 10.0), 3)


def cache_bytes(bursts: Sequence[tuple[int, float]]) -> int | None:
    """How much a write cache holds, of bursts of (bytes, mean microseconds of a write of 256 KiB), the smallest first.

    The smallest fits. What does not fit is written at the pace of the medium, which empties the cache meanwhile: of n
    writes k go into it at t0 each, n - k take t1, and it holds k (1 - t0/t1) of them. The first two that do not fit
    tell t1. None where fewer than two do not.
    """
    if not bursts:
        return None
    _, quick = bursts[0]
    full = [(size // _OF_A_BURST, mean) for size, mean in bursts if mean > 2 * quick]
    if len(full) < 2:
        return None
    (some, mean), (more, mean_of_more) = full[:2]
    slow = (more * mean_of_more - some * mean) / (more - some)
    if slow <= quick:
        return None
    absorbed = some * (slow - mean) / (slow - quick)
    return max(round(absorbed * (1 - quick / slow)) * _OF_A_BURST, _OF_A_BURST)


def edge_rates(start: float, end: float, share: float, zones: int) -> tuple[float, float]:
    """What the edges do, of what reads in order did in the outermost zone and where this share of the bytes is behind.

    The rate falls evenly over the stroke, and a zone has that of its middle (crates/disks, geometry).
    """
    outer, inner = start, end
    for _ in range(8):
        fall = (start - end) / (float(stroke(np.array(share), outer, inner)) - 1 / (2 * zones))
        outer = start + fall / (2 * zones)
        inner = outer - fall
    return outer, inner


def stroke(share: np.ndarray, outer: float, inner: float) -> np.ndarray:
    """How far the arm has gone over the disk, of 1, where this share of the bytes lies outside it.

    A track holds as much as its rate, which falls evenly: x (outer - (outer - inner) x / 2) of (outer + inner) / 2.
    """
    if outer - inner < 1e-6 * outer:
        return share
    fall = outer - inner
    return (outer - np.sqrt(outer**2 - fall * (outer + inner) * share)) / fall


def seek_ms(service: Mapping[str, Any], share: float, short: float = 1.0, long: float = 1.0) -> float:
    """Mean seek between random places within the first of its bytes, this share of them; its curve stretched."""
    places = (np.arange(_PLACES) + 0.5) / _PLACES * share
    at = stroke(places, service["outer_bytes_per_s"], service["inner_bytes_per_s"])
    d = np.abs(at[:, None] - at[None, :])
    near = service["seek_short_ms"] + service["seek_short_sqrt_ms"] * np.sqrt(d)
    far = service["seek_long_ms"] + service["seek_long_linear_ms"] * d
    return float(np.where(d <= service["seek_knee"], near * short, far * long).mean())


# ---------------------------------------------------------------- results


@dataclass(frozen=True, slots=True)
class Compared:
    """A load as it was measured, and as the model by itself does it; both in microseconds or in MB/s."""

    what: str
    measured: float
    model: float
    unit: str


def compared(seen: Mapping[str, Seen], claims: Mapping[str, Any]) -> list[Compared]:
    """`claims`: of the fitted model, as the engine computes them."""
    pairs = [
        *((f"depth {depth}", us) for depth, us in claims["random_read_us_by_depth"]),
        *((_of(size), us) for size, us in claims["random_read_us_by_bytes"]),
    ]
    found = [Compared(f"reads, {name}", seen[name].mean_us, us, "us") for name, us in pairs if name in seen]
    ends = {"start": "sequential_read_bytes_per_s", "end": "sequential_read_end_bytes_per_s"}
    ends["written"] = "sequential_write_bytes_per_s"
    found += [
        Compared(f"in order, {name}", seen[name].bytes_per_s / 1e6, claims[claim] / 1e6, "MB/s")
        for name, claim in ends.items()
        if name in seen
    ]
    found += [
        Compared(f"writes, {_burst(size)}", seen[_burst(size)].mean_us, us, "us")
        for size, us in claims["random_write_us_by_burst"]
        if _burst(size) in seen
    ]
    lone = {"write": "random_writes_per_s", "flushed": "flushed_writes_per_s"}
    return found + [
        Compared(f"a {name}" if name == "write" else "a write, flushed", seen[name].mean_us, 1e6 / claims[claim], "us")
        for name, claim in lone.items()
        if name in seen
    ]


# ---------------------------------------------------------------- the file


def as_file(name: str, device: Device, found: Fit, sources: Sequence[str]) -> str:
    """A model file that `--disk ROLE=FILE.yaml` takes."""
    what = "a file made for it" if device.scratch else "a device that was only read"
    said: dict[str, Any] = {
        "name": name,
        "about": f"Fitted to {what}, of {device.size_bytes} bytes.",
        "sources": list(sources),
        "queue_depth": found.queue_depth,
        "logical_block_bytes": device.logical_block_bytes,
        "physical_block_bytes": device.physical_block_bytes,
        "write_cache": device.write_cache,
        "service": {found.kind: dict(found.service)},
        "limits": dict(found.limits),
        "assumed": dict(found.assumed),
    }
    return document.write(said)
