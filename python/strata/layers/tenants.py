"""The fork of a stack: what stands above it is there once for each of several tenants, who work at the same time.

A directory gives each a directory of its own; LVM gives each a volume.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from strata.errors import BadInput
from strata.layers._driver import Driver
from strata.layers._steps import make_directory, output, sh
from strata.model import (
    Call,
    Command,
    Completed,
    Kind,
    LayerInfo,
    Param,
    ParamType,
    Place,
    Provides,
    Step,
)

INFO = LayerInfo(
    name="tenants",
    about="Several tenants at the same time, each with its own copy of what stands above and its own workload.",
    params=(
        Param("count", ParamType.INT, "how many", required=True, positional=True, minimum=1, maximum=64),
        Param(
            "neighbours",
            ParamType.CHOICE,
            "what they cost each other is measured too: each tenant also alone, or also each two of them",
            default="off",
            choices=("off", "alone", "pairs"),
        ),
    ),
    accepts=frozenset({Kind.BLOCK, Kind.DIRECTORY}),
    provides=None,
    deployed=False,
    forks=True,
)

_SHOW = 'for path; do if [ -e "$path" ]; then echo "$path"; fi; done'


class TenantsDriver(Driver):
    info = INFO

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        return below[0]

    def shares(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Provides]:
        return _divided(spec, below[0])[1]

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        return _divided(spec, below[0])[0]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [sh(_SHOW, *(share.path for share in self.shares(spec, below, place)))]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        shown = output(seen, 0)
        there = shown.stdout.splitlines() if shown else []
        given = [share.path for share in self.shares(spec, below, place)]
        return [f"{path}, which a tenant was given, is not there." for path in given if path not in there]


def _divided(spec: Call, whole: Provides) -> tuple[list[Step], list[Provides]]:
    count = int(spec["count"] or 1)
    if whole.kind is Kind.BLOCK:
        if whole.split is None:
            raise BadInput(
                "tenants cannot share this block device; put lvm or lvmthin on it, which give each a volume, or a file "
                "system, which gives each a directory."
            )
        if whole.held:
            raise BadInput(
                "tenants get a volume each, and the snapshots below are of another one; put snapshot above tenants."
            )
        return whole.split(count)
    # Each gets an equal part of the room as far as the plan goes; nothing holds it to that.
    size = None if whole.size_bytes is None else whole.size_bytes // count
    names = [f"{whole.path}/tenant-{number}" for number in range(1, count + 1)]
    steps = [make_directory(path, f"make the directory of tenant {number}") for number, path in enumerate(names, 1)]
    # What can be done to the file system is done to all of it, so only below the fork.
    return steps, [replace(whole, path=path, size_bytes=size, can={}, snapshots=None) for path in names]


DRIVER = TenantsDriver()
