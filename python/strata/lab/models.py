"""Models of disks: what they are like, where the numbers come from, and what makes a lab behave like them. Pure.

By the virtual clock a disk lies in the memory of the machine. `strata-engine disk` computes when each request
completes; it needs some 20 us of the machine's processor for each, so it may serve only what takes ten times that. The
kernel's null_blk serves models of fixed times, and stands for flash: as many reads at a time, each as long, but no
faster write and no garbage collection. It costs less, and no rule bounds that: of a read of the fastest a third is the
processor's, which is said beside the figures. It has no time for flushes; where a model has, they go to a null_blk of
their own (decision 40). By the real clock a model is its limits, kept by QEMU.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from strata.campaign.source import did_you_mean, listed
from strata.errors import BadInput, Problem
from strata.lab import model_file
from strata.model import Command, Disk, WriteCache
from strata.units import format_size, human_size

_BY_ROLE = {"hdd": "hdd-7200", "ssd": "ssd-sata", "nvme": "nvme"}


def usual(role: str) -> str:
    """The model of a disk of the virtual clock of which nothing was said: what its role is called may say it."""
    return _BY_ROLE.get(role, "plain")


COST_FILE = "/run/strata-disk-cost-ns"
"""In the machine: what serving a modelled disk costs, in nanoseconds."""

# What a machine by the virtual clock needs beside its disks: kernel, programs, page cache, the queues of the stacks.
_BASE_BYTES = 1 << 30
_ROUND = 256 << 20  # to which a size that would fit is rounded down

_MIB = 1 << 20

# What serving a request costs `strata-engine disk`, by a processor of 1000 million instructions a second, at most
# (measured: 18 us), and how many times that the shortest request must take.
_SERVING_US = 20.0
USUAL_MIPS = 1000
_TIMES = 10
# What fio, the kernel and null_blk add to a lone request of 4 KiB, likewise (measured: 16.8 us, and 29.5 with the loop
# device; tests/lab/test_known_answers.py).
_OWN_US = 17.0
# What the loop device before a null_blk with flushes takes for a request, likewise (measured: 13 to 15 us).
_LOOP_US = 14.0
# The request by which a disk of flash is known.
_KNOWN_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Limits:
    """What a disk may do at most by the real clock, whatever the size and the order of its requests. Reads and writes
    that may be equally many, or as fast, have that much together."""

    read_iops: float
    write_iops: float
    read_bytes_per_s: float
    write_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class DiskModel:
    name: str
    about: str
    write_cache: WriteCache
    kind: str | None  # fixed, hdd or ssd; None: nothing is said for the virtual clock
    service: Mapping[str, Any]  # the parameters of that kind, as crates/disks/src/parameters.rs names them
    device: Mapping[str, Any]  # queue depth, block sizes
    faults: Mapping[str, Any]
    limits: Limits | None  # None: nothing is said for the real clock
    sources: tuple[str, ...]
    assumed: Mapping[str, str]  # parameter that was not measured -> the class whose value it has

    @property
    def rotational(self) -> bool:
        """Whether the kernel is told that it turns. A model of limits alone is told as it would be by its speed."""
        if self.kind is not None:
            return self.kind == "hdd" or bool(self.service.get("rotational", False))
        return self.limits is not None and self.limits.read_iops < 1000

    @property
    def digest(self) -> str:
        """Of all that it is by the virtual clock, and what it is called."""
        return f"{self.name} {hashlib.sha256(json.dumps(self.document, sort_keys=True).encode()).hexdigest()[:16]}"

    @property
    def document(self) -> Mapping[str, Any]:
        """For `strata-engine disk`, as JSON."""
        return {
            "name": self.name,
            **self.device,
            "write_cache": self.write_cache,
            "service": {self.kind: self.service},
            "faults": self.faults,
        }


# ---------------------------------------------------------------- finding one


@cache
def names() -> tuple[str, ...]:
    """The models that come with Strata."""
    files = (resources.files("strata.lab") / "disks").iterdir()
    return tuple(sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml")))


def find(name: str, text: str | None = None) -> DiskModel:
    """A model that comes with Strata, or, with `text`, the one that a file called `name` holds.

    Raises BadInput naming each key and its line, or the known models.
    """
    if text is None:
        if name not in names():
            hint = did_you_mean(name, names())
            known = f"the models are {listed(names())}, or give a file that ends in .yaml"
            raise BadInput([Problem(f"there is no disk model '{name}'{hint}; {known}")])
        text = (resources.files("strata.lab") / "disks" / f"{name}.yaml").read_text(encoding="utf-8")
    said = model_file.load(text, name)
    kind, service = said.service or (None, {})
    return DiskModel(
        name=said.name,
        about=said.about,
        write_cache=said.write_cache,
        kind=kind,
        service=service,
        device=said.device,
        faults=said.faults,
        limits=Limits(**said.limits) if said.limits is not None else None,
        sources=said.sources,
        assumed=said.assumed,
    )


# ---------------------------------------------------------------- by the virtual clock


def memory_bytes(disks: Sequence[Disk], kept_bytes: int = 0) -> int:
    """What a machine must have in which these disks lie, should all be written full. `kept_bytes`: what layers keep."""
    return _BASE_BYTES + sum(disk.size_bytes for disk in disks) + kept_bytes


def reasons_against(disks: Sequence[Disk], memory: int, kept_bytes: int = 0) -> list[str]:
    """Why a machine by the virtual clock with so much memory cannot hold these disks, and what layers keep in it."""
    wanted = memory_bytes(disks, kept_bytes)
    if wanted <= memory:
        return []
    total, needed, given = human_size(wanted - _BASE_BYTES), human_size(wanted), human_size(memory)
    reason = f"the disks of the virtual clock lie in the memory of the lab machine: {total} of disks need {needed}"
    room = max(memory - _BASE_BYTES - kept_bytes, 0) // max(len(disks), 1) // _ROUND * _ROUND
    smaller = (
        f"make the disks smaller (--size ROLE={format_size(room)} for each fits)"
        if room and disks
        else "take fewer disks"
    )
    return [f"{reason}, and it has {given}; {smaller}, or give it more memory (testbed, memory)."]


def reasons_against_clock(model: DiskModel, virtual: bool) -> list[str]:
    """Why a model says nothing that a lab by this clock could go by."""
    if virtual and model.kind is None:
        return [f"the disk model {model.name} has no `service`, which the virtual clock goes by; add it to its file."]
    if not virtual and model.limits is None:
        reason = f"the disk model {model.name} has no `limits`, which the real clock goes by"
        return [f"{reason}; add them to its file, or run it with --clock virtual."]
    return []


def reasons_against_speed(model: DiskModel, mips: int = USUAL_MIPS) -> list[str]:
    """Why nothing in a machine by the virtual clock, of so many million instructions a second, can be such a disk."""
    if as_fixed(model, mips) is not None:
        return []
    least_us, request = shortest(model)
    serving = (
        f"strata-engine disk, which needs {_SERVING_US * USUAL_MIPS / mips:g} us of the processor for each request, "
        f"serves from {least_served_us(mips):g} us on"
    )
    if least_us < least_served_us(mips):
        why = (
            "null_blk serves faster ones, but only such of one time for reads and writes, without bytes_per_s and "
            "faults, and of no more servers than queue_depth"
        )
        fast = f"its shortest request, {request}, takes {least_us:g} us, and {serving}; {why}"
        return [f"the disk model {model.name} is too fast for its kind: {fast}. Make it slower or simpler."]
    flushed_us = flush_us(model)
    if 0 < flushed_us < least_served_us(mips):
        short = f"a flush takes {flushed_us:g} us, and {serving}"
        longer = "Give it a longer flush_us, or write_cache: protected where flushes do not matter"
        return [f"the disk model {model.name}: {short}. {longer}."]
    return []


def least_served_us(mips: int = USUAL_MIPS) -> float:
    """The shortest request that `strata-engine disk` serves by the virtual clock."""
    return _TIMES * _SERVING_US * USUAL_MIPS / mips


def shortest(model: DiskModel) -> tuple[float, str]:
    """The shortest time that a request of 4 KiB can take, us, and which that is: as `least` in crates/disks, but for a
    disk with arms and no memory at all, where it is less."""
    service = model.service
    if model.kind == "fixed":
        way_us = _way_us(service.get("bytes_per_s"))
        return min((service["read_us"] + way_us, "a read"), (service["write_us"] + way_us, "a write"))
    over_us = service["command_us"] + _way_us(service["interface_bytes_per_s"])
    if model.kind == "hdd":
        return over_us, "one that its cache answers"
    programmed_us = service["program_us"] if model.write_cache == "none" else 0.0
    return min(
        (over_us + service["read_latency_us"], "a read of what is in its memory"),
        (over_us + service["write_latency_us"] + programmed_us, "a write"),
    )


def _way_us(bytes_per_s: float | None, size: int = _KNOWN_BYTES) -> float:
    return 0.0 if bytes_per_s is None else size * 1e6 / bytes_per_s


def flush_us(model: DiskModel) -> float:
    """Of a flush after a write of 4 KiB; only a volatile cache is flushed. 0 of a disk with arms, which computes it."""
    if model.write_cache != "volatile":
        return 0.0
    return flush_of_flash_us(model.service) if model.kind == "ssd" else float(model.service.get("flush_us", 0))


def flush_of_flash_us(service: Mapping[str, Any]) -> float:
    """Of a flush right after a write of 4 KiB, which is sent and programmed first (crates/disks, ssd). One that fills
    an operation is on its way before it is answered."""
    there_us = _way_us(service["channel_bytes_per_s"], service["program_bytes"]) + service["program_us"]
    if service["program_bytes"] <= _KNOWN_BYTES:
        waited_us = max(service["command_us"], there_us - service["write_latency_us"])
    else:
        waited_us = service["command_us"] + there_us
    return float(round(waited_us + service.get("flush_us", 0), 1))


def _read_us(service: Mapping[str, Any]) -> float:
    """Of flash, one alone."""
    way_us = _way_us(service["channel_bytes_per_s"]) + _way_us(service["interface_bytes_per_s"])
    return float(service["command_us"] + service["read_us"] + way_us + service["read_latency_us"])


def reasons_against_kernel(model: DiskModel, kernel: str, modules: frozenset[str], mips: int = USUAL_MIPS) -> list[str]:
    """Why a machine by the virtual clock with this kernel cannot have such a disk. Debian 12's 6.1 was built so."""
    if as_fixed(model, mips) is not None or "ublk_drv" in modules:
        return []
    reason = f"the disk model {model.name} is served through ublk, which the kernel {kernel} was built without"
    return [f"{reason}; take another kernel, or a model that null_blk serves, as serial-8ms or ssd-sata."]


