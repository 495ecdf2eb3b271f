"""A storage pool of Incus."""

from __future__ import annotations

from functools import partial

from strata.recipes.formats import _instances
from strata.recipes.written import Format

FORMAT = Format(
    "incus",
    "the command that makes a storage pool of Incus on the stack",
    partial(_instances.write, layer="incus", client="incus", services=("incus",)),
)
