"""Linux software RAID (md), made with mdadm.

The array bears the UUID and the name of the place, by which alone it is known again: nothing of another owner's is
stopped or erased. Members get UUIDs that mdadm draws itself; it takes none for them, and nothing here uses them.

What the machine's mdadm.conf says does not matter. Everything that a line CREATE or HOMEHOST could set is given on
the command line (bitmap, metadata, name, the host "any"). Nor does it matter whether udev assembles arrays by itself:
while the array runs its members are taken; and as udev may put it together again between stopping it and erasing its
superblocks, the removal goes round until a round finds neither. Each round leaves fewer superblocks.

A bitmap is kept by default: mdadm does so by itself for members of 100 GB and more, so for any array in production.
`assume_clean` is on by default: a mirror's halves then differ where nothing was written yet, which no reader sees.
For raid5 and raid6 it is sound only where all that is not written is zero, as on the sparse files of ours: a
rebuild would else bring back other data than were there.

The kernel's limits of the speed of a resync (dev.raid.speed_limit_*) stay as the machine has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from strata.errors import BadInput
from strata.layers._device import NAME, SETTLE, await_node, fields, first, module_reasons
from strata.layers._driver import Driver
from strata.layers._steps import output, run, said, sh, standard_reasons
from strata.model import (
    Ability,
    BlockBehaviour,
    Call,
    Command,
    Completed,
    Facts,
    Instead,
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

KIB = 1 << 10
_SECTOR_BYTES = 512
_CHUNK_BYTES = 512 * KIB  # mdadm's default
_RESYNC_S = 7 * 86400.0  # a large disk takes a day


@dataclass(frozen=True, slots=True)
class Level:
    modules: tuple[str, ...]  # any of these carries it
    fewest: int  # members; mdadm takes no fewer
    parity: int = 0  # members' worth of it
    redundant: bool = True
    chunked: bool = True


LEVELS = {
    "raid0": Level(("raid0",), 2, redundant=False),
    "raid1": Level(("raid1",), 2, chunked=False),
    "raid5": Level(("raid456",), 2, parity=1),
    "raid6": Level(("raid456",), 4, parity=2),
    "raid10": Level(("raid10",), 2),
    # taken out in Linux 6.8, back since 6.14 under another name
    "linear": Level(("linear", "md_linear"), 2, redundant=False, chunked=False),
}

_ONLY = {"copies": "raid10", "layout": "raid10", "write_mostly": "raid1"}
"""Arguments that one level alone has."""

INFO = LayerInfo(
    name="md",
    about="Linux software RAID over several devices.",
    params=(
        Param("level", ParamType.CHOICE, "the RAID level", choices=tuple(LEVELS), positional=True, required=True),
        Param(
            "layout",
            ParamType.CHOICE,
            "where raid10 puts the copies: near is mdadm's own choice",
            choices=("near", "far", "offset"),
        ),
        Param("copies", ParamType.INT, "how often raid10 keeps each block; 2 if not said", minimum=2),
        Param("chunk", ParamType.SIZE, "how much goes to a disk before the next; 512K if not said", minimum=4 * KIB),
        Param(
            "bitmap",
            ParamType.CHOICE,
            "where the map of regions being written is kept, which shortens a resync; mdadm keeps one by itself "
            "for disks of 100 GB and more, so one is kept by default; raid0 and linear have none",
            default="internal",
            choices=("none", "internal"),
        ),
        Param(
            "assume_clean",
            ParamType.FLAG,
            "take the disks for in sync; raid5 and raid6 are sound that way only on disks that are all zero, as "
            "fresh files are; off: resync first, a step with a time of its own",
            default=True,
        ),
        Param("spares", ParamType.INT, "how many of the last disks stand by", default=0, minimum=0),
        Param("write_mostly", ParamType.INT, "how many of the last members of a raid1 are read only in need",
              default=0, minimum=0),
    ),
    accepts=frozenset({Kind.BLOCK}),
    provides=Kind.BLOCK,
    block=BlockBehaviour(queue=False),
    many=True,
    tools={"mdadm": "mdadm", "wipefs": "util-linux", "readlink": "coreutils"},
    metrics=(
        Metric("md.degraded_members", "count", "lower", "members that the array misses"),
        Metric("md.sync_pct", "%", "neither", "how much of the members is in sync: 100 when no rebuild is under way"),
    ),
    offers=frozenset({"degrade", "rebuild"}),
)  # fmt: skip

# $1 UUID as util-linux and the kernel write it, $2 as mdadm writes it, the rest: members. An array is found by the
# members that it holds, so none is missed that udev put together under another name, and none is touched that has
# another UUID.
_REMOVE = (
    SETTLE
    + """\
