"""An entry of Proxmox VE's storage.cfg."""

from __future__ import annotations

from strata.errors import BadInput
from strata.model import Kind
from strata.recipes.formats._parts import (
    afterwards,
    at_boot,
    commented,
    first_the_stack,
    running,
    thin_pool,
    volume_group,
)
from strata.recipes.plan import Recipe
from strata.recipes.written import File, Format

_BUS = {"virtio-blk": "virtio0", "virtio-scsi": "scsi0", "sata": "sata0"}


def write(recipe: Recipe) -> tuple[File, ...]:
    kind, settings = _storage(recipe)
    remarks = [
        f"{recipe.name}: {recipe.stack}",
        first_the_stack(recipe),
        *at_boot(recipe),
        "Then add the entry to those that /etc/pve/storage.cfg has.",
        *_disk(recipe),
        *afterwards(
            f"pvesm status --storage {recipe.name}",
            f"pvesm remove {recipe.name}, which takes the entry away and leaves the data.",
        ),
    ]
    # Proxmox VE reads no comments inside an entry, and drops those between entries when it writes the file.
    lines = [f"{kind}: {recipe.name}", *(f"\t{name} {value}" for name, value in settings.items())]
    return (File("storage.cfg", commented(remarks) + "\n".join(lines) + "\n", "/etc/pve/storage.cfg", added=True),)


def _storage(recipe: Recipe) -> tuple[str, dict[str, str]]:
    """Source: pvesm's manual, "Storage Configuration"."""
    top, both = recipe.top, "images,rootdir"
    group, pool = volume_group(recipe), thin_pool(recipe)
    if top.kind is Kind.IMAGE:  # Proxmox VE makes images itself, in the storage that this one lies in
        top = recipe.layers[-1].below[0]
    if top.filesystem == "zfs" and top.name is not None:
        return "zfspool", {"pool": top.name, "content": both}
    if top.kind is Kind.DIRECTORY:
        kind = "btrfs" if top.filesystem == "btrfs" and top.path == top.mount else "dir"
        # is_mountpoint: without the mount below it would write to the file system of the machine
        return kind, {"path": top.path, "content": both, "is_mountpoint": top.mount or "1"}
    if pool is not None and group is not None:
        return "lvmthin", {"vgname": group[0], "thinpool": pool, "content": both}
    if group is not None:
        return "lvm", {"vgname": group[0], "content": both}
    raise BadInput(
        f"--as proxmox: it takes a directory, btrfs, ZFS, or a volume group of LVM, and {recipe.stack} gives a bare "
        "device; put one of these on top."
    )


def _disk(recipe: Recipe) -> list[str]:
    """How a guest's disk is made there as the one that was measured. Source: qm's manual, disk options."""
    call, top = running(recipe, "vm"), recipe.top
    options = {"format": str(top.name or "raw")} if top.kind is Kind.IMAGE else {}
    found = [f"The image of the recipe is not used there; its format is {top.name or 'raw'}."] if options else []
    if call is None:
        return found
    if call["bus"] not in _BUS:
        raise BadInput(f"--as proxmox: Proxmox VE has no disk with bus={call['bus']}; choose {', '.join(_BUS)}.")
    options |= {"cache": str(call["cache"]), "aio": str(call["aio"])}
    options |= {"discard": "on"} if call["discard"] else {}
    options |= {"iothread": "1"} if call["iothread"] else {}
    text = ",".join(f"{name}={value}" for name, value in options.items())
    return [
        *found,
        f"A guest's disk as it was measured: qm set VMID --{_BUS[str(call['bus'])]} {recipe.name}:GIB,{text}",
    ]


FORMAT = Format("proxmox", "an entry of Proxmox VE's storage.cfg", write)
