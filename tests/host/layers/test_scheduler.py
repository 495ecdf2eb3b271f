"""Schedulers on a loop device: each that the kernel offers, and the old one back afterwards."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from strata.layers.scheduler import DRIVER
from strata.model import Call, Kind, Place, Provides

from .layer_bench import Bench, Built, do, undo


def scheduler_of(disk: Built) -> Path:
    return Path("/sys/class/block", Path(disk.provides.path).resolve().name, "queue/scheduler")


@pytest.fixture
def disk(bench: Bench) -> Built:
    made = bench.disk("64M")
    do(made.steps)
    return made


def test_each_one_offered_is_set_and_the_old_one_restored(bench: Bench, disk: Built) -> None:
    file = scheduler_of(disk)
    offered = file.read_text().replace("[", "").replace("]", "").split()
    assert "none" in offered
    for start in offered:
        file.write_text(start)
        for name in offered:
            built = bench.put("scheduler", disk, name=name)
            do(built.steps)
            assert f"[{name}]" in file.read_text()
            assert built.differences() == []
            undo(built.steps)
            assert f"[{start}]" in file.read_text()
            undo(built.steps)
            assert f"[{start}]" in file.read_text()
    file.write_text("none")


def test_it_is_set_on_the_disk_of_a_partition(bench: Bench, disk: Built) -> None:
    partition = bench.put("partition", disk)
    built = bench.put("scheduler", partition, name="mq-deadline")
    assert built.provides == partition.provides
    do(partition.steps + built.steps)
    assert "[mq-deadline]" in scheduler_of(disk).read_text()
    assert built.differences() == []


def test_two_on_one_disk_are_undone_in_turn(bench: Bench, disk: Built) -> None:
    before = scheduler_of(disk).read_text()
    both = [bench.put("scheduler", disk, name=name) for name in ("kyber", "bfq")]
    steps = [step for each in both for step in each.steps]
    do(steps)
    assert both[0].differences() == ["The I/O scheduler is 'bfq' instead of 'kyber'."]
    undo(steps)
    assert scheduler_of(disk).read_text() == before


def test_a_record_that_was_never_finished_changes_nothing(bench: Bench, disk: Built) -> None:
    built = bench.put("scheduler", disk, name="bfq")
    Path(built.place.dir, "scheduler").touch()
    before = scheduler_of(disk).read_text()
    undo(built.steps)
    assert scheduler_of(disk).read_text() == before


def test_undoing_succeeds_when_the_disk_is_gone(bench: Bench, disk: Built) -> None:
    built = bench.put("scheduler", disk, name="bfq")
    do(built.steps)
    scheduler = Path(f"/sys/block/{Path(disk.provides.path).resolve().name}/queue/scheduler")
    undo(disk.steps)
    undo(built.steps)
    scheduler.write_text("none")  # the loop device keeps it after its disk is gone


def test_a_disk_starts_without_what_its_loop_device_had_before(bench: Bench) -> None:
    first = bench.disk("64M")
    do(first.steps)
    number = Path(first.provides.path).resolve().name
    scheduler = Path(f"/sys/block/{number}/queue/scheduler")
    scheduler.write_text("bfq")
    undo(first.steps)
    assert "[bfq]" in scheduler.read_text(), "the kernel keeps it: nothing to test if not"
    try:
        again = bench.disk("64M")
        do(again.steps)
        taken = Path(again.provides.path).resolve().name
        assert "[none]" in Path(f"/sys/block/{taken}/queue/scheduler").read_text()
        undo(again.steps)
    finally:
        scheduler.write_text("none")


def test_one_that_the_kernel_does_not_have_fails(bench: Bench, disk: Built) -> None:
    built = bench.put("scheduler", disk, name="cfq")
    with pytest.raises(AssertionError):
        do(built.steps)


def test_a_device_without_a_queue_is_refused_before_anything_is_set(tmp_path: Path) -> None:
    """Only read: a device that the operator gave may be bio-based, and on 6.1 writes to its file are ignored."""
    found = [each.name for each in Path("/sys/block").iterdir() if not (each / "mq").is_dir()]
    if not found:
        pytest.skip("no block device of this machine is bio-based")
    below = [Provides(Kind.BLOCK, f"/dev/{found[0]}")]
    spec, place = Call("scheduler", "scheduler(none)", {"name": "none"}), Place(str(tmp_path), "1", "s", 0)
    note = DRIVER.plan_create(spec, below, place)[0]
    for command in (note.do, *DRIVER.plan_inspect(spec, below, place)):
        ended = subprocess.run(command.argv, capture_output=True, text=True, check=False)
        assert ended.returncode != 0
        assert "is bio-based and has no I/O scheduler" in ended.stderr
    assert list(tmp_path.iterdir()) == []