dashes=$1 colons=$2; shift 2
for pause in 0 0.1 0.2 0.4 0.8 1 2 4; do
  sleep "$pause"; found=
  for device in $(readlink -f -- "$@"); do
    [ -b "$device" ] || continue
    for array in "/sys/class/block/${device##*/}/holders"/md*; do
      [ -e "$array" ] || continue
      { read -r uuid < "$array/md/uuid"; } 2>/dev/null || uuid=$(mdadm --detail --export "/dev/${array##*/}")
      case $uuid in *"$dashes"* | *"$colons"*) ;; *) continue ;; esac
      found="$found ${array##*/}"; mdadm --quiet --stop "/dev/${array##*/}"
    done
    case $(wipefs --noheadings --output UUID -- "$device") in
      *"$dashes"*) found="$found $device"; mdadm --quiet --zero-superblock "$device" ;;
    esac
  done
  if [ -z "$found" ]; then exit 0; fi
  settle
done
echo "the array is still there ($found): end what uses it, then clean up again" >&2
exit 1"""
)

# $1 array, $2 its UUID as mdadm writes it, the rest: members. udev may have put it together already, or may yet; where
# one is missing it holds the rest in an inactive array (mdadm --incremental), and they are busy. What was lost is out.
_ASSEMBLE = (
    SETTLE
    + """\
array=$1 uuid=$2; shift 2; settle
if [ -b "$array" ]; then exit 0; fi
for device in $(readlink -f -- "$@"); do for held in "/sys/class/block/${device##*/}/holders"/md*; do
  [ "$(cat "$held/md/array_state" 2>&1)" = inactive ] || continue
  mdadm --examine --export "$device" | grep -qF "$uuid" && mdadm --quiet --stop "/dev/${held##*/}"
done; done
exec mdadm --quiet --assemble --run --uuid="$uuid" "$array" "$@\""""
)

_STATE = NAME + 'md=/sys/class/block/$(name "$1")/md\n'

# $1 array. Where the machine starts arrays read-only until they are written to (md_mod.start_ro, Debian's default),
# neither a resync nor a rebuild would begin.
_START = _STATE + 'if [ "$(cat "$md/array_state")" = read-auto ]; then mdadm --quiet --readwrite "$1"; fi'

# $1 array. mdadm waits for a resync that runs, and returns at once when none has started yet.
_RESYNC = (
    _STATE
    + """\
for pause in 0 0.1 0.2 0.4 0.8 1 2; do
  sleep "$pause"
  mdadm --wait "$1"
  now="$(cat "$md/degraded") $(cat "$md/sync_action") $(cat "$md/resync_start")"
  if [ "$now" = "0 idle none" ]; then exit 0; fi
done
echo "$1 did not come in sync (degraded, doing, synced up to: $now): look at dmesg for a disk that fails" >&2
exit 1"""
)

# $1 array, $2 member. What was lost is not to be taken back by udev: so its superblock goes.
_LOSE = """\
mdadm --quiet --manage "$1" --fail "$2" || exit 1
for pause in 0 0.1 0.2 0.4 0.8 1 2; do
  sleep "$pause"
  if mdadm --quiet --manage "$1" --remove "$2"; then mdadm --quiet --zero-superblock "$2"; exit; fi
done
exit 1"""

# $1 array, the rest: members that it lost.
_REBUILD = (
    _STATE
    + """\
array=$1; shift
mdadm --quiet --manage "$array" --add "$@" || exit 1
for pause in 0 0.05 0.1 0.2 0.4 0.8 1; do
  sleep "$pause"
  if [ "$(cat "$md/sync_action")" = recover ]; then exit 0; fi
  if [ "$(cat "$md/degraded")" = 0 ]; then
    echo "the rebuild of $array was over before anything could be measured: give larger disks" >&2; exit 1
  fi
done
echo "$array does not rebuild: look at dmesg for the reason" >&2
exit 1"""
)

