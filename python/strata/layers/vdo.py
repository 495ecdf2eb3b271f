"""An LVM VDO volume: blocks are deduplicated and compressed before they are written.

VDO takes discards in blocks of 4 KiB, LVM's default, so a mkfs that discards the whole device takes long on it (5 GiB:
59 s, emulated); lvmvdo(7) advises ext4(mkfs="-E nodiscard") and xfs(mkfs=-K).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from strata.errors import BadInput
from strata.layers import _lvm
from strata.layers._driver import Driver
from strata.layers._lvm import VOLUME
from strata.layers._steps import output, run
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

POOL = "pool"
VPOOL = "pool-vpool"
"""The pool itself, as device mapper knows it."""

BLOCK_BYTES = 4096
OWN_BYTES = 2782 << 20
"""What VDO keeps for itself: vdoformat asks for 2 916 438 016 bytes and the first slab (vdo 8.3.1, every slab size
tried). Most of it is the index of known blocks, whose smallest size is LVM's default."""

SMALLEST_SLAB_BYTES = 128 << 20
DEFAULT_SLAB_BYTES = 2 << 30
SLABS = 8
"""Room is given out in whole slabs, so up to one is lost: with eight of them, no more than an eighth."""

INFO = LayerInfo(
    name="vdo",
    about="An LVM VDO volume over one device or several: deduplicated and compressed.",
    params=(
        Param("compression", ParamType.FLAG, "compress blocks, as LVM does", default=True),
        Param("deduplication", ParamType.FLAG, "store equal blocks once, as LVM does", default=True),
        Param("size", ParamType.SIZE, "size of the pool; without it, all that is free"),
        Param(
            "virtual",
            ParamType.SIZE,
            "how large the volume seems; without it, what the pool holds of blocks that are all different",
            minimum=_lvm.EXTENT_BYTES,
        ),
        Param(
            "slab",
            ParamType.SIZE,
            "the unit in which the pool manages its room; without it, LVM's default of 2G where eight fit, "
            "else the largest of which eight fit, but no less than 128M",
            minimum=SMALLEST_SLAB_BYTES,
            maximum=32 << 30,
        ),
    ),
    accepts=frozenset({Kind.BLOCK}),
    provides=Kind.BLOCK,
    block=BlockBehaviour(queue=False),
    many=True,
    tools={**_lvm.TOOLS, "vdoformat": "vdo", "vdostats": "vdo"},
    metrics=(
        Metric("vdo.logical_bytes", "bytes", "neither", "blocks that are in use above, in bytes"),
        Metric("vdo.physical_bytes", "bytes", "lower", "what they take on the disk, VDO's own tables apart"),
        Metric("vdo.overhead_bytes", "bytes", "lower", "what VDO's own tables take"),
        Metric("vdo.savings_pct", "%", "higher", "the part of the logical bytes that need not be stored"),
    ),
)


