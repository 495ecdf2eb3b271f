"""What undos must refuse to touch, and what they must report instead of passing over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from strata.model import Command, Kind, Provides

from .layer_bench import Bench, Built, call, do, execute, undo


def run(*argv: str) -> str:
    done = execute(Command(argv))
    assert done.exit_code == 0, done
    return done.stdout


@pytest.fixture
def claimed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A device that is not ours: what the operator would have claimed."""
    file = tmp_path_factory.mktemp("claimed") / "disk.img"
    with file.open("wb") as out:
        out.truncate(512 << 20)
    device = run("losetup", "--find", "--show", "--partscan", str(file)).strip()
    yield device
    run("losetup", "--detach", device)


def claim(bench: Bench, device: str) -> Built:
    grant = Provides(Kind.GRANT, device, 512 << 20, ours=False)
    built = Built(call("disk", {"role": "disk"}), (grant,), bench.place())
    bench.layers.append(built)
    return built


@contextmanager
def kept_open(path: str) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("name", ["ext4", "xfs", "btrfs"])
def test_nothing_stays_on_a_claimed_device(bench: Bench, claimed: str, name: str) -> None:
    for lower in (None, "gpt", "dos"):
        disk = claim(bench, claimed)
        assert not disk.provides.ours
        layers = [disk]
        if lower:
            layers.append(bench.put("partition", disk, table=lower))
        layers.append(bench.put(name, layers[-1]))
        steps = [step for layer in layers for step in layer.steps]
        do(steps)
        assert [sentence for layer in layers for sentence in layer.differences()] == []
        undo(steps)
        assert run("wipefs", "--noheadings", claimed) == ""
        assert not list(Path("/dev").glob(f"{Path(claimed).name}p*"))


@pytest.mark.parametrize("name", ["ext4", "xfs", "btrfs", "partition"])
def test_a_file_system_or_table_that_is_not_ours_is_not_wiped(bench: Bench, claimed: str, name: str) -> None:
    disk = claim(bench, claimed)
    do(disk.steps)
    built = bench.put(name, disk)
    run("mkfs.ext4", "-q", claimed)
    before = run("wipefs", claimed)
    undo(built.steps)
    assert run("wipefs", claimed) == before
    run("wipefs", "--quiet", "--all", claimed)


def test_a_partition_table_that_is_not_ours_stays(bench: Bench, claimed: str) -> None:
    disk = claim(bench, claimed)
    do(disk.steps)
    foreign, ours = bench.put("partition", disk), bench.put("partition", disk)
    do(foreign.steps)
    before = run("wipefs", claimed)
    undo(ours.steps)
    assert run("wipefs", claimed) == before
    assert foreign.differences() == []
    assert any("not ours" in sentence for sentence in ours.differences())
    undo(foreign.steps)


def test_another_disk_than_the_claimed_one_is_noticed(bench: Bench, claimed: str) -> None:
    disk = claim(bench, claimed)
    Path(disk.provides.path).symlink_to("/dev/null")
    assert disk.differences() != []


@pytest.mark.parametrize("name", ["ext4", "xfs", "btrfs"])
def test_a_busy_mount_fails_loudly_and_succeeds_later(bench: Bench, name: str) -> None:
    disk = bench.disk()
    built = bench.put(name, disk)
    do(bench.steps)
    with kept_open(built.provides.path):
        failed = undo(bench.steps, check=False)
        assert failed is not None and "busy" in failed.stderr
        assert built.differences() == []
        assert built.provides.path in Path("/proc/self/mountinfo").read_text()
    undo(bench.steps)
    assert bench.left_over() == []


def test_a_held_loop_device_fails_loudly_and_succeeds_later(bench: Bench) -> None:
    disk = bench.disk("64M")
    do(disk.steps)
    attach = disk.steps[1:]
    with kept_open(str(Path(disk.provides.path).resolve())):
        failed = undo(attach, check=False)
        assert failed is not None and "something still holds /dev/loop" in failed.stderr
    undo(disk.steps)
    assert bench.left_over() == []


def test_a_loop_device_is_found_after_its_file_was_removed(bench: Bench) -> None:
    disk = bench.disk("64M")
    do(disk.steps)
    Path(disk.below[0].path).unlink()
    assert disk.differences() != []
    undo(disk.steps)
    assert bench.left_over() == []


