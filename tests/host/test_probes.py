"""Probes on file systems of loop devices: what is known of each of them is what they find."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.hosts.local import LocalHost
from strata.probes import Finding, probes
from strata.probes._probe import words

pytestmark = [pytest.mark.host, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


def run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, (argv, done.stdout, done.stderr)
    return done.stdout


class Mounted:
    """A file system of its own, with a directory for each probe."""

    def __init__(self, root: Path, disks: int, make: list[str], options: str, after: list[str]) -> None:
        files = [root / f"disk-{number}.img" for number in range(disks)]
        run("truncate", "--size=1G", *map(str, files))
        self.loops = [run("losetup", "--find", "--show", str(file)).strip() for file in files]
        self.path = root / "mnt"
        self.path.mkdir()
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
    "btrfs nodatacow": (["mkfs.btrfs", "-q"], "nodatacow", []),
    "btrfs compress": (["mkfs.btrfs", "-q"], "compress=zstd", []),
    "btrfs raid1": (["mkfs.btrfs", "-q", "-d", "raid1", "-m", "raid1"], "", []),
}
DISKS = {"btrfs raid1": 2}


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
}  # fmt: skip


def test_what_is_known_of_a_file_system_is_found(mounted: tuple[str, Mounted]) -> None:
    kind, place = mounted
    found = {name: place.find(name) for name in KNOWN[kind]}
    assert {name: finding.holds for name, finding in found.items()} == KNOWN[kind], found
    assert all(finding.why for finding in found.values())
    made = ("live", "held", "tenant", "disk", "one", "two")
    left = [path for path in place.path.rglob("*") if path.name in made]
    assert left == [], "a probe left something that it made"


# The number of the process is told before it is used: whoever watches a machine knows it a moment later.
SCRIPT_LATER = 'echo $$; read go; exec sh -c "$1" sh "$2" "$3"'


@pytest.mark.parametrize("mounted", ["ext4"], indirect=True)
def test_a_link_that_waits_for_a_probe_is_not_followed(mounted: tuple[str, Mounted], tmp_path: Path) -> None:
    place = mounted[1].path / "place"
    place.mkdir()
    precious = tmp_path / "precious"
    precious.write_text("precious")
    probe = probes()["cow"]
    argv = ["sh", "-c", SCRIPT_LATER, "sh", probe.script, str(place), str(tmp_path / "not-there")]
    before = set(Path("/tmp").glob("strata-probe-*"))
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        pid = process.stdout.readline().strip()
        links = [Path(f"/tmp/strata-probe-{pid}{end}") for end in ("", ".old", ".want", ".told")]
        for link in links:
            link.symlink_to(precious)
        try:
            process.stdin.write("go\n")
            process.stdin.close()
            answer = process.stdout.read()
        finally:
            for link in links:
                link.unlink(missing_ok=True)
    assert process.returncode == 0
    assert precious.read_text() == "precious"
    assert probe.judge(words(answer)).holds is not None
    assert set(Path("/tmp").glob("strata-probe-*")) <= before, "it takes its notes away"


def test_the_notes_of_a_probe_lie_in_the_trials_directory(tmp_path: Path) -> None:
    """What a killed one leaves goes with the visit."""
    place, scratch = tmp_path / "place", tmp_path / "scratch"
    place.mkdir()
    scratch.mkdir()
    script = probes()["direct"].script.partition("LVM=")[0] + 'echo "$notes"; stat --format=%a "$notes"; exit 7'
    done = subprocess.run(["sh", "-c", script, "sh", place, scratch], capture_output=True, text=True)
    notes, mode = done.stdout.split()
    assert Path(notes).parent == scratch and mode == "700"
    assert done.returncode == 7 and not list(scratch.iterdir())


def test_a_limit_of_the_writes_to_a_device_holds(tmp_path: Path) -> None:
    if not LocalHost("test").facts([], "/").io_control:
        pytest.skip("this kernel limits no I/O")
    disk = tmp_path / "disk.img"
    run("truncate", "--size=64M", str(disk))
    loop = run("losetup", "--find", "--show", str(disk)).strip()
    try:
        probe = probes()["io-limit"]
        finding = probe.judge(words(run("sh", "-c", probe.script, "sh", loop)))
    finally:
        run("losetup", "--detach", loop)
    assert finding.holds, finding
