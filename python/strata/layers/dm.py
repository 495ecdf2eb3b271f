"""A bare device-mapper target on one device: delays and errors that are known beforehand, to test instruments with.

The device's table bears the UUID of the place, by which it is known again. Where a target fails on purpose, the
layers above it could not be removed while it fails: `mend` puts a plain table in its place before that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from strata import ticks
from strata.errors import BadInput
from strata.layers._device import NAME, SETTLE, await_node, fields, first, module_reasons
from strata.layers._driver import Driver
from strata.layers._steps import output, run, said, sh, standard_reasons
from strata.model import (
    BlockBehaviour,
    Call,
    Command,
    Completed,
    Facts,
    Kind,
    LayerInfo,
    Metric,
    Param,
    ParamType,
    Place,
    Provides,
    Step,
)
from strata.units import format_size

SECTOR_BYTES = 512

# What a delay comes to. drivers/md/dm-delay.c, delay_bio(): a request waits until `jiffies + msecs_to_jiffies(delay)`,
# so delays are rounded up to whole ticks, of 4 ms at CONFIG_HZ=250; a request that follows the one before it at once
# begins at a tick and waits for all of them, others for up to one tick less. Since Linux 6.7 (70bbeb29fab0) a thread
# watches the clock where every delay is less than 50 ms. Otherwise a timer does, which comes one tick later, and from
# 63 ticks on up to 8 (kernel/time/timer.c, calc_index()). Seen on Linux 6.12 at 250 ticks a second, one read at a time:
# 1 and 4 ms took 4.0, 5 took 8.0, 20 took 20.0, 48 took 48.0, 52 took 56.0, 60 took 64.0.
_THREAD_SINCE = (6, 7)
_THREAD_BELOW_MS = 50
_EXACT_TICKS = 63
_WAITS = ("read", "write")


@dataclass(frozen=True, slots=True)
class Target:
    module: str
    takes: tuple[str, ...] = ()  # names of the arguments that it knows


TARGETS = {
    "linear": Target("dm_mod"),
    "delay": Target("dm_delay", ("read", "write")),
    "flakey": Target("dm_flakey", ("up", "down", "mode")),
    "error": Target("dm_mod", ("start", "size")),
    "zero": Target("dm_zero"),
}

MODES = {
    "error_all": ("", "0", "2 error_reads error_writes"),
    "error_writes": ("1 error_writes",),
    "drop_writes": ("1 drop_writes",),
}
"""What flakey does while it is down -> its features: what is asked for, and how older and newer kernels show it."""

INFO = LayerInfo(
    name="dm",
    about="A bare device-mapper target with known behaviour: delays, errors, or nothing at all.",
    params=(
        Param(
            "target",
            ParamType.CHOICE,
            "linear passes on, delay waits first, flakey works and fails by turns, error fails, zero reads as zeros "
            "and forgets what is written",
            choices=tuple(TARGETS),
            positional=True,
            required=True,
        ),
        Param("read", ParamType.TIME,
              "delay: how long a read waits, in whole milliseconds and whole ticks of the kernel (of 4 ms at 250 a "
              "second); one tick longer before Linux 6.7, and where a delay is 50 ms or more", minimum=0),
        Param("write", ParamType.TIME, "delay: how long a write or flush waits, likewise", minimum=0),
        Param(
            "up",
            ParamType.TIME,
            "flakey: how long it works, in whole seconds, from when it is made: long enough to build on it, so "
            "that it starts to fail during a trial",
            minimum=1,
        ),
        Param("down", ParamType.TIME, "flakey: how long it then fails, in whole seconds, and so on by turns",
              minimum=1),
        Param("mode", ParamType.CHOICE, "flakey: what fails; error_all if not said, or writes with an error or "
              "silently", choices=tuple(MODES)),
        Param("start", ParamType.SIZE, "error: where the range of bad sectors starts; what is around it works"),
        Param("size", ParamType.SIZE, "error: how long it is; all that is left if not said", minimum=SECTOR_BYTES),
    ),
    accepts=frozenset({Kind.BLOCK}),
    provides=Kind.BLOCK,
    block=BlockBehaviour(queue=False, forgets={"target": "zero"}),
    deployed=False,
    tools={"dmsetup": "dmsetup", "blockdev": "util-linux"},
    metrics=(
        Metric("dm.read_wait_ms", "ms", "neither", "how long dm(delay) keeps a read in this kernel, one at a time"),
        Metric("dm.write_wait_ms", "ms", "neither", "how long dm(delay) keeps a write in this kernel, one at a time"),
    ),
)  # fmt: skip

# Of the device below: $number, as the kernel counts devices, and $sectors.
_BELOW = (
    NAME
    + """\
