"""The ZFS modules: built once for a kernel and a version of ZFS by Debian's own dkms, kept apart from the labs.

They are built on the machine that uses them and go nowhere else: their licence and the kernel's forbid handing out the
two together.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

from strata.errors import CommandFailed, Refused
from strata.lab import bootstrap, contents, modules
from strata.lab.bootstrap import Hook, Site
from strata.lab.sources import Kernel, Suite
from strata.lab.spec import SUITES, LabSpec, script
from strata.model import Command

# Without either there is no ZFS; older versions have more.
_NEEDED = frozenset({"spl", "zfs"})

_RECORD = "digests.json"  # of the modules

# What dkms and the package's own configure call.
_TOOLS = ("dkms", "gcc", "make", "libc6-dev", "file", "perl", "patch", "kmod", "xz-utils", "busybox-static")


def suite(spec: LabSpec, kernel: Kernel) -> str:
    """The suite of the root's ZFS: the release's own, or its backports for a kernel that is newer than the release."""
    own = SUITES[spec.debian]
    return own if kernel.suite.name in SUITES.values() and _no_newer(kernel.suite.name, own) else f"{own}-backports"


def _no_newer(release: str, than: str) -> bool:
    ages = list(SUITES.values())
    return ages.index(release) <= ages.index(than)


def built(site: Site, kernel: Kernel, source: Suite, kept: Path) -> tuple[str, list[Path]]:
    """The version and its modules in a folder below `kept`, made there when missing.

    Raises Refused (no such package; it cannot be built, with what the build said) and CommandFailed.
    """
    record = source.package("zfs-dkms")
    if record is None:
        raise Refused(f"{source.name} has no zfs-dkms; the lab needs the component contrib of the mirror.")
    version = record["Version"]
    there = kept / f"{kernel.release}_{kernel.version}_{version}"
    damage = _damage(there)
    if damage is not None:
        site.progress(f"the modules of ZFS in {there} are not as they were built: {damage}; they are built again")
        shutil.rmtree(there)
    if not there.is_dir():
        site.progress(f"builds the modules of ZFS {version} for kernel {kernel.release}, once (about 4 minutes)")
        made = _build(site, kernel, source)
        kept.mkdir(parents=True, exist_ok=True)
        (made / _RECORD).write_text(json.dumps(contents.digests(made)))
        contents.put(made, there)
    return version, sorted(there.glob("*.ko"))


def _damage(there: Path) -> str | None:
    """How the folder differs from what was built, as a clause; None when it does not, or is not there."""
    if not there.is_dir():
        return None
    try:
        return contents.difference(there, json.loads((there / _RECORD).read_text()), whole=True)
    except (OSError, ValueError, AttributeError):
        return f"{_RECORD} cannot be read"


def _build(site: Site, kernel: Kernel, source: Suite) -> Path:
    scratch = site.scratch
    (package,) = source.download(["zfs-dkms"], scratch / "packages")
    tar, out, made = scratch / "zfs-source.tar", scratch / "zfs-modules.tar", scratch / "zfs"
    # The source without the package: its script at installing would start a build of its own.
    shell = 'exec dpkg-deb --fsys-tarfile "$1" > "$2"'
    site.host.run(Command(("sh", "-c", shell, "sh", str(package), str(tar))))
    package.unlink()
    packages = (*_TOOLS, f"linux-headers-{kernel.release}")
    more = () if kernel.suite.name == kernel.base else (kernel.suite.name,)
    hooks = (
        Hook("customize", f"tar-in {tar} /"),
        Hook("customize", script("zfs.sh")),
        Hook("customize", f"tar-out /zfs-modules {out}"),
    )
    try:
        bootstrap.make(site, kernel.base, packages, hooks, None, more)
    except CommandFailed as error:
        raise Refused(
            f"ZFS of {source.name} could not be built for kernel {kernel.release}; give a lab without zfs or with "
            f"another kernel. What was said last:\n{_indented(error.stderr)}"
        ) from error
    made.mkdir()
    with tarfile.open(out) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                compressed = made / Path(member.name).name
                compressed.write_bytes(file.read())
                content = modules.unpacked(compressed)
                compressed.unlink()
                (made / f"{modules.name(member.name)}.ko").write_bytes(content)
    tar.unlink()
    out.unlink()
    missing = _NEEDED - {file.stem for file in made.iterdir()}
    if missing:
        raise Refused(f"building ZFS for kernel {kernel.release} gave no module {' and '.join(sorted(missing))}.")
    return made


def _indented(said: str) -> str:
    return "\n".join(f"  {line}" for line in said.strip().splitlines()[-12:])
