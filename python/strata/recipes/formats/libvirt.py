"""A storage pool of libvirt on the stack, and the disk of a guest as it was measured."""

from __future__ import annotations

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from strata.errors import BadInput
from strata.model import Call, Kind
from strata.recipes.formats._parts import (
    afterwards,
    at_boot,
    first_the_stack,
    group_with_room,
    heading,
    running,
    thin_pool,
    volume_group,
)
from strata.recipes.plan import Recipe
from strata.recipes.remarks import risks
from strata.recipes.written import File, Format

_BUS = {"virtio-blk": ("virtio", "vdb"), "virtio-scsi": ("scsi", "sdb"), "sata": ("sata", "sdb")}
_IOTUNE = (
    ("read_bps", "read_bytes_sec"),
    ("write_bps", "write_bytes_sec"),
    ("read_iops", "read_iops_sec"),
    ("write_iops", "write_iops_sec"),
)


def write(recipe: Recipe) -> tuple[File, ...]:
    call = running(recipe, "vm")
    disk, attach = _disk_files(recipe, call) if call is not None else ((), [])
    try:
        pool = _pool(recipe)
    except BadInput:
        if call is None or recipe.top.kind is not Kind.BLOCK:
            raise
        return (*disk, _commands(recipe, attach))  # no pool: the guest gets the device that was measured
    name, define = recipe.name, _define(recipe, pool.get("type") == "dir")
    return (File(f"{name}-pool.xml", _text(pool, recipe)), *disk, _commands(recipe, [*define, *attach]))


def _commands(recipe: Recipe, lines: list[str]) -> File:
    """Apart from the XML, whose comments hold no two hyphens in a row: nobody could copy an option from there."""
    text = [*heading(recipe), first_the_stack(recipe), *at_boot(recipe), *lines]
    return File(f"{recipe.name}-libvirt.txt", "\n".join(text) + "\n")


def _define(recipe: Recipe, is_directory: bool) -> list[str]:
    name = recipe.name
    steps = ["define {}-pool.xml", *(["build {}"] if is_directory else []), "start {}", "autostart {}"]
    lines = ["The pool:", *(f"  virsh pool-{step.format(name)}" for step in steps)]
    if is_directory:
        lines.append(
            "Build it once, with the storage mounted: its directory is there only, so where a disk is missing at boot "
            "the pool is not started, and nothing is written to the empty mount point."
        )
    return lines + afterwards(
        f"`virsh pool-info {name}` says running.",
        f"`virsh pool-destroy {name}` and `virsh pool-undefine {name}`, which leave the data.",
    )


def _disk_files(recipe: Recipe, call: Call) -> tuple[tuple[File, ...], list[str]]:
    """The files, and what to do with them."""
    name, disk = recipe.name, _disk(recipe, call)
    target = disk.find("target")
    assert target is not None
    steps = [f"attach-device GUEST {name}-disk.xml --config"]
    if call["bus"] == "virtio-scsi":
        steps.insert(0, f"attach-device GUEST {name}-controller.xml --config")
    if call["iothread"]:
        steps.insert(0, "iothreadadd GUEST 1 --config")
    lines = [
        "The disk of GUEST, which has it from its next start:",
        *(f"  virsh {step}" for step in steps),
        f"GUEST has a disk {target.get('dev')} already? Write another letter in {name}-disk.xml.",
        *(["GUEST has an I/O thread 1 already? Leave that command out."] if call["iothread"] else []),
    ]
    files = [File(f"{name}-disk.xml", _text(disk, recipe))]
    back = f"`virsh detach-disk GUEST {target.get('dev')} --config`, which leaves the data"
    if call["bus"] == "virtio-scsi":
        controller = Element("controller", type="scsi", index="0", model="virtio-scsi")
        if call["iothread"]:
            SubElement(controller, "driver", iothread="1")
        files.insert(0, File(f"{name}-controller.xml", _text(controller, recipe)))
        lines.append(
            f"GUEST has a SCSI controller 0 already? Write the next free number in {name}-controller.xml and in the "
            f"address in {name}-disk.xml."
        )
        back += f"; `virsh detach-device GUEST {name}-controller.xml --config`"
    return tuple(files), [*lines, *afterwards("`virsh domblklist GUEST` shows it.", f"{back}.")]


