"""Probes on file systems of loop devices: what is known of each of them is what they find."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.probes import Finding, probes
from strata.probes._probe import words

pytestmark = [pytest.mark.host, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


def run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, (argv, done.stdout, done.stderr)
    return done.stdout


class Mounted:
    """A file system of its own, with a directory for each probe."""

    def __init__(self, root: Path, make: list[str], options: str, after: list[str]) -> None:
        file = root / "disk.img"
        run("truncate", "--size=1G", str(file))
        self.loop = run("losetup", "--find", "--show", str(file)).strip()
        self.path = root / "mnt"
        self.path.mkdir()
        try:
            run(*make, self.loop)
            run("mount", *(["-o", options] if options else []), self.loop, str(self.path))
        except AssertionError:
            run("losetup", "--detach", self.loop)
            raise
        if after:
            run(*after, str(self.path))

    def close(self) -> None:
        run("umount", str(self.path))
        run("losetup", "--detach", self.loop)

    def find(self, name: str) -> Finding:
        place = self.path / f"trial-{name}"
        place.mkdir()
        probe = probes()[name]
        return probe.judge(words(run("sh", "-c", probe.script, "sh", str(place))))


KINDS = {
    "ext4": (["mkfs.ext4", "-q"], "", []),
    "xfs": (["mkfs.xfs", "-q"], "", []),
    "btrfs": (["mkfs.btrfs", "-q"], "", ["btrfs", "quota", "enable"]),
    "btrfs nodatasum": (["mkfs.btrfs", "-q"], "nodatasum", []),
    "btrfs compress": (["mkfs.btrfs", "-q"], "compress=zstd", []),
}


@pytest.fixture(params=KINDS)
def mounted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Mounted]]:
    made = Mounted(tmp_path, *KINDS[request.param])
    yield request.param, made
    made.close()


KNOWN = {
    "ext4": {"clone": False, "snapshot": False, "quota": False, "thin": True, "checksums": False, "direct": True},
    "xfs": {"clone": True, "snapshot": False, "quota": False, "thin": True, "checksums": False, "direct": True},
    # of O_DIRECT on btrfs with checksums the kernel's version decides
    "btrfs": {"clone": True, "snapshot": True, "quota": True, "thin": True, "checksums": True},
    "btrfs nodatasum": {"quota": False, "checksums": False, "compression": False, "dedup": False},
    "btrfs compress": {"compression": True, "checksums": True},
}


def test_what_is_known_of_a_file_system_is_found(mounted: tuple[str, Mounted]) -> None:
    kind, place = mounted
    found = {name: place.find(name) for name in KNOWN[kind]}
    assert {name: finding.holds for name, finding in found.items()} == KNOWN[kind], found
    assert all(finding.why for finding in found.values())
    left = [path for path in place.path.rglob("*") if path.is_dir() and path.name in ("live", "held", "tenant")]
    assert left == [], "a probe left something that it made"
