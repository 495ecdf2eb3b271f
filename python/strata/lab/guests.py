"""What guests of this machine start from: a lab's own system with our engine in it, in a folder beside the image."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from strata.hosts import ssh
from strata.hosts.ssh import HOST_ALIAS, Identity, Server
from strata.lab import initramfs, qemu
from strata.lab.image import Image
from strata.lab.qemu import Accel
from strata.model import GuestImage

# Several that boot at once on a busy machine are kept waiting, and the kernel would take its timer to be broken and
# panic ("IO-APIC + timer doesn't work").
_PATIENT = "no_timer_check"


def prepared(image: Image, engine: Path, accel: Accel) -> GuestImage:
    """Made unless it is there. It goes with the lab; what is in it never changes, for its name says what it holds."""
    initrd = initramfs.of(image, engine.read_bytes())
    directory = image.directory / "guests" / hashlib.sha256(initrd).hexdigest()[:16]
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
            part.rename(directory)
        except OSError:
            if not directory.exists():  # another process was faster
                raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
    sizes = image.root.stat().st_size, image.modules.stat().st_size
    boot = [
        *qemu.system(directory / "root", directory / "modules", sizes),
        *("-kernel", str(directory / "kernel"), "-initrd", str(directory / "initrd")),
        *("-append", f"{qemu.KERNEL} {_PATIENT} strata.clock=real strata.guest"),
    ]
    identity = Identity(directory / "key", directory / "known_hosts")
    return GuestImage(str(directory), accel, tuple(boot), tuple(ssh.options(Server("", None, identity))))
