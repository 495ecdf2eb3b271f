"""A thin LVM volume in a pool of its own: room is given out when it is first written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

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

POOL = "pool"
TPOOL = "pool-tpool"
"""The pool itself, as device mapper knows it."""

CHUNK_UNIT_BYTES = 64 << 10
SECTOR_BYTES = 512

INFO = LayerInfo(
    name="lvmthin",
    about="A thin LVM volume in a pool over one device or several.",
    params=(
        Param("zero", ParamType.FLAG, "fill a chunk with zeros before its first use, as LVM does", default=True),
        Param(
            "chunk",
            ParamType.SIZE,
            "the unit in which the pool gives out room; LVM chooses 64K or what keeps the metadata small",
            minimum=CHUNK_UNIT_BYTES,
            maximum=1 << 30,
        ),
        Param("metadata", ParamType.SIZE, "room for the pool's metadata", minimum=2 << 20, maximum=16 << 30),
        Param(
            "discards",
            ParamType.CHOICE,
            "what becomes of discards: handed to the disk too, kept in the pool, or ignored",
            default="passdown",
            choices=("passdown", "nopassdown", "ignore"),
        ),
        Param(
            "size",
            ParamType.SIZE,
            "how large the volume seems; without it, as large as the pool",
            minimum=_lvm.EXTENT_BYTES,
        ),
    ),
    accepts=frozenset({Kind.BLOCK}),
    provides=Kind.BLOCK,
    block=BlockBehaviour(queue=False),
    many=True,
    tools={**_lvm.TOOLS, "lvchange": "lvm2", "thin_check": "thin-provisioning-tools"},
    metrics=(
        Metric("lvmthin.logical_bytes", "bytes", "neither", "what the volume holds, in whole chunks"),
        Metric(
            "lvmthin.physical_bytes", "bytes", "lower", "what the pool has given out, to the volume and its snapshots"
        ),
        Metric("lvmthin.metadata_pct", "%", "lower", "how much of the room for metadata is used"),
    ),
    offers=frozenset({"snapshot"}),
)

# $1 group, $2 pool, $3 volume, the rest: settings and devices. How large the pool came out is known now.
_MAKE_AS_LARGE = """\
group=$1 pool=$2 volume=$3; shift 3
size=$(lvs --noheadings --nosuffix --units b --options lv_size "$@" "$group/$pool") || exit 1
lvcreate -qq --yes "$@" --type thin --virtualsize "$((size))b" --thinpool "$pool" --name "$volume" "$group\""""


