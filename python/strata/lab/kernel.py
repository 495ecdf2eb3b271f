"""A kernel for the lab: its packages unpacked, its modules chosen, unpacked and packed again as one image."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from strata.errors import Refused
from strata.hosts.base import Host
from strata.lab import modules, squashfs
from strata.lab.bootstrap import Site
from strata.lab.sources import Kernel
from strata.lab.spec import BEFORE_ROOT, MODULES
from strata.model import Command


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The files of a kernel in a scratch folder, the chosen modules only."""

    kernel: Kernel
    vmlinuz: Path
    tree: Path  # holds lib/modules/RELEASE


def unpack(site: Site, kernel: Kernel) -> Unpacked:
    """Raises CommandFailed, and Refused for a package that is not as Debian's are."""
    host, scratch = site.host, site.scratch
    whole, tree = scratch / "kernel", scratch / "modules"
    for package in kernel.suite.download(kernel.packages, scratch / "packages"):
        host.run(Command(("dpkg-deb", "-x", str(package), str(whole))))
        package.unlink()
    vmlinuz = next((path for path in whole.rglob("vmlinuz*") if path.is_file()), None)
    found = next((path for path in whole.rglob(f"lib/modules/{kernel.release}") if path.is_dir()), None)
    if vmlinuz is None or found is None:
        raise Refused(f"the packages {' '.join(kernel.packages)} hold no kernel and modules of {kernel.release}.")
    kept = scratch / "vmlinuz"
    vmlinuz.rename(kept)
    _depmod(host, found.parents[2], kernel.release)
    needs = modules.parse((found / "modules.dep").read_text())
    target = tree / "lib/modules" / kernel.release
    for path in sorted(modules.chosen(needs, MODULES)):
        file = (target / path).with_name(f"{Path(path).name.partition('.ko')[0]}.ko")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(modules.unpacked(found / path))
    for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        shutil.copyfile(found / name, target / name)
    shutil.rmtree(whole)
    return Unpacked(kernel, kept, tree)


def add(unpacked: Unpacked, files: list[Path]) -> None:
    """Modules that are not the kernel's own go where depmod prefers them."""
    updates = unpacked.tree / "lib/modules" / unpacked.kernel.release / "updates"
    updates.mkdir()
    for file in files:
        shutil.copyfile(file, updates / file.name)


def pack(unpacked: Unpacked, host: Host, image: Path, boot: Path) -> None:
    """Writes the modules' image, and into `boot` those that are loaded before the root is there, with their order."""
    release = unpacked.kernel.release
    _depmod(host, unpacked.tree, release)
    base = unpacked.tree / "lib/modules" / release
    needs = modules.parse((base / "modules.dep").read_text())
    first = modules.order(needs, BEFORE_ROOT)
    boot.mkdir(exist_ok=True)
    for path in first:
        shutil.copyfile(base / path, boot / Path(path).name)
    (boot / "order").write_text("".join(f"{Path(path).name}\n" for path in first))
    squashfs.of_directory(host, unpacked.tree / "lib/modules", image)


def _depmod(host: Host, tree: Path, release: str) -> None:
    host.run(Command(("depmod", "--basedir", str(tree), release)))
