"""Models of disks: what they are like, where the numbers come from, and what makes a lab behave like them. Pure.

On the virtual clock a disk lies in the memory of the machine. `strata-engine disk` serves it: it computes when each
request completes, and needs some 20 us of the machine's processor for each. The kernel's null_blk costs less, and
serves only the models that it can be exactly (decision 45). Either way the processor adds to each request, and limits
the rate of fast disks; both are stated beside the figures. On the real clock a model is its limits, kept by QEMU.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from strata.campaign.source import did_you_mean
from strata.errors import BadInput, Problem
from strata.lab import model_file
from strata.model import Command, Disk, WriteCache
from strata.text import listed
from strata.units import format_size, human_number, human_size

_BY_ROLE = {"hdd": "hdd-7200", "ssd": "ssd-sata", "nvme": "nvme"}


def usual(role: str) -> str:
    """Return the model of a disk without a stated one, on the virtual clock: the name of its role may say it."""
    return _BY_ROLE.get(role, "plain")


COST_FILE = "/run/strata-disk-cost-ns"
"""In the machine: what serving a modelled disk costs, in nanoseconds."""

# What a machine on the virtual clock needs beside its disks: kernel, programs, page cache, the queues of the stacks.
_BASE_BYTES = 1 << 30
_ROUND = 256 << 20  # to which a size that would fit is rounded down

_MIB = 1 << 20

# What the processor adds to a lone request of 4 KiB at 1000 million instructions a second, in all: fio, the kernel, and
# null_blk (measured: 18.3 us) or `strata-engine disk` (measured: 26 to 30 us); and how many requests a second it serves
# at most, 32 at a time (measured: 60,000; 28,000 for `ssd-sata`, 34,000 for `nvme`): tests/lab/test_known_answers.py.
# Both are stated where a request takes less than ten times what is added.
USUAL_MIPS = 1000
_NULL_BLK_US, _NULL_BLK_PER_S = 18, 60_000
_ENGINE_US, _ENGINE_PER_S = 30, 28_000
_TIMES = 10
# The request by which a disk of flash is known.
_KNOWN_BYTES = 4096
# What the engine takes where a model states nothing else (crates/disks, parameters.rs).
_PHYSICAL_BYTES = 4096
_LARGEST_BYTES = 512 << 10
# null_blk takes the kernel's default number of segments in a request, 128 (BLK_MAX_SEGMENTS), which may be a page each.
_NULL_BLK_LARGEST_BYTES = 128 * 4096
# Requests that a SATA disk holds at most (NCQ). The kernel gives a disk with one hardware queue mq-deadline, and one
# with several, as NVMe disks have, no scheduler; served disks have one queue.
_NCQ_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Limits:
    """What a disk may do at most on the real clock, whatever the size and the order of its requests. Reads and writes
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
        """Of all that it is on the virtual clock, and what it is called."""
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


# ---------------------------------------------------------------- on the virtual clock


def memory_bytes(disks: Sequence[Disk], kept_bytes: int = 0) -> int:
    """What a machine must have in which these disks lie, should all be written full. `kept_bytes`: what layers keep."""
    return _BASE_BYTES + sum(disk.size_bytes for disk in disks) + kept_bytes


def reasons_against(disks: Sequence[Disk], memory: int, kept_bytes: int = 0) -> list[str]:
    """Why a machine on the virtual clock with so much memory cannot hold these disks, and what layers keep in it."""
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


def reasons_against_kernel(model: DiskModel, kernel: str, modules: frozenset[str]) -> list[str]:
    """Why a machine on the virtual clock with this kernel cannot have such a disk. Debian 12's 6.1 was built so."""
    if "ublk_drv" in modules or not (reasons := reasons_against_null_blk(model)):
        return []
    reason = f"the disk model {model.name} is served through ublk, which the kernel {kernel} was built without"
    why = f"null_blk, which every kernel has, cannot be this disk ({'; '.join(reasons)})"
    return [f"{reason}; {why}. Take another kernel, or a model that null_blk matches, such as serial-8ms."]


def path_in_guest(name: str) -> str:
    return f"/dev/disk-{name}"


def in_guest(
    name: str, size_bytes: int, model: DiskModel, write_cache: WriteCache, seed: int
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
    scheduler = "none" if _has_several_queues(model) else ""
    if not reasons_against_null_blk(model):
        words = (f"{knob}={value}" for knob, value in null_blk(model, size_bytes).items())
        device = path.removeprefix("/dev/")
        return path, (_sh(_NULL_BLK, path, scheduler, device, str(int(model.rotational)), *words),)
    own_seed = int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:8])
    options = (f"--size={size_bytes}", f"--seed={own_seed}", f"--name={name}", f"--link={path}")
    return path, (_sh(_SERVED, path, scheduler, *options, stdin=json.dumps(model.document)),)


def _has_several_queues(model: DiskModel) -> bool:
    """Whether the real disk has several hardware queues: flash that holds more requests than SATA lets it."""
    return not model.rotational and int(model.device["queue_depth"]) > _NCQ_DEPTH


