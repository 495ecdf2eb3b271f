"""A storage pool of libvirt on the stack, and the disk of a guest as it was measured."""

from __future__ import annotations

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from strata.errors import BadInput
from strata.model import Kind
from strata.recipes.formats._parts import afterwards, at_boot, first_the_stack, running, thin_pool, volume_group
from strata.recipes.plan import Recipe
from strata.recipes.written import File, Format

_BUS = {"virtio-blk": ("virtio", "vda"), "virtio-scsi": ("scsi", "sda"), "sata": ("sata", "sda")}
_AIO = {"threads": "threads", "native": "native", "io_uring": "io_uring"}
_IOTUNE = (
    ("read_bps", "read_bytes_sec"),
    ("write_bps", "write_bytes_sec"),
    ("read_iops", "read_iops_sec"),
    ("write_iops", "write_iops_sec"),
)


def write(recipe: Recipe) -> tuple[File, ...]:
    name = recipe.name
    of_pool = afterwards(
        f"`virsh pool-info {name}`, after `virsh pool-define {name}-pool.xml` and `virsh pool-start {name}`.",
        f"`virsh pool-destroy {name}` and `virsh pool-undefine {name}`, which leave the data.",
    )
    files = [File(f"{name}-pool.xml", _text(_pool(recipe), recipe, of_pool))]
    if running(recipe, "vm") is not None:
        disk = _disk(recipe)
        target = disk.find("target")
        assert target is not None
        of_disk = afterwards(
            f"`virsh domblklist GUEST`, after `virsh attach-device GUEST {name}-disk.xml --config` and its next start.",
            f"`virsh detach-disk GUEST {target.get('dev')} --config`, which leaves the data.",
        )
        files.append(File(f"{name}-disk.xml", _text(disk, recipe, of_disk)))
    return tuple(files)


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
        SubElement(source, "name").text = group[0]
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
    SubElement(SubElement(pool, "target"), "path").text = path
    return pool


def _disk(recipe: Recipe) -> Element:
    """Source: "Domain XML format" of libvirt's manual, hard drives."""
    call, top = running(recipe, "vm"), recipe.top
    assert call is not None
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
        "io": _AIO[str(call["aio"])],
    }
    if call["discard"]:
        driver["discard"] = "unmap"
    if call["detect_zeroes"] != "off":
        driver["detect_zeroes"] = str(call["detect_zeroes"])
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
    return disk


def _text(element: Element, recipe: Recipe, after: list[str]) -> str:
    ElementTree.indent(element)
    lines = [f"{recipe.name}: {recipe.stack}", first_the_stack(recipe), *at_boot(recipe), *after]
    remarks = "\n".join([*lines, "A comment of XML has no two hyphens in a row: write - - without the space."])
    return f"<!--\n{re.sub('-(?=-)', '- ', remarks)}\n-->\n{ElementTree.tostring(element, encoding='unicode')}\n"


FORMAT = Format(
    "libvirt", "a storage pool of libvirt, and the disk of a guest with the cache mode that was measured", write
)
