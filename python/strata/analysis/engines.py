"""Where container engines compared under one workload do not do the same work: what a reader must know of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ENGINE = re.compile(r"\| *(docker|podman|containerd|lxc|lxd|incus)\b")

_UNLIKE = {
    "container/build": {
        "containerd": "containerd builds no images: buildah builds in overlay storage of its own, whatever the "
        "snapshotter is (on a thin pool even beside the stack), writes the image to a file, and containerd imports "
        "that; its time has all three in it",
        "docker": "Docker's builder makes a container for each instruction, those that copy files too",
        "podman": "Podman makes a container for each RUN instruction alone",
    },
    "container/lifecycle": {
        "containerd": "containerd's client has no command that stops a container: two programs are started, one after "
        "the other, and up to five to remove one, the last of which has its garbage collected",
        "docker": "Docker is asked by one program and its daemon does the work",
        "podman": "Podman has no daemon: the program that is started does the work itself",
        "lxc": "LXC has no daemon and no images: the program that is started copies a whole container to create one",
        "lxd": "LXD is asked by one program and its daemon does the work; its backend dir unpacks the image for every "
        "container",
        "incus": "Incus is asked by one program and its daemon does the work; its backend dir unpacks the image for "
        "every container",
    },
}


def unlike_work(workload: str, stacks: Sequence[str]) -> tuple[str, ...]:
    """What the engines of these stacks do that the others do not, one clause for each engine. None where all stacks
    have the same engine, or none, or the workload asks the same work of each."""
    about = _UNLIKE.get(workload.partition("(")[0], {})
    found = {match[1] for stack in stacks if (match := _ENGINE.search(stack))}
    return tuple(clause for engine, clause in about.items() if engine in found) if len(found) > 1 else ()
