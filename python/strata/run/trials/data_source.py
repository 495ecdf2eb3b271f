"""What served a trial: the disks that its stack stands on, or a cache in memory on one of its machines. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strata.model import Call, Measured, Node
from strata.planning.layout import Layout
from strata.planning.machine_metrics import TELLING_BYTES

# A cache that kept more than this share of the bytes decided the figure.
_LEAST_SHARE = 0.5
# The same where the stack makes data smaller: few bytes at the disks are then no sign of a cache.
_LEAST_SHARE_OF_SMALLER = 0.05

# Reads, or writes, of less than this share of all bytes that were moved decide no figure.
_LEAST_WAY = 0.25
# How it is called, the share of the bytes that reached the disks, and of which bytes.
_WAYS = (("read", "disk.read_ratio", "read"), ("write", "disk.write_amplification", "written"))

_ARC = "the ARC of ZFS"
_THROUGH = frozenset({"writeback", "writethrough", "unsafe"})  # QEMU's cache modes that go through the page cache
_BTRFS_COPIES = {"dup": 2, "raid1": 2, "raid10": 2, "raid1c3": 3, "raid1c4": 4}  # mkfs.btrfs(8)
# Arguments by which layers make data smaller.
_SMALLER = frozenset({"compression", "compress", "compress-force", "compress_algorithm", "dedup", "deduplication"})


@dataclass(frozen=True, slots=True)
class Above:
    """What of a stack may keep bytes from its disks."""

    caches: tuple[str, ...] = ()  # that hold data in memory, as they are called
    arcs: frozenset[str] = frozenset()  # machines whose ZFS is part of it: host, guest
    smaller: bool = False  # it compresses, or stores equal blocks once
    copies: int = 1  # how often each byte written reaches the disks, at least


def above(layout: Layout) -> Above:
    calls = [placed.node.call for placed in layout.layers]
    arcs = {"guest" if placed.guest else "host" for placed in layout.layers if _has_zfs(placed.node.call)}
    caches = [_ARC] if arcs else []
    caches += [f"the page cache below {call.name}" for call in calls if call.values.get("cache") in _THROUGH]
    smaller = any(_makes_smaller(call) for call in calls)
    return Above(tuple(dict.fromkeys(caches)), frozenset(arcs), smaller, _copies(layout.layers[-1].node))


def _copies(node: Node) -> int:
    """Parity is left out, and so is what a layer keeps twice of its own choice."""
    values, below = node.call.values, min((_copies(each) for each in node.inputs), default=1)
    match node.call.name:
        case "degraded" | "rebuilding":
            return 1  # one of them is missing
        case "btrfs":
            return below * _BTRFS_COPIES.get(str(values["profile"]), 1)
        case "zfs":
            return below * int(values["mirror"] or 1)
        case "md" | "lvm":
            return below * _raid_copies(node)
    return below


def _raid_copies(node: Node) -> int:
    values = node.call.values
    kinds = {values.get("level"), values.get("type")}
    if "raid1" in kinds:
        return max(len(node.inputs) - int(values.get("spares") or 0), 1)
    return int(values.get("copies") or 2) if "raid10" in kinds else 1


def _has_zfs(call: Call) -> bool:
    """Also of an engine of containers that makes data sets."""
    return call.name in ("zfs", "zvol") or "zfs" in call.values.values()


def _makes_smaller(call: Call) -> bool:
    if call.name == "vdo" or (call.name in ("zfs", "zvol") and call.values.get("compression") is None):
        return True  # by their own choice
    return call.name != "qcow2" and any(
        call.values.get(name) not in (None, False, "off", "none", "no") for name in _SMALLER
    )


def decided(found: Mapping[str, float], call: Call, stack: Above, measured: Measured, *, buffered: bool) -> str | None:
    """A sentence where a cache decided the figure; None where the disks did, or where it is not known.

    `found`: machine figures of the trial. ZFS reads for itself what a write changes only in part: the ARC tells of the
    load where that reads as well.
    """
    least = _least(call) if stack.smaller else _LEAST_SHARE
    said = []
    moved = {"read": measured.bytes_read or 0, "write": measured.bytes_written or 0}
    telling = [way for way, size in moved.items() if size >= max(TELLING_BYTES, _LEAST_WAY * sum(moved.values()))]
    for way, name, past in () if _idle(found, stack) else _WAYS:
        copies = stack.copies if way == "write" else 1
        if way in telling and name in found and found[name] < least * copies:
            times = f", which keep {copies} copies" if copies > 1 else ""
            said.append(f"{100 * found[name]:.1f} % of the bytes {past} reached the disks as {way}s{times}")
    for machine in ("host", "guest") if "read" in telling else ():
        kept = found.get(f"{machine}.arc_served_pct", 0.0)
        if kept > 100 * (1 - _LEAST_SHARE):
            said.append(f"the ARC of ZFS of the {machine} answered {kept:.1f} % of the reads of its blocks")
    if not said:
        return None
    caches = (*stack.caches, *(("the page cache",) if buffered else ()))
    return f"a cache decided the figure: {'; '.join(said)} ({' or '.join(caches) or 'which cache is not known'})"


def _least(call: Call) -> float:
    """The share of the bytes of a load that reaches the disks at least, where its stack makes data smaller."""
    saved = call.values.get("compressible")  # the share that a stack can save
    return _LEAST_SHARE * (1 - saved) if isinstance(saved, (int, float)) else _LEAST_SHARE_OF_SMALLER


def known(found: Mapping[str, float], stack: Above) -> bool:
    """Whether the share of the bytes that reached the disks is known: they were counted, and by disks that count."""
    return not _idle(found, stack) and any(name in found for _, name, _ in _WAYS)


def _idle(found: Mapping[str, float], stack: Above) -> bool:
    """Whether the disks counted no request and no busy time, with no cache in the stack that explains it: then they
    count nothing (queue/iostats of 0). The page cache of a load explains it too, but of its data alone."""
    return not stack.caches and all(found.get(f"disk.{name}") == 0 for name in ("reads", "writes", "busy_pct"))
