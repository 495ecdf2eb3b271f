"""What the layers on LVM share: a volume group of our own on the devices below, its volumes, and reading them back.

Every command of LVM is cut off from the machine: it reads no lvm.conf (LVM_SYSTEM_DIR is a directory of ours, which
holds none), it sees only the devices below (`--devices`), keeps no backups, talks to no daemon, and the group is not
activated by events. So neither settings nor volumes of the operator's can change what is built, or be changed.

The group bears the name of the place, and its physical volumes have UUIDs made from the place's, by which they are
known when they are undone. LVM takes no UUID for groups and volumes: those it draws itself, and nothing here uses them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from strata.errors import BadInput
from strata.layers._device import module_reasons
from strata.layers._steps import output, run, said, sh, standard_reasons, wipe
from strata.model import Command, Completed, Facts, Place, Provides, Step
from strata.units import format_size

EXTENT_BYTES = 4 << 20
"""The unit in which LVM gives out room, by default."""

_HEADER_BYTES = 1 << 20
"""What LVM keeps for itself at the start of every device, at least."""

LONG_S = 7200.0
"""For steps that write out tables or move data: as long as for a large file system."""

VOLUME = "volume"
"""The volume that the layer above gets. LVM reserves many names, among them all that start with "snapshot"."""

TOOLS = {
    **dict.fromkeys(("pvcreate", "vgcreate", "vgreduce", "vgremove", "vgs", "pvs"), "lvm2"),
    **dict.fromkeys(("lvcreate", "lvremove", "lvs"), "lvm2"),
    "dmsetup": "dmsetup",
    "wipefs": "util-linux",
}

# null_blk and ublk: LVM knows neither as disks (2.03.31) and would refuse them. scan_lvs: another layer's volume may be
# what is below. lvmpolld and D-Bus are services that a machine may not have.
SETTINGS = (
    'devices { use_devicesfile=0 scan_lvs=1 hints="none" types=["nullb",16,"ublkb",16] } '
    "backup { backup=0 archive=0 } activation { monitoring=0 } "
    "global { use_lvmpolld=0 notify_dbus=0 event_activation=0 }"
)

# Of what is to stay: the machine's own lvm.conf holds, LVM keeps copies of the metadata, and dmeventd watches pools
# (lvm.conf(5)). Both are LVM's defaults; they are written out for an lvm.conf that turned them off.
SETTINGS_TO_STAY = "devices { scan_lvs=1 } backup { backup=1 archive=1 } activation { monitoring=1 }"
SYSTEM_DIR = "/etc/lvm"

# LVM knows a device by its name in /dev only, not through our links: every path among the arguments is resolved.
_ALONE = """\
LVM_SYSTEM_DIR=$1; export LVM_SYSTEM_DIR; shift
for word; do
  shift; case $word in /*) word=$(readlink -m -- "$word") ;; esac; set -- "$@" "$word"
done
"""

_RUN = _ALONE + 'exec "$@"'

# $1 group, $2 volume, the rest: settings and devices. A volume that is not there is none; a group that cannot be read
# any more is left to the undo of the group.
_REMOVE_VOLUME = (
    _ALONE
    + """\
group=$1 volume=$2; shift 2
found=$(lvs --noheadings --options lv_name --select "vg_name=$group && lv_name=$volume" "$@") || exit 1
[ -z "$found" ] || lvremove -qq --force "$@" "$group/$volume\""""
)

# $1 group, $2 how device mapper writes it, the rest: settings and devices. A group that lost a device is removed
# without it. When LVM cannot read the group any more (its disk fails), the kernel may still have its volumes: they are
# removed by name, those that stand on others first, so in as many rounds as it takes.
_REMOVE_GROUP = (
    _ALONE
    + """\
group=$1 mapped=$2; shift 2
found=$(vgs --noheadings --options vg_name --select "vg_name=$group" "$@") || exit 1
if [ -n "$found" ] && ! vgremove -qq --force "$@" "$group"; then
  vgreduce -qq --removemissing --force "$@" "$group" && vgremove -qq --force "$@" "$group" || exit 1
fi
for round in 1 2 3 4 5; do
  left=$(dmsetup info --columns --noheadings --options name 2>/dev/null | grep -e "^$mapped-[^-]") || exit 0
  for name in $left; do dmsetup remove --retry "$name" 2>/dev/null; done
done
echo "the kernel still holds" $left "of the volume group $group: end what uses it, then clean up again" >&2
exit 1"""
)


@dataclass(frozen=True, slots=True)
class Group:
    """The volume group of one layer of one visit, or of a recipe."""

    name: str
    devices: tuple[str, ...]
    uuids: tuple[str, ...]  # of the physical volumes, one for each device
    directory: str  # LVM's system directory: of the place, without any lvm.conf; of the machine, where it is to stay
    stays: bool = False

    def command(self, tool: str, *args: str, timeout_s: float = 600.0) -> Command:
        """A command of LVM that sees nothing but this group's devices."""
        return sh(_RUN, self.directory, tool, *self.sight(), *args, timeout_s=timeout_s)

    def sight(self) -> tuple[str, ...]:
        return ("--config", self.settings, *(word for device in self.devices for word in ("--devices", device)))

    @property
    def settings(self) -> str:
        return SETTINGS_TO_STAY if self.stays else SETTINGS

    def script(self, body: str, *args: str, timeout_s: float = LONG_S) -> Command:
        """A script that gets `args` as $1, $2 ..., and after them what every command of LVM needs."""
        return sh(_ALONE + body, self.directory, *args, *self.sight(), timeout_s=timeout_s)

    def full(self, volume: str) -> str:
        """A volume as LVM writes it."""
        return f"{self.name}/{volume}"

    def mapped(self, volume: str) -> str:
        """A volume as device mapper writes it: hyphens are doubled."""
        return f"{self.name.replace('-', '--')}-{volume}"

    def path(self, volume: str) -> str:
        return f"/dev/{self.name}/{volume}"


def group_on(below: Sequence[Provides], place: Place) -> Group:
    digits = place.uuid.replace("-", "").lower()
    uuids = [digits[:28] + f"{(int(digits[28:], 16) + number) % (1 << 16):04x}" for number in range(len(below))]
    directory = SYSTEM_DIR if place.stays else place.dir
    devices = tuple(each.path for each in below)
    return Group(place.name, devices, tuple(map(_as_lvm_writes, uuids)), directory, place.stays)


def _as_lvm_writes(digits: str) -> str:
    return "-".join((digits[:6], *(digits[at : at + 4] for at in range(6, 26, 4)), digits[26:]))


def make_group(group: Group) -> list[Step]:
    devices = [
        Step(
            # --norestorefile: a UUID may be given without a backup that it comes from
            sh(_RUN, group.directory, "pvcreate", "-qq", "--yes", "--norestorefile", "--uuid", uuid,
               "--config", group.settings, "--devices", device, device),
            wipe(uuid, [device]),
            "make the physical volume" if len(group.devices) == 1 else f"make physical volume {number}",
        )
        for number, (device, uuid) in enumerate(zip(group.devices, group.uuids, strict=True), 1)
    ]  # fmt: skip
    make = Step(
        # events of udev must not activate volumes while we make or remove them
        group.command("vgcreate", "-qq", "--yes", "--setautoactivation", "n", group.name, *group.devices),
        sh(_REMOVE_GROUP, group.directory, group.name, group.mapped("")[:-1], *group.sight()),
        "make the volume group",
        again=group.command("vgchange", "-qq", "--activate", "y", group.name),
    )
    return [*devices, make]


def make_volume(group: Group, volume: str, why: str, *args: str) -> Step:
    """`args` go to lvcreate. `volume` is what is removed when this is undone."""
    return Step(group.command("lvcreate", "-qq", "--yes", *args, timeout_s=LONG_S), remove_volume(group, volume), why)


def remove_volume(group: Group, volume: str) -> Command:
    return sh(_REMOVE_VOLUME, group.directory, group.name, volume, *group.sight(), timeout_s=LONG_S)


# $1 group, $2 origin, the rest: settings and devices.
_DROP_HELD = """\
group=$1 origin=$2; shift 2
held="vg_name=$group && origin=$origin && lv_name=~\\"held[0-9]+\\$\\""
found=$(lvs --noheadings --options lv_full_name --select "$held" "$@") || exit 1
for volume in $found; do lvremove -qq --force "$@" "$volume" || exit 1; done"""


HELD = "held"
"""The name of a snapshot that is held while data are measured, but for its number."""


def held(volume: str, number: int) -> str:
    """The name of such a snapshot of `volume`."""
    return f"{HELD}{number}" if volume == VOLUME else f"{volume}-{HELD}{number}"


def drop_held(group: Group, volume: str) -> Command:
    return group.script(_DROP_HELD, group.name, volume)


def in_bytes(size_bytes: object) -> str:
    """A size as LVM's commands take it."""
    return f"{size_bytes}b"


# ---------------------------------------------------------------- room


def room_bytes(below: Sequence[Provides]) -> int | None:
    """At most so much can volumes take on these devices; None when the size of one is not known."""
    sizes = [each.size_bytes for each in below]
    if any(size is None for size in sizes):
        return None
    return sum(max((size or 0) - _HEADER_BYTES, 0) // EXTENT_BYTES * EXTENT_BYTES for size in sizes)


def rounded(size_bytes: int, unit_bytes: int = EXTENT_BYTES) -> int:
    """LVM rounds up what it is asked for."""
    return -(-size_bytes // unit_bytes) * unit_bytes


def must_fit(layer: str, what: str, asked_bytes: int, room: int | None) -> None:
    """Raises BadInput when what was asked for is more than there can be."""
    if room is not None and asked_bytes > room:
        raise BadInput(
            f"{layer}: {what} of {format_size(asked_bytes)} does not fit into the {format_size(room)} below; "
            "make it smaller or the disk larger."
        )


# ---------------------------------------------------------------- can it run


def lvm_reasons(layer: str, facts: Facts, tools: Mapping[str, str], modules: Sequence[str]) -> list[str]:
    """Programs and kernel modules that are missing."""
    return [*standard_reasons(facts, tools), *module_reasons(layer, facts, ("dm_mod", *modules))]


# ---------------------------------------------------------------- reading back

_PV_FIELDS = "pv_name,pv_uuid,vg_name,pv_missing,lv_name"
_LV_FIELDS = "lv_name,lv_size,segtype"
_NAMES = 'for device; do readlink -f -- "$device"; done'
_JSON = ("--reportformat", "json", "--units", "b", "--nosuffix")


def ask(group: Group, fields: str, *mapped: str) -> list[Command]:
    """What `read` understands: the group, its volumes with `fields`, table and status of the volumes `mapped`."""
    return [
        sh(_NAMES, *group.devices),
        group.command("pvs", *_JSON, "--segments", "--options", _PV_FIELDS, "--select", f"vg_name={group.name}"),
        group.command("lvs", *_JSON, "--all", "--options", f"{_LV_FIELDS},{fields}",
                      "--select", f"vg_name={group.name}"),
        *(run("dmsetup", word, group.mapped(name)) for name in mapped for word in ("table", "status")),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Found:
    """What is there, as far as it could be read."""

    devices: tuple[str, ...]  # the kernel's names of the devices below, "vdb"
    segments: tuple[Mapping[str, str], ...]
    volumes: Mapping[str, Mapping[str, str]]  # by name; hidden ones too, without their brackets
    tables: Mapping[str, str]  # of the volumes that were asked for, as device mapper has them
    states: Mapping[str, str]

    def size_bytes(self, volume: str) -> int | None:
        return whole(self.volumes.get(volume, {}).get("lv_size"))

    @property
    def where(self) -> str:
        return " and ".join(self.devices) or "no device"


def read(layer: str, group: Group, seen: Sequence[Completed], *mapped: str) -> tuple[Found, list[str]]:
    """What `ask` brought, and what is wrong with it whatever the layer is: devices lost, volumes that do not run."""
    names, pvs, lvs = output(seen, 0), _rows(output(seen, 1), "pvseg"), _rows(output(seen, 2), "lv")
    found = Found(
        tuple(line.removeprefix("/dev/") for line in (names.stdout.split() if names else ())),
        pvs or (),
        {row.get("lv_name", "").strip("[]"): row for row in lvs or ()},
        {name: _line(seen, 3 + 2 * at) for at, name in enumerate(mapped)},
        {name: _line(seen, 4 + 2 * at) for at, name in enumerate(mapped)},
    )
    wrong = []
    if len(found.devices) != len(group.devices):
        wrong.append(f"{layer}: the devices below cannot be found: {_why(seen, 0)}.")
    if pvs is None:
        wrong.append(f"{layer}: the devices of the volume group on {found.where} cannot be read: {_why(seen, 1)}.")
    else:
        wrong += _membership(layer, group, found)
    if lvs is None:
        wrong.append(f"{layer}: the volumes on {found.where} cannot be read: {_why(seen, 2)}.")
    for at, name in enumerate(mapped):
        volume = group.full(name)
        for index, word in ((3 + 2 * at, "table"), (4 + 2 * at, "state")):
            if not _line(seen, index):
                wrong.append(f"{layer}: the kernel shows no {word} of {volume} on {found.where}: {_why(seen, index)}.")
    return found, wrong


def whole(text: str | None) -> int | None:
    """A whole number as LVM and the kernel print it; None for anything else."""
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,19}", text) else None


def fraction(text: str) -> tuple[int, int] | None:
    """used/total, as device mapper prints it."""
    used, _, total = text.partition("/")
    numbers = whole(used), whole(total)
    return (numbers[0], numbers[1]) if numbers[0] is not None and numbers[1] is not None else None


def numbers_after(state: str, target: str) -> list[str]:
    """The words of a one-line table or status behind the name of its target; [] if it is of another target."""
    words = state.split()
    return words[3:] if len(words) > 3 and words[2] == target and "\n" not in state.strip() else []


def field_differences(
    layer: str, group: Group, found: Found, volume: str, asked: Mapping[str, tuple[str, str | None]]
) -> list[str]:
    """`asked`: column of lvs -> what it is for people, and what it must be; None: as it pleases LVM."""
    row = found.volumes.get(volume)
    if row is None:
        return [f"{layer}: there is no volume {group.full(volume)} on {found.where}."]
    return [
        f"{layer}: {what} of {group.full(volume)} on {found.where} is {row.get(column) or 'unknown'} "
        f"instead of {expected}."
        for column, (what, expected) in asked.items()
        if expected is not None and row.get(column) != expected
    ]


def _membership(layer: str, group: Group, found: Found) -> list[str]:
    names = dict(zip(group.uuids, found.devices, strict=False))
    here = {row.get("pv_uuid", ""): row for row in found.segments}
    wrong = []
    for uuid in group.uuids:
        row = here.get(uuid)
        if row is None or row.get("pv_missing"):
            wrong.append(f"{layer}: the volume group {group.name} has lost {names.get(uuid, 'a device')}.")
    return wrong + [
        f"{layer}: the volume group {group.name} is also on {row.get('pv_name') or 'a device'}, which is not ours."
        for uuid, row in here.items()
        if uuid not in group.uuids
    ]


def _why(seen: Sequence[Completed], index: int) -> str:
    """Without the full stop that LVM and dmsetup end their sentences with."""
    return said(seen, index).rstrip(".")


def _line(seen: Sequence[Completed], index: int) -> str:
    shown = output(seen, index)
    return shown.stdout.strip() if shown else ""


def _rows(answer: Completed | None, key: str) -> tuple[Mapping[str, str], ...] | None:
    """The rows of a report in JSON; None when it is not one."""
    try:
        rows = json.loads(answer.stdout if answer else "")["report"][0][key]
        return tuple({str(name): str(value) for name, value in row.items()} for row in rows)
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