below=$1
number=$(cat "/sys/class/block/$(name "$below")/dev") && sectors=$(blockdev --getsz "$below") || exit 1
"""
)

# $1 device below, $2 name, $3 UUID, $4 target and arguments, with @ for the device below.
_CREATE = _BELOW + 'dmsetup create "$2" --uuid "$3" --table "0 $sectors $(echo "$4" | sed "s/@/$number/g")"'

# $1 device below, $2 name, $3 UUID, $4 first bad sector, $5 how many ("" for all that are left).
_CREATE_BAD = (
    _BELOW
    + """\
bad=${5:-$(($sectors - $4))}; after=$(($4 + $bad))
{
  if [ "$4" -gt 0 ]; then echo "0 $4 linear $number 0"; fi
  echo "$4 $bad error"
  if [ "$after" -lt "$sectors" ]; then echo "$after $(($sectors - $after)) linear $number $after"; fi
} | dmsetup create "$2" --uuid "$3\""""
)

# $1 device below, $2 name, $3 UUID.
_IF_OURS = """\
[ "$(dmsetup info --columns --noheadings --options uuid "$2" 2>/dev/null)" = "$3" ] || exit 0
"""
_REMOVE = SETTLE + _IF_OURS + 'settle\ndmsetup remove --retry "$2" || exit 1\nsettle'
# Without flushing first, as it would be by itself: that would fail, and abort the journal of a file system above.
_MEND = (
    _IF_OURS
    + _BELOW
    + """\
plain="0 $sectors linear $number 0"
if [ "$(dmsetup table "$2")" != "$plain" ]; then
  dmsetup reload "$2" --table "$plain" && dmsetup suspend --nolockfs --noflush "$2" && dmsetup resume "$2"
fi"""
)

_SHOW_CLOCK = f'echo "ticks=$({ticks.SHOW})"; echo "release=$(uname -r)"'
_SHOW_BELOW = _BELOW + 'echo "below=$(name "$1")"; echo "number=$number"; echo "sectors=$sectors"'


