"""What a layer gives to the layer above it."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What a layer gives to the layer above it."""

    BLOCK = "block"  # a block device
    DIRECTORY = "directory"  # a directory on a mounted file system
    IMAGE = "image"  # a disk image file
    GUEST = "guest"  # a running virtual machine
    ENGINE = "engine"  # a container engine
    CONTAINER = "container"  # a directory in a running container, where what runs on a directory can run
    GRANT = "grant"  # what the operator gave: a loop file of ours or a claimed device; only `disk` sits on it
