"""Comparisons as text: what deciding metrics show, what moved, and what a study is called."""

from __future__ import annotations

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
              (Cell("a", 100.0, 200.0, ratio(2.0, 1.8, 2.2)), Cell("b", 50.0, 25.0, ratio(0.5)))),
        Table("fio/rand", LATENCY, False, (Cell("a", 1.0, 0.5, ratio(2.0, 1.9, 2.1)),)),
    ),
    places=(Places("fio/rand", (("a", 1, 2), ("b", 2, 1))),),
    turns=(Turn("fio/rand", "a", "b", ratio(2.0, 1.5, 2.5), ratio(0.5, 0.4, 0.6), "turned"),),
    notes=("Only in one: c.",),
)  # fmt: skip


def test_the_metric_that_decides_is_shown_and_the_others_when_asked_for() -> None:
    text = comparison.of_runs(FOUND, "runs/x", "runs/y", everything=False)
    assert "100 -> 200 2.00 x (1.80 to 2.20) a" in " ".join(text.split())
    assert "one visit: no interval" in text
    assert "lat_ms" not in text
    assert "lat_ms" in comparison.of_runs(FOUND, "runs/x", "runs/y", everything=True)


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
