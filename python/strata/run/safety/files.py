"""Files of the measured machine that arguments of layers name: whether they can be read there, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from strata.errors import VisitFailed
from strata.hosts.base import Host
from strata.model import Command, LayerDriver, Stack
from strata.planning.user_files import user_files

# Prints those that are not there, are directories or may not be read.
_LOOK = 'for file; do if [ -d "$file" ] || [ ! -r "$file" ]; then echo "$file"; fi; done'


def unreadable(host: Host, stacks: Iterable[Stack], drivers: Mapping[str, LayerDriver]) -> frozenset[str]:
    """Touches nothing. A machine that hangs on one of them can read none."""
    paths = sorted({path for stack in stacks for _, _, path in user_files(stack, drivers)})
    if not paths:
        return frozenset()
    try:
        said = host.run(Command(("sh", "-c", _LOOK, "sh", *paths), timeout_s=30.0)).stdout
    except VisitFailed:
        return frozenset(paths)
    return frozenset(said.splitlines())
