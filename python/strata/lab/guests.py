"""What guests start from, on this machine or within a lab machine: a lab's own system with our engine in it."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path, PurePath, PurePosixPath

from strata.hosts import ssh
from strata.hosts.ssh import HOST_ALIAS, Identity, Server
from strata.lab import contents, initramfs, qemu
from strata.lab.image import Image
from strata.lab.initramfs import Entry
from strata.model import GuestImage
from strata.processors import Accel

# Several that boot at once on a busy machine are kept waiting, and the kernel would take its timer to be broken and
# panic ("IO-APIC + timer doesn't work").
_PATIENT = "no_timer_check"

# In a lab machine: what `carried` puts there, and the NVDIMMs that /init found its own system in.
_WITHIN = PurePosixPath("/usr/local/lib/strata-guest")
_ROOT, _MODULES = PurePosixPath("/dev/strata-root"), PurePosixPath("/dev/strata-modules")


def prepared(image: Image, engine: Path, accel: Accel) -> GuestImage:
    """For guests of this machine, in a folder beside the image."""
    directory = _made(image, engine)
    root, modules = directory / "root", directory / "modules"
    return GuestImage(str(directory), accel, _boot(directory, root, modules, image), _ssh(directory))


def carried(image: Image, engine: Path) -> dict[str, Entry]:
    """What a lab machine has to have in its root for guests within: path from the root -> its content."""
    directory = _made(image, engine)
    names = {"kernel": 0o644, "initrd": 0o644, "key": 0o600, "known_hosts": 0o644}
    return {f"{_WITHIN}/{name}".lstrip("/"): (mode, (directory / name).read_bytes()) for name, mode in names.items()}


def within(image: Image, engine: Path, accel: Accel) -> GuestImage:
    """For guests within a lab machine of `image` that has what `carried` says."""
    boot = _boot(_WITHIN, _ROOT, _MODULES, image)
    return GuestImage(str(_made(image, engine)), accel, boot, _ssh(_WITHIN))


def _made(image: Image, engine: Path) -> Path:
    """The folder, made unless it is there. It goes with the lab; what is in it never changes, for its name says what
    it holds."""
    initrd = initramfs.of(image, engine.read_bytes(), reached=True)
    directory = image.directory / "guests" / hashlib.sha256(initrd).hexdigest()[:16]
    if directory.exists() and not _whole(directory, initrd):
        shutil.rmtree(directory, ignore_errors=True)
    if not directory.exists():
        part = directory.with_name(f"{directory.name}.{os.getpid()}")
        part.mkdir(parents=True)
        try:
            (part / "initrd").write_bytes(initrd)
            (part / "known_hosts").write_text(f"{HOST_ALIAS} {image.host_key}\n")
            for name, target in (
                ("kernel", image.kernel),
                ("root", image.root),
                ("modules", image.modules),
                ("key", image.key_file),
            ):
                (part / name).symlink_to(target)
            contents.put(part, directory)
        except OSError:
            if not directory.exists():  # another process was faster
                raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return directory


def _whole(directory: Path, initrd: bytes) -> bool:
    """Whether it is as it was made: a power failure may leave files empty, and it would fail at each start."""
    try:
        return (directory / "initrd").read_bytes() == initrd and bool((directory / "known_hosts").read_text())
    except (OSError, ValueError):
        return False


def _boot(directory: PurePath, root: PurePath, modules: PurePath, image: Image) -> tuple[str, ...]:
    sizes = image.root.stat().st_size, image.modules.stat().st_size
    return (
        *qemu.system(root, modules, sizes),
        *("-kernel", str(directory / "kernel"), "-initrd", str(directory / "initrd")),
        *("-append", f"{qemu.KERNEL} {_PATIENT} strata.clock=real strata.guest"),
    )


def _ssh(directory: PurePath) -> tuple[str, ...]:
    identity = Identity(Path(directory / "key"), Path(directory / "known_hosts"))
    return tuple(ssh.options(Server("", None, identity)))