def test_a_loop_device_over_another_file_is_noticed_and_left_alone(bench: Bench) -> None:
    disk, other = bench.disk("64M"), bench.disk("64M")
    do(disk.steps + other.steps)
    link = Path(disk.provides.path)
    link.unlink()
    link.symlink_to(Path(other.provides.path).resolve())
    (sentence,) = disk.differences()
    assert "is backed by" in sentence
    undo(disk.steps)
    assert other.differences() == []


def test_a_loop_device_without_direct_io_is_noticed(bench: Bench) -> None:
    disk = bench.disk("64M")
    do(disk.steps)
    run("losetup", "--direct-io=off", str(Path(disk.provides.path).resolve()))
    (sentence,) = disk.differences()
    assert "direct I/O" in sentence


def test_a_foreign_mount_over_ours_is_noticed_and_not_unmounted(bench: Bench) -> None:
    built = bench.put("ext4", bench.disk("64M"))
    do(bench.steps)
    mount_point = built.provides.path
    run("mount", "-t", "tmpfs", "foreign", mount_point)
    assert built.differences() == ["Something else is mounted over the file system: foreign."]
    failed = undo(built.steps, check=False)
    assert failed is not None and "did not make" in failed.stderr
    assert Path("/proc/self/mountinfo").read_text().count(mount_point) == 2
    run("umount", mount_point)
    undo(bench.steps)


def test_a_foreign_mount_instead_of_ours_is_noticed_and_not_unmounted(bench: Bench) -> None:
    built = bench.put("ext4", bench.disk("64M"))
    do(bench.steps)
    mount_point = built.provides.path
    run("umount", mount_point)
    assert any("not mounted" in sentence for sentence in built.differences())
    run("mount", "-t", "tmpfs", "foreign", mount_point)
    assert any("tmpfs instead of ext4" in sentence for sentence in built.differences())
    assert undo(built.steps, check=False) is not None
    run("umount", mount_point)
    undo(bench.steps)


def test_the_same_kind_of_file_system_on_another_disk_is_noticed(bench: Bench) -> None:
    one, two = (bench.put("ext4", bench.disk("64M")) for _ in range(2))
    do(bench.steps)
    run("umount", one.provides.path)
    run("mount", two.below[0].path, one.provides.path)
    assert any("instead of the device below" in sentence for sentence in one.differences())
    run("umount", one.provides.path)


def test_a_file_system_that_was_shut_down_is_still_unmounted(bench: Bench) -> None:
    built = bench.put("xfs", bench.disk())
    do(bench.steps)
    run("xfs_io", "-x", "-c", "shutdown", built.provides.path)
    undo(bench.steps)
    assert bench.left_over() == []


# ---------------------------------------------------------------- directories of the user's


@pytest.fixture
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("their directory")
    (made / "file").write_text("precious")
    return made


def existing(bench: Bench, path: Path) -> Built:
    return bench.put("existing", path=str(path))


def test_only_the_fresh_directory_is_removed(bench: Bench, theirs: Path) -> None:
    built = existing(bench, theirs)
    assert not built.provides.ours
    do(built.steps)
    assert built.differences() == []
    assert [path.name for path in theirs.iterdir() if path.is_dir()] == [Path(built.provides.path).name]
    (Path(built.provides.path) / "data").write_text("x")
    for _ in range(2):
        undo(built.steps)
        assert [path.name for path in theirs.iterdir()] == ["file"]
    assert built.differences() != []


def test_a_directory_in_it_goes_with_it(bench: Bench, theirs: Path) -> None:
    built = bench.put("dir", existing(bench, theirs))
    do(bench.steps)
    assert bench.differences() == []
    assert Path(built.provides.path).is_dir()
    undo(bench.steps)
    assert [path.name for path in theirs.iterdir()] == ["file"]


def test_a_directory_that_is_not_there_fails_and_is_not_made(bench: Bench, theirs: Path) -> None:
    built = existing(bench, theirs / "missing")
    with pytest.raises(AssertionError):
        do(built.steps)
    undo(built.steps)
    assert [path.name for path in theirs.iterdir()] == ["file"]


def test_a_mount_inside_the_fresh_directory_is_not_emptied(bench: Bench, theirs: Path) -> None:
    built = existing(bench, theirs)
    do(built.steps)
    inside = Path(built.provides.path) / "mount"
    inside.mkdir()
    run("mount", "-t", "tmpfs", "foreign", str(inside))
    (inside / "file").write_text("precious")
    assert undo(built.steps, check=False) is not None
    assert (inside / "file").read_text() == "precious"
    run("umount", str(inside))
    undo(built.steps)
    assert [path.name for path in theirs.iterdir()] == ["file"]
