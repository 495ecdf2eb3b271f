"""Files of the measured machine that arguments of layers name: whether they can be read there, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from strata.errors import VisitFailed
from strata.hosts.base import Host
from strata.model import Call, Command, LayerDriver, Stack

# Prints those that are not there, are directories or may not be read.
_LOOK = 'for file; do if [ -d "$file" ] || [ ! -r "$file" ]; then echo "$file"; fi; done'


def named(stack: Stack, drivers: Mapping[str, LayerDriver]) -> Iterator[tuple[Call, str, str]]:
    """(layer, argument, path) of every one; a relative path is the driver's to refuse."""
    for node in stack.top.walk():
        for param in drivers[node.call.name].info.params:
            path = str(node.call[param.name] or "") if param.file else ""
            if path.startswith("/"):
                yield node.call, param.name, path


def unreadable(host: Host, stacks: Iterable[Stack], drivers: Mapping[str, LayerDriver]) -> frozenset[str]:
    """Touches nothing. A machine that hangs on one of them can read none."""
    paths = sorted({path for stack in stacks for _, _, path in named(stack, drivers)})
    if not paths:
        return frozenset()
    try:
        said = host.run(Command(("sh", "-c", _LOOK, "sh", *paths), timeout_s=30.0)).stdout
    except VisitFailed:
        return frozenset(paths)
    return frozenset(said.splitlines())
