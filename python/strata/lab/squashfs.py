"""Squashfs images, padded as an NVDIMM must be."""

from __future__ import annotations

import os
from pathlib import Path

from strata.hosts.base import Host
from strata.model import Command

# The kernel takes a region of persistent memory in pieces of this size.
_PIECE_BYTES = 128 << 20

# Level 9 is within 1 % of level 12 and takes a quarter of its time. Small files are packed together, big ones in
# blocks of 128 KiB, mksquashfs' own choice: a larger one costs the guest more for every small read.
_OPTIONS = ("-comp", "zstd", "-Xcompression-level", "9", "-noappend", "-no-progress", "-quiet")
# An archive says nothing of the folder that it is unpacked into. mksquashfs gives it to whoever calls, whatever
# -root-uid says (4.5.1), so that root must seem to call.
_TOP = ("-root-mode", "0755")
_AS_ROOT = () if os.geteuid() == 0 else ("unshare", "--map-root-user")
_TIMEOUT_S = 1800.0

# No file is newer than this, so that the same packages give the same bytes on every day: 2026-01-01, in seconds.
ALWAYS_THE_SAME = ("SOURCE_DATE_EPOCH=1767225600",)


def of_directory(host: Host, directory: Path, image: Path) -> None:
    """Everything in `directory`, owned by root. Raises CommandFailed."""
    argv = ("env", *ALWAYS_THE_SAME, "mksquashfs", str(directory), str(image), "-all-root", *_OPTIONS)
    host.run(Command(argv, timeout_s=_TIMEOUT_S))
    _pad(image)


def of_tar(host: Host, tar: Path, image: Path) -> None:
    """Owners, devices and attributes as the archive has them; no right is needed for that. Raises CommandFailed."""
    shell = 'tar=$1 image=$2; shift 2; exec mksquashfs - "$image" -tar "$@" < "$tar"'
    argv = ("env", *ALWAYS_THE_SAME, *_AS_ROOT, "sh", "-c", shell, "sh", str(tar), str(image), *_TOP, *_OPTIONS)
    host.run(Command(argv, timeout_s=_TIMEOUT_S))
    _pad(image)


def used_bytes(image: Path) -> int:
    """Without the padding: the field bytes_used of the superblock."""
    with image.open("rb") as file:
        return int.from_bytes(file.read(48)[40:48], "little")


def _pad(image: Path) -> None:
    size = image.stat().st_size
    os.truncate(image, -(-size // _PIECE_BYTES) * _PIECE_BYTES)
