"""Every workload there is: one file of this folder per family.

A module that does not start with "_" exports `WORKLOADS: tuple[Workload, ...]`; putting the file here is all it takes.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from strata.errors import BadInput
from strata.model import Call, Workload, WorkloadCatalogue

__all__ = ["catalogue", "find", "workloads"]


@cache
def workloads() -> Mapping[str, Workload]:
    """Name -> workload, sorted by name; a family that takes a path has a name that ends in a colon."""
    found: dict[str, Workload] = {}
    for module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        if module.startswith("_"):
            continue
        for workload in importlib.import_module(f"{__name__}.{module}").WORKLOADS:
            name = workload.info.name
            if name in found:
                raise RuntimeError(f"two workloads are called {name}; rename the one in {module}.py")
            found[name] = workload
    return MappingProxyType(dict(sorted(found.items())))


def catalogue() -> WorkloadCatalogue:
    """What can be written after `-w`, for the parser, the planner and the reference."""
    return MappingProxyType({name: workload.info for name, workload in workloads().items()})


def find(call: Call) -> Workload:
    """The workload that `call` names. Raises BadInput when there is none."""
    try:
        return workloads()[call.name]
    except KeyError:
        known = ", ".join(workloads())
        raise BadInput(f"there is no workload '{call.name}'; write one of: {known}") from None
