"""A directory of the user's, which `existing(PATH)` measures. Pure; `run/safety/directories.py` reads the machine."""

from __future__ import annotations

from dataclasses import dataclass

from strata.model import Stack

# What lies here is memory, whatever a workload does to bypass the page cache.
MEMORY = frozenset({"tmpfs", "ramfs"})


@dataclass(frozen=True, slots=True)
class UserDirectory:
    """What a machine says of a directory now."""

    reasons: tuple[str, ...] = ()  # why no trial can run in it
    free_bytes: int | None = None
    filesystem: str | None = None
    devices: tuple[str, ...] = ()  # block devices that it lies on; none: memory, a network or one that hides its disks


def path_of(stack: Stack) -> str | None:
    """The directory of the user's that a stack stands on, the first where images in several are joined."""
    return next(iter(paths_of(stack)), None)


def paths_of(stack: Stack) -> list[str]:
    return [str(node.call["path"]) for node in stack.top.walk() if node.call.name == "existing"]
