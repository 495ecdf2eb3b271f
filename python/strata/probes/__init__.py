"""Features proven by doing them, one file each: a script that tries it on a fresh stack, and what it shows. Pure.

A file that does not start with `_` exports `PROBE`. The scripts print NAME=VALUE lines and end well also where there is
no such feature: a script that ends badly says nothing of the stack. What they made is removed by `_undo.py`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from strata.probes._probe import Finding, Probe
from strata.probes._stacks import STACKS

__all__ = ["PREFIX", "STACKS", "Finding", "Probe", "probes"]

PREFIX = "feature/"
"""Of the workloads that try them."""


@cache
def probes() -> Mapping[str, Probe]:
    """Every probe by its name, in the order of names."""
    names = sorted(found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_"))
    found: list[Probe] = [importlib.import_module(f"{__name__}.{name}").PROBE for name in names]
    return MappingProxyType({probe.name: probe for probe in found})
