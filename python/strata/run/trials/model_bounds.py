"""Whether a trial on modelled disks stayed within what they can do. A figure beyond that is invalid: never ranked."""

from __future__ import annotations

from dataclasses import replace

from strata.lab import bounds
from strata.model import Outcome
from strata.planning.layout import Layout
from strata.run.sites.site import Site
from strata.run.trials.trial import Trial

# Layers that write a block where they read it, unless an argument is in `_MOVES`.
_IN_PLACE = frozenset(
    {
        *("disk", "partition", "scheduler", "md", "lvm", "lvmthin", "ext4", "xfs", "raw", "dir", "limit", "fill"),
        *("kernel", "debian"),
    }
)
_MOVES = {("data", "journal")}
# Layers that acknowledge an fsync when the disk has the data, unless an argument is in `_LOSES`.
_DURABLE = _IN_PLACE | {"btrfs", "zfs", "zvol", "f2fs"}
_LOSES = {("nobarrier", True), ("sync", "disabled"), ("fsync_mode", "nobarrier")}
# Layers that keep in memory or on another disk what was read or written, and what that is called.
_CACHES = {
    "zfs": "the ARC of ZFS",
    "zvol": "the ARC of ZFS",
    "bcache": "bcache",
    "lvmcache": "the cache of LVM",
    "qsd": "the page cache below qsd",
}

_THEN = (
    "Something answered before the disk did, or the disk is not served as its model says: do not use this figure, and "
    "report it with its run directory."
)


def in_place(layout: Layout) -> bool:
    """Whether every layer writes a block where it reads it, and keeps none in memory."""
    nodes = [placed.node for placed in layout.layers]
    arguments = {item for node in nodes for item in node.call.values.items()}
    return (_IN_PLACE | {"warm"}).issuperset(node.call.name for node in nodes) and not arguments & _MOVES


def judged(layout: Layout, site: Site, trial: Trial) -> Trial:
    """The trial as it is, with a note where a cache served what the disks could not, or invalid with the reason.

    Trials of tenants are not judged: their disks are sampled by others.
    """
    if not site.served or trial.outcome is not Outcome.OK or trial.series is None or layout.shares:
        return trial
    disks, counters = [], []
    for disk, seen in _counted(layout, site, trial):
        disks.append(disk)
        counters.append(seen)
    excess = [said for disk, seen in zip(disks, counters, strict=True) for said in bounds.of_counters(disk, seen)]
    served: tuple[str, ...] = ()
    alike = len({(disk.model.digest, disk.size_bytes) for disk in disks}) == 1
    if trial.pattern is not None and alike and site.rates is not None:
        above = _above(layout, trial)
        if not trial.pattern.direct:
            above = replace(above, caches=(*above.caches, "the page cache"))
        findings = bounds.of_pattern(disks, counters, trial.pattern, above, site.rates)
        excess += findings.excess
        served = findings.served
    trial = replace(trial, notes=(*trial.notes, *served))
    if not excess:
        return trial
    return replace(trial, outcome=Outcome.INVALID, reason=f"{'; '.join(dict.fromkeys(excess))}. {_THEN}")


def _counted(layout: Layout, site: Site, trial: Trial) -> list[tuple[bounds.ServedDisk, bounds.Counters]]:
    """The modelled disks of a stack with what each did; those that were not sampled are left out."""
    below = {placed.provides.path: placed.below[0].path for placed in layout.layers if placed.node.call.name == "disk"}
    found = []
    for number, (_, path) in enumerate(layout.block_devices()):
        disk = site.served.get(below.get(path, path))
        seen = None if disk is None else _counters(trial, f"machine.device.d{number}")
        if disk is not None and seen is not None:
            found.append((disk, seen))
    return found


def _counters(trial: Trial, device: str) -> bounds.Counters | None:
    spent: dict[str, float] = {}
    seconds = 0.0
    for name in ("reads", "writes", "read_bytes", "write_bytes", "flushes"):
        points = (trial.series or {}).get(f"{device}.{name}")
        if points:
            spent[name] = points[-1][1] - points[0][1]
            seconds = points[-1][0] - points[0][0]
        elif name != "flushes":
            return None
    return bounds.Counters(seconds, **spent) if seconds > 0 else None


def _above(layout: Layout, trial: Trial) -> bounds.Above:
    nodes = [placed.node for placed in layout.layers]
    names = [node.call.name for node in nodes]
    arguments = {item for node in nodes for item in node.call.values.items()}
    unordered = [
        node
        for node in nodes
        if node.call.name == "scheduler" and node.call["name"] == "none" and node.inputs[0].call.name == "disk"
    ]
    return bounds.Above(
        in_place=_IN_PLACE.issuperset(names) and not arguments & _MOVES,
        fifo=len(unordered) == names.count("disk"),
        durable=_DURABLE.issuperset(names) and not arguments & _LOSES and "unsafe" not in trial.flags,
        caches=tuple(dict.fromkeys(_CACHES[name] for name in names if name in _CACHES)),
    )
