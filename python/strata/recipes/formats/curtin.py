"""A storage configuration of curtin, the installer behind Ubuntu's autoinstall and MAAS.

It knows few arguments: what it cannot say would be installed otherwise than it was measured, so it is refused. Source:
curtin's "Storage" page, and curtin/block/schemas.py.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import replace

from ruamel.yaml import YAML

from strata.errors import BadInput
from strata.model import Value
from strata.recipes.formats._parts import (
    NOFAIL,
    commented,
    erased,
    heading,
    mount_of,
    not_needed_at_boot,
    words_of_mkfs,
)
from strata.recipes.plan import Layer, Recipe
from strata.recipes.written import File, Format

Item = dict[str, object]


def write(recipe: Recipe) -> tuple[File, ...]:
    items: list[Item] = []
    ids: dict[str, str] = {}  # what a layer gives -> the id of the item that stands for it
    for layer in recipe.layers:
        name = layer.node.call.name
        if name not in _WRITERS:
            raise BadInput(
                f"--as curtin: it has no word for {layer.node.call.text}, only for {', '.join(sorted(_WRITERS))}; "
                "take --as shell or --as ansible, which apply after the installation."
            )
        below = [ids[lower.path] for lower in layer.below if lower.path in ids]
        items += _WRITERS[name](layer, below, recipe)
        ids[layer.provides.path] = str(items[-1]["id"])
    text = io.StringIO()
    yaml = YAML()
    yaml.width = 4096
    yaml.dump({"storage": {"version": 1, "config": items}}, text)
    remarks = [
        *heading(recipe),
        "Add it to the storage configuration of the system's own disk. Installing ERASES these devices.",
        *([not_needed_at_boot(mount.path)] if (mount := mount_of(recipe)) is not None else []),
        *erased(recipe),
    ]
    return (File(f"{recipe.name}-curtin.yaml", commented(remarks) + text.getvalue()),)


def _only(layer: Layer, *known: str) -> Mapping[str, Value | None]:
    """The arguments of a layer. Raises BadInput for one, beyond `known`, that is not at its default."""
    values = layer.node.call.values
    more = [
        param.name
        for param in layer.driver.info.params
        if param.name not in known and param.group != "mount" and values[param.name] != param.default
    ]
    if more:
        raise BadInput(
            f"--as curtin: it cannot say {', '.join(more)} of {layer.node.call.text}; take --as shell or --as ansible, "
            "which apply after the installation."
        )
    return values


def _disk(layer: Layer, below: list[str], recipe: Recipe) -> list[Item]:
    return [{"id": layer.place.name, "type": "disk", "path": layer.below[0].path, "wipe": "superblock-recursive"}]


def _raid(layer: Layer, below: list[str], recipe: Recipe) -> list[Item]:
    values = _only(layer, "level", "assume_clean", "spares")
    spares = int(values["spares"] or 0)
    members = below[: len(below) - spares]
    item: Item = {
        "id": layer.place.name,
        "type": "raid",
        "name": layer.place.name,
        "raidlevel": str(values["level"]),
        "devices": members,
    }
    return [item | ({"spare_devices": below[len(members) :]} if spares else {})]


def _volume(layer: Layer, below: list[str], recipe: Recipe) -> list[Item]:
    _only(layer)
    group: Item = {
        "id": f"{layer.place.name}-group",
        "type": "lvm_volgroup",
        "name": layer.place.name,
        "devices": below,
    }
    volume: Item = {
        "id": layer.place.name,
        "type": "lvm_partition",
        "name": "volume",
        "volgroup": str(group["id"]),
    }
    return [group, volume]


def _cached(layer: Layer, below: list[str], recipe: Recipe) -> list[Item]:
    values = _only(layer, "mode")
    return [
        {
            "id": layer.place.name,
            "type": "bcache",
            "name": layer.place.name,
            "backing_device": below[0],
            "cache_device": below[-1],
            "cache_mode": str(values["mode"]),
        }
    ]


def _file_system(layer: Layer, below: list[str], recipe: Recipe) -> list[Item]:
    _only(layer)
    if len(below) > 1:
        raise BadInput(
            f"--as curtin: it makes a file system on one device, and {layer.node.call.text} is on {len(below)}; "
            "take --as shell."
        )
    if words_of_mkfs(layer, "curtin") != words_of_mkfs(_without_options(layer), "curtin"):
        raise BadInput(
            f"--as curtin: {layer.node.call.text} needs words for mkfs that it cannot say; take --as shell or "
            "--as ansible, which apply after the installation."
        )
    formatted: Item = {
        "id": f"{layer.place.name}-format",
        "type": "format",
        "fstype": layer.node.call.name,
        "volume": below[0],
        "uuid": layer.place.uuid,
    }
    mount = mount_of(recipe)
    if mount is None or mount.uuid != layer.place.uuid:
        return [formatted]
    mounted: Item = {
        "id": layer.place.name,
        "type": "mount",
        "device": str(formatted["id"]),
        "path": mount.path,
        "options": f"{mount.options or 'defaults'},{NOFAIL}",
    }
    return [formatted, mounted]


def _without_options(layer: Layer) -> Layer:
    """The same, mounted without any option: some are made ready for by mkfs, as projects of ext4 are."""
    of_mount = {param.name: param.default for param in layer.driver.info.params if param.group == "mount"}
    call = replace(layer.node.call, values={**layer.node.call.values, **of_mount})
    return replace(layer, node=replace(layer.node, call=call))


# Not ZFS: curtin makes a pool of version 28 whose root is never mounted unless each of its own choices is taken back
# (curtin, block/zfs.py, ZPOOL_DEFAULT_PROPERTIES and ZFS_DEFAULT_PROPERTIES).
_WRITERS: Mapping[str, Callable[[Layer, list[str], Recipe], list[Item]]] = {
    "disk": _disk,
    "md": _raid,
    "lvm": _volume,
    "bcache": _cached,
    "ext4": _file_system,
    "xfs": _file_system,
    "btrfs": _file_system,
}

FORMAT = Format("curtin", "a storage configuration for curtin (Ubuntu's autoinstall, MAAS)", write)
