"""Two runs of the same stacks: known ratios, known turns, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from strata.analysis import between
from strata.errors import BadInput
from strata.model import View

from .noisy_views import IOPS, TIME, campaign, exact, trial, view


def test_the_ratio_is_that_of_the_second_run_to_the_first() -> None:
    found = between.runs(
        exact({"a": [100.0, 100.0], "b": [50.0, 50.0]}), exact({"a": [200.0, 200.0], "b": [25.0, 25.0]})
    )
    ratios = {cell.stack: cell.ratio for cell in found.tables[0].cells}
    assert ratios["a"].point == pytest.approx(2.0)
    assert ratios["b"].point == pytest.approx(0.5)
    assert ratios["a"].low == pytest.approx(2.0), "exact instruments have no spread"


def test_less_is_better_where_the_metric_says_so() -> None:
    def timed(seconds: float) -> View:
        trials = [trial("a", number, {"run_time": seconds}, workload=TIME.text) for number in range(3)]
        return view(["a"], trials, workloads=[TIME])

    (cell,) = between.runs(timed(10.0), timed(5.0)).tables[0].cells
    assert (cell.first, cell.second) == (pytest.approx(10.0), pytest.approx(5.0))
    assert cell.ratio.point == pytest.approx(2.0)


def test_one_visit_gives_no_interval() -> None:
    (cell,) = between.runs(exact({"a": [100.0]}), exact({"a": [110.0, 111.0]})).tables[0].cells
    assert cell.ratio.point > 1
    assert cell.ratio.low is None


def test_the_interval_holds_the_true_ratio_as_often_as_it_says() -> None:
    inside = 0
    for seed in range(200):
        first, second = (campaign({"a": level, "b": 0.0}, seed * 2 + n, rounds=6) for n, level in enumerate((0.0, 0.2)))
        ratio = between.runs(first, second).tables[0].cells[0].ratio
        assert ratio.low is not None and ratio.high is not None
        inside += ratio.low <= math.exp(0.2) <= ratio.high
    # 95 %, with the noise of a whole machine from run to run beside it, which no visit shows
    assert inside >= 150


def test_what_turned_round_is_said_and_what_stayed_is_not() -> None:
    quick = {"a": [100.0, 101.0, 99.0], "b": [50.0, 51.0, 49.0], "c": [10.0, 10.1, 9.9]}
    later = {"a": [50.0, 51.0, 49.0], "b": [100.0, 101.0, 99.0], "c": [10.0, 10.1, 9.9]}
    found = between.runs(exact(quick), exact(later))
    assert [(turn.stack, turn.other, turn.change) for turn in found.turns] == [("a", "b", "turned")]
    assert found.places[0].rows == (("a", 1, 2), ("b", 2, 1), ("c", 3, 3))


def test_stacks_in_another_order_are_the_same_pair() -> None:
    first = exact({"a": [100.0, 101.0, 99.0], "b": [50.0, 51.0, 49.0]})
    assert between.runs(first, exact({"b": [5.0, 5.1, 4.9], "a": [10.0, 10.1, 9.9]})).turns == ()
    (turn,) = between.runs(first, exact({"b": [10.0, 10.1, 9.9], "a": [5.0, 5.1, 4.9]})).turns
    assert turn.change == "turned" and turn.second.point == pytest.approx(0.5, rel=0.01)


def test_a_difference_that_is_not_shown_any_more() -> None:
    first = exact({"a": [100.0, 101.0, 99.0], "b": [50.0, 51.0, 49.0]})
    loud = exact({"a": [100.0, 20.0, 300.0], "b": [50.0, 400.0, 10.0]})
    (turn,) = between.runs(first, loud).turns
    assert turn.change == "no longer shown"
    (turn,) = between.runs(loud, first).turns
    assert turn.change == "newly shown"


def test_no_common_stack_and_no_common_workload() -> None:
    with pytest.raises(BadInput, match=r"no stack in common.*made up has a.*made up has b"):
        between.runs(exact({"a": [1.0]}), exact({"b": [1.0]}))
    timed = view(["a"], [trial("a", 0, {"run_time": 1.0}, workload=TIME.text)], workloads=[TIME])
    with pytest.raises(BadInput, match="no workload in common"):
        between.runs(exact({"a": [1.0]}), timed)


def test_what_is_in_one_run_only_is_noted() -> None:
    found = between.runs(exact({"a": [1.0], "b": [1.0]}), exact({"a": [1.0]}))
    assert any("Only in made up" in note and "b" in note for note in found.notes)


def test_a_stack_with_a_figure_of_zero_is_noted() -> None:
    """It has no ratio, and was left out silently: of the table, the places and the pairs."""
    first, second = exact({"a": [100.0, 101.0], "b": [0.0, 50.0]}), exact({"a": [100.0, 101.0], "b": [40.0, 50.0]})
    found = between.runs(first, second)
    assert [cell.stack for cell in found.tables[0].cells] == ["a"]
    assert found.notes == (f"{IOPS.text}: no ratio of iops for b, because a figure is 0 or less.",)
    assert not between.runs(second, second).notes


def test_the_same_workload_with_other_arguments_is_not_compared() -> None:
    other = replace(IOPS, text="fio/rand(size=2G)")
    one = view(["a"], [trial("a", 0, {"iops": 1.0}), trial("a", 0, {"run_time": 1.0}, workload=TIME.text)],
               workloads=[IOPS, TIME])  # fmt: skip
    two = view(["a"], [trial("a", 0, {"iops": 1.0}, workload=other.text),
                       trial("a", 0, {"run_time": 1.0}, workload=TIME.text)], workloads=[other, TIME])  # fmt: skip
    found = between.runs(one, two)
    assert {table.workload for table in found.tables} == {TIME.text}
    assert any("other arguments" in note for note in found.notes)


def test_places_that_noise_exchanged_are_not_shown() -> None:
    first = exact({"a": [100.0, 110.0, 90.0], "b": [99.0, 109.0, 89.0], "c": [10.0, 10.1, 9.9]})
    later = exact({"a": [99.0, 109.0, 89.0], "b": [100.0, 110.0, 90.0], "c": [10.0, 10.1, 9.9]})
    (places,) = between.runs(first, later).places
    assert places.rows == (("a", 1, 2), ("b", 2, 1), ("c", 3, 3))
    assert places.shown == ()
    faster = exact({"a": [100.0, 110.0, 90.0], "b": [99.0, 109.0, 89.0], "c": [400.0, 401.0, 399.0]})
    assert between.runs(first, faster).places[0].shown == ("a", "b", "c"), "c passed both, and they stayed as they were"


def test_a_figure_is_judged_against_its_earlier_self() -> None:
    first = exact(
        {"up": [10.0, 10.1, 9.9], "down": [10.0, 10.1, 9.9], "same": [10.0, 10.01, 9.99], "loud": [10, 20, 5]}
    )
    later = exact({"up": [20.0, 20.1, 19.9], "down": [5.0, 5.1, 4.9], "same": [10.0, 10.01, 9.99], "loud": [9, 22, 6]})
    changes = {cell.stack: cell.change for cell in between.runs(first, later).tables[0].cells}
    assert changes == {"up": "better", "down": "worse", "same": "equivalent", "loud": "undecided"}
    few = exact({"up": [20.0, 20.1]})
    assert between.runs(first, few).tables[0].cells[0].change == "undecided", "two visits show nothing"
