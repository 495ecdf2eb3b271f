"""An LVM volume with a faster device as its cache (dm-cache)."""

from __future__ import annotations

from collections.abc import Sequence

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

CACHE = "cache"
CHUNK_UNIT_BYTES = 32 << 10
SECTOR_BYTES = 512

_COUNTED = (
    Metric("lvmcache.read_hits", "count", "neither", "reads answered by the cache since it was made"),
    Metric("lvmcache.read_misses", "count", "neither", "reads answered by the volume below since it was made"),
    Metric("lvmcache.write_hits", "count", "neither", "writes to blocks in the cache since it was made"),
    Metric("lvmcache.write_misses", "count", "neither", "writes to blocks that were not in it, since it was made"),
)
"""What dm-cache counts, in its order. Source: Linux Documentation, device-mapper/cache.rst."""

INFO = LayerInfo(
    name="lvmcache",
    about="An LVM volume over all inputs but the last, cached on the last one.",
    params=(
        Param(
            "mode",
            ParamType.CHOICE,
            "whether a write is done when it is in the cache or when it is on both",
            default="writethrough",
            choices=("writethrough", "writeback", "passthrough"),
            positional=True,
        ),
        Param(
            "type",
            ParamType.CHOICE,
            "data and metadata of the cache in volumes of their own (pool) or in one (vol)",
            default="pool",
            choices=("pool", "vol"),
        ),
        Param("policy", ParamType.CHOICE, "what decides what is cached", default="smq", choices=("smq", "cleaner")),
        Param(
            "chunk",
            ParamType.SIZE,
            "the unit of caching; LVM chooses 64K, or more for a cache of more than a million chunks",
            minimum=CHUNK_UNIT_BYTES,
            maximum=1 << 30,
        ),
        Param(
            "size", ParamType.SIZE, "size of the cache; without it, all of its device", minimum=2 * _lvm.EXTENT_BYTES
        ),
    ),
    accepts=frozenset({Kind.BLOCK}),
    provides=Kind.BLOCK,
    block=BlockBehaviour(queue=False),
    many=True,
    tools={**_lvm.TOOLS, "lvconvert": "lvm2", "cache_check": "thin-provisioning-tools"},
    metrics=(
        *_COUNTED,
        Metric("lvmcache.used_bytes", "bytes", "neither", "how much of the cache holds data"),
        Metric("lvmcache.dirty_bytes", "bytes", "lower", "how much of it is not on the volume below yet"),
    ),
)

# $1 group, $2 volume, the rest: settings and devices. What is dirty is written out first, by LVM itself. When a device
# of the group is lost there is nothing to write out or nowhere to: then the cache goes with the volume.
_DETACH = """\
group=$1 volume=$2; shift 2
found=$(lvs --noheadings --options vg_missing_pv_count \\
  --select "vg_name=$group && lv_name=$volume && segtype=cache" "$@") || exit 1
[ "$((found))" -gt 0 ] || [ -z "$found" ] || lvconvert -qq --yes "$@" --splitcache "$group/$volume\""""


