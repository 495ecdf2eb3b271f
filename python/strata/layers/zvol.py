"""A volume in the ZFS pool below, as a block device."""

from __future__ import annotations

from collections.abc import Sequence

from strata.errors import BadInput
from strata.layers._device import SETTLE, await_node
from strata.layers._driver import Driver
from strata.layers._steps import output, run, said, sh
from strata.layers._zfs import (
    COMMON,
    TOOLS,
    ask_properties,
    chosen,
    holding,
    power_of_two,
    properties_of,
    property_differences,
    snapshots,
    zfs_reasons,
)
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

MIB = 1 << 20

PROPERTIES = COMMON

INFO = LayerInfo(
    name="zvol",
    about="A volume in the ZFS pool below.",
    params=(
        Param("size", ParamType.SIZE, "its size; without it, three quarters of what the pool can hold", minimum=MIB),
        Param(
            "volblocksize",
            ParamType.SIZE,
            "size of its blocks; ZFS chooses 16K (before 2.2: 8K)",
            minimum=512,
            maximum=128 << 10,
        ),
        Param("sparse", ParamType.FLAG, "do not reserve its room in the pool", default=False),
        *(each.param for each in PROPERTIES),
    ),
    accepts=frozenset({Kind.DIRECTORY}),
    provides=Kind.BLOCK,
    block=BlockBehaviour(queue=False),
    tools={**TOOLS, "blockdev": "util-linux", "udevadm": "udev"},
    offers=frozenset({"snapshot"}),
    needs="volume",
)

# $1 volume. udev may look at the device for a moment after what used it has gone.
_DESTROY = (
    SETTLE
    + """\
for pause in 0 0.1 0.2 0.4 0.8 1.6 3; do
  sleep "$pause"; settle
  zfs list -H -o name "$1" >/dev/null 2>&1 || exit 0
  if said=$(zfs destroy -r "$1" 2>&1); then exit 0; fi
done
echo "$said" >&2
exit 1"""
)


class ZvolDriver(Driver):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        reasons = zfs_reasons(spec, facts, self.info.tools, PROPERTIES)
        block, size = spec["volblocksize"], spec["size"]
        if block is not None and (wrong := power_of_two("volblocksize")(block)):
            reasons.append(wrong)
        elif block is not None and size is not None and int(size) % int(block):
            reasons.append(
                f"zvol(size={format_size(int(size))}) is not a multiple of volblocksize={format_size(int(block))}; "
                "round it."
            )
        return reasons

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        volume = _volume(below[0], place)
        return Provides(
            Kind.BLOCK,
            f"/dev/zvol/{volume}",
            _size_bytes(spec, below[0]),
            name=volume,
            can={"snapshot": lambda count: snapshots(volume, count)},
            snapshots=holding(volume),
        )

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        volume = _volume(below[0], place)
        argv = ["zfs", "create", *(["-s"] if spec["sparse"] else []), "-V", str(_size_bytes(spec, below[0]))]
        if spec["volblocksize"] is not None:
            argv += ["-o", f"volblocksize={spec['volblocksize']}"]
        argv += [word for each, value in chosen(PROPERTIES, spec) for word in ("-o", f"{each.name}={each.text(value)}")]
        return [
            Step(run(*argv, volume), sh(_DESTROY, volume), "make the volume"),
            Step(
                await_node(f"/dev/zvol/{volume}"),
                None,
                "wait for its device",
                again=await_node(f"/dev/zvol/{volume}"),
            ),
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        volume = _volume(below[0], place)
        names = ["volsize", "volblocksize", "refreservation", *(each.name for each, _ in chosen(PROPERTIES, spec))]
        return [
            ask_properties("zfs", names, volume),
            run("blockdev", "--getsize64", f"/dev/zvol/{volume}"),
            run("readlink", "-f", "--", f"/dev/zvol/{volume}"),
        ]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        volume, size = _volume(below[0], place), str(_size_bytes(spec, below[0]))
        now = properties_of(seen, 0)
        if not now:
            return [f"The volume {volume} is not there: {said(seen, 0)}."]
        wrong = property_differences(volume, chosen(PROPERTIES, spec), now)
        if now.get("volsize") != size:
            wrong.append(f"{volume} has {now.get('volsize', 'unknown')} bytes instead of {size}.")
        block = spec["volblocksize"]
        if block is not None and now.get("volblocksize") != str(block):
            wrong.append(f"{volume} has blocks of {now.get('volblocksize', 'unknown')} bytes instead of {block}.")
        if (now.get("refreservation") in {"0", "none"}) is not bool(spec["sparse"]):
            wrong.append(f"{volume} reserves {now.get('refreservation', 'unknown')} bytes, which was not asked for.")
        device, node = output(seen, 1), output(seen, 2)
        if device is None or device.stdout.strip() != size:
            what = f"has {device.stdout.strip()} bytes" if device else f"is not there: {said(seen, 1)}"
            wrong.append(f"The device of {volume} {what}.")
        if node is None or not node.stdout.startswith("/dev/zd"):
            what = node.stdout.strip() if node else said(seen, 2)
            wrong.append(f"/dev/zvol/{volume} is no device of ZFS: {what}.")
        return wrong


def _volume(pool: Provides, place: Place) -> str:
    if pool.name is None:
        raise BadInput("zvol has to stand on zfs itself, and something stands between them; put it right on the pool.")
    if pool.held:
        raise BadInput(
            "zvol makes a volume beside the root data set of the pool, and snapshots of that have nothing of it; put "
            "snapshot above zvol."
        )
    return f"{pool.name}/{place.name}"


def _size_bytes(spec: Call, pool: Provides) -> int:
    """As requested, or what leaves room for the parity and padding that small blocks take on raidz."""
    if spec["size"] is not None:
        return int(spec["size"])
    if pool.size_bytes is None:
        raise BadInput("the size of the pool below is not known; write zvol(size=...).")
    return pool.size_bytes * 3 // 4 // MIB * MIB


DRIVER = ZvolDriver()
