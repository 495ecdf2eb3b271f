"""How devices make up a pool: as requested, and as `zpool status` says. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from strata.errors import BadInput
from strata.model import Call

PARITY = {"stripe": 0, "raidz1": 1, "raidz2": 2, "raidz3": 3}
"""Layout -> how many disks a vdev can lose."""

# The text and not the JSON of `-j`, which came with 2.3: Debian 12 has 2.1.
# A leaf is a path, or the number of a device that is not there any more, whose path then follows.
_LINE = re.compile(
    r"\t(?P<indent> *)(?P<name>\S+)"
    r"(?:\s+(?P<state>[A-Z]+)(?:\s+(?P<read>\d{1,18})\s+(?P<write>\d{1,18})\s+(?P<cksum>\d{1,18}))?(?P<note>.*))?"
)
_WAS = re.compile(r"\bwas (/\S+)")
_VDEV = re.compile(r"(?P<type>[a-z]+\d?)-\d+")


@dataclass(frozen=True, slots=True)
class Layout:
    """Which of the inputs, by their numbers, are what."""

    type: str  # of the data vdevs: "mirror", "raidz1" ..., "disk"
    parity: int  # how many disks each data vdev can lose
    data: tuple[tuple[int, ...], ...]
    log: tuple[int, ...]
    cache: tuple[int, ...]

    @staticmethod
    def of(spec: Call, inputs: int) -> Layout:
        """Raises BadInput when the number of inputs does not fit."""
        log, cache = int(spec["slog"] or 0), int(spec["l2arc"] or 0)
        disks = inputs - log - cache
        mirror, layout = spec["mirror"], str(spec["layout"])
        each = int(mirror) if mirror is not None else 1 if layout == "stripe" else disks
        parity = int(mirror) - 1 if mirror is not None else PARITY[layout]
        type_ = "mirror" if mirror is not None else "disk" if layout == "stripe" else layout
        if mirror is not None and (disks <= 0 or disks % each):
            raise BadInput(
                f"zfs(mirror={mirror}) takes {mirror} disks for each mirror, and {_are(disks)} left for data; "
                "give it a multiple of that."
            )
        if disks < parity + 1:
            raise BadInput(
                f"zfs({layout}) wants {parity + 1} or more disks for data, and {_are(disks)} left; give it more."
            )
        data = tuple(tuple(range(start, start + each)) for start in range(0, disks, each))
        return Layout(
            type_, parity, data, tuple(range(disks, disks + log)), tuple(range(disks + log, disks + log + cache))
        )

    def words(self, devices: Sequence[str]) -> list[str]:
        """What goes behind the name in `zpool create`."""
        found: list[str] = []
        for vdev in self.data:
            found += [] if self.type == "disk" else [self.type]
            found += [devices[member] for member in vdev]
        if self.log:
            found += ["log", *(["mirror"] if len(self.log) > 1 else []), *(devices[member] for member in self.log)]
        if self.cache:
            found += ["cache", *(devices[member] for member in self.cache)]
        return found

    def usable(self, sizes_bytes: Sequence[int]) -> int:
        """An upper bound of what fits."""
        smallest = [(min(sizes_bytes[member] for member in vdev), len(vdev)) for vdev in self.data]
        return sum(size * (1 if self.type == "mirror" else count - self.parity) for size, count in smallest)

    def losable(self) -> list[int]:
        """The disks that can be lost with no data lost, the last of each vdev first, from one vdev to the next."""
        return [vdev[-1 - lost] for lost in range(self.parity) for vdev in self.data]

    def shape(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """Every vdev as (group, type, members)."""
        logs = [("logs", "mirror" if len(self.log) > 1 else "disk", self.log)] if self.log else []
        return [
            *(("", self.type, vdev) for vdev in self.data),
            *logs,
            *(("cache", "disk", (member,)) for member in self.cache),
        ]


def _are(count: int) -> str:
    return "one is" if count == 1 else f"{max(count, 0) or 'none'} are"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One device of the pool."""

    device: str  # its path; "" when ZFS does not say which it was
    state: str  # "ONLINE", "OFFLINE", "FAULTED" ...
    errors: tuple[int, int, int]  # reads, writes and checksums that failed
    note: str  # what follows, such as "too many errors"
    replaced: bool  # its replacement stands beside it


@dataclass(frozen=True, slots=True)
class Vdev:
    """What the pool stripes over, or logs to, or caches on."""

    group: str  # "" for data, "logs", "cache"
    type: str  # "mirror", "raidz1" ..., "disk"
    leaves: tuple[Leaf, ...]


@dataclass(frozen=True, slots=True)
class Pool:
    state: str
    vdevs: tuple[Vdev, ...]
    errors: str  # "No known data errors" in a sound pool


def read(text: str) -> Pool | None:
    """The answer to `zpool status -P -p NAME`; None when it is not understood."""
    state = re.search(r"^\s*state: (\S+)", text, re.MULTILINE)
    errors = re.search(r"^errors: (.*)", text, re.MULTILINE)
    config = re.search(r"^config:\n\n\tNAME[^\n]*\n(?P<lines>(?:\t[^\n]*\n)+)", text, re.MULTILINE)
    if state is None or errors is None or config is None:
        return None
    lines = [match for line in config["lines"].splitlines() if (match := _LINE.fullmatch(line.rstrip()))]
    return Pool(state[1], tuple(_vdevs(lines[1:])), errors[1])  # the first line is the pool itself


def _vdevs(lines: Sequence[re.Match[str]]) -> Iterator[Vdev]:
    """Each level stands two columns deeper. The first below the pool is a vdev, or the title of a group of them."""
    group, type_, leaves = "", "", list[Leaf]()
    for line in lines:
        depth, name, vdev = len(line["indent"]), line["name"], _VDEV.fullmatch(line["name"])
        if depth <= 2 and leaves:
            yield Vdev(group, type_, tuple(leaves))
            leaves = []
        if depth == 0:
            group = name
            continue
        if depth == 2:
            type_ = vdev["type"] if vdev else "disk"
        if vdev is None:
            leaves.append(_leaf(line))
    if leaves:
        yield Vdev(group, type_, tuple(leaves))


def _leaf(line: re.Match[str]) -> Leaf:
    note = (line["note"] or "").strip()
    was = _WAS.search(note)
    device = line["name"] if line["name"].startswith("/") else was[1] if was else ""
    return Leaf(
        device.removesuffix("/old"),
        line["state"] or "",
        (int(line["read"] or 0), int(line["write"] or 0), int(line["cksum"] or 0)),
        note,
        device.endswith("/old"),
    )


def member_of(path: str, devices: Sequence[str]) -> int | None:
    """Which of the devices below `path` is, as a whole or as the partition that zpool made on it."""
    for number, device in enumerate(devices):
        if path in (device, f"{device}p1" if device[-1:].isdigit() else f"{device}1"):
            return number
    return None


def shape_differences(layout: Layout, pool: Pool, devices: Sequence[str]) -> list[str]:
    def shape(vdev: Vdev) -> tuple[str, str, tuple[int | None, ...]]:
        members = dict.fromkeys(member_of(leaf.device, devices) for leaf in vdev.leaves)
        return (vdev.group, vdev.type, tuple(members))

    now: list[tuple[str, str, tuple[int | None, ...]]] = [shape(vdev) for vdev in pool.vdevs]
    asked = layout.shape()
    if now == asked:
        return []
    shown = [f"{vdev.type} of {' and '.join(leaf.device or '?' for leaf in vdev.leaves)}" for vdev in pool.vdevs]
    return [f"The pool consists of {', '.join(shown) or 'nothing'}, which was not asked for."]
