"""Storage pools of LXD and Incus, which take the same words."""

from __future__ import annotations

import shlex

from strata.errors import BadInput
from strata.model import Kind
from strata.recipes.formats._parts import (
    WHAT,
    afterwards,
    at_boot,
    commented,
    first_the_stack,
    heading,
    not_measured,
    running,
    thin_pool,
    tied_to,
    volume_group,
)
from strata.recipes.formats._units import tied
from strata.recipes.plan import Recipe
from strata.recipes.written import File


def write(recipe: Recipe, *, layer: str, client: str, services: tuple[str, ...]) -> tuple[File, ...]:
    call = running(recipe, layer)
    backend = str(call["backend"]) if call is not None else _fitting(recipe, layer)
    words = [client, "storage", "create", recipe.name, backend, *_settings(recipe, backend, layer)]
    if call is not None and call["base_size"] is not None:
        words.append(f"volume.size={call['base_size']}B")
    if call is not None and call["fs"] is not None:
        words.append(f"volume.block.filesystem={call['fs']}")
    remarks = [
        *heading(recipe),
        first_the_stack(recipe),
        *at_boot(recipe),
        *tied_to(recipe, *services),
        *not_measured(recipe, layer, backend),
    ]
    remarks += afterwards(
        f"{client} storage info {recipe.name}",
        f"{client} storage delete {recipe.name}, when no instance is in it.",
    )
    # Both clients take what they find on standard input for a configuration, and wait for its end.
    # The root of a file system is not empty, as they want a pool of directories to be: ext4 has its lost+found there.
    first = f"mkdir -p -- {shlex.quote(_directory(recipe, layer))}\n" if backend == "dir" else ""
    source = next(word.partition("=")[2] for word in words if word.startswith("source="))
    there = (
        f"if there=$({client} storage show {recipe.name} 2>/dev/null); then\n"
        f'  if echo "$there" | grep -qx {shlex.quote(f"driver: {backend}")} &&\n'
        f'    echo "$there" | grep -qF {shlex.quote(source)}; then exit 0; fi\n'
        f'  echo "another pool is called {recipe.name}: make the recipe again with another --name" >&2; exit 3\n'
        "fi\n"
    )
    text = "#!/bin/sh\n" + commented(remarks) + f"set -eu\n{first}{there}{shlex.join(words)} </dev/null\n"
    return (File(f"{recipe.name}-{layer}.sh", text), *tied(recipe, *services))


def _fitting(recipe: Recipe, program: str) -> str:
    top = recipe.top
    if top.kind is Kind.DIRECTORY:
        return top.filesystem if top.filesystem in ("btrfs", "zfs") else "dir"
    if thin_pool(recipe) is not None:
        return "lvm"
    raise BadInput(
        f"--as {program}: its pools take a directory, a pool of ZFS or a thin pool of LVM, and {recipe.stack} gives "
        f"{WHAT[top.kind]}; choose one that ends in a file system or lvmthin."
    )


def _settings(recipe: Recipe, backend: str, program: str) -> list[str]:
    if backend == "zfs" and recipe.top.name is not None:
        return [f"source={recipe.top.name}/{program}"]
    if backend == "lvm":
        group, pool = volume_group(recipe), thin_pool(recipe)
        if group is None or pool is None:
            raise BadInput(f"--as {program}: its backend lvm takes a thin pool; choose a stack that ends in lvmthin.")
        # The volume that the recipe makes is in the pool, so to the daemon it is not empty.
        return [f"source={group[0]}", f"lvm.thinpool_name={pool}", "lvm.vg.force_reuse=true"]
    return [f"source={_directory(recipe, program) if backend == 'dir' else recipe.top.path}"]


def _directory(recipe: Recipe, program: str) -> str:
    return f"{recipe.top.path}/{program}"
