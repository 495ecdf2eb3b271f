"""Runs side by side, by value."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import pytest

from strata.errors import BadInput
from strata.model import Skipped, View
from strata.report import joined
from strata.report.model import Cell


def exact(view: View, fio: float) -> View:
    """With `fio` IOPS under the one workload and 200 MiB/s under the other, in every visit."""
    figures = {"fio/randrw-75-25": {"iops": fio}, "dd/seqwrite-sync": {"throughput": 200.0}}
    return replace(view, trials=tuple(replace(trial, metrics=figures[trial.workload]) for trial in view.trials))


@pytest.fixture(scope="module")
def views(synthetic: ModuleType) -> dict[str, View]:
    """The second has EXT4 instead of BTRFS, and is twice as fast under fio."""
    first = synthetic.run_of({synthetic.XFS: 1.0, synthetic.BTRFS: 1.0}, rounds=2)
    second = synthetic.run_of({synthetic.XFS: 1.0, synthetic.EXT4: 1.0}, rounds=2)
    left_out = (Skipped(synthetic.F2FS, ("This kernel has no f2fs.", "Nor has it the tools.")),)
    return {
        "runs/old": replace(exact(first, 1500.0), factors={synthetic.XFS: {"fs": "xfs"}, synthetic.BTRFS: {}}),
        "runs/new": replace(
            exact(second, 3000.0),
            skipped=left_out,
            facts=None,
            visits_done=3,
            factors={synthetic.XFS: {"fs": "xfs"}, synthetic.EXT4: {"fs": "ext4"}},
        ),
    }


def test_every_stack_has_its_figure_of_each_run_and_its_ratio_to_the_first(
    views: dict[str, View], synthetic: ModuleType
) -> None:
    fio, dd = joined.build(views, {}).tables
    assert (fio.title, dd.title) == ("fio/randrw-75-25, iops.", "dd/seqwrite-sync, throughput.")
    assert [(column.title, column.unit, column.about) for column in fio.columns] == [
        ("A", "IOPS", "runs/old"),
        ("B", "IOPS", "runs/new"),
        ("B / A", "× as good", "runs/new against the first run"),
    ]
    cells = {row.head: [cell.value for cell in row.cells] for row in fio.rows}
    assert cells == {
        synthetic.XFS: [1500.0, pytest.approx(3000.0), pytest.approx(2.0)],
        synthetic.BTRFS: [1500.0, None, None],
        synthetic.EXT4: [None, pytest.approx(3000.0), None],
    }
    assert [[cell.value for cell in row.cells][2] for row in dd.rows] == [pytest.approx(1.0), None, None]


def test_less_of_a_latency_is_as_many_times_as_good(views: dict[str, View], synthetic: ModuleType) -> None:
    def slower_is_more(view: View) -> View:
        loads = tuple(replace(load, primary=replace(load.primary, better="lower")) for load in view.workloads)
        return replace(view, workloads=loads)

    fio, _ = joined.build({name: slower_is_more(view) for name, view in views.items()}, {}).tables
    assert {row.head: row.cells[2].value for row in fio.rows}[synthetic.XFS] == pytest.approx(0.5)


def test_a_run_is_told_with_its_machine_and_how_far_it_came(views: dict[str, View]) -> None:
    old, new = joined.build(views, {"runs/old": "Best: disk | xfs."}).runs
    assert (old.key, old.name, old.sentence, old.progress) == ("A", "runs/old", "Best: disk | xfs.", "4 of 4 visits")
    assert "AMD EPYC 7543" in old.machine
    assert (new.key, new.sentence, new.machine, new.progress) == ("B", "", "an unknown machine", "3 of 4 visits")


def test_gaps_are_explained(views: dict[str, View], synthetic: ModuleType) -> None:
    assert joined.build(views, {}).notes == (
        f"A (runs/old) has not: {synthetic.EXT4}.",
        f"B (runs/new) has not: {synthetic.BTRFS}.",
        f"B could not run {synthetic.F2FS}: This kernel has no f2fs. Nor has it the tools.",
    )


def test_a_part_of_the_stacks_is_chosen_by_text_and_by_level(views: dict[str, View], synthetic: ModuleType) -> None:
    def stacks(**wanted: object) -> list[str]:
        return [row.head for row in joined.build(views, {}, **wanted).tables[0].rows]  # type: ignore[arg-type]

    assert stacks(part="ext") == [synthetic.EXT4]
    assert stacks(only={"fs": "xfs"}) == [synthetic.XFS]
    assert stacks(part="disk", only={}) == [synthetic.XFS, synthetic.BTRFS, synthetic.EXT4]
    with pytest.raises(BadInput, match="'xfs' in its text and fs ext4"):
        joined.build(views, {}, part="xfs", only={"fs": "ext4"})


def test_only_factors_with_a_choice_are_offered(views: dict[str, View]) -> None:
    assert joined.levels(views) == {"fs": ["xfs", "ext4"]}
    assert joined.levels({"runs/old": views["runs/old"]}) == {}


def test_more_runs_than_letters_have_keys_of_their_own(views: dict[str, View]) -> None:
    many = {f"runs/{number}": views["runs/old"] for number in range(28)}
    keys = [run.key for run in joined.build(many, {}).runs]
    assert keys[:2] == ["A", "B"] and keys[25:] == ["Z", "A26", "A27"]


def test_the_text_for_a_terminal_has_the_columns_below_their_heads(views: dict[str, View]) -> None:
    text = joined.render(joined.build(views, {"runs/old": "Best: disk | xfs."}))
    lines = text.splitlines()
    assert lines[0] == "A  runs/old: file systems on one disk, 4 of 4 visits"
    assert lines[2] == "   Best: disk | xfs."
    place = lines.index("fio/randrw-75-25, iops.")
    heads, *rows = lines[place + 1 : place + 5]
    assert heads.split("  ")[-1] == "B / A (× as good)" and "A (IOPS)" in heads and "B (IOPS)" in heads
    assert [row.split()[-1] for row in rows] == ["xfs", "btrfs", "ext4"]
    assert "1500" in rows[0].replace(",", "") and "3000" in rows[0].replace(",", "") and "2.00" in rows[0]
    assert rows[2].split()[0] == "–" and len(heads) == rows[0].index("disk") - 2
    assert text.endswith("Nor has it the tools.\n")


def test_a_cell_has_its_interval_beside_it() -> None:
    assert joined._text(Cell("1.50", 1.5, 1.25, 1.75, "1.25 to 1.75")) == "1.50 (1.25 to 1.75)"
    assert (joined._text(Cell("1.50", 1.5)), joined._text(Cell("–"))) == ("1.50", "–")
