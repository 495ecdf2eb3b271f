"""An entry of Proxmox VE's storage.cfg."""

from __future__ import annotations

from strata.errors import BadInput
from strata.model import Kind
from strata.recipes.formats._parts import afterwards, commented, first_the_stack, thin_pool, volume_group
from strata.recipes.plan import Recipe
from strata.recipes.written import File, Format


def write(recipe: Recipe) -> tuple[File, ...]:
    kind, settings = _storage(recipe)
    remarks = [
        f"{recipe.name}: {recipe.stack}",
        first_the_stack(recipe),
        *afterwards(
            f"pvesm status --storage {recipe.name}",
            f"pvesm remove {recipe.name}, which takes the entry away and leaves the data.",
        ),
    ]
    # Proxmox VE reads no comments inside an entry, and drops those between entries when it writes the file.
    lines = [f"{kind}: {recipe.name}", *(f"\t{name} {value}" for name, value in settings.items())]
    return (File("storage.cfg", commented(remarks) + "\n".join(lines) + "\n", "/etc/pve/storage.cfg"),)


def _storage(recipe: Recipe) -> tuple[str, dict[str, str]]:
    """Source: pvesm's manual, "Storage Configuration"."""
    top, both = recipe.top, "images,rootdir"
    group, pool = volume_group(recipe), thin_pool(recipe)
    if top.kind is Kind.IMAGE:
        raise BadInput(
            f"--as proxmox: it makes images itself, in a storage, and {recipe.stack} ends in one; "
            "choose the stack without the image."
        )
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


FORMAT = Format("proxmox", "an entry of Proxmox VE's storage.cfg", write)