class LvmCacheDriver(Driver):
    info = INFO

    def arity_reasons(self, spec: Call, inputs: int) -> list[str]:
        if inputs >= 2:
            return []
        reason = (
            "lvmcache takes at least two devices, of which the last is the cache and the others are what it caches, "
            "and here is one; write hdd + ssd | lvmcache."
        )
        return [reason]

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        reasons = _lvm.lvm_reasons("lvmcache", facts, self.info.tools, ["dm_cache", "dm_cache_smq"])
        if spec["chunk"] is not None and int(spec["chunk"]) % CHUNK_UNIT_BYTES:
            reasons.append(f"lvmcache(chunk={format_size(int(spec['chunk']))}) is not a multiple of 32K; round it.")
        if spec["policy"] == "cleaner" and spec["mode"] == "writeback":
            reasons.append(
                "LVM refuses the policy cleaner, which writes everything out, with writeback; take "
                "lvmcache(writethrough, policy=cleaner), or the policy smq."
            )
        return reasons

    def holds_copies(self, spec: Call) -> bool:
        # lvmcache(7), --cachemode: of writethrough "the loss of a device ... would not mean the loss of any data"
        return spec["mode"] != "writeback"

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        group = _lvm.group_on(below, place)
        if spec["size"] is not None:
            _lvm.must_fit("lvmcache", "a cache", int(spec["size"]), _lvm.room_bytes(below[-1:]))
        return Provides(
            Kind.BLOCK,
            group.path(VOLUME),
            _lvm.room_bytes(below[:-1]),
            ours=all(each.ours for each in below),
            name=group.full(VOLUME),
        )

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        group, pool = _lvm.group_on(below, place), spec["type"] == "pool"
        *origins, fast = group.devices
        size = ("--extents", "100%PVS") if spec["size"] is None else ("--size", _lvm.in_bytes(spec["size"]))
        # A spare copy of the pool's metadata would lie on the slow devices or cost room on the fast one.
        kind = ("--type", "cache-pool", "--poolmetadataspare", "n") if pool else ("--type", "linear")
        chunk = () if spec["chunk"] is None else ("--chunksize", _lvm.in_bytes(spec["chunk"]))
        attach = ["--type", "cache", "--cachepool" if pool else "--cachevol", group.full(CACHE)]
        attach += ["--cachemode", str(spec["mode"]), "--cachepolicy", str(spec["policy"])]
        return [
            *_lvm.make_group(group),
            _lvm.make_volume(group, VOLUME, "make the volume", "--type", "linear", "--extents", "100%PVS",
                        "--name", VOLUME, group.name, *origins),
            _lvm.make_volume(group, CACHE, "make the cache", *kind, *(chunk if pool else ()), *size,
                        "--name", CACHE, group.name, fast),
            Step(
                group.command("lvconvert", "-qq", "--yes", *attach, *(() if pool else chunk), group.full(VOLUME),
                              timeout_s=_lvm.LONG_S),
                group.script(_DETACH, group.name, VOLUME),
                "put the cache before the volume; undone, write out what is dirty and take it away",
            ),
        ]  # fmt: skip

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return _lvm.ask(_lvm.group_on(below, place), "chunk_size,cache_mode,kernel_cache_policy,pool_lv", VOLUME)

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        group = _lvm.group_on(below, place)
        found, wrong = _lvm.read("lvmcache", group, seen, VOLUME)
        hidden = f"{CACHE}_cpool" if spec["type"] == "pool" else f"{CACHE}_cvol"
        wrong += _lvm.field_differences(
            "lvmcache",
            group,
            found,
            VOLUME,
            {
                "segtype": ("the type", "cache"),
                "pool_lv": ("the cache", f"[{hidden}]"),
                "cache_mode": ("the mode", str(spec["mode"])),
                "chunk_size": ("the chunk size", None if spec["chunk"] is None else str(spec["chunk"])),
            },
        )
        size = found.size_bytes(hidden)
        if spec["size"] is not None and size is not None and size != _lvm.rounded(int(spec["size"])):
            wrong.append(f"lvmcache: the cache on {found.devices[-1]} has {size} bytes instead of {spec['size']}.")
        wrong += _placement_differences(group, found) + _policy_differences(spec, group, found)
        return wrong + _state_differences(group, found)

    def plan_figures(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [run("dmsetup", "status", _lvm.group_on(below, place).mapped(VOLUME))]

    def figures(
        self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]
    ) -> dict[str, float]:
        state = output(seen, 0)
        words = _lvm.numbers_after(state.stdout if state else "", "cache")
        # <metadata block> <used>/<there> <chunk, sectors> <used>/<there> <the four counts> <demoted> <promoted> <dirty>
        if len(words) < 11:
            return {}
        counts = {metric.name: _lvm.whole(word) for metric, word in zip(_COUNTED, words[4:8], strict=True)}
        chunk, used, dirty = _lvm.whole(words[2]), _lvm.fraction(words[3]), _lvm.whole(words[10])
        if chunk is not None and used is not None:
            counts["lvmcache.used_bytes"] = used[0] * chunk * SECTOR_BYTES
        if chunk is not None and dirty is not None:
            counts["lvmcache.dirty_bytes"] = dirty * chunk * SECTOR_BYTES
        return {name: float(count) for name, count in counts.items() if count is not None}


def _policy_differences(spec: Call, group: _lvm.Group, found: _lvm.Found) -> list[str]:
    """With a cachevol LVM 2.03.31 loads smq by its old name: mq has been an alias of smq since Linux 4.6."""
    policy = found.volumes.get(VOLUME, {}).get("kernel_cache_policy", "")
    asked = str(spec["policy"])
    if policy == asked or (policy, asked) == ("mq", "smq") or VOLUME not in found.volumes:
        return []
    return [
        f"lvmcache: the policy of {group.full(VOLUME)} on {found.where} is {policy or 'unknown'} instead of {asked}."
    ]


def _placement_differences(group: _lvm.Group, found: _lvm.Found) -> list[str]:
    """The cache must be on the last device and nothing else there: the other way round it would be a brake."""
    names = dict(zip(group.uuids, found.devices, strict=False))
    wrong = []
    for row in found.segments:
        uuid, volume = row.get("pv_uuid", ""), row.get("lv_name", "").strip("[]")
        on_fast = uuid == group.uuids[-1]
        if volume and uuid in names and volume.startswith(CACHE) is not on_fast:
            wrong.append(f"lvmcache: {group.full(volume)} lies on {names[uuid]}, where it does not belong.")
    return wrong


def _state_differences(group: _lvm.Group, found: _lvm.Found) -> list[str]:
    state = found.states[VOLUME]
    words = _lvm.numbers_after(state, "cache")
    if not state:
        return []  # said already
    if "Fail" in words:
        return [f"lvmcache: the cache of {group.full(VOLUME)} on {found.where} has failed; look at the kernel's log."]
    if not words or "ro" in words or "needs_check" in words:
        return [f"lvmcache: {group.full(VOLUME)} on {found.where} does not cache any more: {state}."]
    return []


DRIVER = LvmCacheDriver()
