"""The storage configuration of Podman."""

from __future__ import annotations

from strata.errors import BadInput
from strata.recipes.formats._parts import (
    afterwards,
    at_boot,
    commented,
    first_the_stack,
    heading,
    must_be_directory,
    not_measured,
    running,
    tied_to,
)
from strata.recipes.formats._units import tied
from strata.recipes.plan import Recipe
from strata.recipes.written import File, Format

_SERVICES = ("podman", "podman-restart")  # what starts containers at boot, and answers the API


def write(recipe: Recipe) -> tuple[File, ...]:
    call, root = running(recipe, "podman"), must_be_directory(recipe, "podman")
    if call is not None and call["user"] is not None:
        raise BadInput(
            f"--as podman: {call.text} was measured as an ordinary user, whose storage.conf is his own "
            "(~/.config/containers/storage.conf), and not the machine's; choose a stack whose Podman is root's, or "
            "have that user set graphroot to a directory of his on the stack."
        )
    if call is not None:
        driver = str(call["driver"])
    else:
        driver = recipe.top.filesystem if recipe.top.filesystem in ("btrfs", "zfs") else "overlay"
    lines = [
        "[storage]",
        f'driver = "{driver}"',
        f'graphroot = "{root}/containers"',
        'runroot = "/run/containers/storage"',
    ]
    if call is not None and call["base_size"] is not None:
        lines += ["", f"[storage.options.{driver}]", f'size = "{call["base_size"]}"']
    remarks = [
        *heading(recipe),
        first_the_stack(recipe),
        *at_boot(recipe),
        *tied_to(recipe, *_SERVICES),
        f"What you start by hand, or by a quadlet, is not held back: give its unit RequiresMountsFor={recipe.mount}.",
        "Where there is no /etc/containers/storage.conf, put this one there.",
        "Where there is one, set these keys in its tables of the same names and leave the rest; keep a copy of it.",
        *not_measured(recipe, "podman", driver),
    ]
    remarks += afterwards(
        "`podman info --format '{{.Store.GraphDriverName}} {{.Store.GraphRoot}}'` says "
        f"{driver} {root}/containers",
        "put the old storage.conf in its place again; images and containers stay where they are.",
    )
    return (
        File("storage.conf", commented(remarks) + "\n".join(lines) + "\n", "/etc/containers/storage.conf", added=True),
        *tied(recipe, *_SERVICES),
    )


FORMAT = Format("podman", "storage.conf with the driver and the directory on the stack", write)
