"""The configuration of Docker's daemon."""

from __future__ import annotations

import json

from strata.errors import BadInput
from strata.model import Kind
from strata.recipes.formats._parts import (
    afterwards,
    at_boot,
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

# An object of JSON in another is merged. Options of a driver are of that driver: those that were there go.
MERGE = """jq -s '(.[0] | del(.["storage-opts"])) * .[1]' /etc/docker/daemon.json daemon.json >merged.json"""


def write(recipe: Recipe) -> tuple[File, ...]:
    call = running(recipe, "docker")
    if call is not None:
        driver = str(call["driver"])
    else:
        driver = recipe.top.filesystem if recipe.top.filesystem in ("btrfs", "zfs") else "overlay2"
    # The image store of containerd keeps images in /var/lib/containerd, not on the stack, and knows no such drivers.
    settings: dict[str, object] = {"storage-driver": driver, "features": {"containerd-snapshotter": False}}
    options = []
    if driver == "devicemapper" and recipe.top.kind is Kind.BLOCK:
        if recipe.top.thin_pool is None:
            raise BadInput("--as docker: devicemapper takes a thin pool; choose a stack that ends in lvmthin.")
        options.append(f"dm.thinpooldev=/dev/mapper/{recipe.top.thin_pool}")
    else:
        settings["data-root"] = f"{must_be_directory(recipe, 'docker')}/docker"
    if call is not None and call["base_size"] is not None:
        name = "dm.basesize" if driver == "devicemapper" else f"{driver}.size"
        options.append(f"{name}={call['base_size']}")
    if call is not None and call["fs"] is not None:
        options.append(f"dm.fs={call['fs']}")
    if options:
        settings["storage-opts"] = options
    expected = f"{driver} {settings.get('data-root', '/var/lib/docker')}"
    remarks = [
        *heading(recipe),
        first_the_stack(recipe),
        *at_boot(recipe),
        *tied_to(recipe, "docker"),
        "Where there is no /etc/docker/daemon.json, put this one there. Where there is one, keep its other settings",
        "(jq is in Debian's package jq):",
        f"  {MERGE}",
        "  dockerd --validate --config-file merged.json   (Docker 23 or newer)",
        "  cp /etc/docker/daemon.json /etc/docker/daemon.json.before && cp merged.json /etc/docker/daemon.json",
        "Then systemctl daemon-reload and restart docker. Images and containers that it had stay where they were.",
        *afterwards(
            f"`docker info --format '{{{{.Driver}}}} {{{{.DockerRootDir}}}}'` says {expected}",
            "remove the drop-in, and put /etc/docker/daemon.json.before in its place again; where there was none, "
            "remove daemon.json.",
        ),
        *(("Docker 25 and newer have no devicemapper: this is for an older one.",) if driver == "devicemapper" else ()),
        *not_measured(recipe, "docker", driver),
    ]
    return (
        File("daemon.json", json.dumps(settings, indent=2) + "\n", "/etc/docker/daemon.json", added=True),
        File("daemon.json.txt", "\n".join(remarks) + "\n"),
        *tied(recipe, "docker"),
    )


FORMAT = Format("docker", "daemon.json with the storage driver and the directory on the stack", write)
