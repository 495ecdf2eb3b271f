"""A classic LVM volume: all of its room is given out when it is made."""

from __future__ import annotations

from collections.abc import Sequence

from strata.errors import BadInput
from strata.layers import _lvm
from strata.layers._driver import Driver
from strata.layers._lvm import VOLUME
from strata.layers._members import LOST, choose, note, noted, read_notes
from strata.layers._steps import output, said, sh
from strata.model import (
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
    Snapshots,
    Step,
)
from strata.units import format_size

FEWEST = {"linear": 1, "striped": 2, "raid1": 2, "raid10": 4, "raid5": 3, "raid6": 5}
"""How data are spread -> the fewest devices that LVM does it on. Source: lvmraid(7)."""

PARITY = {"raid5": 1, "raid6": 2}

MODULES = {"raid1": "raid1", "raid10": "raid10", "raid5": "raid456", "raid6": "raid456"}
"""What the target dm-raid runs on."""

RESYNC_S = 48 * 3600.0
"""Copying a large disk to another takes hours."""

INFO = LayerInfo(
    name="lvm",
    about="A classic LVM volume over one device or several.",
    params=(
        Param(
            "type",
            ParamType.CHOICE,
            "how data are spread over the devices",
            default="linear",
            choices=tuple(FEWEST),
            positional=True,
        ),
        Param("stripes", ParamType.INT, "over how many devices to stripe; without it, all", minimum=2, maximum=128),
        Param(
            "stripesize",
            ParamType.SIZE,
            "how much goes to one device before the next; LVM's default is 64K",
            minimum=4096,
            maximum=1 << 30,
        ),
        Param("size", ParamType.SIZE, "its size; without it, all that is free", minimum=_lvm.EXTENT_BYTES),
        Param("snapshots", ParamType.SIZE, "how much to leave free for snapshots", minimum=_lvm.EXTENT_BYTES),
        Param("nosync", ParamType.FLAG, "do not copy or count the devices of a RAID to the same state", default=False),
    ),
    accepts=frozenset({Kind.BLOCK}),
    provides=Kind.BLOCK,
    block=BlockBehaviour(queue=False),
    many=True,
    tools={**_lvm.TOOLS, "lvchange": "lvm2"},
    metrics=(
        Metric("lvm.sync_pct", "%", "neither", "how much of a RAID is in sync: 100 when no rebuild is under way"),
    ),
    offers=frozenset({"snapshot", "degrade", "rebuild"}),
)

# $1 group, $2 bytes to leave free, $3 $4 $5 name, type and number of columns, $6 size of a stripe or "", the rest:
# settings and devices. How much is free is known when the group is made: devices may want other alignments.
_MAKE_LEAVING = """\
group=$1 leave=$2 name=$3 type=$4 columns=$5 stripe=$6; shift 6
free=$(vgs --noheadings --nosuffix --units b --options vg_free "$@" "$group") || exit 1
lvcreate -qq --yes "$@" --type "$type" --stripes "$columns" ${stripe:+--stripesize "$stripe"} \\
  --name "$name" --size "$((free - leave))b" "$group\""""

# $1 volume as LVM writes it, the rest: settings and devices. A RAID in the middle of a resync is not measured.
_WAIT = """\
volume=$1; shift
while :; do
  synced=$(lvs --noheadings --options sync_percent "$@" "$volume") || exit 1
  case $synced in *100.00*) exit 0 ;; esac
  sleep 0.5
done"""

# A volume of which snapshots are held is a RAID under another name.
_REAL = 'real=$1; if dmsetup info "$1-real" > /dev/null 2>&1; then real=$1-real; fi\n'

# $1 the volume, $2 and $3 the two volumes of a member, as device mapper writes them, $4 the number of the member. Its
# tables are replaced by ones that fail all I/O. The kernel counts it as lost (D among the letters of the volume's
# state) when it next fails; checking the copies makes it read every member, and ends with that.
_LOSE = (
    _REAL
    + """\
dmsetup wipe_table "$2" && dmsetup wipe_table "$3" || exit 1
dmsetup message "$real" 0 check
letters() { dmsetup status "$real" | cut -d ' ' -f 6; }
for pause in 0.1 0.2 0.4 0.8 1 2 4 8 16 30 30 30; do
  if [ "$(letters | cut -c "$(($4 + 1))")" = D ]; then exit 0; fi
  sleep "$pause"
done
echo "the kernel did not notice that a member is lost; its members are $(letters)" >&2
exit 1"""
)

