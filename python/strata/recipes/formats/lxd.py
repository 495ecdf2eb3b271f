"""A storage pool of LXD."""

from __future__ import annotations

from functools import partial

from strata.recipes.formats import _instances
from strata.recipes.written import Format

FORMAT = Format(
    "lxd",
    "the command that makes a storage pool of LXD on the stack",
    partial(_instances.write, layer="lxd", client="lxc", services=("lxd", "snap.lxd.daemon")),
)
