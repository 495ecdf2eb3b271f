"""A line for /etc/fstab."""

from __future__ import annotations

from strata.recipes.formats._parts import (
    NOFAIL,
    afterwards,
    commented,
    first_the_stack,
    heading,
    must_mount,
    not_needed_at_boot,
    restarts,
)
from strata.recipes.plan import Recipe
from strata.recipes.written import File, Format


def write(recipe: Recipe) -> tuple[File, ...]:
    mount = must_mount(recipe, "fstab")
    options, remarks = [mount.options or "defaults", NOFAIL], [first_the_stack(recipe)]
    remarks.append("Then add the line to those that /etc/fstab has, and run `systemctl daemon-reload`.")
    remarks.append(not_needed_at_boot(mount.path))
    if restarts(recipe):
        options.append(f"x-systemd.requires=strata-{recipe.name}.service")
        remarks.append(f"What lies below is started by strata-{recipe.name}.service: strata recipe ... --as systemd.")
    remarks += afterwards(
        f"`findmnt --verify` finds nothing wrong, and `findmnt {mount.path}` shows UUID {mount.uuid}.",
        f"`umount {mount.path}`, and take the line away.",
    )
    # ext4 is checked after the root file system; XFS and btrfs check themselves when they are mounted.
    check = 2 if mount.type.startswith("ext") else 0
    line = f"UUID={mount.uuid} {mount.path} {mount.type} {','.join(options)} 0 {check}\n"
    return (File("fstab", commented([*heading(recipe), *remarks]) + line, "/etc/fstab", added=True),)


FORMAT = Format("fstab", "a line of /etc/fstab, for a stack that ends in a mounted file system", write)