class LvmThinDriver(Driver):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        reasons = _lvm.lvm_reasons("lvmthin", facts, self.info.tools, ["dm_thin_pool"])
        if spec["chunk"] is not None and int(spec["chunk"]) % CHUNK_UNIT_BYTES:
            reasons.append(f"lvmthin(chunk={format_size(int(spec['chunk']))}) is not a multiple of 64K; round it.")
        return reasons

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        group = _lvm.group_on(below, place)
        size = _lvm.room_bytes(below) if spec["size"] is None else _lvm.rounded(int(spec["size"]))
        return Provides(
            Kind.BLOCK,
            group.path(VOLUME),
            size,
            ours=all(each.ours for each in below),
            name=group.full(VOLUME),
            thin_pool=group.mapped(TPOOL),
            snapshots=_holding(group, VOLUME),
            can={"snapshot": partial(_numbered, group, VOLUME)},
            split=lambda count: _split(group, size, count, ours=all(each.ours for each in below)),
        )

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        group = _lvm.group_on(below, place)
        how = ["--type", "thin-pool", "--extents", "100%FREE", "--zero", "y" if spec["zero"] else "n"]
        if spec["chunk"] is not None:
            how += ["--chunksize", _lvm.in_bytes(spec["chunk"])]
        if spec["metadata"] is not None:
            how += ["--poolmetadatasize", _lvm.in_bytes(spec["metadata"])]
        pool = _lvm.make_volume(group, POOL, "make the thin pool", *how, "--discards", str(spec["discards"]),
                           "--name", POOL, group.name)  # fmt: skip
        # Not an argument of lvcreate: it refuses --errorwhenfull while the kernel has not loaded dm_thin_pool yet.
        # Undone with the pool. A pool that is to stay waits instead, as LVM does, for somebody to extend it (60 s).
        full = Step(
            group.command("lvchange", "-qq", "--yes", "--errorwhenfull", "y", group.full(POOL)),
            None,
            "make writes fail at once when the pool is full",
        )
        return [*_lvm.make_group(group), pool, *([] if place.stays else [full]), _make(spec, group)]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return _lvm.ask(
            _lvm.group_on(below, place), "chunk_size,zero,discards,lv_when_full,lv_metadata_size", TPOOL, VOLUME
        )

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        group = _lvm.group_on(below, place)
        found, wrong = _lvm.read("lvmthin", group, seen, TPOOL, VOLUME)
        metadata = None if spec["metadata"] is None else str(_lvm.rounded(int(spec["metadata"])))
        wrong += _lvm.field_differences(
            "lvmthin",
            group,
            found,
            POOL,
            {
                "segtype": ("the type", "thin-pool"),
                "zero": ("zeroing", "zero" if spec["zero"] else ""),
                "chunk_size": ("the chunk size", None if spec["chunk"] is None else str(spec["chunk"])),
                "discards": ("the way of discards", str(spec["discards"])),
                "lv_when_full": ("what happens when it is full", "queue" if place.stays else "error"),
                "lv_metadata_size": ("the room for metadata", metadata),
            },
        )
        wrong += _lvm.field_differences("lvmthin", group, found, VOLUME, {"segtype": ("the type", "thin")})
        size = found.size_bytes(VOLUME)
        if spec["size"] is not None and size is not None and size != _lvm.rounded(int(spec["size"])):
            wrong.append(f"lvmthin: {group.full(VOLUME)} on {found.where} has {size} bytes instead of {spec['size']}.")
        return wrong + _pool_differences(group, found)

    def to_stay(self, spec: Call) -> dict[str, Instead]:
        if spec["chunk"] is not None:
            return {}
        why = (
            "LVM chooses 64K for a pool of up to 128G, as most are that are measured, and more for a larger one (512K "
            "for 1T), whose first writes then cost more; where the pool measured was larger than 128G, write "
            "lvmthin(chunk=...). A pool of more than 15T needs a larger chunk in any case: its metadata, some 64 bytes "
            "a chunk, may take 16G at most, and data are lost where they run out"
        )
        return {"chunk": Instead(CHUNK_UNIT_BYTES, why)}

    def plan_figures(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        group = _lvm.group_on(below, place)
        return [
            run("dmsetup", "table", group.mapped(TPOOL)),
            run("dmsetup", "status", group.mapped(TPOOL)),
            run("dmsetup", "status", group.mapped(VOLUME)),
        ]

    def figures(
        self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]
    ) -> dict[str, float]:
        table, state, volume = (answer.stdout if (answer := output(seen, index)) else "" for index in range(3))
        found = {}
        pool, mapped = _usage(state), _lvm.numbers_after(volume, "thin")
        chunk = _lvm.numbers_after(table, "thin-pool")[2:3]
        sectors = _lvm.whole(mapped[0]) if mapped else None
        if sectors:  # none where tenants have volumes of their own in the pool
            found["lvmthin.logical_bytes"] = float(sectors * SECTOR_BYTES)
        if "data" in pool and chunk and (chunk_sectors := _lvm.whole(chunk[0])) is not None:
            found["lvmthin.physical_bytes"] = float(pool["data"][0] * chunk_sectors * SECTOR_BYTES)
        if "metadata" in pool and pool["metadata"][1]:
            used, total = pool["metadata"]
            found["lvmthin.metadata_pct"] = 100.0 * used / total
        return found


def _make(spec: Call, group: _lvm.Group) -> Step:
    if spec["size"] is None:
        make = group.script(_MAKE_AS_LARGE, group.name, POOL, VOLUME)
        return Step(make, _lvm.remove_volume(group, VOLUME), "make the thin volume")
    return _lvm.make_volume(group, VOLUME, "make the thin volume", "--type", "thin", "--virtualsize",
                       _lvm.in_bytes(spec["size"]), "--thinpool", POOL, "--name", VOLUME, group.name)  # fmt: skip


