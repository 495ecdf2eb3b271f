"""A made-up catalogue, wide enough for every example of the design page."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from strata.campaign.source import unprintable
from strata.model import Kind, LayerInfo, Metric, Param, ParamType, Value, WorkloadInfo

# What expressions may hold; `unprintable` has tests of its own.
PRINTABLE = st.characters().filter(lambda one: unprintable(one, "\n\r\t") is None)

P = ParamType
BLOCK, DIRECTORY, IMAGE, ENGINE = Kind.BLOCK, Kind.DIRECTORY, Kind.IMAGE, Kind.ENGINE


def flag(name: str, default: bool | None = False) -> Param:
    return Param(name, P.FLAG, f"{name} or not", default)


def choice(name: str, *choices: str, default: str | None = None, positional: bool = True) -> Param:
    return Param(name, P.CHOICE, f"which {name}", default, choices, positional)


def number(name: str, kind: ParamType, default: Value | None = None, **more: object) -> Param:
    return Param(name, kind, f"the {name}", default, **more)  # type: ignore[arg-type]


def layer(name: str, accepts: set[Kind], provides: Kind | None, *params: Param, many: bool = False) -> LayerInfo:
    return LayerInfo(name, f"{name} for tests", params, frozenset(accepts), provides, many)


_CACHE = choice("cache", "none", "writeback", "writethrough", default="none", positional=False)

LAYERS = {
    info.name: info
    for info in (
        layer("disk", {Kind.GRANT}, BLOCK, number("role", P.TEXT, "disk")),
        layer("existing", set(), DIRECTORY, number("path", P.TEXT, positional=True, required=True)),
        layer(
            "md",
            {BLOCK},
            BLOCK,
            choice("level", "raid0", "raid1", "raid10", default="raid1"),
            number("chunk", P.SIZE, 512 << 10, minimum=4096, maximum=1 << 30),
            flag("bitmap", True),
            many=True,
        ),
        layer("lvmthin", {BLOCK}, BLOCK, flag("zero", None), number("chunk", P.SIZE)),
        layer("lvmcache", {BLOCK}, BLOCK, choice("mode", "writeback", "writethrough"), many=True),
        layer("scheduler", {BLOCK}, None, choice("name", "none", "mq-deadline", "bfq", "kyber")),
        layer("ext4", {BLOCK}, DIRECTORY, flag("noatime"), flag("barrier", True), number("mkfs", P.TEXT)),
        layer("xfs", {BLOCK}, DIRECTORY, flag("noatime"), flag("nobarrier"), number("mkfs", P.TEXT)),
        layer(
            "btrfs",
            {BLOCK},
            DIRECTORY,
            choice("profile", "single", "raid1", "raid10", default="single"),
            flag("nodatacow"),
            many=True,
        ),
        layer(
            "zfs",
            {BLOCK},
            DIRECTORY,
            number("mirror", P.INT, minimum=2, maximum=8),
            choice("compression", "off", "lz4", "zstd", default="off", positional=False),
            number("ashift", P.INT, 12),
            many=True,
        ),
        layer("fill", {BLOCK, DIRECTORY}, None, number("level", P.PERCENT, positional=True, required=True)),
        layer("age", {DIRECTORY}, None, number("for", P.TIME, positional=True), number("skew", P.FLOAT, 1.0)),
        layer("qcow2", {DIRECTORY}, IMAGE, number("size", P.SIZE, positional=True)),
        layer("raw", {DIRECTORY}, IMAGE, number("size", P.SIZE, positional=True)),
        layer("vm", {IMAGE, BLOCK}, BLOCK, _CACHE, number("memory", P.SIZE, 2 << 30)),
        layer("docker", {DIRECTORY}, ENGINE, choice("driver", "overlay2", "btrfs", "vfs")),
        layer(
            "containerd",
            {BLOCK},
            ENGINE,
            choice("snapshotter", "devmapper", "overlayfs"),
            number("base_size", P.SIZE),
        ),
        layer(
            "odd",
            {BLOCK},
            BLOCK,
            number("count", P.INT, 3, positional=True),
            number("depth", P.INT, positional=True),
            number("label", P.TEXT, positional=True),
            flag("quick"),
        ),
    )
}

OFFERS = {
    "md": {"degrade", "rebuild"},
    "lvmthin": {"snapshot"},
    "zfs": {"degrade", "snapshot", "volume"},
    "btrfs": {"balance", "degrade", "snapshot"},
}
LAYERS = {name: replace(info, offers=frozenset(OFFERS.get(name, ()))) for name, info in LAYERS.items()}
LAYERS |= {
    info.name: replace(info, needs=needs)
    for info, needs in (
        (layer("snapshot", {BLOCK, DIRECTORY}, None, number("held", P.INT, 1)), "snapshot"),
        (layer("degraded", {BLOCK, DIRECTORY}, None, number("disks", P.INT, 1, positional=True)), "degrade"),
        (layer("zvol", {DIRECTORY}, BLOCK, number("size", P.SIZE)), "volume"),
        (layer("duperemove", {DIRECTORY}, None), "dedupe"),
    )
}

_IOPS = Metric("iops", "IOPS", "higher")


def workload(name: str, *params: Param, variants: tuple[str, ...] = ()) -> WorkloadInfo:
    return WorkloadInfo(name, f"{name} for tests", params, (_IOPS,), "iops", frozenset({DIRECTORY}), variants)


_RUNTIME = number("runtime", P.TIME, 30.0, minimum=1)
WORKLOADS = {
    info.name: info
    for info in (
        workload("fio/randrw-75-25", _RUNTIME, number("size", P.SIZE), variants=("study",)),
        workload("dd/seqwrite-sync", number("size", P.SIZE, 1 << 30), variants=("study",)),
        workload("fio:", _RUNTIME, variants=("study",)),
        workload("command:", number("json", P.TEXT)),
        workload("null"),
    )
}
