"""Every layer on loop files: built, read back as requested, taken down from every half-built state, nothing left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from strata.model import Command, Kind

from .layer_bench import Bench, do, execute, undo


def ext4(bench: Bench) -> None:
    bench.put("ext4", bench.disk("64M"), noatime=True, nobarrier=True, data="writeback", commit=30)


def ext4_without_journal(bench: Bench) -> None:
    bench.put("ext4", bench.disk("64M"), journal=False, inodes=4096, mkfs="-E nodiscard -b 1024")


def xfs(bench: Bench) -> None:
    bench.put("xfs", bench.disk(), noatime=True, logbsize=256 << 10, allocsize=1 << 20, reflink=False)


def xfs_with_mkfs(bench: Bench) -> None:
    bench.put("xfs", bench.disk(), logsize=80 << 20, mkfs="-K -d agcount=2 -L 'a b'")


def btrfs(bench: Bench) -> None:
    bench.put("btrfs", bench.disk(), quotas=True, autodefrag=True, compress="zstd")


def btrfs_without_cow(bench: Bench) -> None:
    bench.put("btrfs", bench.disk(), nodatacow=True, mkfs="--nodesize 32768")


def btrfs_raid1(bench: Bench) -> None:
    bench.put("btrfs", bench.disk(), bench.disk(), profile="raid1", metadata="raid1")


def btrfs_raid10(bench: Bench) -> None:
    disks = [bench.disk() for _ in range(4)]
    bench.put("btrfs", *disks, profile="raid10", metadata="raid10")


def btrfs_raid0(bench: Bench) -> None:
    bench.put("btrfs", bench.disk(), bench.disk(), bench.disk(), profile="raid0")


def btrfs_degraded(bench: Bench) -> None:
    disks = [bench.disk() for _ in range(3)]
    bench.put("degraded", bench.put("btrfs", *disks, profile="raid1", metadata="raid1", noatime=True))


def btrfs_rebuilding(bench: Bench) -> None:
    # There must be so much that it is not over before anybody looks.
    made = bench.put("btrfs", bench.disk("512M"), bench.disk("512M"), profile="raid1")
    bench.put("rebuilding", bench.put("fill", made, share=0.6))


def btrfs_with_snapshots(bench: Bench) -> None:
    made = bench.put("btrfs", bench.disk())
    bench.put("snapshot", made, held=2)
    bench.put("balance", made)


def partition_gpt(bench: Bench) -> None:
    bench.put("ext4", bench.put("partition", bench.disk("64M")))


def partition_dos(bench: Bench) -> None:
    bench.put("ext4", bench.put("partition", bench.disk("64M"), table="dos", start=63 * 512, size=16 << 20))


def btrfs_on_partitions(bench: Bench) -> None:
    parts = [bench.put("partition", bench.disk()) for _ in range(2)]
    bench.put("btrfs", *parts, profile="raid1")


def scheduled_partition(bench: Bench) -> None:
    bench.put("ext4", bench.put("scheduler", bench.put("partition", bench.disk("64M")), name="bfq"))


def directory(bench: Bench) -> None:
    bench.put("dir", bench.put("ext4", bench.put("null", bench.disk("64M"), tag="a")), name="data")


def raw_image(bench: Bench) -> None:
    bench.put("raw", bench.put("ext4", bench.disk()), size=64 << 20, prealloc="falloc")


def qcow2_image(bench: Bench) -> None:
    bench.put("qcow2", bench.put("btrfs", bench.disk()), prealloc="metadata", extended_l2=True, nocow=True)


def qcow2_clone(bench: Bench) -> None:
    bench.put("qcow2", bench.put("xfs", bench.disk()), size=64 << 20, backing="compressed", compression="zstd",
              cluster=128 << 10, lazy_refcounts=True)  # fmt: skip


def qsd_on_an_image(bench: Bench) -> None:
    image = bench.put("raw", bench.put("ext4", bench.disk()), size=64 << 20)
    bench.put("ext4", bench.put("qsd", image, cache="unsafe", detect_zeroes="on"))


def qsd_on_a_clone(bench: Bench) -> None:
    image = bench.put("qcow2", bench.put("xfs", bench.disk()), size=64 << 20, backing="raw")
    bench.put("ext4", bench.put("qsd", image, cache="directsync", aio="native"))


def qsd_on_a_device(bench: Bench) -> None:
    bench.put("ext4", bench.put("qsd", bench.disk("64M"), cache="none", aio="io_uring"))


STACKS = [
    ext4,
    ext4_without_journal,
    xfs,
    xfs_with_mkfs,
    btrfs,
    btrfs_without_cow,
    btrfs_raid1,
    btrfs_raid10,
    btrfs_raid0,
    btrfs_degraded,
    btrfs_rebuilding,
    btrfs_with_snapshots,
    partition_gpt,
    partition_dos,
    btrfs_on_partitions,
    scheduled_partition,
    directory,
    raw_image,
    qcow2_image,
    qcow2_clone,
    qsd_on_an_image,
    qsd_on_a_clone,
    qsd_on_a_device,
]

BUILDS_NOTHING = {"null", "degraded", "rebuilding", "snapshot", "balance"}

stacks = pytest.mark.parametrize("stack", STACKS, ids=lambda stack: stack.__name__)


@stacks
def test_it_is_built_as_asked_and_leaves_nothing(bench: Bench, stack: Callable[[Bench], None]) -> None:
    stack(bench)
    do(bench.steps)
    assert bench.differences() == []
    top = bench.layers[-1].provides
    if top.kind is Kind.DIRECTORY:
        assert top.mount is not None
        assert Path(top.path).is_dir()
        (Path(top.path) / "file").write_text("data")
    else:
        assert Path(top.path).exists()
    undo(bench.steps)
    assert bench.left_over() == []


@stacks
def test_undoing_what_was_never_done_succeeds(bench: Bench, stack: Callable[[Bench], None]) -> None:
    stack(bench)
    undo(bench.steps)
    assert bench.left_over() == []


# The kernel remembers until it is told to forget all devices of everybody that this file system lacked one; the next
# with the same UUID, which no visit makes, would be taken for it.
@pytest.mark.parametrize("stack", [each for each in STACKS if each is not btrfs_rebuilding], ids=lambda s: s.__name__)
def test_every_half_built_stack_can_be_undone_twice(bench: Bench, stack: Callable[[Bench], None]) -> None:
    stack(bench)
    steps = bench.steps
    for built in range(1, len(steps) + 1):
        do(steps[:built])
        undo(steps)
        assert bench.left_over() == []
        undo(steps)


@stacks
def test_nothing_is_there_is_a_difference_for_every_layer_that_makes_something(
    bench: Bench, stack: Callable[[Bench], None]
) -> None:
    stack(bench)
    for layer in bench.layers:
        assert (layer.differences() == []) is (layer.spec.name in BUILDS_NOTHING), layer.spec.name


@pytest.mark.parametrize(
    "stack",
    [ext4, xfs, btrfs, btrfs_raid1, scheduled_partition, directory, qcow2_clone, qsd_on_a_clone, qsd_on_a_device],
    ids=lambda s: s.__name__,
)
def test_a_directory_may_have_any_name(tmp_path: Path, stack: Callable[[Bench], None]) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a b,c 'd' $e")
    (tmp_path / "a b,c 'd' $e").mkdir()
    bench = Bench(tmp_path / "link")
    stack(bench)
    do(bench.steps)
    assert bench.differences() == []
    undo(bench.steps)
    assert bench.left_over() == []
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


def test_a_stack_can_be_built_again_on_other_devices(bench: Bench) -> None:
    """btrfs: the kernel must not mistake the second file system for the first, which has the same UUID."""
    others = bench.disk(), bench.disk()
    stack = Bench(bench.root / "again")
    stack.root.mkdir()
    btrfs_raid1(stack)
    try:
        for other in others:
            do(stack.steps)
            assert stack.differences() == []
            for _ in range(20):
                (Path(stack.layers[-1].provides.path) / "file").write_text("x")
                execute(Command(("sync",)))
            undo(stack.steps)
            # The loop devices just let go are taken, so the stack gets other ones.
            do(other.steps)
    finally:
        undo(stack.steps, check=False)
    undo(bench.steps)
    assert stack.left_over() == []
    for layer in stack.layers:
        Path(layer.place.dir).rmdir()
    stack.root.rmdir()