def path_in_guest(name: str) -> str:
    return f"/dev/disk-{name}"


def in_guest(
    name: str, size_bytes: int, model: DiskModel, write_cache: WriteCache, seed: int, mips: int = USUAL_MIPS
) -> tuple[str, tuple[Command, ...]]:
    """A modelled disk: its device in the machine, and the commands that make it there.

    `name` is at most 20 bytes and unique in the machine; what is random in the model is drawn from it and `seed`.
    Raises BadInput when the model has no `service`.
    """
    reasons = reasons_against_clock(model, virtual=True)
    if reasons:
        raise BadInput([Problem(reason) for reason in reasons])
    model = replace(model, write_cache=write_cache)
    path = path_in_guest(name)
    device = path.removeprefix("/dev/")
    fixed = as_fixed(model, mips)
    if fixed is not None:
        script, more = (_FLUSHED, [str(round(fixed.flush_us * 1000))]) if fixed.flush_us else (_NULL_BLK, [])
        words = (f"{knob}={value}" for knob, value in null_blk(model, fixed, size_bytes).items())
        return path, (_sh(script, device, str(int(model.rotational)), *more, *words),)
    own_seed = int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:8])
    options = (f"--size={size_bytes}", f"--seed={own_seed}", f"--name={name}", f"--link={path}")
    return path, (_sh(_SERVED, *options, stdin=json.dumps(model.document)),)


