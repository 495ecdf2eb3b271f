"""A loop device is preconditioned, and what is made on it does not empty it again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from strata.layers import drivers
from strata.layers.precondition import WINDOW

from .layer_bench import Bench, Built, call, do, execute, undo


def stored(disk: Built) -> int:
    """Bytes that the file below the loop device takes."""
    return Path(disk.below[0].path).stat().st_blocks * 512


def figures(built: Built) -> dict[str, float]:
    driver = drivers()["precondition"]
    asked = (built.spec, built.below, built.place)
    return dict(driver.figures(*asked, [execute(command) for command in driver.plan_figures(*asked)]))  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_all_of_it_is_written_and_stays_so(bench: Bench, kind: str) -> None:
    disk = bench.disk("384M")
    do(disk.steps)
    built = bench.put("precondition", disk, passes=1, rounds=2, round=1.0)
    do(built.steps)
    assert built.differences() == []
    assert stored(disk) >= 384 << 20
    found = figures(built)
    assert found["precondition.rounds"] == 2
    assert found["precondition.unsteady"] == 1, f"a window has {WINDOW} rounds"
    assert found["precondition.iops"] > 0
    made = bench.put(kind, built)
    do(made.steps)
    assert made.differences() == []
    assert stored(disk) > 380 << 20, "mkfs discarded what was written"
    undo(made.steps)
    undo(built.steps)
    plain = bench.put(kind, disk)
    do(plain.steps)
    assert stored(disk) < 200 << 20, "nothing to test: mkfs discards nothing here"
    undo(plain.steps)


def test_rounds_end_when_it_is_steady(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The script that judges, on figures that are known: fio is a word of ours here."""
    disk = bench.disk("64M")
    do(disk.steps)
    (settle,) = [step for step in bench.put("precondition", disk, passes=0, rounds=12).steps if "steady" in step.why]
    fake = tmp_path_factory.mktemp("bin")
    for iops, rounds, state in (
        ((100, 60, 80, 100, 101, 99, 100, 100), 8, "steady"),  # the 60 has to leave the window
        ((100, 100, 100, 100, 100), 5, "steady"),
        ((100, 103, 106, 109, 112, 115, 118, 121, 124, 127, 130, 133), 10, "steady"),  # until 12 are 10 % of the mean
        ((100, 90, 110, 89, 111, 90, 111, 90, 110, 88, 111, 90), 12, "unsteady"),
    ):
        (fake / "figures").write_text("\n".join(map(str, iops)) + "\n")
        fields = ";".join(["3", *["0"] * 47, "$n", "0"])
        (fake / "fio").write_text(
            f'#!/bin/sh\nn=$(head -n 1 {fake}/figures); sed -i 1d {fake}/figures\necho "{fields}"\n'
        )
        (fake / "fio").chmod(0o755)
        argv = ("env", f"PATH={fake}:/usr/sbin:/usr/bin:/sbin:/bin", *settle.do.argv)
        assert execute(replace(settle.do, argv=argv)).exit_code == 0
        told = Path(bench.layers[-1].place.dir, "preconditioned").read_text().splitlines()
        assert (len(told) - 1, told[-1]) == (rounds, state), told


def test_a_disk_of_unknown_size_is_refused() -> None:
    from strata.errors import BadInput
    from strata.model import Kind, Place, Provides

    under = Provides(Kind.BLOCK, "/dev/null", None)
    with pytest.raises(BadInput, match="how large"):
        drivers()["precondition"].provides(call("precondition"), [under], Place("a", "/tmp", "b"))
