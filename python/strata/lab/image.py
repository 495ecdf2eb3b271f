"""A lab on the disk: built in a folder beside, renamed when whole, found again by what went into it."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strata.errors import LabUnavailable, Refused, StrataError
from strata.hosts.base import Host
from strata.lab import bootstrap, contents, kernel, root, sources, squashfs, zfs
from strata.lab import cache as caches
from strata.lab.bootstrap import Site
from strata.lab.sources import Suite
from strata.lab.spec import LabSpec
from strata.model import Command
from strata.units import human_time

Progress = Callable[[str], None]
"""Takes one line for a person: what is done now."""

_MANIFEST = "lab.json"
_PACKAGES = "packages.json"
_VERSION = 2  # of the manifest
_MARK = "lab-"

# Files that are of this very lab; of all others equal labs hold the same bytes.
_OWN = frozenset({"key", "key.pub", "host_key", "host_key.pub"})

# Program -> Debian package that has it.
_PROGRAMS = {
    "apt-get": "apt",
    "depmod": "kmod",
    "dpkg-deb": "dpkg",
    "mksquashfs": "squashfs-tools",
    "mmdebstrap": "mmdebstrap",
    "mmtarfilter": "mmdebstrap",
    "ssh-keygen": "openssh-client",
    "unshare": "util-linux",
}


@dataclass(frozen=True, slots=True)
class Image:
    """A whole lab. Everything in `directory` belongs to it and goes with it."""

    spec: LabSpec
    directory: Path
    root: Path  # squashfs, padded to a multiple of 128 MiB
    modules: Path  # squashfs of what is mounted at /usr/lib/modules, padded likewise
    kernel: Path  # vmlinuz
    kernel_version: str  # as uname -r says it
    boot: Path  # folder of what the initramfs takes from Debian: busybox, modules, the order to load them
    key_file: Path  # ssh private key of whoever may log in; beside it, with .pub, its public part
    host_key_file: Path  # ssh private key of the machine; beside it its public part
    host_key: str  # the public part, "ssh-ed25519 AAAA..."
    packages: Mapping[str, str]  # Debian package -> version
    hash: str  # of what it was made of and of every byte that a machine gets from it, its keys excepted


@dataclass(frozen=True, slots=True)
class Listed:
    """One folder of labs, whatever its state."""

    name: str
    state: str  # "ready", "being built", "half built", "damaged"
    size_bytes: int  # what it takes on the disk
    built_unix_s: float | None  # None unless it was built to the end
    spec: LabSpec | None  # likewise
    kernel_version: str | None
    current: bool  # the one that a run takes


def marker(spec: LabSpec) -> str:
    """What the programs that build it are marked with, so that those of a killed build can be ended."""
    return _MARK + spec.key


def build(spec: LabSpec, cache: Path, host: Host, progress: Progress) -> Image:
    """The image of `spec`: the one that is there, else made now. `host` is marked with `marker(spec)`.

    Raises Refused (no room, no rights, no mirror, a program missing, another build), BadInput (no such kernel) and
    CommandFailed. What was made until then is removed, as is what a killed build left.
    """
    _check_machine(host)
    key = spec.key
    with caches.locked(cache):
        there = _newest(spec, cache)
        if there is not None:
            progress(f"{spec} is there, built {_ago(_manifest(there)['built_unix_s'])} ago: {there}")
            return _load(there)
        building = caches.building(cache, key)
        rights = bootstrap.rights(building)
        bootstrap.check(rights, host)
        if building.exists():
            progress("a build of this lab was cut short; begins again")
        for half in caches.half_built(cache):
            _clear(half, host)
        caches.check_room(cache, spec.room_bytes, "XDG_CACHE_HOME")
        if not rights.root:
            caches.check_room(rights.parent, spec.room_bytes, "TMPDIR")
        (building / "scratch").mkdir(parents=True)
        building.chmod(0o700)
        try:
            site = Site(host, sources.mirror(host), rights, building / "scratch", progress)
            return _build(site, spec, key, cache, building)
        finally:
            # Nothing of it when it has become a lab.
            _remove(building)


def find(spec: LabSpec, cache: Path) -> Image:
    """The newest whole image of `spec`, else one that has more features, of those one with the fewest.

    A kernel that is named is also that of a release whose own it is. It cannot be removed while this process runs.
    Raises LabUnavailable with the command to type when there is none, Refused while it is being built.
    """
    there = _newest(spec, cache, or_more=True)
    if there is not None:
        caches.use(there)
        return _load(there)
    for directory in caches.labs(cache):
        damage = _damage(directory)
        if damage is not None and _fits(directory, spec, or_more=True):
            raise LabUnavailable(f"the lab of {spec} is damaged: {_damaged(directory, damage, spec)}")
    begun = caches.building(cache, spec.key).exists()
    if begun and caches.held(cache):
        raise Refused(f"the lab of {spec} is being built now; wait for it.")
    what = "is half built" if begun else "is not built"
    raise LabUnavailable(f"the lab of {spec} {what}; type `{spec.command}`.")


def check(image: Image) -> None:
    """Reads every byte of it, once in this process. Raises Refused when one is not as it was built."""
    damage = _damage(image.directory, whole=True)
    if damage is not None:
        raise Refused(f"the lab {image.hash} was changed: {_damaged(image.directory, damage, image.spec)}")


def listing(cache: Path) -> list[Listed]:
    """Every lab of the cache, the newest first."""
    found = []
    for directory in caches.labs(cache):
        size = _used_bytes(directory)
        try:
            manifest = _manifest(directory)
            spec = _spec(manifest)
        except Refused:
            found.append(Listed(directory.name, "damaged", size, None, None, None, False))
            continue
        state = "ready" if _damage(directory) is None else "damaged"
        current = state == "ready" and _newest(spec, cache) == directory
        built = manifest["built_unix_s"]
        found.append(Listed(directory.name, state, size, built, spec, manifest["kernel_version"], current))
    found.sort(key=lambda listed: listed.built_unix_s or 0, reverse=True)
    state = "being built" if caches.held(cache) else "half built"
    for directory in caches.half_built(cache):
        found.append(Listed(directory.name, state, _used_bytes(directory), None, None, None, False))
    return found


def remove(names: list[str] | None, cache: Path, host: Host) -> list[str]:
    """Removes the labs whose names begin so; None: all of them and everything else that the cache keeps.

    Returns the names of the folders removed. Raises Refused when one names none or several, or when one is in use or
    being built.
    """
    with caches.locked(cache):
        every = [*caches.labs(cache), *caches.half_built(cache)]
        chosen = every if names is None else [_one(name, every) for name in dict.fromkeys(names)]
        with caches.unused(chosen):
            for directory in chosen:
                if directory in caches.half_built(cache):
                    _clear(directory, host)
                _remove(directory)
        if names is None:
            for directory in (caches.apt(cache, ""), caches.zfs(cache)):
                _remove(directory)
        return [directory.name for directory in chosen]


# ---------------------------------------------------------------- building


def _check_machine(host: Host) -> None:
    if platform.machine() != "x86_64":
        raise Refused(f"the lab is a machine of the kind x86_64 and this one is {platform.machine()}; use another.")
    seen = host.run(Command(("sh", "-c", 'for p; do command -v "$p"; done', "sh", *_PROGRAMS)), check=False)
    there = {path.rpartition("/")[2] for path in seen.stdout.split()}
    packages = sorted({package for program, package in _PROGRAMS.items() if program not in there})
    if packages:
        raise Refused(f"building a lab needs more programs here; install {' '.join(packages)}.")
    if not Path(sources.KEYRING).exists():
        raise Refused("Debian's packages are checked by its keys; install debian-archive-keyring.")


def _build(site: Site, spec: LabSpec, key: str, cache: Path, building: Path) -> Image:
    host, progress = site.host, site.progress
    began = time.monotonic()
    progress(f"asks {site.mirror.uri} for its packages")
    suites = {name: Suite(host, site.mirror, name, caches.apt(cache, name)) for name in sources.suite_names()}
    chosen = sources.kernel(spec.debian, spec.kernel, suites)
    progress(f"fetches kernel {chosen.release} and packs its modules")
    unpacked = kernel.unpack(site, chosen)
    packages = {}
    zfs_suite = zfs.suite(spec, chosen)
    if "zfs" in spec.features:
        version, files = zfs.built(site, chosen, suites[zfs_suite], caches.zfs(cache))
        packages["zfs-dkms"] = version
        kernel.add(unpacked, files)
    kernel.pack(unpacked, host, building / "modules.sqfs", building / "boot")
    progress(f"makes the root of Debian {spec.debian}, {len(spec.packages)} packages and what they need")
    installed, busybox = root.make(site, spec, zfs_suite, building / "root.sqfs")
    (building / "boot" / "busybox").write_bytes(busybox)
    unpacked.vmlinuz.rename(building / "vmlinuz")
    for name, whose in (("key", "strata"), ("host_key", "strata-lab")):
        make = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", whose, "-f", str(building / name))
        host.run(Command(make))
    packages = installed | packages | dict.fromkeys(chosen.packages, chosen.version)
    (building / _PACKAGES).write_text(json.dumps(packages, indent=1, sort_keys=True))
    shutil.rmtree(site.scratch)
    digests = contents.digests(building)
    same = {name: digest for name, digest in digests.items() if name not in _OWN}
    identity = json.dumps([key, chosen.release, packages, same], sort_keys=True)
    whole = hashlib.sha256(identity.encode()).hexdigest()[:16]
    manifest = {
        "version": _VERSION,
        "key": key,
        "hash": whole,
        "debian": spec.debian,
        "kernel": spec.kernel,
        "features": sorted(spec.features),
        "kernel_version": chosen.release,
        "built_unix_s": time.time(),
        "took_s": round(time.monotonic() - began, 1),
        "packed_bytes": {
            "root": squashfs.used_bytes(building / "root.sqfs"),
            "modules": squashfs.used_bytes(building / "modules.sqfs"),
            "kernel": (building / "vmlinuz").stat().st_size,
            "boot": sum(path.stat().st_size for path in (building / "boot").iterdir()),
        },
        "files": digests,
    }
    (building / _MANIFEST).write_text(json.dumps(manifest, indent=1))
    # What is named HASH must be whole, also after a power failure.
    os.sync()
    there = building.with_name(whole)
    _remove(there)  # the same packages in a folder that is damaged
    building.rename(there)
    progress(f"the lab of {spec} is built: {there}")
    return _load(there)


# ---------------------------------------------------------------- what is on the disk


def _newest(spec: LabSpec, cache: Path, or_more: bool = False) -> Path | None:
    """A whole lab of this very spec; `or_more`: one with further features will do, and one whose release has the kernel
    that is named."""
    found: list[tuple[int, float, Path]] = []
    for directory in caches.labs(cache):
        if _fits(directory, spec, or_more) and _damage(directory) is None:
            manifest = _manifest(directory)
            found.append((-len(manifest["features"]), manifest["built_unix_s"], directory))
    return max(found)[2] if found else None


def _fits(directory: Path, spec: LabSpec, or_more: bool) -> bool:
    try:
        manifest = _manifest(directory)
        has = _spec(manifest)
    except Refused:
        return False
    fits = has == spec or (or_more and _will_do(has, manifest["kernel_version"], spec))
    # Its key is another's when it was built by the lists of another Strata.
    return fits and bool(manifest["key"] == has.key)


def _will_do(has: LabSpec, kernel_version: str, spec: LabSpec) -> bool:
    own = has.kernel is None and spec.kernel is not None and kernel_version.startswith(f"{spec.kernel}.")
    return has.debian == spec.debian and (own or has.kernel == spec.kernel) and has.features >= spec.features


def _load(directory: Path) -> Image:
    manifest = _manifest(directory)
    return Image(
        spec=_spec(manifest),
        directory=directory,
        root=directory / "root.sqfs",
        modules=directory / "modules.sqfs",
        kernel=directory / "vmlinuz",
        kernel_version=manifest["kernel_version"],
        boot=directory / "boot",
        key_file=directory / "key",
        host_key_file=directory / "host_key",
        host_key=" ".join((directory / "host_key.pub").read_text().split()[:2]),
        packages=json.loads((directory / _PACKAGES).read_text()),
        hash=manifest["hash"],
    )


def _manifest(directory: Path) -> dict[str, Any]:
    """Raises Refused for one that cannot be read, or is from a newer Strata."""
    try:
        manifest: dict[str, Any] = json.loads((directory / _MANIFEST).read_text())
        if manifest["version"] == _VERSION:
            return manifest
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise Refused(f"{directory} is not a lab that this Strata can read; type `strata lab remove {directory.name}`.")


def _spec(manifest: dict[str, Any]) -> LabSpec:
    try:
        return LabSpec(manifest["debian"], manifest["kernel"], frozenset(manifest["features"]))
    except StrataError as error:
        raise Refused(str(error)) from error


def _damage(directory: Path, *, whole: bool = False) -> str | None:
    """How its files differ from those that were built, as a clause; None when they do not."""
    try:
        return contents.difference(directory, _manifest(directory)["files"], whole=whole)
    except Refused:
        return f"{_MANIFEST} cannot be read"


def _damaged(directory: Path, damage: str, spec: LabSpec) -> str:
    return (
        f"{damage} in {directory} since it was built; type `strata lab remove {directory.name}`, then `{spec.command}`."
    )


def _one(name: str, directories: list[Path]) -> Path:
    named = [directory for directory in directories if name and directory.name.startswith(name)]
    if len(named) != 1:
        many = "several labs have names that begin with" if named else "no lab has a name that begins with"
        raise Refused(f"{many} '{name}'; `strata lab status` shows them.")
    return named[0]


def _used_bytes(directory: Path) -> int:
    total = 0
    for path in directory.rglob("*"):
        try:
            total += path.lstat().st_blocks * 512
        except FileNotFoundError:  # it is being built
            continue
    return total


def _clear(half_built: Path, host: Host) -> None:
    """What a build left that was killed: its programs, and what they had made."""
    host.end_strays(_MARK + half_built.name.rpartition("-")[2])
    bootstrap.clear(bootstrap.rights(half_built), host)
    _remove(half_built)


def _remove(directory: Path) -> None:
    if directory.exists():
        shutil.rmtree(directory)


def _ago(unix_s: float) -> str:
    return human_time(max(0.0, time.time() - unix_s))
