"""What a trial starts from: caches of the page and of the disk are empty and udev is at rest, seen in the counters that
the kernel keeps of loop devices. A loop device has a write cache and passes flushes on to its file."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.hosts.local import LocalHost
from strata.model import Call, Command, Kind, Target
from strata.planning import trial_steps
from strata.run.trials import trial
from strata.workloads import find, workloads

from .workloads.workload_bench import call

pytestmark = [pytest.mark.host, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

# Places in /sys/block/NAME/stat, from 0 on; Documentation/block/stat.rst.
READS, WRITES, SECTORS_WRITTEN, FLUSHES = 0, 4, 6, 15


def run(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, timeout=110, check=True).stdout.strip()


def count(device: str, what: int) -> int:
    return int(Path(f"/sys/block/{Path(device).name}/stat").read_text().split()[what])


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    yield from loop(tmp_path / "disk.img")


def loop(file: Path) -> Iterator[str]:
    with file.open("wb") as made:
        made.truncate(64 << 20)
    device = run("losetup", "--find", "--show", "--direct-io=off", str(file))
    try:
        yield device
    finally:
        run("losetup", "--detach", device)


@pytest.fixture
def host() -> LocalHost:
    return LocalHost("quiet-start")


def start(host: LocalHost, target: Target, *holders: str) -> trial.Start:
    """As a trial does, with a load that does nothing."""
    bench = trial.Bench(host, (), 1, frozenset(), holders=holders)
    load = workloads()["null"]
    plan = load.plan(Call("null", "null", {}), target, "/nowhere", 1)
    return trial.quiesce(bench, trial_steps.trial_steps("engine", (), plan, target, "/nowhere", holders=holders))


def on(device: str) -> Target:
    return Target(Kind.BLOCK, device, 64 << 20)


def dirty(path: str) -> None:
    with Path(path).open("r+b", buffering=0) as opened:
        opened.write(b"x" * (4 << 20))


def test_a_raw_device_starts_with_its_pages_written_and_its_cache_flushed(host: LocalHost, disk: str) -> None:
    flushes = count(disk, FLUSHES)
    dirty(disk)
    run("blockdev", "--flushbufs", disk)
    assert count(disk, FLUSHES) == flushes, "it writes out pages and sends no flush, which is not enough for a trial"
    dirty(disk)
    begun = start(host, on(disk), disk)
    assert count(disk, FLUSHES) > flushes
    assert begun.cold and begun.flush_s > 0 and not begun.notes
    written = count(disk, SECTORS_WRITTEN)
    run("sync", disk)
    assert count(disk, SECTORS_WRITTEN) == written


def test_every_disk_below_a_file_system_is_flushed_from_the_top_down(
    host: LocalHost, disk: str, tmp_path: Path
) -> None:
    """An image on a file system that a second file system is on: what is written on top dirties all of them."""
    lower, upper = tmp_path / "lower", tmp_path / "upper"
    lower.mkdir()
    upper.mkdir()
    run("mkfs.ext4", "-q", "-O", "^has_journal", disk)
    run("mount", disk, str(lower))
    try:
        image = run("truncate", "--size=32M", str(lower / "image")) or str(lower / "image")
        inner = run("losetup", "--find", "--show", image)
        try:
            run("mkfs.ext4", "-q", "-O", "^has_journal", inner)
            run("mount", inner, str(upper))
            try:
                (upper / "data").write_bytes(b"x" * (8 << 20))
                flushes = {device: count(device, FLUSHES) for device in (inner, disk)}
                begun = start(host, Target(Kind.DIRECTORY, str(upper), None), str(upper), inner, str(lower), disk)
                assert not begun.notes
                assert all(count(device, FLUSHES) > before for device, before in flushes.items())
                written = count(disk, SECTORS_WRITTEN)
                run("sync", "--file-system", str(upper))
                run("sync", "--file-system", str(lower))
                assert count(disk, SECTORS_WRITTEN) - written < 256, "8 MiB were written before; these are time stamps"
            finally:
                run("umount", str(upper))
        finally:
            run("losetup", "--detach", inner)
    finally:
        run("umount", str(lower))


def test_of_the_users_own_directory_no_disk_is_flushed_but_by_its_file_system(
    host: LocalHost, disk: str, tmp_path: Path
) -> None:
    mine, other = tmp_path / "mine", f"{tmp_path}/other.img"
    mine.mkdir()
    run("mkfs.ext4", "-q", disk)
    run("mount", disk, str(mine))
    try:
        for another in loop(Path(other)):
            dirty(another)
            (mine / "data").write_bytes(b"x" * (1 << 20))
            flushes = [count(device, FLUSHES) for device in (disk, another)]
            start(host, Target(Kind.DIRECTORY, str(mine), None, True), str(mine))
            assert count(disk, FLUSHES) > flushes[0]
            assert count(another, FLUSHES) == flushes[1]
    finally:
        run("umount", str(mine))


@pytest.mark.parametrize("own", [False, True])
def test_what_is_dirty_elsewhere_is_written_before_memory_forgets(
    own: bool, host: LocalHost, disk: str, tmp_path: Path
) -> None:
    """drop_caches takes clean pages alone: what a layer left dirty in a file that holds nothing of the stack, as QEMU
    with cache=unsafe may, would be written during the trial. Next to a directory of the user's, nothing else is."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run("mkfs.ext4", "-q", disk)
    run("mount", "-o", "commit=300", disk, str(elsewhere))
    try:
        (elsewhere / "data").write_bytes(b"x" * (8 << 20))
        written = count(disk, SECTORS_WRITTEN)
        begun = start(host, Target(Kind.DIRECTORY, str(tmp_path), None, own))
        assert begun.caches.dirty_bytes is not None and begun.caches.page_cache_bytes is not None
        assert (count(disk, SECTORS_WRITTEN) - written >= (8 << 20) // 512) is not own
    finally:
        run("umount", str(elsewhere))


def test_devices_that_are_gone_or_read_only_are_no_obstacle(host: LocalHost, disk: str, tmp_path: Path) -> None:
    dangling = tmp_path / "by-id"
    dangling.symlink_to("/dev/strata-is-not-there")
    flushes = count(disk, FLUSHES)
    run("blockdev", "--setro", disk)
    try:
        begun = start(host, on(disk), disk, str(dangling))
    finally:
        run("blockdev", "--setrw", disk)  # it would outlive the loop device's file
    assert not begun.notes and count(disk, FLUSHES) > flushes


def test_what_cannot_be_flushed_is_said_and_the_others_are(host: LocalHost, disk: str, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as unopenable:
        unopenable.bind(f"{tmp_path}/image")
        flushes = count(disk, FLUSHES)
        (note,) = start(host, on(disk), f"{tmp_path}/image", disk).notes
    assert f"{tmp_path}/image" in note and "No such device or address" in note
    assert count(disk, FLUSHES) > flushes


# $1 the command that is tried, $2 the device. Where no udevd runs this stands for it, in mounts of our own: a program
# that reads the device as udev's probing does, before it says that udev is at rest.
UDEV = """\
set -e
mount -t tmpfs none /run && mkdir /run/udev
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("/run/udev/control")'
cat > /run/udevadm <<'END'
#!/bin/sh
echo "$*" >> /run/asked
dd if="$DEVICE" of=/dev/null bs=4k count=100 iflag=direct status=none
END
chmod +x /run/udevadm
export DEVICE="$2" PATH="/run:$PATH"
sh -c "$1" sh "$2"
cat /run/asked
"""


def test_udev_has_read_what_it_reads_before_the_clock_starts(host: LocalHost, disk: str) -> None:
    (*_, script, _, _) = trial_steps.quiesce((disk,)).argv
    reads = count(disk, READS)
    said = host.run(Command(("unshare", "--mount", "sh", "-c", UDEV, "sh", script, disk))).stdout
    assert said.startswith("settle --timeout=")
    assert count(disk, READS) == reads + 100, "all of them before the command ended"


# $1 what the kernel calls the device, the rest: fio. The program that stands for udevadm notes the device's counters.
FIO = """\
set -e
mount -t tmpfs none /run && mkdir /run/udev
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("/run/udev/control")'
cat > /run/udevadm <<'END'
#!/bin/sh
echo "$* $(cat "/sys/block/$DEVICE/stat")" >> /run/asked
END
chmod +x /run/udevadm
export DEVICE="$1" PATH="/run:$PATH"; shift
"$@" >/dev/null
cat /run/asked
"""


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed; apt-get install fio")
@pytest.mark.parametrize(
    ("load", "jobs"),
    [
        (call("fio/randwrite-4k-qd32", size=4 << 20, runtime=1.0, ioengine="psync", numjobs=2), 2),
        (call("fio:", content="[one]\nrw=randwrite\nbs=4k\nsize=4m\n", runtime=1.0), 1),
    ],
    ids=["preset", "file"],
)
def test_the_jobs_of_fio_wait_for_udev_before_they_write(
    host: LocalHost, disk: str, tmp_path: Path, load: Call, jobs: int
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    plan = find(load).plan(load, on(disk), str(scratch), 1)
    for path, content in plan.put.items():
        Path(path).write_text(content)
    for command in plan.prepare:
        host.run(command)
    run("sync", disk)
    before = count(disk, WRITES)
    said = host.run(Command(("unshare", "--mount", "sh", "-c", FIO, "sh", Path(disk).name, *plan.measure.argv))).stdout
    asked = [line.split() for line in said.splitlines()]
    assert [words[0] for words in asked] == ["settle"] * jobs
    assert int(asked[0][2 + WRITES]) == before < count(disk, WRITES)
