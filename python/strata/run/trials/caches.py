"""What a machine keeps in memory of its disks: the page cache, what in it is dirty, and the ARC of ZFS.

Read right before the clock of a trial starts and after its end. Pure but for `look`, which reads files of /proc.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from strata.errors import VisitFailed
from strata.hosts.base import Host
from strata.planning.machine_metrics import ARC_SERVED, START_METRICS

_MEMINFO = "/proc/meminfo"
_ARCSTATS = "/proc/spl/kstat/zfs/arcstats"

# More data than this in the ARC, right after it was emptied: it was not. ZFS keeps up to 32 MiB (trial_steps.py).
_EMPTY_ARC_BYTES = 40 << 20

# Fewer reads of blocks say nothing.
_FEWEST_READS = 100


@dataclass(frozen=True, slots=True)
class Caches:
    """Of one machine; None: it does not say."""

    dirty_bytes: int | None = None
    page_cache_bytes: int | None = None
    arc_data_bytes: int | None = None
    arc_reads: int = 0  # of blocks of files, since ZFS was loaded
    arc_misses: int = 0  # of these, and blocks that were fetched ahead from a disk
    text: str = field(default="", compare=False, repr=False)  # what all of it was read from

    def figures(self) -> dict[str, float]:
        """By the names of START_METRICS."""
        values = (self.dirty_bytes, self.page_cache_bytes, self.arc_data_bytes)
        return {metric.name: v for metric, v in zip(START_METRICS, values, strict=True) if v is not None}

    def since(self, before: Caches) -> dict[str, float]:
        """ARC_SERVED between two looks; empty where ZFS was hardly used. A block that was fetched ahead is a hit of the
        ARC when it is asked for, and came from a disk all the same."""
        reads, misses = self.arc_reads - before.arc_reads, self.arc_misses - before.arc_misses
        return {ARC_SERVED.name: 100 * max(1 - misses / reads, 0.0)} if reads >= _FEWEST_READS else {}

    @property
    def arc_is_warm(self) -> bool:
        return (self.arc_data_bytes or 0) > _EMPTY_ARC_BYTES


def look(host: Host) -> Caches:
    texts = []
    for path in (_MEMINFO, _ARCSTATS):
        try:
            texts.append(host.read(path) or "")
        except VisitFailed:  # where it cannot be read nothing is known of it
            texts.append("")
    return parse(*texts)


def parse(meminfo: str, arcstats: str) -> Caches:
    """Sources: proc_meminfo(5), in KiB; `data_size` of arcstats: module/zfs/arc.c, bytes of blocks of files."""
    kib = {name: int(value) for name, value in re.findall(r"^(\w+): +(\d+) kB$", meminfo, re.MULTILINE)}
    arc = {name: int(value) for name, value in re.findall(r"^(\w+) +\d+ +(\d+)$", arcstats, re.MULTILINE)}
    return Caches(
        _total(kib, "Dirty", "Writeback"),
        None if (cached := _total(kib, "Cached", "Buffers")) is None else cached - 1024 * kib.get("Shmem", 0),
        arc.get("data_size"),
        sum(arc.get(f"demand_data_{name}", 0) for name in ("hits", "iohits", "misses")),
        sum(arc.get(f"{name}_data_misses", 0) for name in ("demand", "prefetch")),
        text=f"{meminfo}\n{arcstats}",
    )


def _total(kib: dict[str, int], *names: str) -> int | None:
    return 1024 * sum(kib[name] for name in names) if all(name in kib for name in names) else None
