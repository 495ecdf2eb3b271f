"""Visits for a Pareto front: how many, and of which stacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from strata.analysis.evidence import evidence
from strata.design import fronts
from strata.model import Metric, Rule, View, WorkloadView

from .learning import empty, visited

IOPS, LATENCY = Metric("iops", "IOPS", "higher"), Metric("lat", "ms", "lower")
LOAD = WorkloadView("w", "w", IOPS, {"iops": IOPS, "lat": LATENCY})
NAMES = ("iops", "lat")

Figures = Mapping[str, tuple[float, float]]  # IOPS and latency, by stack
# The first two may be as good as each other, and the others are far behind in both.
PLAIN: Figures = {"good": (1000.0, 1.0), "near": (1001.0, 1.001), "bad": (100.0, 10.0), "worse": (50.0, 20.0)}


def run(figures: Figures, visits: Mapping[str, int], *, confidence: float = 0.95) -> View:
    """So many visits of each stack, each with figures that differ by 1 % from those of the one before."""
    rule = Rule(design="adaptive", objective="pareto:iops,lat", confidence=confidence)
    view = replace(empty({stack: {"kind": stack} for stack in figures}, rule), workloads=(LOAD,))
    for number in range(max(visits.values())):
        for stack in (stack for stack, count in visits.items() if number < count):
            iops, latency = (figure * (1 + 0.01 * number) for figure in figures[stack])
            view = visited(view, number, stack, {"w": iops})
            last = replace(view.trials[-1], metrics={"iops": iops, "lat": latency})
            view = replace(view, trials=(*view.trials[:-1], last))
    return view


def wanted(view: View, names: tuple[str, ...] = NAMES) -> list[str]:
    found = evidence(view)
    return [found.stacks[k] for k in fronts.next_visits(view, found, names)]


@pytest.mark.parametrize(("confidence", "visits"), [(0.95, 8), (0.9, 8), (0.89, 4)])
def test_two_visits_a_stack_are_enough_or_one_where_less_has_to_be_sure(confidence: float, visits: int) -> None:
    view = run(PLAIN, dict.fromkeys(PLAIN, 1), confidence=confidence)
    assert fronts.visits_wanted(view, evidence(view)) == visits
    assert fronts.visits_made(view, evidence(view)) == 4
    assert len(wanted(view)) == visits - 4


def test_a_visit_counts_once_however_it_ended_and_only_for_a_stack_that_may_be_chosen() -> None:
    view = run(PLAIN, dict.fromkeys(PLAIN, 1))
    twice = replace(view, trials=(*view.trials, view.trials[0]))
    assert fronts.visits_made(twice, evidence(twice)) == 4
    failed = visited(view, 1, "good", {})
    assert fronts.visits_made(failed, evidence(failed, ["good", "near"])) == 3
    assert fronts.visits_wanted(failed, evidence(failed, ["good", "near"])) == 4


@pytest.mark.parametrize(
    ("names", "figures"),
    [
        (("iops",), PLAIN),
        (("lat",), PLAIN),
        (NAMES, PLAIN),
        (NAMES, PLAIN | {"good": (2000.0, 2.0), "near": (1000.0, 1.999)}),  # alike in one of both
    ],
)
def test_the_visit_goes_where_it_is_least_sure_who_is_on_the_front(names: tuple[str, ...], figures: Figures) -> None:
    view = run(figures, {"good": 2, "near": 2, "bad": 1, "worse": 2})
    (stack,) = wanted(view, names)
    assert stack in {"good", "near"}


@pytest.mark.parametrize("names", [("iops",), ("lat",), NAMES])
def test_one_that_is_sure_to_be_on_the_front_is_visited_a_second_time(names: tuple[str, ...]) -> None:
    figures = {"good": (1000.0, 1.0), "bad": (100.0, 10.0), "worse": (50.0, 20.0)}
    assert wanted(run(figures, {"good": 1, "bad": 2, "worse": 2}), names) == ["good"]


def test_one_that_was_shown_to_be_on_the_front_is_not_visited_again() -> None:
    """It has the most IOPS by far; of the others the first has the lowest latency, or nearly so."""
    figures = {"sure": (5000.0, 5.0), "good": (1000.0, 1.0), "near": (990.0, 1.03), "bad": (100.0, 10.0)}
    assert wanted(run(figures, {"sure": 2, "good": 2, "near": 2, "bad": 1})) == ["near"]


def test_among_those_that_are_sure_the_least_known_is_next() -> None:
    figures = {"good": (1000.0, 1.0), "bad": (100.0, 10.0), "worse": (50.0, 20.0)}
    assert wanted(run(figures, {"good": 2, "bad": 1, "worse": 2})) == ["bad"]


def test_a_batch_has_at_most_eight_and_no_stack_twice() -> None:
    figures = {f"s{number}": (1000.0 + number, 1.0) for number in range(12)}
    batch = wanted(run(figures, dict.fromkeys(figures, 1)))
    assert len(batch) == len(set(batch)) == 8


def test_none_is_left_when_all_are_made_or_nothing_has_a_figure() -> None:
    assert wanted(run(PLAIN, dict.fromkeys(PLAIN, 2))) == []
    view = run(PLAIN, dict.fromkeys(PLAIN, 1))
    assert wanted(replace(view, trials=tuple(replace(trial, metrics={}) for trial in view.trials))) == []


def test_a_metric_that_can_be_negative_is_judged_by_itself() -> None:
    """No logarithm there: shares of the mean, of which the sign is kept."""
    figures = {"good": (30.0, 1.0), "near": (30.05, 1.0), "bad": (-30.0, 1.0), "worse": (-10.0, 1.0)}
    view = run(figures, {"good": 2, "near": 2, "bad": 1, "worse": 2})
    (stack,) = wanted(view, ("iops",))
    assert stack in {"good", "near"}
