"""Layer drivers, one file each, found by looking: a new layer is a new file here that exports `DRIVER`.

Files whose names start with `_` hold what several drivers share. Drivers do not know each other and never run
anything: they plan commands and read outputs.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from strata.model import Caching, Catalogue, LayerDriver, Node, Redundant


@cache
def drivers() -> Mapping[str, LayerDriver]:
    """Every layer driver by the name it is written with, in the order of names."""
    names = sorted(found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_"))
    found: list[LayerDriver] = [importlib.import_module(f"{__name__}.{name}").DRIVER for name in names]
    return MappingProxyType({driver.info.name: driver for driver in found})


@cache
def catalogue() -> Catalogue:
    """What the expression language, the planner and the reference need to know of every layer."""
    return MappingProxyType({name: driver.info for name, driver in drivers().items()})


def survivable(node: Node, drivers: Mapping[str, LayerDriver]) -> int:
    """How many disks below `node` can be lost, whichever they are.

    A layer that can lose m of its inputs loses data when m + 1 of them are gone; the cheapest of those take
    one disk more than they survive each.
    """
    if not node.inputs:
        return 0
    driver = drivers[node.call.name]
    needed = node.inputs[:-1] if isinstance(driver, Caching) and driver.holds_copies(node.call) else node.inputs
    each = sorted(survivable(lower, drivers) for lower in needed)
    can_lose = driver.survives(node.call, len(each)) if isinstance(driver, Redundant) and len(each) > 1 else 0
    return sum(lost + 1 for lost in each[: can_lose + 1]) - 1
