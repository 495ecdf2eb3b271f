"""The initramfs of a lab machine: busybox, the few modules that the root needs, and what is laid over the root.

An archive in the "newc" format of cpio (Linux: Documentation/driver-api/early-userspace/buffer-format.rst), not
compressed: it is loaded by QEMU at once, and unpacking costs an emulated processor more than copying.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from importlib import resources
from pathlib import PurePosixPath

from strata.lab.image import Image

Entry = tuple[int, bytes]
"""Permission bits of a file, and its content."""

# What lies below it in the archive is laid over the root before /lab-init starts.
_INTO = "into"

_MAGIC = b"070701"
_TRAILER = "TRAILER!!!"


def of(image: Image, engine: bytes, more: Mapping[str, Entry] | None = None, *, reached: bool) -> bytes:
    """The initramfs that starts `image` with this strata-engine in its PATH. `more`: further files of its root.

    `reached`: by ssh, so it has the keys of this lab; without them labs of one hash are the same everywhere.
    """
    keys: dict[str, Entry] = {
        "etc/ssh/ssh_host_ed25519_key": (0o600, image.host_key_file.read_bytes()),
        "root/.ssh/authorized_keys": (0o600, image.key_file.with_suffix(".pub").read_bytes()),
    }
    boot: dict[str, Entry] = {f"lib/{path.name}": (0o644, path.read_bytes()) for path in image.boot.iterdir()}
    boot["bin/busybox"] = (0o755, boot.pop("lib/busybox")[1])
    boot["init"] = (0o755, _guest("init"))
    root: dict[str, Entry] = {
        "lab-init": (0o755, _guest("lab-init")),
        "usr/local/bin/strata-engine": (0o755, engine),
        **(keys if reached else {}),
        **(more or {}),
    }
    return cpio(boot | {f"{_INTO}/{path}": entry for path, entry in root.items()})


def cpio(files: Mapping[str, Entry]) -> bytes:
    """An archive of these files and the folders they lie in, all root's, all from the beginning of time.

    The same files give the same bytes. Its length is a multiple of 512, so that another may follow it.
    """
    folders = {str(parent): 0o755 for path in files for parent in PurePosixPath(path).parents if str(parent) != "."}
    # sshd trusts no key that others could have put there.
    folders.update({name: 0o700 for name in folders if PurePosixPath(name).name == ".ssh"})
    entries = [(name, stat.S_IFDIR | mode, b"") for name, mode in sorted(folders.items())]
    entries += [(name, stat.S_IFREG | mode, content) for name, (mode, content) in sorted(files.items())]
    archive = bytearray()
    for number, (name, mode, content) in enumerate(entries, start=1):
        archive += _record(number, name, mode, content)
    archive += _record(0, _TRAILER, 0, b"")
    archive += bytes(-len(archive) % 512)
    return bytes(archive)


def _record(number: int, name: str, mode: int, content: bytes) -> bytes:
    written = name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(mode) else 1
    # inode, mode, owner, group, links, time, size, four device numbers, length of the name, checksum (unused)
    fields = (number, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(written), 0)
    head = _MAGIC + b"".join(b"%08X" % field for field in fields) + written
    return head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)


def _guest(name: str) -> bytes:
    return (resources.files("strata.lab") / "guest" / name).read_bytes()