def _pool(recipe: Recipe) -> Element:
    top, group = recipe.top, volume_group(recipe)
    if top.filesystem == "zfs" and top.name is not None:
        pool = Element("pool", type="zfs")
        SubElement(pool, "name").text = recipe.name
        SubElement(SubElement(pool, "source"), "name").text = top.name
        return pool
    if thin_pool(recipe) is not None:
        raise BadInput(
            f"--as libvirt: its logical pools make thick volumes, and know nothing of the thin pool of {recipe.stack}; "
            "take --as shell, and give guests thin volumes of it by hand."
        )
    if group is not None:
        pool = Element("pool", type="logical")
        SubElement(pool, "name").text = recipe.name
        source = SubElement(pool, "source")
        SubElement(source, "name").text = group_with_room(recipe, "libvirt")
        SubElement(source, "format", type="lvm2")
        SubElement(SubElement(pool, "target"), "path").text = f"/dev/{group[0]}"
        return pool
    if top.kind is Kind.BLOCK:
        raise BadInput(
            f"--as libvirt: its pools take a directory, ZFS or a volume group, and {recipe.stack} gives a bare device; "
            "put a file system or lvm on top."
        )
    pool = Element("pool", type="dir")
    SubElement(pool, "name").text = recipe.name
    path = top.path.rpartition("/")[0] if top.kind is Kind.IMAGE else top.path
    SubElement(SubElement(pool, "target"), "path").text = f"{path}/libvirt"
    return pool


def _disk(recipe: Recipe, call: Call) -> Element:
    """Source: "Domain XML format" of libvirt's manual, hard drives."""
    top = recipe.top
    if call["bus"] not in _BUS:
        raise BadInput(
            f"--as libvirt: libvirt has no disk with bus={call['bus']}; choose virtio-blk, virtio-scsi or sata."
        )
    bus, name = _BUS[str(call["bus"])]
    block = top.kind is Kind.BLOCK
    disk = Element("disk", type="block" if block else "file", device="disk")
    driver = {
        "name": "qemu",
        "type": "raw" if block else top.name or "raw",
        "cache": str(call["cache"]),
        "io": str(call["aio"]),
        "discard": "unmap" if call["discard"] else "ignore",
        "detect_zeroes": str(call["detect_zeroes"]),
    }
    if call["iothread"] and bus == "virtio":
        driver["iothread"] = "1"
    SubElement(disk, "driver", driver)
    SubElement(disk, "source", {"dev" if block else "file": top.path})
    SubElement(disk, "target", dev=name, bus=bus)
    limits = [(theirs, call[ours]) for ours, theirs in _IOTUNE if call[ours] is not None]
    if limits:
        tune = SubElement(disk, "iotune")
        for theirs, value in limits:
            SubElement(tune, theirs).text = str(value)
    if bus == "scsi":
        SubElement(disk, "address", type="drive", controller="0", bus="0", target="0", unit="1")
    return disk


def _text(element: Element, recipe: Recipe) -> str:
    ElementTree.indent(element)
    remarks = "\n".join([f"{recipe.name}: {recipe.stack}", *risks(recipe), f"Commands: {recipe.name}-libvirt.txt"])
    # a comment of XML has no two hyphens in a row
    return f"<!--\n{re.sub('-(?=-)', '- ', remarks)}\n-->\n{ElementTree.tostring(element, encoding='unicode')}\n"


FORMAT = Format(
    "libvirt", "a storage pool of libvirt, and the disk of a guest with the cache mode that was measured", write
)
