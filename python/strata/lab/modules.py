"""Which modules of a kernel a lab keeps, and in which order some of them are loaded. Pure, but for `unpacked`."""

from __future__ import annotations

import lzma
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

from strata.errors import Refused

Needs = Mapping[str, tuple[str, ...]]
"""Path of a module below its kernel's folder -> paths of all the modules it needs, the last one first in loading."""


def parse(modules_dep: str) -> dict[str, tuple[str, ...]]:
    """The content of modules.dep."""
    found = {}
    for line in modules_dep.splitlines():
        path, _, needs = line.partition(":")
        found[path] = tuple(needs.split())
    return found


def name(path: str) -> str:
    """As lsmod says it: "kernel/drivers/md/dm-thin-pool.ko.xz" is "dm_thin_pool"."""
    return path.rpartition("/")[2].partition(".ko")[0].replace("-", "_")


def chosen(needs: Needs, wanted: Sequence[str]) -> frozenset[str]:
    """The modules that a pattern of `wanted` names (see spec.MODULES), with all that they need."""
    folders = tuple(f"kernel/{pattern}" for pattern in wanted if pattern.endswith("/"))
    patterns = [f"kernel/{pattern}" for pattern in wanted if not pattern.endswith("/")]
    named = {
        path
        for path in needs
        if path.startswith(folders) or any(fnmatch(path, f"{p}") and p.count("/") == path.count("/") for p in patterns)
    }
    return frozenset(named | {needed for path in named for needed in needs[path]})


def order(needs: Needs, names: Iterable[str]) -> list[str]:
    """Paths in which insmod takes these modules and what they need; those built in are left out."""
    paths = {name(path): path for path in needs}
    ordered: list[str] = []
    for wanted in names:
        if wanted in paths:
            path = paths[wanted]
            ordered += [module for module in (*reversed(needs[path]), path) if module not in ordered]
    return ordered


def unpacked(path: Path) -> bytes:
    """The content of a module file, as the kernel loads it without help."""
    if path.suffix == ".xz":
        return lzma.decompress(path.read_bytes())
    if path.suffix == ".ko":
        return path.read_bytes()
    raise Refused(f"the kernel's modules are compressed in a way that the lab cannot read ({path.name}).")