_MARK = 'mark=$1 what=$2; shift 2; for member; do echo "$what=$member"; done >> "$mark"'

# $1 array, $2 the file of what was lost on purpose, the rest: members.
_SHOW = (
    _STATE
    + """\
[ -d "$md" ] || { echo "there is no array $1" >&2; exit 1; }
mark=$2; shift 2
for field in level raid_disks chunk_size layout array_state degraded sync_action sync_completed bitmap/location; do
  if [ -r "$md/$field" ]; then echo "$field=$(cat "$md/$field")"; fi
done
for member in "$md"/dev-*; do echo "member=${member##*/dev-} $(cat "$member/state")"; done
for device; do echo "below=$(name "$device")"; done
if [ -f "$mark" ]; then cat -- "$mark"; fi"""
)


class MdDriver(Driver):
    info = INFO

    def arity_reasons(self, spec: Call, inputs: int) -> list[str]:
        shape = _Shape.of(spec, inputs)
        reasons = []
        if shape.members < shape.level.fewest:
            reasons.append(
                f"md({shape.name}) needs at least {shape.level.fewest} disks besides spares; "
                f"got {shape.members}. Give it {shape.level.fewest}, or choose another level."
            )
        elif shape.name == "raid10" and shape.copies > shape.members:
            reasons.append(
                f"md(raid10, copies={shape.copies}) needs at least {shape.copies} disks; "
                f"got {shape.members}. Give it more, or ask for fewer copies."
            )
        elif shape.write_mostly >= shape.members:
            reasons.append(
                f"md(write_mostly={shape.write_mostly}) leaves no disk of {shape.members} to read from; "
                "make it smaller than the number of disks."
            )
        return reasons

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        reasons = standard_reasons(facts, self.info.tools)
        shape = _Shape.of(spec, 0)
        if not facts.modules.intersection(shape.level.modules):
            reasons += module_reasons(f"md({shape.name})", facts, shape.level.modules[:1])
        reasons += [
            f"md({shape.name}) has no {name}, only {level} has it; leave it out."
            for name, level in _ONLY.items()
            if spec[name] and shape.name != level
        ]
        if spec["chunk"] is not None and not shape.level.chunked:
            reasons.append(f"md({shape.name}) has no chunks; leave chunk= out.")
        chunk = int(spec["chunk"] or 0)
        if chunk & (chunk - 1):
            reasons.append(f"md takes chunks of a power of two, and {format_size(chunk)} is none; round chunk=.")
        if shape.spares and not shape.level.redundant:
            reasons.append(f"md({shape.name}) cannot use a spare, for it does not survive a lost disk; leave it out.")
        if shape.spares and shape.write_mostly:
            reasons.append("md cannot mark disks write-mostly beside spares; leave spares= or write_mostly= out.")
        if spec["assume_clean"] is False and not shape.level.redundant:
            reasons.append(f"md({shape.name}) has nothing to bring in sync; leave assume_clean= out.")
        return reasons

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        shape = _Shape.of(spec, len(below))
        sizes = [each.size_bytes for each in below if each.size_bytes is not None]
        return Provides(
            Kind.BLOCK,
            _path(place),
            _usable_bytes(shape, int(spec["chunk"] or _CHUNK_BYTES), sizes) if len(sizes) == len(below) else None,
            ours=all(each.ours for each in below),
            can={"degrade": _degrade(spec, below, place), "rebuild": _rebuild(spec, below, place)},
        )

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        shape, path, devices = _Shape.of(spec, len(below)), _path(place), [each.path for each in below]
        steps = [
            Step(
                run(*_create(spec, shape, place, devices)),
                sh(_REMOVE, place.uuid.lower(), _as_mdadm_writes(place.uuid), *devices),
                f"make the {shape.name} array",
                again=sh(_ASSEMBLE, path, _as_mdadm_writes(place.uuid), *devices),
            ),
            Step(await_node(path), None, "wait for the name of the array", again=await_node(path)),
            Step(sh(_START, path), None, "let the array be written to", again=sh(_START, path)),
        ]
        if shape.level.redundant and spec["assume_clean"] is False:
            steps.append(Step(sh(_RESYNC, path, timeout_s=_RESYNC_S), None, "wait for the first resync"))
        return steps

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        path = _path(place)
        return [
            run("mdadm", "--detail", "--no-devices", "--export", path),
            sh(_SHOW, path, _mark(place), *(each.path for each in below)),
        ]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        for index in (0, 1):
            if output(seen, index) is None:
                return [f"md: the array {_path(place)} cannot be read: {said(seen, index)}."]
        shape, detail, state = _Shape.of(spec, len(below)), fields(seen, 0), fields(seen, 1)
        wrong = []
        uuid = first(detail, "MD_UUID") or "none"
        if uuid != _as_mdadm_writes(place.uuid):
            wrong.append(f"md: the array {_path(place)} has the UUID {uuid}, which is not ours.")
        for name, what, asked in _asked(spec, shape):
            now = first(state, name)
            if now != asked:
                wrong.append(f"md: the {what} of the array is {now} instead of {asked}.")
        has_bitmap = first(state, "bitmap/location") not in {None, "none"}
        if shape.level.redundant and has_bitmap is not (spec["bitmap"] == "internal"):
            wrong.append(f"md: the array has {'a' if has_bitmap else 'no'} bitmap, which was not asked for.")
        return wrong + _member_differences(shape, state) + _activity_differences(state)

    def survives(self, spec: Call, inputs: int) -> int:
        shape = _Shape.of(spec, inputs)
        count = 0
        while count < shape.members and all(
            _survives(shape, set(lost)) for lost in combinations(range(shape.members), count + 1)
        ):
            count += 1
        return count

    def to_stay(self, spec: Call) -> dict[str, Instead]:
        # On disks that are not all zero the parity is wrong until it is computed, and a rebuild would invent data; of
        # copies the monthly check counts mismatches (mdadm(8), --assume-clean: "not recommended").
        if not LEVELS[str(spec["level"])].redundant or not spec["assume_clean"]:
            return {}
        return {"assume_clean": Instead(False, "what was measured holds for fresh disks that are all zero only")}

    def plan_figures(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return self.plan_inspect(spec, below, place)[1:]

    def figures(
        self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]
    ) -> dict[str, float]:
        state = fields(seen, 0)
        found: dict[str, float] = {}
        degraded = first(state, "degraded") or ""
        if degraded.isdecimal():
            found["md.degraded_members"] = float(degraded)
        done, _, total = (first(state, "sync_completed") or "").partition(" / ")
        if done.isdecimal() and total.isdecimal() and int(total):
            found["md.sync_pct"] = 100 * int(done) / int(total)
        elif degraded == "0" and first(state, "sync_action") == "idle":
            found["md.sync_pct"] = 100.0
        return found


