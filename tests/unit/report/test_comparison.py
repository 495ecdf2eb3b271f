"""Comparisons as text: what deciding metrics show, what moved, and what a study is called."""

from __future__ import annotations

from dataclasses import replace

from strata.analysis.between import Cell, Comparison, Places, Table, Turn
from strata.analysis.estimate import Estimate
from strata.analysis.studies import ClaimResult, Held, StudyClaim
from strata.model import Metric
from strata.report import comparison

IOPS = Metric("iops", "IOPS", "higher")
LATENCY = Metric("lat_ms", "ms", "lower")


def ratio(point: float, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(point, low, high, 3, "made up")


FOUND = Comparison(
    stacks=("a", "b"),
    tables=(
        Table("fio/rand", IOPS, True,
              (Cell("a", 100.0, 200.0, ratio(2.0, 1.8, 2.2), "better"), Cell("b", 50.0, 25.0, ratio(0.5)))),
        Table("fio/rand", LATENCY, False, (Cell("a", 1.0, 0.5, ratio(2.0, 1.9, 2.1)),)),
    ),
    places=(Places("fio/rand", (("a", 1, 2), ("b", 2, 1)), ("a", "b")),),
    turns=(Turn("fio/rand", "a", "b", ratio(2.0, 1.5, 2.5), ratio(0.5, 0.4, 0.6), "turned"),),
    notes=("Only in one: c.",),
)  # fmt: skip


def test_the_metric_that_decides_is_shown_and_the_others_when_asked_for() -> None:
    text = comparison.of_runs(FOUND, "runs/x", "runs/y", everything=False)
    assert "100 -> 200 2.00 x (1.80 to 2.20) better a" in " ".join(text.split())
    assert "one visit: no interval" in text
    assert "lat_ms" not in text
    assert "lat_ms" in comparison.of_runs(FOUND, "runs/x", "runs/y", everything=True)


def test_the_first_sentence_says_what_changed_what_did_not_and_what_is_undecided() -> None:
    cells = (
        Cell("a", 1.0, 2.0, ratio(2.0, 1.8, 2.2), "better"),
        Cell("b", 2.0, 1.0, ratio(0.5, 0.4, 0.6), "worse"),
        Cell("c", 1.0, 1.0, ratio(1.0, 0.99, 1.01), "equivalent"),
        Cell("d", 1.0, 1.0, ratio(1.0, 0.5, 2.0)),
    )
    made = replace(FOUND, tables=(Table("fio/rand", IOPS, True, cells), Table("fio/rand", LATENCY, False, cells)))
    assert comparison.of_runs(made, "runs/x", "runs/y", everything=True).partition("\n")[0] == (
        "In runs/y, of 4 figures that decide: 1 better (a under fio/rand); 1 worse (b under fio/rand); "
        "1 unchanged (within 3 %); 1 undecided (too few visits, or too wide an interval)."
    )


def test_runs_without_a_figure_to_compare_say_so_first() -> None:
    text = comparison.of_runs(replace(FOUND, tables=(), places=()), "runs/x", "runs/y", everything=False)
    assert text.startswith("No figure that decides can be compared; ")


def test_of_many_changes_the_first_sentence_names_some() -> None:
    cells = tuple(Cell(name, 1.0, 2.0, ratio(2.0, 1.8, 2.2), "better") for name in "abcde")
    made = replace(FOUND, tables=(Table("w", IOPS, True, cells),))
    text = comparison.of_runs(made, "runs/x", "runs/y", everything=False)
    assert "5 better (a under w, b under w, c under w and 2 others)." in text.partition("\n")[0]


def test_a_change_of_place_that_is_not_shown_is_not_listed() -> None:
    places = replace(FOUND.places[0], shown=())
    text = comparison.of_runs(replace(FOUND, places=(places,)), "runs/x", "runs/y", everything=False)
    assert "1 -> 2" not in text
    assert "No change of place is shown under fio/rand." in text


def test_what_moved_and_what_turned() -> None:
    text = comparison.of_runs(FOUND, "runs/x", "runs/y", everything=False)
    assert "1 -> 2  a" in text and "2 -> 1  b" in text
    assert "a against b under fio/rand: the other way round now" in text
    assert "Note: Only in one: c." in text


def test_a_study_is_named_with_its_source_and_shows_no_figure_of_its_own() -> None:
    held = Held("fio/rand", "iops", "b", "a", 0.5, ratio(0.4, 0.3, 0.5), "same")
    text = comparison.of_study([held], "Which backend? (2016)", "a blog post", ["VirtualBox."])
    assert text.startswith("Which backend? (2016)\n  from a blog post\n")
    assert "each against a" in text
    assert "published   0.500   here 0.400 x (0.300 to 0.500)  the same way here: b" in text
    assert "Left out: VirtualBox." in text


def test_a_finding_comes_with_every_pair_that_tries_it() -> None:
    claimed = StudyClaim("filebench/varmail", None, "all others", "btrfs", "x", "y", "20")
    rows = [
        ClaimResult(claimed, "filebench/varmail", stack, "z", ratio(3.0, 2.0, 4.0), "turned") for stack in ("x", "w")
    ]
    text = comparison.of_findings(rows, "KVM storage (2015)", "charts", [])
    assert text.count("all others before btrfs under filebench/varmail (published, 20):") == 1
    assert text.count("THE OTHER WAY ROUND here") == 2