def _split(group: _lvm.Group, size: int | None, count: int, *, ours: bool) -> tuple[list[Step], list[Provides]]:
    """Further thin volumes of the pool, beside the one that holds nothing then; together they seem as large as it."""
    if size is None:
        raise BadInput("the size of the pool below the tenants is not known; write lvmthin(size=...).")
    each = size // count // _lvm.EXTENT_BYTES * _lvm.EXTENT_BYTES
    steps, shares = [], []
    for number in range(1, count + 1):
        name = f"tenant-{number}"
        how = ("--type", "thin", "--virtualsize", _lvm.in_bytes(each), "--thinpool", POOL, "--name", name, group.name)
        steps.append(_lvm.make_volume(group, name, f"make the thin volume of tenant {number}", *how))
        can = {"snapshot": partial(_numbered, group, name)}
        path, full = group.path(name), group.full(name)
        held = _holding(group, name)
        shares.append(Provides(Kind.BLOCK, path, each, ours=ours, name=full, can=can, snapshots=held))
    return steps, shares


# $1 pool and $2 volume as device mapper writes them, $3 group, $4 volume, the rest: settings and devices. The kernel
# commits the metadata of the pool before it says how much is used.
_LOOK_AT_HELD = """\
pool=$1 mapped=$2 group=$3 volume=$4; shift 4
held="vg_name=$group && origin=$volume && lv_name=~\\"held[0-9]+\\$\\""
found=$(lvs --noheadings --options lv_name --select "$held" "$@") &&
  table=$(dmsetup table "$pool") && used=$(dmsetup status "$pool") && state=$(dmsetup status "$mapped") || exit 1
set -- $found; echo "held=$#"
set -- $state; echo "shared=$(($4 * 512))"
set -- $used; used=${6%%/*}
set -- $table; echo "room=$((used * $6 * 512))\""""


def _holding(group: _lvm.Group, volume: str) -> Snapshots:
    mapped = group.mapped(volume.replace("-", "--"))
    return Snapshots(
        take=lambda count: _snapshot(group, volume, [_lvm.held(volume, number + 1) for number in range(count)]),
        drop=_lvm.drop_held(group, volume),
        look=group.script(_LOOK_AT_HELD, group.mapped(TPOOL), mapped, group.name, volume),
    )


def _numbered(group: _lvm.Group, volume: str, count: int) -> list[Step]:
    before = "" if volume == VOLUME else f"{volume}-"
    return _snapshot(group, volume, [f"{before}held-{count}-{number + 1}" for number in range(count)])


def _snapshot(group: _lvm.Group, volume: str, names: Sequence[str]) -> list[Step]:
    """Thin snapshots. They stay inactive, as LVM leaves them: their blocks are shared all the same, and nothing finds
    a second file system with the same UUID."""
    steps = []
    for number, name in enumerate(names, 1):
        how = ("--snapshot", "--name", name, group.full(volume))
        steps.append(_lvm.make_volume(group, name, f"take snapshot {number} of {len(names)}", *how))
    return steps


def _usage(state: str) -> Mapping[str, tuple[int, int]]:
    """Blocks used and there, of metadata and of data. Source: Linux Documentation, thin-provisioning.rst."""
    words = _lvm.numbers_after(state, "thin-pool")
    read_out = {name: _lvm.fraction(word) for name, word in zip(("metadata", "data"), words[1:3], strict=False)}
    return {name: pair for name, pair in read_out.items() if pair is not None}


def _pool_differences(group: _lvm.Group, found: _lvm.Found) -> list[str]:
    state, on = found.states[TPOOL], f"the pool {group.full(POOL)} on {found.where}"
    words, usage = _lvm.numbers_after(state, "thin-pool"), _usage(state)
    if not state:
        return []  # said already
    if "Fail" in words:
        return [f"lvmthin: {on} has failed; look at the kernel's log for the reason."]
    if len(usage) < 2:
        return [f"lvmthin: {on} does not say how much of it is used: {state}."]
    wrong = []
    for name, advice in (("data", "size= smaller than the disk"), ("metadata", "more with metadata=")):
        used, total = usage[name]
        if used >= total:
            room = "is full" if name == "data" else "has no room left for metadata"
            wrong.append(f"lvmthin: {on} {room}: {used} of {total} blocks are used; give it {advice}.")
    if not wrong and ("ro" in words or "needs_check" in words or "out_of_data_space" in words):
        wrong.append(f"lvmthin: {on} does not take writes any more: {state}.")
    return wrong


DRIVER = LvmThinDriver()
