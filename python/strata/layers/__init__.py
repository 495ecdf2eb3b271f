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

from strata.model import Catalogue, LayerDriver


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
