"""One partition over a device."""

from __future__ import annotations

import re
from collections.abc import Sequence

from strata.errors import BadInput
from strata.layers._driver import Driver
from strata.layers._steps import output, remove_link, said, sh, standard_reasons
from strata.model import (
    BlockBehaviour,
    Call,
    Command,
    Completed,
    Facts,
    Kind,
    LayerInfo,
    Param,
    ParamType,
    Place,
    Provides,
    Step,
)
from strata.units import format_size

SECTOR_BYTES = 512
MIB = 1 << 20

INFO = LayerInfo(
    name="partition",
    about="One partition on the device below.",
    params=(
        Param("table", ParamType.CHOICE, "kind of partition table", default="gpt", choices=("gpt", "dos")),
        Param("start", ParamType.SIZE, "where the partition starts", default=MIB, minimum=SECTOR_BYTES),
        Param("size", ParamType.SIZE, "its size; without it, all that is left", minimum=SECTOR_BYTES),
    ),
    accepts=frozenset({Kind.BLOCK}),
    provides=Kind.BLOCK,
    block=BlockBehaviour(queue=None),
    tools={
        "sfdisk": "fdisk",
        "partx": "util-linux",
        "wipefs": "util-linux",
        "blkid": "util-linux",
        "blockdev": "util-linux",
    },
)

# $1 device, $2 table, $3 label id, $4 start and $5 size in bytes ("" for all that is left). sfdisk counts in the
# sectors of the device. Told in sectors it takes them as they are; told in KiB it would align them.
_WRITE = """\
sector=$(blockdev --getss "$1") || exit 1
size=${5:+size=$(($5 / sector)),}
printf 'label: %s\\nlabel-id: %s\\nstart=%d, %s type=linux\\n' "$2" "$3" "$(($4 / sector))" "$size" |
  sfdisk --quiet --no-reread --no-tell-kernel --wipe always --wipe-partitions always -- "$1\""""

# $1 device, $2 link to make. partx tells the kernel even if it cannot read partition tables itself. The node may
# come a moment later, from udev or the kernel. A disk whose name ends in a digit takes a p before the number.
_PART = """\
disk=$(readlink -f -- "$1")
case $disk in *[0-9]) part=${disk}p1 ;; *) part=${disk}1 ;; esac
"""
_TELL_KERNEL = 'partx --update -- "$disk" || exit 1\n'
_LINK = """\
for pause in 0.05 0.1 0.2 0.4 0.8 1 2 ''; do
  if [ -b "$part" ]; then ln -s -- "$part" "$2"; exit; fi
  [ -n "$pause" ] && sleep "$pause"
done
echo "the kernel made no $part: look at dmesg for the reason" >&2
exit 1"""
_FIND = _PART + _TELL_KERNEL + _LINK

# At boot the kernel has mostly read the table itself. partx would remove the partition and add it again, and systemd
# then stops the mount that has just begun.
_FIND_AGAIN = 'rm -f -- "$2"\n' + _PART + '[ -b "$part" ] || ' + _TELL_KERNEL + _LINK

# $1 device, $2 label id. Only a table with our id is removed, and with it what the kernel knows of its partition.
_REMOVE = """\
[ -b "$1" ] || exit 0
[ "$(blkid --probe --match-tag PTUUID --output value -- "$1")" = "$2" ] || exit 0
disk=$(readlink -f -- "$1")
for known in "/sys/class/block/$(basename -- "$disk")"/*/partition; do
  if [ -e "$known" ]; then partx --delete --nr "$(cat "$known")" -- "$disk" || exit 1; fi
done
wipefs --quiet --all --types gpt,dos,PMBR -- "$disk\""""

_SHOW = """\
disk=$(readlink -f -- "$1"); part=$(readlink -f -- "$2")
node=/sys/class/block/$(basename -- "$part")
echo "parent=/dev/$(basename -- "$(dirname -- "$(readlink -f -- "$node")")")"
echo "disk=$disk"
echo "start=$(cat "$node/start")"
echo "size=$(cat "$node/size")"
blkid --probe --output export -- "$disk\""""


class PartitionDriver(Driver):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        reasons = standard_reasons(facts, self.info.tools)
        for name in ("start", "size"):
            if spec[name] is not None and int(spec[name] or 0) % SECTOR_BYTES:
                reasons.append(f"partition({name}={spec[name]}) is not a multiple of 512 bytes; round it.")
        return reasons

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        return Provides(Kind.BLOCK, f"{place.dir}/device", _size_bytes(spec, below[0]), ours=below[0].ours)

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        device, link, label = (below[0].path, f"{place.dir}/device", _label_id(spec, place))
        size = _size_bytes(spec, below[0])
        return [
            Step(
                sh(_WRITE, device, str(spec["table"]), label, str(spec["start"]), str(size or "")),
                sh(_REMOVE, device, label.removeprefix("0x")),
                f"write the {spec['table']} partition table",
            ),
            Step(
                sh(_FIND, device, link),
                remove_link(link),
                "find the partition",
                again=sh(_FIND_AGAIN, device, link),  # the kernel may call it otherwise now
            ),
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [sh(_SHOW, below[0].path, f"{place.dir}/device")]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        shown = output(seen, 0)
        if shown is None:
            return [f"The partition cannot be read: {said(seen, 0)}."]
        fields = dict(line.split("=", 1) for line in shown.stdout.splitlines() if "=" in line)
        wrong = []
        if "disk" not in fields or fields.get("parent") != fields["disk"]:
            wrong.append(f"The partition is on {fields.get('parent')} instead of {fields.get('disk')}.")
        size = _size_bytes(spec, below[0])
        for name, asked in (("start", spec["start"]), ("size", size)):
            now = fields.get(name, "")
            now_bytes = int(now) * SECTOR_BYTES if re.fullmatch(r"[0-9]{1,18}", now) else None
            if asked is not None and now_bytes != asked:
                wrong.append(f"The partition's {name} is {now_bytes} bytes instead of {asked}.")
        if fields.get("PTTYPE") != spec["table"]:
            wrong.append(f"The partition table is {fields.get('PTTYPE')} instead of {spec['table']}.")
        if fields.get("PTUUID") != _label_id(spec, place).removeprefix("0x"):
            wrong.append(f"The partition table has the id {fields.get('PTUUID')}, which is not ours.")
        return wrong


def _label_id(spec: Call, place: Place) -> str:
    """The id by which the table can be told from anybody else's: a GUID, or 32 bits of it."""
    return place.uuid.lower() if spec["table"] == "gpt" else f"0x{place.uuid[:8].lower()}"


def _size_bytes(spec: Call, below: Provides) -> int | None:
    """As requested, or all that is left in whole MiB, with room for GPT's second table at the end.

    None when the device's size is not known. Raises BadInput when the partition does not fit.
    """
    start, asked = int(spec["start"] or 0), spec["size"]
    if below.size_bytes is None:
        return None if asked is None else int(asked)
    room = (below.size_bytes - start - MIB) // MIB * MIB
    if room < (1 if asked is None else int(asked)):
        raise BadInput(
            f"The partition does not fit: the device has {format_size(below.size_bytes)}, it starts at "
            f"{format_size(start)}" + (f" and asks for {format_size(int(asked))}" if asked is not None else "")
            + "; make it smaller or the disk larger."
        )  # fmt: skip
    return room if asked is None else int(asked)


DRIVER = PartitionDriver()
