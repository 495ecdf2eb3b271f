"""Kernel parameters of this machine: set, read back, and as they were before; also where one stands for two."""

from __future__ import annotations

from pathlib import Path

import pytest

from .layer_bench import Bench, Built, do, execute, undo

WATCHED = ("vm.dirty_bytes", "vm.dirty_ratio", "vm.dirty_background_bytes", "vm.dirty_background_ratio",
           "fs.dir-notify-enable", "vm.vfs_cache_pressure")  # fmt: skip


def values() -> dict[str, str]:
    return {name: Path("/proc/sys", name.replace(".", "/")).read_text() for name in WATCHED}


@pytest.fixture
def disk(bench: Bench) -> Built:
    made = bench.disk("64M")
    do(made.steps)
    return made


@pytest.mark.parametrize(
    ("name", "value"),
    [("vm.dirty_bytes", 500_000_000), ("vm.dirty_background_ratio", 9), ("vm.dirty_ratio", 19),
     ("vm.dirty_background_bytes", 90_000_000), ("vm.vfs_cache_pressure", 90)],
)  # fmt: skip
def test_it_is_set_read_back_and_put_back(bench: Bench, disk: Built, name: str, value: int) -> None:
    before = values()
    built = bench.put("sysctl", disk, name=name, value=value)
    assert built.provides == disk.provides
    try:
        do(built.steps)
        assert values()[name].strip() == str(value)
        assert built.differences() == []
    finally:
        undo(built.steps)
    assert values() == before
    undo(built.steps)
    assert values() == before
    assert built.differences() == [f"The kernel parameter {name} is {before[name].strip()} instead of {value}."]


def test_two_of_a_pair_are_undone_in_turn(bench: Bench, disk: Built) -> None:
    before = values()
    wanted = (("vm.dirty_bytes", 400_000_000), ("vm.dirty_ratio", 18))
    both = [bench.put("sysctl", disk, name=name, value=value) for name, value in wanted]
    steps = [step for each in both for step in each.steps]
    try:
        do(steps)
        assert values()["vm.dirty_ratio"].strip() == "18" and values()["vm.dirty_bytes"].strip() == "0"
    finally:
        undo(steps)
    assert values() == before


def test_one_that_this_kernel_has_not_says_so(bench: Bench, disk: Built) -> None:
    built = bench.put("sysctl", disk, name="vm.no_such_thing", value=1)
    done = execute(built.steps[0].do)
    assert done.exit_code == 1 and done.stderr == "this kernel has no vm/no_such_thing\n"
    undo(built.steps)