# ---------------------------------------------------------------- what was asked for


@dataclass(frozen=True, slots=True)
class _Shape:
    """The arguments that say what the array looks like, over a number of disks."""

    name: str
    members: int
    spares: int
    copies: int
    layout: str
    write_mostly: int

    @classmethod
    def of(cls, spec: Call, inputs: int) -> _Shape:
        spares = int(spec["spares"] or 0)
        return cls(
            name=str(spec["level"] or "raid0"),
            members=max(inputs - spares, 0),
            spares=spares,
            copies=int(spec["copies"] or 2),
            layout=str(spec["layout"] or "near"),
            write_mostly=int(spec["write_mostly"] or 0),
        )

    @property
    def level(self) -> Level:
        return LEVELS[self.name]


def _create(spec: Call, shape: _Shape, place: Place, devices: Sequence[str]) -> list[str]:
    argv = ["mdadm", "--create", _path(place), "--run", "--quiet", "--metadata=1.2", "--homehost=any"]
    argv += [f"--name={place.name}", f"--uuid={place.uuid}"]
    argv += [f"--level={shape.name}", f"--raid-devices={shape.members}"]
    if shape.spares:
        argv.append(f"--spare-devices={shape.spares}")
    if spec["chunk"] is not None:
        argv.append(f"--chunk={int(spec['chunk']) // KIB}K")
    if shape.name == "raid10":
        argv.append(f"--layout={shape.layout[0]}{shape.copies}")
    if shape.level.redundant:
        argv.append(f"--bitmap={spec['bitmap']}")
        if spec["assume_clean"]:
            argv.append("--assume-clean")
    if shape.write_mostly:  # the flag holds for the devices that come after it
        first_mostly = max(len(devices) - shape.write_mostly, 0)
        return [*argv, *devices[:first_mostly], "--write-mostly", *devices[first_mostly:]]
    return [*argv, *devices]