def reasons_against_null_blk(model: DiskModel) -> list[str]:
    """Why null_blk cannot be exactly this disk, so that `strata-engine disk` serves it; none where null_blk serves it.

    Every request that null_blk holds has a timer of its own, and all take the same time. Its throttle (`mbps`) never
    completes a request larger than 20 ms of the rate, and loses what is left of each 20 ms (drivers/block/null_blk).
    """
    if model.kind != "fixed":
        return [f"it is of the kind {model.kind}, not fixed"]
    service, device = model.service, model.device
    logical = int(device.get("logical_block_bytes", 512))
    physical = int(device.get("physical_block_bytes", _PHYSICAL_BYTES))
    found = {
        "its reads and writes take different times": service["read_us"] != service["write_us"],
        "it has a bytes_per_s": service.get("bytes_per_s") is not None,
        "its write cache is volatile, and is flushed": model.write_cache == "volatile",
        "it has faults": any(model.faults.values()),
        "it holds more requests than it serves (queue_depth above servers)": device["queue_depth"] > service["servers"],
        f"physical_block_bytes is {physical}, and logical_block_bytes {logical}": physical != logical,
        "largest_request_bytes is above 512 KiB": _largest_bytes(model) > _NULL_BLK_LARGEST_BYTES,
    }
    return [reason for reason, holds in found.items() if holds]


def _largest_bytes(model: DiskModel) -> int:
    return int(model.device.get("largest_request_bytes", _LARGEST_BYTES))


def served_by(model: DiskModel, mips: int = USUAL_MIPS, cost_us: float | None = None) -> str:
    """For people: what serves a model on the virtual clock, and what that adds. `cost_us`: what a request costs
    `strata-engine disk` there, where that was measured."""
    if not reasons_against_null_blk(model):
        depth = int(model.device["queue_depth"])
        held = "1 request" if depth == 1 else f"{depth} requests"
        said = f"{model.name}, by null_blk: {held} at a time, {model.service['read_us']:g} us each"
        added_us, most = _NULL_BLK_US, _NULL_BLK_PER_S
    else:
        free = model.kind == "fixed" and model.write_cache == "volatile" and not model.service.get("flush_us")
        flushes = ", flushes too, which take no time by the model" if free else ""
        cost = "" if cost_us is None else f", which takes {cost_us:.1f} us more for each{flushes}"
        said = f"{model.name}, every request computed by strata-engine disk{cost}"
        added_us, most = _ENGINE_US, _ENGINE_PER_S
    least_us, request = shortest(model)
    slower = USUAL_MIPS / mips
    if least_us >= _TIMES * added_us * slower:
        return said
    return (
        f"{said}; a fast disk (its shortest request, {request}, takes {human_number(least_us)} us), and the machine's "
        f"processor adds some {added_us * slower:g} us in all to each request, and serves some {most / slower:,.0f} a "
        "second"
    )


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


def null_blk(model: DiskModel, size_bytes: int) -> dict[str, int]:
    """The attributes of null_blk, in the order in which they are set.

    Linux: Documentation/block/null_blk.rst. Sizes are in whole MiB. Without `poll_queues=0` it has a second hardware
    queue, and so no scheduler; without `max_sectors` it takes 255 sectors a request. What was written is kept in memory
    in any case: nobody cuts the power.
    """
    return {
        "memory_backed": 1,
        "discard": 0,
        "size": -(-size_bytes // _MIB),
        "blocksize": int(model.device.get("logical_block_bytes", 512)),
        "max_sectors": _largest_bytes(model) // 512,
        "submit_queues": 1,
        "poll_queues": 0,
        "hw_queue_depth": int(model.device["queue_depth"]),
        "irqmode": 2,
        "completion_nsec": round(model.service["read_us"] * 1000),
    }


# $1 path, $2 the scheduler that the kernel gives such a disk; empty: what it gives this one.
_SCHEDULER = """udevadm settle
node=$(readlink -e -- "$1") || exit 1
[ -z "$2" ] || echo "$2" > "/sys/block/${node##*/}/queue/scheduler"
"""

# $1 path, $2 scheduler, $3 name, $4 whether it turns, the rest: NAME=VALUE, in this order.
_NULL_BLK = f"""\
set_up() {{ {_SCHEDULER} }}
path=$1; scheduler=$2; name=$3; turns=$4; shift 4
dir=/sys/kernel/config/nullb/$name
mkdir "$dir" || exit 1
for knob; do echo "${{knob#*=}}" > "$dir/${{knob%%=*}}" || exit 1; done
echo 1 > "$dir/power" || exit 1
echo "$turns" > "/sys/block/$name/queue/rotational"
set_up "$path" "$scheduler\""""

# $1 path, $2 scheduler, the rest: options. A fast disk is served as well as the processor can: `served_by` says how far
# that goes.
_SERVED = f"""\
set_up() {{ {_SCHEDULER} }}
path=$1; scheduler=$2; shift 2
strata-engine disk serve --model=- --least-times-cost=0 "$@" >/dev/null || exit 1
set_up "$path" "$scheduler\""""


def _sh(script: str, *words: str, stdin: str | None = None) -> Command:
    return Command(("sh", "-c", script, "sh", *words), timeout_s=60.0, stdin=stdin)