class DmDriver(Driver):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        name = str(spec["target"] or "linear")
        target = TARGETS[name]
        modules = dict.fromkeys(("dm_mod", target.module))
        reasons = standard_reasons(facts, self.info.tools) + module_reasons(f"dm({name})", facts, list(modules))
        reasons += [
            f"dm({name}) takes no {other}=; leave it out."
            for param in self.info.params
            if (other := param.name) != "target" and spec[other] is not None and other not in target.takes
        ]
        if name == "delay" and spec["read"] is None and spec["write"] is None:
            reasons.append("dm(delay) delays nothing; give it read= or write=, as in dm(delay, read=20ms).")
        if name == "flakey" and (spec["up"] is None or spec["down"] is None):
            reasons.append("dm(flakey) needs to know how long it works and fails; give it both up= and down=.")
        reasons += [
            f"dm counts {what} in whole {unit}; round {argument}=."
            for argument, scale, what, unit in (
                ("read", 1000, "delays", "milliseconds"),
                ("write", 1000, "delays", "milliseconds"),
                ("up", 1, "turns", "seconds"),
                ("down", 1, "turns", "seconds"),
            )
            if abs(_scaled(spec, argument, scale) - round(_scaled(spec, argument, scale))) > 1e-6
        ]
        reasons += _misfits(spec, facts.ticks_per_s)
        reasons += [
            f"dm({name}, {argument}={spec[argument]}) is not a multiple of 512 bytes; round it."
            for argument in ("start", "size")
            if int(spec[argument] or 0) % SECTOR_BYTES
        ]
        return reasons

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        device = below[0]
        _must_fit(spec, device.size_bytes)
        mend = sh(_MEND, device.path, place.name, _dm_uuid(place))
        return Provides(
            Kind.BLOCK,
            f"/dev/mapper/{place.name}",
            device.size_bytes,
            ours=device.ours,
            mend=(mend,) if spec["target"] in {"flakey", "error"} else (),
        )

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        device, name, uuid = below[0].path, place.name, _dm_uuid(place)
        if spec["target"] == "error":
            start, size = _bad_sectors(spec)
            make = sh(_CREATE_BAD, device, name, uuid, str(start), str(size or ""))
        else:
            make = sh(_CREATE, device, name, uuid, _words(spec))
        return [
            Step(make, sh(_REMOVE, device, name, uuid), f"make the device-mapper target {spec['target']}"),
            Step(await_node(f"/dev/mapper/{name}"), None, "wait for the name of the device"),
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [
            run("dmsetup", "info", "--columns", "--noheadings", "--options", "uuid,suspended", place.name),
            run("dmsetup", "table", place.name),
            sh(_SHOW_BELOW, below[0].path),
            *([sh(_SHOW_CLOCK)] if spec["target"] == "delay" else []),
        ]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        info, table, under = output(seen, 0), output(seen, 1), fields(seen, 2)
        if info is None or table is None:
            return [f"dm: the device {place.name} is not there: {said(seen, 0 if info is None else 1)}."]
        sectors, number = first(under, "sectors") or "", first(under, "number")
        if not sectors.isdecimal() or len(sectors) > 18 or number is None:
            return [f"dm: the device below {place.name} cannot be read: {said(seen, 2)}."]
        wrong = []
        uuid, _, state = info.stdout.strip().rpartition(":")
        if uuid != _dm_uuid(place):
            wrong.append(f"dm: the device {place.name} has the UUID {uuid or 'none'}, which is not ours.")
        if state.strip() != "Active":
            wrong.append(f"dm: the device {place.name} is {state.strip().lower() or 'in no known state'}.")
        shown = [" ".join(line.split()) for line in table.stdout.splitlines()]
        if shown not in _tables(spec, number, int(sectors)):
            asked = "; ".join(_tables(spec, number, int(sectors))[0])
            wrong.append(f"dm: the table over {first(under, 'below')} is '{'; '.join(shown)}' instead of '{asked}'.")
        if spec["target"] == "delay" and output(seen, 3) is None:
            return [*wrong, f"dm: how the kernel of {place.name} counts time cannot be read: {said(seen, 3)}."]
        return wrong + _misfits(spec, _clock(seen[3:])[0])

    def plan_figures(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [sh(_SHOW_CLOCK)] if spec["target"] == "delay" else []

    def figures(
        self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]
    ) -> dict[str, float]:
        ticks_per_s, kernel = _clock(seen)
        if spec["target"] != "delay" or ticks_per_s is None or kernel is None:
            return {}
        waits = {f"dm.{name}_wait_ms": _wait_ms(spec, name, ticks_per_s, kernel) for name in _WAITS}
        return {name: wait for name, wait in waits.items() if wait is not None}


def _clock(seen: Sequence[Completed]) -> tuple[int | None, tuple[int, int] | None]:
    """Ticks a second and version of the kernel, as `_SHOW_CLOCK` printed them."""
    shown = fields(seen, 0)
    per_s, release = first(shown, "ticks") or "", re.match(r"(\d+)\.(\d+)", first(shown, "release") or "")
    known = int(per_s) if re.fullmatch("[0-9]{1,5}", per_s) else 0
    return known or None, (int(release[1]), int(release[2])) if release else None


def _in_ticks(spec: Call, argument: str, ticks_per_s: int) -> int:
    """As msecs_to_jiffies() counts."""
    return -(-round(_scaled(spec, argument, 1000)) * ticks_per_s // 1000)


def _misfits(spec: Call, ticks_per_s: int | None) -> list[str]:
    """Sentences about delays that are no whole number of ticks."""
    if spec["target"] != "delay" or ticks_per_s is None:
        return []
    found = []
    for argument in _WAITS:
        asked_ms = round(_scaled(spec, argument, 1000))
        if asked_ms * ticks_per_s % 1000 == 0:
            continue
        ticks, tick_ms = _in_ticks(spec, argument, ticks_per_s), 1000 / ticks_per_s
        choices = [f"{argument}={count * tick_ms:g}ms" for count in (ticks - 1, ticks) if count]
        found.append(
            f"dm(delay): {argument}={asked_ms}ms would be {ticks * tick_ms:g} ms, because this kernel counts "
            f"{ticks_per_s} ticks a second and rounds delays up to whole ticks; write {' or '.join(choices)}."
        )
    return found


def _wait_ms(spec: Call, argument: str, ticks_per_s: int, kernel: tuple[int, int]) -> float | None:
    """How long one request at a time waits; None where that depends on when it comes."""
    count = _in_ticks(spec, argument, ticks_per_s)
    longest_ms = max(_scaled(spec, name, 1000) for name in _WAITS)
    if count and not (kernel >= _THREAD_SINCE and longest_ms < _THREAD_BELOW_MS):
        if count >= _EXACT_TICKS:
            return None
        count += 1
    return count * 1000 / ticks_per_s


def _dm_uuid(place: Place) -> str:
    # the word before the hyphen says whose it is: LVM and others look only at those with their own
    return f"strata-{place.uuid}"


def _scaled(spec: Call, argument: str, scale: int) -> float:
    return float(spec[argument] or 0) * scale


def _words(spec: Call, feature: str | None = None) -> str:
    """Target and arguments of a table, with @ for the device below. `feature`: flakey's, as a kernel shows it."""
    match spec["target"]:
        case "delay":
            read, write = (round(_scaled(spec, name, 1000)) for name in ("read", "write"))
            return f"delay @ 0 {read} @ 0 {write}"
        case "flakey":
            up, down = (round(_scaled(spec, name, 1)) for name in ("up", "down"))
            chosen = MODES[_mode(spec)][0] if feature is None else feature
            return f"flakey @ 0 {up} {down} {chosen}".rstrip()
        case "zero":
            return "zero"
        case _:
            return "linear @ 0"


def _mode(spec: Call) -> str:
    return str(spec["mode"] or "error_all")


def _bad_sectors(spec: Call) -> tuple[int, int | None]:
    """(first, how many); None: all that are left."""
    size = spec["size"]
    return int(spec["start"] or 0) // SECTOR_BYTES, None if size is None else int(size) // SECTOR_BYTES


def _must_fit(spec: Call, size_bytes: int | None) -> None:
    """Raises BadInput when the bad range lies beyond the device's end."""
    end = int(spec["start"] or 0) + int(spec["size"] or SECTOR_BYTES)
    if spec["target"] == "error" and size_bytes is not None and end > size_bytes:
        raise BadInput(
            f"dm(error): the bad range ends at {format_size(end)} and the device has {format_size(size_bytes)}; "
            "make start= or size= smaller."
        )


def _tables(spec: Call, number: str, sectors: int) -> list[list[str]]:
    """Every way in which a kernel may show the table that was asked for."""
    if spec["target"] == "error":
        start, size = _bad_sectors(spec)
        bad = sectors - start if size is None else size
        pieces = [(0, start, f"linear {number} 0"), (start, bad, "error")]
        pieces.append((start + bad, sectors - start - bad, f"linear {number} {start + bad}"))
        return [[f"{at} {length} {words}" for at, length, words in pieces if length > 0]]
    features = MODES[_mode(spec)] if spec["target"] == "flakey" else (None,)
    return [[f"0 {sectors} {_words(spec, feature).replace('@', number)}"] for feature in features]


DRIVER = DmDriver()