def _asked(spec: Call, shape: _Shape) -> list[tuple[str, str, str]]:
    """(name in the kernel's answer, what it is for people, what it must be)."""
    asked = [("level", "level", shape.name), ("raid_disks", "number of members", str(shape.members))]
    if spec["chunk"] is not None:
        asked.append(("chunk_size", "chunk in bytes", str(spec["chunk"])))
    if shape.name == "raid10":
        # the kernel counts near copies in the low byte and far ones above it; one of them is always 1
        near = shape.copies if shape.layout == "near" else 1
        far = 1 if shape.layout == "near" else shape.copies
        asked.append(("layout", "layout", str(near | far << 8 | (shape.layout == "offset") << 16)))
    return asked


def _path(place: Place) -> str:
    return f"/dev/md/{place.name}"


def _mark(place: Place) -> str:
    """A file that says which members were lost on purpose."""
    return f"{place.dir}/lost"


def _as_mdadm_writes(uuid: str) -> str:
    digits = uuid.replace("-", "").lower()
    return ":".join(digits[at : at + 8] for at in range(0, 32, 8))


# ---------------------------------------------------------------- room


def _offset_bytes(size_bytes: int, chunk_bytes: int | None) -> int:
    """Where data start on a member. As mdadm 4.4 was seen to lay out members of 8 MiB to 8 TiB: room for a bitmap
    and a later reshape, about a thousandth of the disk, in whole MiB.
    """
    headroom = 128 << 20
    while headroom << 10 > size_bytes and (chunk_bytes is None or headroom > 2 * chunk_bytes):
        headroom >>= 1
    mib = 1 << 20
    return -(-(headroom + 16 * KIB) // mib) * mib


def _usable_bytes(shape: _Shape, chunk_bytes: int, sizes_bytes: Sequence[int]) -> int:
    """At most so much fits."""
    level = shape.level
    unit = chunk_bytes if level.chunked else KIB
    room = [
        max(size - _offset_bytes(size, chunk_bytes if level.chunked else None), 0) // unit
        for size in sizes_bytes[: shape.members]
    ]
    least = min(room, default=0)
    if not level.redundant:
        units = sum(room)
    elif shape.name == "raid1":
        units = least
    elif shape.name != "raid10":
        units = least * max(shape.members - level.parity, 0)
    elif shape.layout == "near":
        units = least * shape.members // shape.copies
    else:
        units = least // shape.copies * shape.members
    return units * unit


# ---------------------------------------------------------------- reading back

_RUNNING = frozenset({"clean", "active", "active-idle", "write-pending", "read-auto"})
"""States of an array that serves reads and writes."""


def _marked(state: Mapping[str, Sequence[str]], what: str) -> set[int]:
    """The places, among the devices below, of members that were lost or rebuilt on purpose."""
    return {int(place) for place in state.get(what, ()) if place.isdecimal()}


def _member_differences(shape: _Shape, state: Mapping[str, Sequence[str]]) -> list[str]:
    held: dict[str, set[str]] = {}
    for line in state.get("member", ()):
        name, _, words = line.partition(" ")
        held[name] = set(words.split(","))
    below = state.get("below", ())
    lost, rebuilding = _marked(state, "lost"), _marked(state, "rebuilding")
    mostly = range(shape.members - shape.write_mostly, shape.members)
    wrong = []
    if len(below) != shape.members + shape.spares:
        wrong.append(f"md: {len(below)} devices below are there instead of {shape.members + shape.spares}.")
    for place, device in enumerate(below):
        who = f"member {place + 1} of {shape.members}" if place < shape.members else "a spare"
        state_of = held.get(device)
        if state_of is None or "faulty" in state_of:
            how = "it is not in the array any more" if state_of is None else "the kernel found it faulty"
            if place not in lost:
                wrong.append(f"md: the array is degraded, it lost {device} ({who}): {how}.")
        elif place in lost:
            wrong.append(f"md: the array still has {device} ({who}), which it was to lose.")
        elif "in_sync" not in state_of and place < shape.members and place not in rebuilding:
            wrong.append(f"md: {device} ({who}) is not in sync with the array.")
        elif "write_mostly" not in state_of and place in mostly:
            wrong.append(f"md: {device} ({who}) is not marked write-mostly.")
    wrong += [f"md: the array also holds {name}, which is not ours." for name in held if name not in below]
    degraded = first(state, "degraded") or "0"
    missing = int(degraded) - len(lost) - len(rebuilding) if degraded.isdecimal() and len(degraded) < 9 else 0
    if missing > 0 and not wrong:
        wrong.append(f"md: the array misses {missing} of its {shape.members} members.")
    return wrong


def _activity_differences(state: Mapping[str, Sequence[str]]) -> list[str]:
    wrong = []
    now = first(state, "array_state")
    if now not in _RUNNING:
        wrong.append(f"md: the array does not run, it is {now}; look at dmesg for a disk that failed.")
    doing = first(state, "sync_action")  # raid0 and linear have none
    if doing not in {None, "idle"} and not (doing == "recover" and _marked(state, "rebuilding")):
        wrong.append(f"md: the kernel does a {doing} of the array, which was not asked for.")
    return wrong


# ---------------------------------------------------------------- members lost, and rebuilt


def _losable(shape: _Shape, count: int) -> list[int]:
    """The last members that can be lost with every block still there. Raises BadInput when there are not so many."""
    lost: list[int] = []
    for place in reversed(range(shape.members)):
        if len(lost) < count and _survives(shape, {*lost, place}):
            lost.append(place)
    if len(lost) < count:
        most = f"no more than {len(lost)}" if lost else "none"
        raise BadInput(
            f"md({shape.name}) of {shape.members} disks is to lose {count} and can lose {most}; "
            "ask for fewer or choose another level."
        )
    return lost


def _survives(shape: _Shape, lost: set[int]) -> bool:
    if shape.name == "raid1":
        return len(lost) < shape.members
    if shape.name != "raid10":
        return len(lost) <= shape.level.parity
    # The copies of a block lie on neighbours in a ring. Near copies: each block starts where the one before it ended.
    stride = shape.copies if shape.layout == "near" else 1
    starts = {block * stride % shape.members for block in range(shape.members)}
    return not any({(start + copy) % shape.members for copy in range(shape.copies)} <= lost for start in starts)


def _degrade(spec: Call, below: Sequence[Provides], place: Place) -> Ability:
    def steps(count: int) -> list[Step]:
        shape = _Shape.of(spec, len(below))
        if shape.spares:
            raise BadInput(
                f"md({shape.name}, spares={shape.spares}) puts a spare in the place of a disk that is lost; "
                "leave the spares out, or ask for rebuilding instead."
            )
        return _lose(_losable(shape, count), "lost", below, place)

    return steps


def _rebuild(spec: Call, below: Sequence[Provides], place: Place) -> Ability:
    def steps(count: int) -> list[Step]:
        lost = _losable(_Shape.of(spec, len(below)), count)
        return [
            *_lose(lost, "rebuilding", below, place),
            Step(
                sh(_REBUILD, _path(place), *(below[member].path for member in lost)),
                None,  # the array goes with all that is in it
                "put the lost disk back" if count == 1 else "put the lost disks back",
            ),
        ]

    return steps


def _lose(members: Sequence[int], what: str, below: Sequence[Provides], place: Place) -> list[Step]:
    mark = _mark(place)
    return [
        Step(
            sh(_MARK, mark, what, *map(str, members)),
            sh('rm -f -- "$1"', mark),
            "note which disks are lost on purpose",
        ),
        *(
            Step(sh(_LOSE, _path(place), below[member].path), None, f"take member {member + 1} out of the array")
            for member in members
        ),
    ]


DRIVER = MdDriver()
