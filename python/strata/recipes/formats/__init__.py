"""Formats of recipes, one file each, found by looking. Files whose names start with `_` hold what several share."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from strata.recipes.written import Format


@cache
def formats() -> Mapping[str, Format]:
    """Every format by its name, in the order of names."""
    names = sorted(found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_"))
    found: list[Format] = [importlib.import_module(f"{__name__}.{name}").FORMAT for name in names]
    return MappingProxyType({each.name: each for each in found})
