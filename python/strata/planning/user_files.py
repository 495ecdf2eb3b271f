"""Files of the user's that arguments of layers name. Pure; `run/safety/files.py` asks the machine for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from strata.model import Call, LayerDriver, Stack


def user_files(stack: Stack, drivers: Mapping[str, LayerDriver]) -> Iterator[tuple[Call, str, str]]:
    """(layer, argument, path) of every one; a relative path is the driver's to refuse."""
    for node in stack.top.walk():
        for param in drivers[node.call.name].info.params:
            path = str(node.call[param.name] or "") if param.file else ""
            if path.startswith("/"):
                yield node.call, param.name, path