@dataclass(frozen=True, slots=True)
class Fixed:
    """So many requests at a time, each so long, and of bytes so many a second together: all that null_blk knows. And a
    flush alone, so long."""

    servers: int
    time_us: float
    flush_us: float = 0.0
    bytes_per_s: float | None = None


def as_fixed(model: DiskModel, mips: int = USUAL_MIPS) -> Fixed | None:
    """What null_blk is to be like where it serves a model; None where `strata-engine disk` does.

    `mips`: of the processor that would serve, in million instructions a second.
    """
    service, depth = model.service, int(model.device["queue_depth"])
    if model.faults:
        return None
    flushed_us = flush_us(model)
    if model.kind == "fixed":
        simple = service["read_us"] == service["write_us"] and service.get("bytes_per_s") is None
        read_us = float(service["read_us"])
        # null_blk holds no more than it serves, so that one who submits to several disks waits for the first that is
        # busy: what can be served with its whole queue, is.
        queues = depth > service["servers"] or bool(flushed_us)
        if not simple or service["servers"] > depth or (queues and read_us >= least_served_us(mips)):
            return None
        return Fixed(int(service["servers"]), read_us, flushed_us)
    if model.kind == "ssd":
        # One read after the other, and how many a second it does at most: the one through the other is how many it
        # works on at a time.
        read_us = _read_us(service)
        if shortest(model)[0] >= least_served_us(mips):
            return None
        dies = service["channels"] * service["dies_per_channel"]
        at_a_time = min(dies, depth, round(read_us / max(service["command_us"], read_us / depth)))
        most = min(service["interface_bytes_per_s"], service["channels"] * service["channel_bytes_per_s"])
        return Fixed(max(at_a_time, 1), round(read_us, 1), flushed_us, float(most))
    return None


