"""Probes on file systems of loop devices: what is known of each of them is what they find."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.hosts.local import LocalHost
from strata.model import Call, Kind, Target
from strata.probes import PREFIX, Finding, probes
from strata.probes._probe import words
from strata.workloads.feature import WORKLOADS

pytestmark = [pytest.mark.host, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


def run(*argv: str, first: Path | None = None) -> str:
    """`first`: a directory of programs that stand before those of the machine."""
    environment = {**os.environ, "PATH": f"{first}:{os.environ['PATH']}"} if first else None
    done = subprocess.run(argv, capture_output=True, text=True, timeout=110, env=environment)
    assert done.returncode == 0, (argv, done.stdout, done.stderr)
    return done.stdout


def find(name: str, target: Target, notes: Path, first: Path | None = None) -> Finding:
    """As a trial does it: its cleanup around it."""
    (feature,) = (each for each in WORKLOADS if each.info.name == PREFIX + name)
    plan = feature.plan(Call(PREFIX + name, PREFIX + name, {}), target, str(notes), 0)
    assert plan.cleanup is not None and plan.cleanup.undo is not None
    run(*plan.cleanup.do.argv)
    try:
        return probes()[name].judge(words(run("/bin/sh", *plan.measure.argv[1:], first=first)))
    finally:
        run(*plan.cleanup.undo.argv)
        assert list(notes.iterdir()) == [], "its notes are removed"


class Mounted:
    """A file system of its own, with a directory for each probe."""

    def __init__(self, root: Path, disks: int, make: list[str], options: str, after: list[str]) -> None:
        files = [root / f"disk-{number}.img" for number in range(disks)]
        run("truncate", "--size=1G", *map(str, files))
        self.loops = [run("losetup", "--find", "--show", str(file)).strip() for file in files]
        self.path, self.notes = root / "mnt", root / "notes"
        self.path.mkdir()
        self.notes.mkdir()
        try:
            run(*make, *self.loops)
            run("mount", *(["-o", options] if options else []), self.loops[0], str(self.path))
        except AssertionError:
            run("losetup", "--detach", *self.loops)
            raise
        if after:
            run(*after, str(self.path))

    def close(self) -> None:
        run("umount", str(self.path))
        run("losetup", "--detach", *self.loops)

    def find(self, name: str, first: Path | None = None) -> Finding:
        place = self.path / f"trial-{name}"
        place.mkdir()
        return find(name, Target(Kind.DIRECTORY, str(place), None), self.notes, first)


KINDS = {
    "ext4": (["mkfs.ext4", "-q"], "", []),
    "xfs": (["mkfs.xfs", "-q"], "", []),
    "btrfs": (["mkfs.btrfs", "-q"], "", ["btrfs", "quota", "enable"]),
    "btrfs nodatasum": (["mkfs.btrfs", "-q"], "nodatasum", []),
    "btrfs nodatacow": (["mkfs.btrfs", "-q"], "nodatacow", []),
    "btrfs compress": (["mkfs.btrfs", "-q"], "compress=zstd", []),
    "btrfs raid1": (["mkfs.btrfs", "-q", "-d", "raid1", "-m", "raid1"], "", []),
    "btrfs raid1c3": (["mkfs.btrfs", "-q", "-d", "raid1c3", "-m", "raid1c3"], "", []),
}
DISKS = {"btrfs raid1": 2, "btrfs raid1c3": 3}


@pytest.fixture(params=KINDS)
def mounted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Mounted]]:
    made = Mounted(tmp_path, DISKS.get(request.param, 1), *KINDS[request.param])
    yield request.param, made
    made.close()


KNOWN = {
    "ext4": {"clone": False, "snapshot": False, "quota": False, "thin": True, "checksums": False, "direct": True,
             "quota-in-container": False, "quota-in-privileged-container": False,
             "cow": False, "self-healing": False, "disk-loss": None,
             "older-snapshots": False, "send": False, "dedup-on-demand": False, "discard": True, "shrink": True,
             "block": False, "ssd-cache": False, "nesting": True},
    "xfs": {"clone": True, "snapshot": False, "quota": False, "thin": True, "checksums": False, "direct": True,
            "cow": False, "self-healing": False, "older-snapshots": False, "send": False, "dedup-on-demand": True,
            "discard": True, "grow": True, "shrink": False, "block": False},
    # of O_DIRECT on btrfs with checksums the kernel's version decides
    "btrfs": {"clone": True, "snapshot": True, "quota": True, "quota-in-container": False,
              "quota-in-privileged-container": False, "thin": True,
              "checksums": True, "cow": True, "self-healing": False, "disk-loss": None,
              "older-snapshots": True, "send": True, "dedup-on-demand": True,
              "discard": True, "grow": True, "shrink": True, "block": False, "nesting": True},
    "btrfs nodatasum": {"quota": False, "checksums": False, "compression": False, "dedup": False},
    "btrfs nodatacow": {"cow": False, "self-healing": False},
    "btrfs compress": {"compression": True, "checksums": True},
    "btrfs raid1": {"self-healing": True, "disk-loss": True, "checksums": True},
    "btrfs raid1c3": {"self-healing": True},
}  # fmt: skip


def test_what_is_known_of_a_file_system_is_found(mounted: tuple[str, Mounted]) -> None:
    kind, place = mounted
    found = {name: place.find(name) for name in KNOWN[kind]}
    assert {name: finding.holds for name, finding in found.items()} == KNOWN[kind], found
    assert all(finding.why for finding in found.values())
    mounts = Path("/proc/self/mounts").read_text()
    assert mounts.count(str(place.path.parent)) == 1, "a probe left a mount"
    backing = [path.read_text() for path in Path("/sys/block").glob("loop*/loop/backing_file")]
    assert not [each for each in backing if each.startswith(str(place.path))], "a probe left a loop device"
    subvolumes = [path for path in place.path.rglob("*") if path.is_dir() and path.stat().st_ino == 256]
    assert subvolumes == [], "a probe left a subvolume"


def test_a_limit_of_the_writes_to_a_device_holds(tmp_path: Path) -> None:
    if not LocalHost("test").facts([], "/").io_control:
        pytest.skip("this kernel limits no I/O")
    disk = tmp_path / "disk.img"
    run("truncate", "--size=64M", str(disk))
    loop = run("losetup", "--find", "--show", str(disk)).strip()
    notes = tmp_path / "notes"
    notes.mkdir()
    try:
        finding = find("io-limit", Target(Kind.BLOCK, loop, None), notes)
    finally:
        run("losetup", "--detach", loop)
    assert finding.holds, finding
