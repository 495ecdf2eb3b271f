"""Fits a model to a disk from what reading it tells, and, on a file made for it, what writing does. Pure.

fio measures: random reads of 4 KiB at growing depth, reads in order at both ends, and on a disk that turns random reads
within growing parts of it, from which its seek curve follows. What cannot be seen from outside (how flash is divided
into channels and dies, what a flush costs when nothing may be written) is that of a class of disks, and marked so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from strata.campaign import document
from strata.lab import models
from strata.model import Command, WriteCache

DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128)
SPANS = (0.001, 0.01, 0.1, 0.3, 1.0)
"""Parts of the disk within which random reads tell how long its seeks are."""

_KIB4 = 4096
_IN_ORDER = 128 << 10
_GIVE_UP_S = 60.0
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


@dataclass(frozen=True, slots=True)
class Seen:
    """What one load gave: per second, bytes per second, mean time of a request in microseconds."""

    per_s: float
    bytes_per_s: float
    mean_us: float


# ---------------------------------------------------------------- measuring


def loads(device: Device) -> list[Load]:
    """All of them read, but for the last ones, which only a file of ours gets."""
    depths = [depth for depth in DEPTHS if depth <= max(device.queue_depth, 1)]
    found = [Load(f"depth {depth}", "randread", depth) for depth in depths]
    found += [
        Load("start", "read", min(32, depths[-1]), _IN_ORDER, 1 / 16),
        Load("end", "read", min(32, depths[-1]), _IN_ORDER, 1 / 16, at_end=True),
    ]
    if device.rotational:
        found += [Load(f"span {share:g}", "randread", share=share) for share in SPANS]
    if device.scratch:
        found += [
            Load("write", "randwrite"),
            Load("flushed", "randwrite", fsync=True),
            Load("writes", "randwrite", depths[-1]),
            Load("written", "write", min(32, depths[-1]), _IN_ORDER),
        ]
    return found


def fill(device: Device, seconds: float) -> Command:
    """Before a file of ours is read: what was never written is read from nowhere."""
    argv = (*_fio(device, Load("fill", "write", 16, 1 << 20), None), "--end_fsync=1", "--refill_buffers")
    return Command(argv, timeout_s=_GIVE_UP_S + seconds * 60 + device.size_bytes / 1e7)


def command(device: Device, load: Load, seconds: float) -> Command:
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
    `1 / command_us` bounds the reads a second; and there are dies enough not to bound them earlier.
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
        # Not what bounds reads in order.
        "channel_bytes_per_s": round(max(interface * 1.5 / channels, 1 << 20)),
        "command_us": round(command_us, 2),
    }
    way_us = _KIB4 * 1e6 / interface + _KIB4 * 1e6 / service["channel_bytes_per_s"]
    left_us = max(one - command_us - way_us, 0.4)
    share = like.service["read_us"] / (like.service["read_us"] + like.service["read_latency_us"])
    service |= {"read_us": round(left_us * share, 2), "read_latency_us": round(left_us * (1 - share), 2)}
    unseen = [name for name in like.service if name not in ("command_us", "interface_bytes_per_s", "read_us")]
    if device.scratch:
        writes, write, flushed = seen["writes"].per_s, seen["write"].mean_us, seen["flushed"].mean_us
        service |= {
            "write_latency_us": round(max(write - command_us - _KIB4 * 1e6 / interface, 0.0), 2),
            # All dies program without a pause when writes come as fast as they are taken.
            "program_us": round(max(dies * service["program_bytes"] / (writes * _KIB4) * 1e6, 0.1), 1),
            "flush_us": round(max(flushed - write, 0.0), 1),
        }
        unseen = [name for name in unseen if name not in ("write_latency_us", "program_us", "flush_us")]
    return service, dict.fromkeys(unseen, like.name)


def _hdd(device: Device, seen: Mapping[str, Seen]) -> tuple[dict[str, Any], dict[str, str]]:
    """The class's disk with this one's rates, and with the short and the long part of its seek curve stretched to fit.

    Random reads within a part of the disk seek over d with density 2 (1 - d), in shares of that part.
    """
    like = models.find("hdd-7200")
    service: dict[str, Any] = dict(like.service)
    service |= {
        "capacity_bytes": device.size_bytes,
        "outer_bytes_per_s": round(max(seen["start"].bytes_per_s, seen["end"].bytes_per_s)),
        "inner_bytes_per_s": round(min(seen["start"].bytes_per_s, seen["end"].bytes_per_s)),
    }
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
    fitted = {"capacity_bytes", "outer_bytes_per_s", "inner_bytes_per_s"}
    unseen = [name for name in like.service if name not in fitted and not name.startswith("seek_")]
    return service, dict.fromkeys(unseen, like.name)


def seek_ms(service: Mapping[str, Any], share: float, short: float = 1.0, long: float = 1.0) -> float:
    """Mean seek between random places within this share of a disk, its curve stretched."""
    middles = (np.arange(200) + 0.5) / 200
    d = middles * share
    near = service["seek_short_ms"] + service["seek_short_sqrt_ms"] * np.sqrt(d)
    far = service["seek_long_ms"] + service["seek_long_linear_ms"] * d
    curve = np.where(d <= service["seek_knee"], near * short, far * long)
    return float(np.average(curve, weights=2 * (1 - middles)))


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
