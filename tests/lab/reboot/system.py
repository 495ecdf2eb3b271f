"""A Debian whose first process is systemd, with the kernel and the modules of a lab: what a reboot test starts from."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from strata.hosts.local import LocalHost
from strata.lab import bootstrap, contents, sources, squashfs
from strata.lab.bootstrap import Hook, Site
from strata.lab.image import Image
from strata.model import Command

MARKER = "reboot-test"

_PACKAGES = (
    *("systemd-sysv", "udev", "kmod", "util-linux", "mount", "procps", "initramfs-tools", "busybox"),
    *("lvm2", "dmsetup", "dmeventd", "thin-provisioning-tools", "mdadm", "bcache-tools", "vdo"),
    *("btrfs-progs", "xfsprogs", "e2fsprogs", "fdisk", "zfsutils-linux"),
)


@dataclass(frozen=True, slots=True)
class System:
    """What QEMU boots. The root is only read."""

    kernel: Path
    initrd: Path
    root: Path  # squashfs


def built(lab: Image, progress: Callable[[str], None]) -> System:
    """The one that is kept beside the lab, made now where there is none. Raises CommandFailed, Refused."""
    setup = (Path(__file__).parent / "setup.sh").read_text()
    key = hashlib.sha256(json.dumps([_PACKAGES, setup]).encode()).hexdigest()[:16]
    directory = lab.directory / "reboot" / key
    if not directory.is_dir():
        part = directory.with_name(f"{key}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        progress("makes a Debian with systemd, once (about 4 minutes)")
        _make(lab, setup, part)
        contents.put(part, directory)
    return System(lab.kernel, directory / "initrd", directory / "root.sqfs")


def _make(lab: Image, setup: str, part: Path) -> None:
    host, release, scratch = LocalHost(MARKER), lab.kernel_version, part / "scratch"
    scratch.mkdir()
    rights = bootstrap.rights(part)
    bootstrap.check(rights, host)
    modules, tar, initrd = scratch / "modules.tar", scratch / "root.tar", scratch / "initrd.tar"
    host.run(Command(("unsquashfs", "-quiet", "-no-progress", "-dest", str(scratch / "modules"), str(lab.modules))))
    place = ("--owner=0", "--group=0", "--transform=s,^,usr/lib/modules/,")
    host.run(Command(("tar", *place, "-C", str(scratch / "modules"), "-cf", str(modules), release)))
    (scratch / "setup.sh").write_text(setup)
    hooks = (
        Hook("customize", f"tar-in {modules} /"),
        Hook("customize", f'sh {scratch / "setup.sh"} "$1" {release}'),
        Hook("customize", f"tar-out /boot {initrd}"),
    )
    site = Site(host, sources.mirror(host), rights, scratch, lambda line: None)
    bootstrap.make(site, lab.spec.suite, _PACKAGES, hooks, tar)
    squashfs.of_tar(host, tar, part / "root.sqfs")
    host.run(Command(("tar", "-C", str(scratch), "-xf", str(initrd), "--wildcards", "*initrd.img*")))
    (image,) = scratch.rglob("initrd.img*")
    image.rename(part / "initrd")
    shutil.rmtree(scratch)
