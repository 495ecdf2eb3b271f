"""The root of a lab: Debian's packages of a spec, trimmed, as one image."""

from __future__ import annotations

import tarfile
from pathlib import Path

from strata.errors import Refused
from strata.lab import bootstrap, squashfs
from strata.lab.bootstrap import Hook, Site
from strata.lab.sources import fields
from strata.lab.spec import LabSpec, script

_STATUS = "var/lib/dpkg/status"
_BUSYBOX = "bin/busybox"

# The package would make a cluster in the image; a workload makes its own, on the stack that it measures.
_NO_CLUSTER = """
mkdir -p "$1/etc/postgresql-common"
echo "create_main_cluster = false" > "$1/etc/postgresql-common/createcluster.conf"
"""

# trim.sh takes apt away; of a lab that installs, its own packages bring the programs back.
_APT_AGAIN = """
for deb in "$1"/usr/share/strata/packages/apt_*.deb "$1"/usr/share/strata/packages/libapt-pkg*.deb; do
    dpkg-deb --extract "$deb" "$1"
done
rm -rf "$1/usr/share/doc" "$1/usr/share/locale" "$1/usr/share/man"
"""


def make(site: Site, spec: LabSpec, zfs_suite: str, image: Path) -> tuple[dict[str, str], bytes]:
    """Writes the image. Returns the versions of its packages, and its busybox for the initramfs."""
    hooks = [Hook("customize", script("trim.sh"))]
    if "install" in spec.features:
        hooks = [Hook("customize", script("install.sh")), *hooks, Hook("customize", _APT_AGAIN)]
    if "containers" in spec.features:
        hooks.append(Hook("customize", script("containers.sh")))
    more_suites = set(spec.more_suites)
    if "postgres" in spec.features:
        hooks.append(Hook("essential", _NO_CLUSTER))
    if "zfs" in spec.features and zfs_suite != spec.suite:
        hooks.append(Hook("setup", _preferring("zfs-linux", zfs_suite)))
        more_suites.add(zfs_suite)
    tar = site.scratch / "root.tar"
    bootstrap.make(site, spec.suite, spec.packages, hooks, tar, sorted(more_suites))
    status, busybox = _read(tar)
    squashfs.of_tar(site.host, tar, image)
    tar.unlink()
    return installed(status), busybox


def installed(status: str) -> dict[str, str]:
    """Package -> version, from dpkg's status file."""
    records = [fields(record) for record in status.strip().split("\n\n")]
    there = [record for record in records if record.get("Status", "").endswith(" installed")]
    return {record["Package"]: record["Version"] for record in sorted(there, key=lambda record: record["Package"])}


def _preferring(source: str, suite: str) -> str:
    """All packages of one source come from another suite than the rest."""
    lines = (f"Package: src:{source}", f"Pin: release n={suite}", "Pin-Priority: 990")
    return 'printf "%s\\n" ' + " ".join(f"'{line}'" for line in lines) + ' > "$1/etc/apt/preferences.d/strata"'


def _read(tar: Path) -> tuple[str, bytes]:
    found: dict[str, bytes] = {}
    with tarfile.open(tar) as archive:
        for member in archive:
            name = member.name.removeprefix("./").removeprefix("usr/")
            if member.isfile() and name in (_STATUS, _BUSYBOX):
                file = archive.extractfile(member)
                assert file is not None
                found[name] = file.read()
    if len(found) != 2:
        raise Refused(f"the new root lacks {' or '.join(sorted({_STATUS, _BUSYBOX} - set(found)))}.")
    return found[_STATUS].decode(), found[_BUSYBOX]