class VdoDriver(Driver):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        reasons = _lvm.lvm_reasons("vdo", facts, self.info.tools, ["dm_vdo"])
        if "dm_vdo" not in facts.modules and facts.kernel < (6, 9, 0):
            reasons[-1] = f"Linux has VDO (dm_vdo) since 6.9 and this is {facts.kernel_text}; boot a newer kernel."
        slab = spec["slab"]
        if slab is not None and int(slab) & (int(slab) - 1):
            reasons.append(f"vdo(slab={format_size(int(slab))}) is not a power of two; round it.")
        least = OWN_BYTES + int(slab or SMALLEST_SLAB_BYTES)
        if spec["size"] is not None and int(spec["size"]) < least:
            reasons.append(f"vdo(size={format_size(int(spec['size']))}) is too small: {_needs(least)}.")
        return reasons

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        group = _lvm.group_on(below, place)
        _check_room(spec, below)
        pool = _pool_bytes(spec, below)
        size = None if pool is None else max(pool - OWN_BYTES, 0)
        if spec["virtual"] is not None:
            size = _lvm.rounded(int(spec["virtual"]))
        return Provides(
            Kind.BLOCK,
            group.path(VOLUME),
            size,
            ours=all(each.ours for each in below),
            name=group.full(VOLUME),
        )

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        group, slab = _lvm.group_on(below, place), _slab_bytes(spec, _pool_bytes(spec, below))
        size = ("--extents", "100%FREE") if spec["size"] is None else ("--size", _lvm.in_bytes(spec["size"]))
        virtual = () if spec["virtual"] is None else ("--virtualsize", _lvm.in_bytes(spec["virtual"]))
        slabs = () if slab is None else ("--vdosettings", f"slab_size_mb={slab >> 20}")
        return [
            *_lvm.make_group(group),
            _lvm.make_volume(
                group,
                POOL,  # removed with what is on it
                "make the VDO pool and its volume",
                *("--type", "vdo", *size, *virtual, *slabs),
                *("--compression", "y" if spec["compression"] else "n"),
                *("--deduplication", "y" if spec["deduplication"] else "n"),
                *("--name", VOLUME, "--vdopool", POOL, group.name),
            ),
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        columns = "vdo_compression,vdo_deduplication,vdo_slab_size"
        return _lvm.ask(_lvm.group_on(below, place), columns, VPOOL, VOLUME)

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        group, slab = _lvm.group_on(below, place), _slab_bytes(spec, _pool_bytes(spec, below))
        found, wrong = _lvm.read("vdo", group, seen, VPOOL, VOLUME)
        wrong += _lvm.field_differences(
            "vdo",
            group,
            found,
            POOL,
            {
                "segtype": ("the type", "vdo-pool"),
                "vdo_compression": ("compression", "enabled" if spec["compression"] else ""),
                "vdo_deduplication": ("deduplication", "enabled" if spec["deduplication"] else ""),
                "vdo_slab_size": ("the slab size", None if slab is None else str(slab)),
            },
        )
        wrong += _lvm.field_differences("vdo", group, found, VOLUME, {"segtype": ("the type", "vdo")})
        for name, volume in (("size", POOL), ("virtual", VOLUME)):
            now = found.size_bytes(volume)
            if spec[name] is not None and now is not None and now != _lvm.rounded(int(spec[name] or 0)):
                wrong.append(f"vdo: {group.full(volume)} on {found.where} has {now} bytes instead of {spec[name]}.")
        return wrong + _state_differences(spec, group, found)

    def plan_figures(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [run("vdostats", "--verbose", _lvm.group_on(below, place).mapped(VPOOL))]

    def figures(
        self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]
    ) -> dict[str, float]:
        answer = output(seen, 0)
        pairs = re.findall(r"^ *([a-z ]+?) *: ([0-9]{1,18})$", answer.stdout if answer else "", re.MULTILINE)
        blocks = {name: int(count) for name, count in pairs}
        figures = {
            figure: float(blocks[name] * BLOCK_BYTES)
            for figure, name in (
                ("vdo.logical_bytes", "logical blocks used"),
                ("vdo.physical_bytes", "data blocks used"),
                ("vdo.overhead_bytes", "overhead blocks used"),
            )
            if name in blocks
        }
        logical, physical = figures.get("vdo.logical_bytes"), figures.get("vdo.physical_bytes")
        if logical and physical is not None:
            figures["vdo.savings_pct"] = 100.0 * (1.0 - physical / logical)
        return figures


def _needs(least_bytes: int) -> str:
    return (
        f"VDO keeps {format_size(OWN_BYTES)} for itself and gives out whole slabs, so it needs at least "
        f"{format_size(least_bytes)}; make it larger or the slabs smaller (slab=, at least 128M)"
    )


def _pool_bytes(spec: Call, below: Sequence[Provides]) -> int | None:
    """How large the pool will be; None when that is not known."""
    return _lvm.room_bytes(below) if spec["size"] is None else _lvm.rounded(int(spec["size"]))


def _check_room(spec: Call, below: Sequence[Provides]) -> None:
    """Raises BadInput when what is below is too small for VDO or for the size that was asked for, or not known."""
    room = _lvm.room_bytes(below)
    if room is None and spec["size"] is None and spec["slab"] is None:
        # LVM's own 2G would be another stack than the one that was measured, or none on a small device.
        raise BadInput(
            "vdo: its slabs go by the room below, which is not known; say how large the devices are (--size "
            "ROLE=SIZE), or write vdo(slab=...)."
        )
    if spec["size"] is not None:
        _lvm.must_fit("vdo", "a pool", int(spec["size"]), room)
    least = OWN_BYTES + int(spec["slab"] or SMALLEST_SLAB_BYTES)
    if room is not None and room < least:
        raise BadInput(f"vdo: the {format_size(room)} below are too small: {_needs(least)}.")


def _slab_bytes(spec: Call, pool_bytes: int | None) -> int | None:
    """As requested; else by the rule in the argument's description; None: LVM's default."""
    if spec["slab"] is not None or pool_bytes is None:
        return None if spec["slab"] is None else int(spec["slab"])
    slab = DEFAULT_SLAB_BYTES
    while slab > SMALLEST_SLAB_BYTES and slab * SLABS > pool_bytes - OWN_BYTES:
        slab //= 2
    return slab


def _state_differences(spec: Call, group: _lvm.Group, found: _lvm.Found) -> list[str]:
    """Source: Linux Documentation, device-mapper/vdo.rst: device, mode, recovery, index, compression, used, total."""
    state, pool = found.states[VPOOL], f"the pool {group.full(POOL)} on {found.where}"
    words = _lvm.numbers_after(state, "vdo")
    if not state:
        return []  # said already
    if len(words) < 7:
        return [f"vdo: {pool} does not say how it is: {state}."]
    if words[1] != "normal":
        return [f"vdo: {pool} is in the mode {words[1]}; look at the kernel's log for the reason."]
    used, total = _lvm.whole(words[5]), _lvm.whole(words[6])
    wrong = []
    if used is not None and total is not None and used >= total:
        wrong.append(f"vdo: {pool} is full: {used} of {total} blocks are used; make virtual= smaller.")
    if spec["deduplication"] and words[3] not in {"online", "opening"}:
        wrong.append(f"vdo: {pool} does not deduplicate: its index is {words[3]}.")
    return wrong


DRIVER = VdoDriver()