# $1 the volume, as device mapper writes it.
_AWAIT_REBUILD = (
    _REAL
    + """\
for pause in 0 0.05 0.1 0.2 0.4 0.8 1; do
  sleep "$pause"
  if [ "$(dmsetup status "$real" | cut -d ' ' -f 8)" = recover ]; then exit 0; fi
done
echo "no rebuild of $1 runs: give it larger disks if it was over at once, else look at dmesg for the reason" >&2
exit 1"""
)

_SHOW_MEMBERS = _REAL + 'dmsetup status "$real"'


class LvmDriver(Driver):
    info = INFO

    def arity_reasons(self, spec: Call, inputs: int) -> list[str]:
        kind, fewest = str(spec["type"]), FEWEST[str(spec["type"])]
        if kind == "striped" and spec["stripes"] is not None:
            fewest = int(spec["stripes"])
        reasons = []
        if inputs < fewest:
            reasons.append(
                f"lvm({kind}) takes at least {fewest} devices and here {'is one' if inputs == 1 else f'are {inputs}'}; "
                f"give it {fewest} or write lvm(linear)."
            )
        elif kind == "raid10" and inputs % 2:
            reasons.append(f"lvm(raid10) keeps pairs of devices and here are {inputs}; give it an even number.")
        return reasons

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        kind = str(spec["type"])
        modules = ("dm_raid", MODULES[kind]) if kind in MODULES else ()
        if spec["snapshots"] is not None:
            modules = (*modules, "dm_snapshot")
        reasons = _lvm.lvm_reasons("lvm", facts, self.info.tools, modules)
        if spec["stripes"] is not None and kind != "striped":
            reasons.append(f"lvm(stripes=) belongs to lvm(striped), and this is {kind}; leave it out.")
        if spec["stripesize"] is not None and kind in {"linear", "raid1"}:
            reasons.append(f"lvm({kind}) has no stripes; leave stripesize= out.")
        stripesize = int(spec["stripesize"] or 4096)
        if stripesize & (stripesize - 1):
            reasons.append(f"lvm(stripesize={format_size(stripesize)}) is not a power of two; round it.")
        if spec["nosync"] and kind not in MODULES:
            reasons.append(f"lvm({kind}) has no copies to synchronise; leave nosync out.")
        if spec["nosync"] and kind == "raid6":
            reasons.append("LVM makes no raid6 without synchronising it; leave nosync out.")
        if spec["snapshots"] is not None and (spec["size"] is not None or kind in MODULES):
            reasons.append("lvm(snapshots=) is for linear and striped volumes without a size; write size= instead.")
        return reasons

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        group, room = _lvm.group_on(below, place), _room(spec, below)
        size = room
        if spec["size"] is not None:
            size = _lvm.rounded(int(spec["size"]), _lvm.EXTENT_BYTES * _columns(spec, len(below)))
            _lvm.must_fit("lvm", "a volume", int(spec["size"]), room)
        elif spec["snapshots"] is not None and room is not None:
            _lvm.must_fit("lvm", "room for snapshots", int(spec["snapshots"]) + _lvm.EXTENT_BYTES, room)
            left = room - int(spec["snapshots"])
            size = min(_lvm.rounded(left, _lvm.EXTENT_BYTES * _columns(spec, len(below))), room)
        return Provides(
            Kind.BLOCK,
            group.path(VOLUME),
            size,
            ours=all(each.ours for each in below),
            name=group.full(VOLUME),
            snapshots=Snapshots(
                take=lambda count: _snapshot(spec, group, [_lvm.held(VOLUME, n + 1) for n in range(count)]),
                drop=_lvm.drop_held(group, VOLUME),
                look=sh(_LOOK_AT_HELD, group.mapped(_lvm.HELD)),
            ),
            can={
                "snapshot": lambda count: _snapshot(spec, group, [f"held-{count}-{n + 1}" for n in range(count)]),
                "degrade": lambda count: _degrade(spec, group, place, count),
                "rebuild": lambda count: _rebuild(spec, group, count),
            },
            split=lambda count: _split(spec, group, size, count, ours=all(each.ours for each in below)),
        )

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        group, kind = _lvm.group_on(below, place), str(spec["type"])
        steps = [*_lvm.make_group(group), _make(spec, group)]
        if kind in MODULES and not spec["nosync"]:
            wait = group.script(_WAIT, group.full(VOLUME), timeout_s=RESYNC_S)
            steps.append(Step(wait, None, "wait until the devices are synchronised"))
        return steps

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        group = _lvm.group_on(below, place)
        questions = _lvm.ask(group, "stripes,stripe_size,lv_snapshot_invalid", VOLUME)
        if spec["type"] not in MODULES:
            return questions
        return [*questions, sh(_SHOW_MEMBERS, group.mapped(VOLUME)), read_notes(place)]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        group, kind = _lvm.group_on(below, place), str(spec["type"])
        found, wrong = _lvm.read("lvm", group, seen, VOLUME)
        wrong += _lvm.field_differences("lvm", group, found, VOLUME, _expected(spec, len(below)))
        size = found.size_bytes(VOLUME)
        if spec["size"] is not None and size is not None:
            asked = _lvm.rounded(int(spec["size"]), _lvm.EXTENT_BYTES * _columns(spec, len(below)))
            if size != asked:
                wrong.append(f"lvm: {group.full(VOLUME)} on {found.where} has {size} bytes instead of {asked}.")
        wrong += [
            f"lvm: the snapshot {group.full(name)} on {found.where} ran out of room and is lost; "
            "leave more room free with snapshots= or a smaller size=."
            for name, row in found.volumes.items()
            if row.get("lv_snapshot_invalid") == "snapshot invalid"
        ]
        wrong += _target_differences(kind, group, found)
        return wrong + (_member_differences(found, group, seen) if kind in MODULES else [])

    def survives(self, spec: Call, inputs: int) -> int:
        match spec["type"]:
            case "raid1":
                return max(inputs - 1, 0)
            case "raid10":
                return 1
            case _:
                return PARITY.get(str(spec["type"]), 0)

    def to_stay(self, spec: Call) -> dict[str, Instead]:
        # As for md: parity that was never computed rebuilds data that nobody wrote, and copies that differ count as
        # mismatches whenever they are compared.
        if str(spec["type"]) not in MODULES or not spec["nosync"]:
            return {}
        return {"nosync": Instead(False, "what was measured holds for fresh disks that are all zero only")}

    def plan_figures(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        if spec["type"] not in MODULES:
            return []
        return [sh(_SHOW_MEMBERS, _lvm.group_on(below, place).mapped(VOLUME))]

    def figures(
        self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]
    ) -> dict[str, float]:
        state = output(seen, 0)
        # <type> <members> <letters> <in sync>/<in all>
        words = _lvm.numbers_after(state.stdout if state else "", "raid")
        synced = _lvm.fraction(words[3]) if len(words) > 3 else None
        return {"lvm.sync_pct": 100.0 * synced[0] / synced[1]} if synced and synced[1] else {}


