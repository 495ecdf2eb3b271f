"""What several formats read out of a recipe: its mount, what a restart of the machine ends, what runs on it."""

from __future__ import annotations

from dataclasses import dataclass

from strata.errors import BadInput
from strata.model import Call, Command, Kind
from strata.recipes.plan import Layer, Recipe
from strata.recipes.remarks import remarks

NOFAIL = "nofail"
"""The option of a mount without which a missing disk ends the boot in the emergency shell. Source: systemd.mount(5)."""


@dataclass(frozen=True, slots=True)
class Mount:
    """The mount of the recipe's file system, as its layer does it."""

    uuid: str
    path: str
    type: str
    options: str  # as behind `mount -o`; "" for none


def mount_of(recipe: Recipe) -> Mount | None:
    """None where there is none, or where a program of its own mounts it (ZFS)."""
    for layer in recipe.layers:
        for step in layer.steps():
            argv = step.do.argv
            if argv[0] == "mount" and argv[-1] == recipe.mount:
                options = argv[argv.index("-o") + 1] if "-o" in argv else ""
                return Mount(layer.place.uuid, recipe.mount, argv[argv.index("-t") + 1], options)
    return None


def words_of_mkfs(layer: Layer, form: str) -> tuple[str, ...]:
    """The command that makes the file system. Raises BadInput where it takes more to be as it was measured than to be
    made and mounted (quotas of btrfs are turned on afterwards).
    """
    make, *rest = layer.steps()
    more = [step.why for step in rest if step.do.argv[0] not in ("mkdir", "mount")]
    if more:
        raise BadInput(
            f"--as {form}: it makes file systems and mounts them, and {layer.node.call.text} takes more: "
            f"{'; '.join(more)}. Take --as shell or --as ansible, which do it."
        )
    return make.do.argv


def heading(recipe: Recipe) -> list[str]:
    """The first lines of every file: the stack, and what the reader has to know of it."""
    return [f"{recipe.name}: {recipe.stack}", *remarks(recipe)]


WHAT = {Kind.BLOCK: "a block device", Kind.DIRECTORY: "a directory", Kind.IMAGE: "a disk image"}
"""What a recipe can end in, for people."""


def must_mount(recipe: Recipe, form: str) -> Mount:
    """Raises BadInput with the reason when there is nothing that a mount table could hold."""
    found = mount_of(recipe)
    if found is not None:
        return found
    if recipe.top.kind is Kind.BLOCK:
        why = f"{recipe.stack} ends in a block device, and {form} holds mounts"
    else:
        why = f"{recipe.top.filesystem or 'this file system'} mounts itself, by its own pool, and not from {form}"
    raise BadInput(f"--as {form}: {why}; take --as shell, or --as systemd.")


def restarts(recipe: Recipe) -> list[tuple[str, Command]]:
    """(why, command) of all that has to be done again after a restart of the machine, but for the mount."""
    found = []
    own_mount = mount_of(recipe) is not None
    for layer in recipe.layers:
        for step in layer.steps():
            mounts = step.do.argv[0] == "mount" and step.do.argv[-1] == recipe.mount
            if step.again is not None and not (mounts and own_mount):
                found.append((step.why, step.again))
    return found


def running(recipe: Recipe, name: str) -> Call | None:
    """The layer of this name that was measured on the stack; None: none was."""
    return next((node.call for node in recipe.above if node.call.name == name), None)


def not_measured(recipe: Recipe, name: str, takes: str) -> list[str]:
    """A sentence where no such program was measured on the stack, so that its choice is nobody's finding."""
    if running(recipe, name) is not None:
        return []
    return [f"{name} was not part of what was measured; {takes} is only what fits this storage."]


def volume_group(recipe: Recipe) -> tuple[str, str] | None:
    """The volume group and volume that the stack ends in, where it ends in one of LVM."""
    name, path = recipe.top.name, recipe.top.path
    if recipe.top.kind is not Kind.BLOCK or name is None or path != f"/dev/{name}":
        return None
    group, _, volume = name.partition("/")
    return group, volume


def thin_pool(recipe: Recipe) -> str | None:
    """The thin pool of LVM that the stack ends in a volume of, as LVM calls it."""
    found = volume_group(recipe)
    if found is None or recipe.top.thin_pool is None:
        return None
    mapped = found[0].replace("-", "--")
    return recipe.top.thin_pool.removeprefix(f"{mapped}-").removesuffix("-tpool").replace("--", "-")


def must_be_directory(recipe: Recipe, form: str) -> str:
    """The directory that it ends in. Raises BadInput for a block device or an image."""
    if recipe.top.kind is not Kind.DIRECTORY:
        raise BadInput(
            f"--as {form}: it keeps its data in a directory, and {recipe.stack} gives {WHAT[recipe.top.kind]}; "
            "choose a stack that ends in a file system."
        )
    return recipe.top.path


def group_with_room(recipe: Recipe, form: str) -> str:
    """The volume group that it ends in, where another program can make volumes in it that are as the one measured.
    Raises BadInput with the reason where it cannot.
    """
    found, layer = volume_group(recipe), recipe.layers[-1]
    assert found is not None
    call = layer.node.call
    if call.name != "lvm" or call["type"] != "linear":
        why = f"makes linear volumes in a volume group, and those of {call.text} would be others"
    elif call["size"] is None and call["snapshots"] is None:
        why = f"makes the disks of guests in the free room of the volume group, and {call.text} leaves none"
    else:
        return found[0]
    raise BadInput(f"--as {form}: it {why}; choose lvmthin, lvm(size=...), or a stack that ends in a file system.")


def first_the_stack(recipe: Recipe) -> str:
    return f"Build the storage first: strata recipe ... --as shell, then `sh {recipe.name}.sh apply`."


def at_boot(recipe: Recipe) -> list[str]:
    """For programs that would find an empty directory after a restart of the machine, and write into it."""
    if not restarts(recipe) and mount_of(recipe) is None:
        return []
    return ["Let it come back at boot, before this is started: strata recipe ... --as systemd."]


def tied_to(recipe: Recipe, *services: str) -> list[str]:
    """Of the drop-ins that `_units.tied` writes."""
    files = " or ".join(f"{each}.service.d/strata-{recipe.name}.conf" for each in services)
    return [f"Put the drop-in in place (/etc/systemd/system/{files}): without the storage the service is not started."]


def afterwards(check: str, back: str) -> list[str]:
    """How one sees that it is in place, and how it is removed again."""
    return [f"Is it in place? {check}", f"The way back: {back}"]


def not_needed_at_boot(mount: str) -> str:
    """Of a mount with `NOFAIL`."""
    return (
        f"{NOFAIL}: boot does not wait for this file system and goes on without it where a disk is missing. A service "
        f"that uses it needs RequiresMountsFor={mount}: without, it may start first and write to the empty directory "
        "below, at any boot."
    )


def erased(recipe: Recipe) -> list[str]:
    """The same of what an installer makes, which keeps nothing that the devices carried."""
    devices = " ".join(each.path for each in recipe.given)
    at = recipe.top.path
    seen = f"`findmnt {at}` shows it" if recipe.top.kind is Kind.DIRECTORY else f"`lsblk {at}` shows it"
    stop = f"`umount {at}`, stop" if recipe.top.kind is Kind.DIRECTORY else "stop"
    return afterwards(
        f"{seen}, and `lsblk --fs {devices}` every layer of it.",
        f"{stop} what lies below, and `wipefs --all {devices}`. What they carried before does not come back.",
    )


def commented(lines: list[str]) -> str:
    return "".join(f"# {line}\n" for line in lines)