def served_by(model: DiskModel, mips: int = USUAL_MIPS, cost_us: float | None = None) -> str:
    """For people: what carries a model by the virtual clock. `cost_us`: what a request costs `strata-engine disk`
    there, where that was measured."""
    fixed = as_fixed(model, mips)
    if fixed is None:
        free = model.write_cache == "volatile" and model.kind != "hdd" and not flush_us(model)
        flushes = ", flushes too, which take no time by the model" if free else ""
        cost = "" if cost_us is None else f", which takes {cost_us:.1f} us more for each{flushes}"
        return f"{model.name}, every request computed by strata-engine disk{cost}"
    said = f"{model.name}, by null_blk: {fixed.servers} requests at a time, {fixed.time_us:g} us each"
    if fixed.bytes_per_s is not None:
        said += f", reads like writes, and {fixed.bytes_per_s / 1e6:.0f} MB/s at most"
    if fixed.flush_us:
        said += (
            f", and flushes alone, {fixed.flush_us:g} us each, through a loop device, which takes some "
            f"{_LOOP_US * USUAL_MIPS / mips:g} us more for every request and no discards"
        )
    own_us = (_OWN_US + (_LOOP_US if fixed.flush_us else 0.0)) * USUAL_MIPS / mips
    if fixed.time_us >= _TIMES * own_us:
        return said
    return f"{said}; in all the machine's processor adds some {own_us:g} us to a request, and is waited for under many"


