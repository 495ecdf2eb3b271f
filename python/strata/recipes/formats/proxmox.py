"""An entry of Proxmox VE's storage.cfg, and the command that gives a guest the disk that was measured."""

from __future__ import annotations

import shlex

from strata.errors import BadInput
from strata.model import Call, Kind
from strata.recipes.formats._parts import (
    afterwards,
    at_boot,
    commented,
    first_the_stack,
    group_with_room,
    heading,
    running,
    thin_pool,
    volume_group,
)
from strata.recipes.plan import Recipe
from strata.recipes.written import File, Format

_BUS = {"virtio-blk": "virtio1", "virtio-scsi": "scsi1", "sata": "sata1"}
_LIMITS = {"read_iops": "iops_rd", "write_iops": "iops_wr", "read_bps": "bps_rd", "write_bps": "bps_wr"}


def write(recipe: Recipe) -> tuple[File, ...]:
    call = running(recipe, "vm")
    disk = _disk(recipe, call) if call is not None else ()
    try:
        kind, settings = _storage(recipe)
    except BadInput:
        if call is None or recipe.top.kind is not Kind.BLOCK:
            raise
        return disk  # no storage: the guest gets the device that was measured, and Proxmox VE makes none
    remarks = [
        *heading(recipe),
        first_the_stack(recipe),
        *at_boot(recipe),
        "Then add the entry to those that /etc/pve/storage.cfg has.",
        *_image(recipe),
        *afterwards(
            f"pvesm status --storage {recipe.name}",
            f"pvesm remove {recipe.name}, which takes the entry away and leaves the data.",
        ),
    ]
    # Proxmox VE reads no comments inside an entry, and drops those between entries when it writes the file.
    lines = [f"{kind}: {recipe.name}", *(f"\t{name} {value}" for name, value in settings.items())]
    text = commented(remarks) + "\n".join(lines) + "\n"
    return (File("storage.cfg", text, "/etc/pve/storage.cfg", added=True), *disk)


def _storage(recipe: Recipe) -> tuple[str, dict[str, str]]:
    """Source: pvesm's manual, "Storage Configuration"."""
    top, both = recipe.top, "images,rootdir"
    group, pool = volume_group(recipe), thin_pool(recipe)
    if top.kind is Kind.IMAGE:  # Proxmox VE makes images itself, in the storage that this one lies in
        top = recipe.layers[-1].below[0]
    # zfspool takes volumes and data sets; an image that was measured as a file stays one.
    if top.filesystem == "zfs" and top.name is not None and recipe.top.kind is not Kind.IMAGE:
        return "zfspool", {"pool": top.name, "content": both}
    if top.kind is Kind.DIRECTORY:
        kind = "btrfs" if top.filesystem == "btrfs" and top.path == top.mount else "dir"
        # is_mountpoint: without the mount below it would write to the file system of the machine
        return kind, {"path": top.path, "content": both, "is_mountpoint": top.mount or "1"}
    if pool is not None and group is not None:
        return "lvmthin", {"vgname": group[0], "thinpool": pool, "content": both}
    if group is not None:
        return "lvm", {"vgname": group_with_room(recipe, "proxmox"), "content": both}
    raise BadInput(
        f"--as proxmox: it takes a directory, btrfs, ZFS, or a volume group of LVM, and {recipe.stack} gives a bare "
        "device; put one of these on top."
    )


def _image(recipe: Recipe) -> list[str]:
    if recipe.top.kind is not Kind.IMAGE:
        return []
    return [f"The image of the recipe is not used there; its format is {recipe.top.name or 'raw'}."]


def _disk(recipe: Recipe, call: Call) -> tuple[File, ...]:
    """The command that gives a guest a disk as the one that was measured. Source: qm's manual, disk options, and
    PVE/QemuServer/Drive.pm.
    """
    if call["bus"] not in _BUS:
        raise BadInput(f"--as proxmox: Proxmox VE has no disk with bus={call['bus']}; choose {', '.join(_BUS)}.")
    bus, top = str(call["bus"]), recipe.top
    options = {"format": str(top.name or "raw")} if top.kind is Kind.IMAGE else {}
    options |= {"cache": str(call["cache"]), "aio": str(call["aio"])}
    options |= {"discard": "on"} if call["discard"] else {}
    # without it Proxmox VE looks for zeroes
    options["detect_zeroes"] = "0" if call["detect_zeroes"] == "off" else "1"
    options |= {"iothread": "1"} if call["iothread"] else {}
    options |= {theirs: str(call[ours]) for ours, theirs in _LIMITS.items() if call[ours] is not None}
    text = ",".join(f"{name}={value}" for name, value in options.items())
    own = _own_device(recipe)
    words = f"{shlex.quote(own)},{text}" if own else f'{recipe.name}:"$2",{text}'
    # virtio-scsi-single: a controller, and so a thread, for each disk
    controller = f"--scsihw virtio-scsi-{'single' if call['iothread'] else 'pci'} " if bus == "virtio-scsi" else ""
    remarks = [
        *heading(recipe),
        first_the_stack(recipe),
        *at_boot(recipe),
        f"A guest's disk as it was measured: sh {recipe.name}-disk.sh VMID{'' if own else ' GIB'}",
        *([f"The guest gets the device {own} itself: Proxmox VE makes no others in it."] if own else []),
        *(
            ["It sets the SCSI controller of the whole guest: every scsi disk of it is then on that one."]
            * bool(controller)
        ),
        *_differs(call),
        *afterwards(f"qm config VMID shows {_BUS[bus]}", f"qm set VMID --delete {_BUS[bus]}, which leaves the data."),
        f"Where the guest has a {_BUS[bus]} already, write another number.",
    ]
    usage = f'[ "$#" = {1 if own else 2} ] || {{ echo "usage: $0 VMID{"" if own else " GIB"}" >&2; exit 2; }}\n'
    script = f'set -eu\n{usage}qm set "$1" {controller}--{_BUS[bus]} {words}\n'
    return (File(f"{recipe.name}-disk.sh", "#!/bin/sh\n" + commented(remarks) + script),)


def _own_device(recipe: Recipe) -> str | None:
    """The device that a guest gets as it is, where Proxmox VE cannot make others like it."""
    if recipe.top.kind is not Kind.BLOCK or thin_pool(recipe) is not None:
        return None
    try:
        _storage(recipe)
    except BadInput:
        return recipe.top.path
    return None


def _differs(call: Call) -> list[str]:
    if call["detect_zeroes"] == "on" and call["discard"]:
        return ["Measured with detect_zeroes=on; with discard Proxmox VE has only unmap, which makes holes of zeroes."]
    return []


FORMAT = Format(
    "proxmox", "an entry of Proxmox VE's storage.cfg, and the command that gives a guest the disk measured", write
)
