from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.analysis.estimate import ARITHMETIC, GEOMETRIC, estimate, estimates
from strata.model import Outcome, Rule

from .noisy_views import IOPS, TIME, exact, trial, view

T_975_2 = 4.302652729911275  # tables of Student's t
T_975_4 = 2.7764451051977987


def test_three_visits_by_hand() -> None:
    # logs 0, 1, 2: mean 1, standard deviation 1
    seen = estimate([1.0, math.e, math.e**2], 0.95, log=True)
    half = T_975_2 / math.sqrt(3)
    assert seen.point == pytest.approx(math.e)
    assert (seen.low, seen.high) == (pytest.approx(math.exp(1 - half)), pytest.approx(math.exp(1 + half)))
    assert (seen.n, seen.method) == (3, GEOMETRIC)


def test_plain_scale_by_hand() -> None:
    seen = estimate([0.0, 1.0, 2.0, 3.0, 4.0], 0.95, log=False)
    half = T_975_4 * math.sqrt(2.5 / 5)
    assert (seen.point, seen.low, seen.high) == (2.0, pytest.approx(2 - half), pytest.approx(2 + half))
    assert seen.method == ARITHMETIC


def test_confidence_is_used() -> None:
    narrow, wide = estimate([1.0, 2.0, 4.0], 0.8, log=True), estimate([1.0, 2.0, 4.0], 0.99, log=True)
    assert wide.low < narrow.low < narrow.high < wide.high  # type: ignore[operator]


def test_one_visit_has_no_interval() -> None:
    cell = estimates(exact({"a": [7.0]}))["a"][IOPS.text]["iops"]
    assert (cell.point, cell.low, cell.high, cell.n) == (7.0, None, None, 1)


def test_trials_of_one_visit_are_one_replicate() -> None:
    trials = [trial("a", 0, {"iops": value}, visit=0) for value in (1.0, 4.0)]
    trials += [trial("a", 1, {"iops": 8.0}, visit=1)]
    cell = estimates(view(["a"], trials))["a"][IOPS.text]["iops"]
    assert (cell.n, cell.point) == (2, pytest.approx(4.0))  # of 2 and 8


def test_the_zero_of_one_stack_does_not_change_the_mean_of_another() -> None:
    trials = [trial("a", 0, {"errors": 0.0}), trial("a", 1, {"errors": 2.0}), trial("b", 0, {"errors": 3.0})]
    cells = estimates(view(["a", "b"], trials))
    assert cells["a"][IOPS.text]["errors"].point == 1.0
    assert cells["a"][IOPS.text]["errors"].method == ARITHMETIC
    assert cells["b"][IOPS.text]["errors"].method == GEOMETRIC
    alone = estimates(view(["b"], trials[2:]))
    assert alone["b"][IOPS.text]["errors"] == cells["b"][IOPS.text]["errors"]


def test_an_interval_of_what_is_never_negative_does_not_reach_below_zero() -> None:
    trials = [trial("a", number, {"errors": value}) for number, value in enumerate((0.0, 0.0, 9.0))]
    cell = estimates(view(["a"], trials))["a"][IOPS.text]["errors"]
    assert (cell.point, cell.low) == (3.0, 0.0)
    assert estimate([-1.0, 0.0, 4.0], 0.95, log=False).low < 0  # type: ignore[operator]


def test_only_trials_that_are_ok_count_and_missing_stays_missing() -> None:
    trials = [
        trial("a", 0, {"iops": 5.0, "host.cpu_pct": 1.0}),
        trial("a", 1, {"iops": 9.0}, outcome=Outcome.INVALID),
        trial("a", 2, {"iops": 9.0}, outcome=Outcome.FAILED),
        trial("a", 3, {"iops": math.nan}),
        trial("b", 0, {}),
    ]
    cells = estimates(view(["a", "b"], trials))
    assert cells["a"][IOPS.text]["iops"].n == 1
    assert list(cells["a"][IOPS.text]) == ["iops", "host.cpu_pct"]
    assert "b" not in cells


def test_workloads_are_apart() -> None:
    trials = [trial("a", 0, {"iops": 5.0}), trial("a", 0, {"run_time": 6.0}, workload=TIME.text)]
    cells = estimates(view(["a"], trials, workloads=(IOPS, TIME)))
    assert set(cells["a"][IOPS.text]) == {"iops"}
    assert cells["a"][TIME.text]["run_time"].point == 6.0


positive = st.floats(1e-3, 1e6)


@given(st.lists(positive, min_size=2, max_size=8), st.floats(1e-3, 1e3))
def test_scaling_the_metric_scales_the_estimate(values: list[float], factor: float) -> None:
    here = estimates(exact({"a": values}))["a"][IOPS.text]["iops"]
    there = estimates(exact({"a": [value * factor for value in values]}))["a"][IOPS.text]["iops"]
    for name in ("point", "low", "high"):
        assert getattr(there, name) == pytest.approx(getattr(here, name) * factor, rel=1e-6)


@given(st.lists(positive, min_size=2, max_size=8))
def test_the_point_lies_in_its_interval_and_among_the_values(values: list[float]) -> None:
    cell = estimates(exact({"a": values}, rule=Rule(confidence=0.9)))["a"][IOPS.text]["iops"]
    assert cell.low is not None and cell.high is not None
    assert cell.low <= cell.point <= cell.high
    assert min(values) * (1 - 1e-9) <= cell.point <= max(values) * (1 + 1e-9)
