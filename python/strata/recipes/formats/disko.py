"""A configuration of disko, which partitions disks for NixOS.

Arguments of mkfs, mount and zpool are taken from the layers' own commands. Source: disko's lib/types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from strata.errors import BadInput
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

Set = dict[str, object]


@dataclass(frozen=True, slots=True)
class Expression:
    """Nix to be written as it is."""

    text: str


_LEVELS = {"raid0": 0, "raid1": 1, "raid5": 5, "raid6": 6, "raid10": 10}


def write(recipe: Recipe) -> tuple[File, ...]:
    found: dict[str, Set] = {"disk": {}, "mdadm": {}, "lvm_vg": {}, "zpool": {}}
    contents: dict[str, Set] = {}  # what stands at a path -> the set whose `content` the layer above fills in
    for layer in recipe.layers:
        name = layer.node.call.name
        if name not in _WRITERS:
            raise BadInput(
                f"--as disko: it has no word for {layer.node.call.text}, only for {', '.join(sorted(_WRITERS))}; "
                "take --as shell."
            )
        _WRITERS[name](layer, recipe, found, contents)
    devices = {kind: entries for kind, entries in found.items() if entries}
    remarks = [
        *heading(recipe),
        "disko in its mode `disko` ERASES these devices.",
        *erased(recipe),
    ]
    if found["zpool"] or mount_of(recipe) is not None:
        remarks.append(not_needed_at_boot(recipe.mount))
    if found["mdadm"]:
        remarks.append("It gives mdadm the level only: the array comes in sync first, and the rest is mdadm's choice.")
    module: Set = {"disko": {"devices": devices}}
    head = ""
    if found["zpool"]:
        # NixOS refuses a machine with ZFS and without this: its pools are not imported by another (ZFS's hostid).
        remarks.append("networking.hostId is any number that no other machine has; one that you set already holds.")
        module["networking"] = {"hostId": Expression(f'lib.mkDefault "{recipe.layers[-1].place.uuid[:8]}"')}
        # disko's pools do not hand mountOptions to their root in every version; NixOS adds up the lists of options
        module["fileSystems"] = {recipe.mount: {"options": [NOFAIL]}}
        head = "{ lib, ... }:\n"
    return (File(f"{recipe.name}-disko.nix", commented(remarks) + head + _nix(module) + "\n"),)


def _disk(layer: Layer, recipe: Recipe, found: dict[str, Set], contents: dict[str, Set]) -> None:
    disk: Set = {"type": "disk", "device": layer.below[0].path}
    found["disk"][layer.place.name] = disk
    contents[layer.provides.path] = disk


def _array(layer: Layer, recipe: Recipe, found: dict[str, Set], contents: dict[str, Set]) -> None:
    _only(layer, "level", "assume_clean")
    level = str(layer.node.call["level"])
    if level not in _LEVELS:
        raise BadInput(f"--as disko: it knows the levels by number and so no {level}; take --as shell.")
    array: Set = {"type": "mdadm", "level": _LEVELS[level], "metadata": "1.2"}
    found["mdadm"][layer.place.name] = array
    for lower in layer.below:
        contents[lower.path]["content"] = {"type": "mdraid", "name": layer.place.name}
    contents[layer.provides.path] = array


def _volume(layer: Layer, recipe: Recipe, found: dict[str, Set], contents: dict[str, Set]) -> None:
    _only(layer)
    volume: Set = {"size": "100%FREE"}
    found["lvm_vg"][layer.place.name] = {"type": "lvm_vg", "lvs": {"volume": volume}}
    for lower in layer.below:
        contents[lower.path]["content"] = {"type": "lvm_pv", "vg": layer.place.name}
    contents[layer.provides.path] = volume


def _file_system(layer: Layer, recipe: Recipe, found: dict[str, Set], contents: dict[str, Set]) -> None:
    if len(layer.below) > 1:
        raise BadInput(f"--as disko: {layer.node.call.text} is on several devices; take --as shell.")
    make = words_of_mkfs(layer, "disko")
    mount = mount_of(recipe)
    content: Set = {
        "type": "filesystem",
        "format": layer.node.call.name,
        "extraArgs": list(make[1 : make.index("--")]),
    }
    if mount is not None and mount.uuid == layer.place.uuid:
        content["mountpoint"] = mount.path
        content["mountOptions"] = [*(mount.options or "defaults").split(","), NOFAIL]
    contents[layer.below[0].path]["content"] = content


def _pool(layer: Layer, recipe: Recipe, found: dict[str, Set], contents: dict[str, Set]) -> None:
    _only(layer, *(param.name for param in layer.driver.info.params if param.group in ("set", "pool")))
    # -o NAME=VALUE and -O NAME=VALUE, then -m PATH, the pool's name, and the devices with words for their groups
    words = next(step.do.argv for step in layer.steps() if layer.place.name in step.do.argv and "-m" in step.do.argv)
    at = words.index("-m")
    options = {flag: dict(_pairs(words[:at], flag)) for flag in ("-o", "-O")}
    groups = _groups(words[at + 3 :])
    if len(groups) != 1:
        raise BadInput(
            f"--as disko: {layer.node.call.text} is of several groups of devices, or has log or cache devices, "
            "which disko wants by partition labels; take --as shell."
        )
    pool: Set = {"type": "zpool", "mode": groups[0][0]}
    own = {name: value for name, value in options["-o"].items() if name != "cachefile"}
    pool |= {"options": own} if own else {}
    pool |= {"rootFsOptions": options["-O"]} if options["-O"] else {}
    pool["mountpoint"] = recipe.mount
    found["zpool"][layer.place.name] = pool
    for lower in layer.below:
        contents[lower.path]["content"] = {"type": "zfs", "pool": layer.place.name}


def _pairs(words: Sequence[str], flag: str) -> list[tuple[str, str]]:
    found = [words[number + 1].partition("=") for number, word in enumerate(words) if word == flag]
    return [(name, value) for name, _, value in found]


def _groups(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """As (mode, devices); devices that stand alone are of one group of the mode ""."""
    groups: list[tuple[str, list[str]]] = []
    for word in words:
        if not word.startswith("/"):
            groups.append((word, []))
        elif groups:
            groups[-1][1].append(word)
        else:
            groups.append(("", [word]))
    return groups


def _only(layer: Layer, *known: str) -> None:
    values = layer.node.call.values
    more = [p.name for p in layer.driver.info.params if p.name not in known and values[p.name] != p.default]
    if more:
        raise BadInput(f"--as disko: it cannot say {', '.join(more)} of {layer.node.call.text}; take --as shell.")


def _nix(value: object, depth: int = 0) -> str:
    space = "  " * (depth + 1)
    if isinstance(value, Expression):
        return value.text
    if isinstance(value, Mapping):
        lines = [f"{space}{_name(str(name))} = {_nix(each, depth + 1)};\n" for name, each in value.items()]
        return "{\n" + "".join(lines) + "  " * depth + "}"
    if isinstance(value, list):
        return "[ " + " ".join(_nix(each, depth) for each in value) + " ]"
    return str(value) if isinstance(value, int) else _string(str(value))


def _name(name: str) -> str:
    return name if name.replace("_", "a").replace("-", "a").isalnum() and name[0].isalpha() else _string(name)


def _string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("${", "\\${") + '"'


_WRITERS: Mapping[str, Callable[[Layer, Recipe, dict[str, Set], dict[str, Set]], None]] = {
    "disk": _disk,
    "md": _array,
    "lvm": _volume,
    "ext4": _file_system,
    "xfs": _file_system,
    "btrfs": _file_system,
    "zfs": _pool,
}

FORMAT = Format("disko", "a configuration of disko for NixOS", write)