def caveats(
    role: str, model: DiskModel, virtual: bool, mips: int = USUAL_MIPS, cost_us: float | None = None
) -> tuple[str, ...]:
    """Sentences that must stand beside every figure measured on disks of this role. `cost_us`: as for `served_by`."""
    said = [f"Disks of the role {role} are modelled: {served_by(model, mips, cost_us)}."] if virtual else []
    if virtual and any(model.faults.values()):
        said.append(
            f"Disks of the role {role} fail as their model says: {', '.join(k for k, v in model.faults.items() if v)}."
        )
    if model.assumed:
        by_class: dict[str, list[str]] = {}
        for parameter, of in model.assumed.items():
            by_class.setdefault(of, []).append(parameter)
        whose = "; ".join(f"{listed(names)} (those of {of})" for of, names in by_class.items())
        said.append(
            f"The disk model {model.name} was not measured in every respect; a verdict rests on assumptions too: "
            f"{whose}."
        )
    return tuple(said)


def null_blk(model: DiskModel, fixed: Fixed, size_bytes: int) -> dict[str, int]:
    """The knobs of null_blk, in the order in which they are set.

    Linux: Documentation/block/null_blk.rst. Every request has a timer of its own, so a depth of N is N servers. It
    counts whole MiB. What was written is kept in memory in any case: nobody cuts the power.
    """
    return {
        "memory_backed": 1,
        "discard": 1,
        "size": -(-size_bytes // _MIB),
        "blocksize": int(model.device.get("logical_block_bytes", 512)),
        "submit_queues": 1,
        "hw_queue_depth": fixed.servers,
        "irqmode": 2,
        "completion_nsec": round(fixed.time_us * 1000),
        # whole MiB/s, counted in slices of 20 ms
        **({} if fixed.bytes_per_s is None else {"mbps": max(round(fixed.bytes_per_s / _MIB), 1)}),
    }


# $1 name, the rest: KNOB=VALUE, in this order.
_MAKE = """\
make() {
  dir=/sys/kernel/config/nullb/$1; shift
  mkdir "$dir" || exit 1
  for knob; do echo "${knob#*=}" > "$dir/${knob%%=*}" || exit 1; done
  echo 1 > "$dir/power" || exit 1
}
"""

# $1 name, $2 whether it turns, the rest: KNOB=VALUE.
_NULL_BLK = (
    _MAKE
    + """\
name=$1; turns=$2; shift 2
make "$name" "$@"
echo "$turns" > "/sys/block/$name/queue/rotational"
udevadm settle"""
)

# $1 name, $2 whether it turns, $3 ns of a flush, the rest: KNOB=VALUE. Device mapper sends each kind of request to a
# device of its own: reads and writes to one null_blk, flushes to another that has nothing else to do and a cache to
# flush. A write that has to be on the medium before it is done (FUA) would take no longer: the loop device has none of
# these, so the kernel flushes after it. It also has partitions and schedulers, which device mapper has not.
_FLUSHED = (
    _MAKE
    + """\
name=$1; turns=$2; flush_ns=$3; shift 3
make "$name-data" "$@"
make "$name-flush" "$@" hw_queue_depth=1 completion_nsec="$flush_ns" cache_size=1
sectors=$(blockdev --getsz "/dev/$name-data")
table="0 $sectors delay /dev/$name-data 0 0 /dev/$name-data 0 0 /dev/$name-flush 0 0"
dmsetup create "$name" --table "$table" || exit 1
loop=$(losetup --find --show --direct-io=on --sector-size "$(blockdev --getss "/dev/$name-data")" \
  "/dev/mapper/$name") || exit 1
queue=/sys/block/${loop#/dev/}
if [ "$(cat "$queue/loop/dio")" != 1 ]; then echo "$loop does not do direct I/O" >&2; exit 1; fi
echo "$turns" > "$queue/queue/rotational"
ln -s "$loop" "/dev/$name"
udevadm settle"""
)


# /lab-init measured what serving costs, before the machine was saved.
_SERVED = f"""\
strata-engine disk serve --model=- --cost-ns="$(cat {COST_FILE})" "$@" >/dev/null || exit 1
udevadm settle"""


def _sh(script: str, *words: str, stdin: str | None = None) -> Command:
    return Command(("sh", "-c", script, "sh", *words), timeout_s=60.0, stdin=stdin)