def _make(spec: Call, group: _lvm.Group) -> Step:
    kind, devices = str(spec["type"]), len(group.devices)
    stripe = "" if spec["stripesize"] is None else _lvm.in_bytes(spec["stripesize"])
    why = f"make the {kind} volume"
    if spec["snapshots"] is not None and spec["size"] is None and kind not in MODULES:
        columns = str(_columns(spec, devices))
        leaving = (group.name, str(spec["snapshots"]), VOLUME, kind, columns, stripe)
        return Step(group.script(_MAKE_LEAVING, *leaving), _lvm.remove_volume(group, VOLUME), why)
    size = ("--extents", "100%FREE") if spec["size"] is None else ("--size", _lvm.in_bytes(spec["size"]))
    layout = [*_layout(spec, devices), *(("--stripesize", stripe) if stripe else ())]
    if spec["nosync"]:
        layout.append("--nosync")
    return _lvm.make_volume(group, VOLUME, why, "--type", kind, *layout, "--name", VOLUME, *size, group.name)


def _columns(spec: Call, devices: int) -> int:
    """Among how many devices the data are dealt out, copies and parity apart."""
    match spec["type"]:
        case "striped":
            return int(spec["stripes"] or devices)
        case "raid10":
            return max(devices // 2, 1)
        case "raid5" | "raid6":
            return max(devices - PARITY[str(spec["type"])], 1)
        case _:
            return 1


def _layout(spec: Call, devices: int) -> list[str]:
    columns = str(_columns(spec, devices))
    match spec["type"]:
        case "linear":
            return []
        case "raid1":
            return ["--mirrors", str(max(devices - 1, 1))]
        case "raid10":
            return ["--stripes", columns, "--mirrors", "1"]
        case _:
            return ["--stripes", columns]


def _room(spec: Call, below: Sequence[Provides]) -> int | None:
    room, devices = _lvm.room_bytes(below), max(len(below), 1)
    match spec["type"]:
        case _ if room is None:
            return None
        case "raid1":
            return room // devices
        case "raid10":
            return room // 2
        case "raid5" | "raid6":
            return room * _columns(spec, devices) // devices
        case _:
            return room


def _expected(spec: Call, devices: int) -> dict[str, tuple[str, str | None]]:
    kind = str(spec["type"])
    segments = {"raid5": "raid5_ls", "raid6": "raid6_zr"}  # what LVM makes of them
    stripesize = None if spec["stripesize"] is None else str(spec["stripesize"])
    stripes = str(_columns(spec, devices)) if kind in {"linear", "striped"} else str(devices)
    return {
        "segtype": ("the type", segments.get(kind, kind)),
        "stripes": ("the number of stripes", stripes),
        "stripe_size": ("the stripe size", stripesize),
    }


# ---------------------------------------------------------------- what conditions do to it


# $1 what precedes the number of a snapshot, as device mapper writes it. What a snapshot has copied is in its own room.
# Source: Linux Documentation, admin-guide/device-mapper/snapshot.rst.
_LOOK_AT_HELD = """\
volume=$1 held=0 shared=0 room=0
while state=$(dmsetup status "$volume$((held + 1))" 2>/dev/null) && [ -n "$state" ]; do
  held=$((held + 1))
  set -- $state
  shared=$(($2 * 512)) room=$((room + ${4%%/*} * 512))
done
printf '%s\\n' "held=$held" "shared=$shared" "room=$room\""""


def _snapshot(spec: Call, group: _lvm.Group, names: Sequence[str]) -> list[Step]:
    """Snapshots that share the room left free. Raises BadInput when nothing was left."""
    if spec["size"] is None and spec["snapshots"] is None:
        raise BadInput("lvm leaves no room for snapshots; write lvm(snapshots=SIZE), or a size= below all there is.")
    steps, count = [], len(names)
    for number, name in enumerate(names, 1):
        share = f"{100 // (count - number + 1)}%FREE"
        how = ("--snapshot", "--name", name, "--extents", share, group.full(VOLUME))
        steps.append(_lvm.make_volume(group, name, f"take snapshot {number} of {count}", *how))
    return steps


def _split(
    spec: Call, group: _lvm.Group, size: int | None, count: int, *, ours: bool
) -> tuple[list[Step], list[Provides]]:
    """A volume for each tenant, in the room of the one that was made, of which an extent stays. Raises BadInput."""
    kind = str(spec["type"])
    if kind in MODULES or spec["size"] is not None or spec["snapshots"] is not None:
        raise BadInput("tenants share linear or striped volumes that take all there is; write lvm, or put md below it.")
    if size is None:
        raise BadInput("the size of the volume below the tenants is not known; put lvmthin(size=...) there.")
    unit = _lvm.EXTENT_BYTES * _columns(spec, len(group.devices))
    each = (size - 2 * unit) // count // unit * unit  # one stays, one is lost where a header is larger than usual
    if each < unit:
        raise BadInput(f"{format_size(size)} are too little for {count} tenants; give the volume more room.")
    shrink = group.command("lvreduce", "-qq", "--yes", "--force", "--size", _lvm.in_bytes(unit), group.full(VOLUME))
    steps = [Step(shrink, None, "make room for the volumes of the tenants")]
    shares = []
    for number in range(1, count + 1):
        name = f"tenant-{number}"
        how = ("--type", kind, *_layout(spec, len(group.devices)))
        how += () if spec["stripesize"] is None else ("--stripesize", _lvm.in_bytes(spec["stripesize"]))
        how += ("--name", name, "--size", _lvm.in_bytes(each), group.name)
        steps.append(_lvm.make_volume(group, name, f"make the volume of tenant {number}", *how))
        shares.append(Provides(Kind.BLOCK, group.path(name), each, ours=ours, name=group.full(name)))
    return steps, shares


def _spare(kind: str, devices: int) -> list[int]:
    """The members that can be lost, in this order, without losing data."""
    match kind:
        case "raid1":
            return list(range(devices - 1, 0, -1))
        case "raid10":  # members 0 and 1 hold the same, 2 and 3 ...
            return list(range(devices - 1, 0, -2))
        case _:
            return list(range(devices - 1, devices - 1 - PARITY.get(kind, 0), -1))


def _degrade(spec: Call, group: _lvm.Group, place: Place, count: int) -> list[Step]:
    """Losing a member is undone when the volume is removed: LVM removes what is left of it."""
    members = choose(f"lvm({spec['type']})", _spare(str(spec["type"]), len(group.devices)), count)
    lose = [
        sh(
            _LOSE,
            *(group.mapped(name) for name in (VOLUME, f"{VOLUME}_rimage_{member}", f"{VOLUME}_rmeta_{member}")),
            str(member),
        )
        for member in members
    ]
    steps = [
        Step(command, None, f"lose member {member} of the volume")
        for member, command in zip(members, lose, strict=True)
    ]
    return [note(place, LOST, members), *steps]


def _rebuild(spec: Call, group: _lvm.Group, count: int) -> list[Step]:
    """Undone when the volume is removed."""
    starts = [
        Step(
            group.command("lvchange", "-qq", "--yes", "--rebuild", group.devices[member], group.full(VOLUME)),
            None,
            f"start to rebuild member {member} of the volume",
        )
        for member in choose(f"lvm({spec['type']})", _spare(str(spec["type"]), len(group.devices)), count)
    ]
    return [*starts, Step(sh(_AWAIT_REBUILD, group.mapped(VOLUME)), None, "see that it rebuilds")]


def _target_differences(kind: str, group: _lvm.Group, found: _lvm.Found) -> list[str]:
    """What the kernel runs, which need not be what LVM has written down."""
    runs = {words[2] for line in found.tables[VOLUME].splitlines() if len(words := line.split()) > 2}
    right = "raid" if kind in MODULES else kind
    if runs <= {right} or runs == {"snapshot-origin"}:
        return []
    what = " and ".join(sorted(runs))
    return [f"lvm: the kernel runs {group.full(VOLUME)} on {found.where} as {what} instead of {right}."]


def _member_differences(found: _lvm.Found, group: _lvm.Group, seen: Sequence[Completed]) -> list[str]:
    """Members that are lost and were not meant to be: D among the letters that the kernel shows."""
    state, notes = output(seen, 5), output(seen, 6)
    words = _lvm.numbers_after(state.stdout if state else "", "raid")
    if len(words) < 3 or notes is None:
        why = said(seen, 6 if len(words) >= 3 else 5).rstrip(".")
        return [f"lvm: the members of {group.full(VOLUME)} on {found.where} cannot be read: {why}."]
    meant, names = noted(seen, 6, LOST), dict(enumerate(found.devices))
    whose = [(member, letter, names.get(member, f"member {member}")) for member, letter in enumerate(words[2])]
    return [
        *(f"lvm: {group.full(VOLUME)} has lost {name}." for member, letter, name in whose
          if letter == "D" and member not in meant),
        *(f"lvm: {group.full(VOLUME)} still has {name}, which it was to lose." for member, letter, name in whose
          if letter != "D" and member in meant),
    ]  # fmt: skip


DRIVER = LvmDriver()
