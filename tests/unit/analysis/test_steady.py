from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.analysis.steady import _moving, assess

levels = st.floats(1e-3, 1e9)


def brute_force_cut(values: list[float], last: int) -> int:
    """MSER-5 as it is defined, one cut at a time."""
    batches = [sum(values[i : i + 5]) / 5 for i in range(0, len(values) - len(values) % 5, 5)]
    best = (math.inf, 0)
    for cut in range(last + 1):
        rest = batches[cut:]
        mean = sum(rest) / len(rest)
        best = min(best, (sum((x - mean) ** 2 for x in rest) / len(rest) ** 2, cut))
    return best[1] * 5


def test_a_constant_series_is_steady_from_its_first_sample() -> None:
    seen = assess([0.1] * 60)
    assert (seen.cut, seen.steady) == (0, True)
    assert seen.mean == pytest.approx(0.1)


def test_a_start_up_jump_is_cut_at_its_end() -> None:
    seen = assess([100.0] * 10 + [10.0, 10.2] * 25)
    assert (seen.cut, seen.steady) == (10, True)
    assert seen.mean == pytest.approx(10.1)
    assert "10 samples" in seen.why


def test_the_cut_is_the_one_of_the_definition() -> None:
    chance = random.Random(4)
    for length in (60, 63, 120, 300):
        values = [100 * (1 + 2 * math.exp(-i / 6)) + chance.gauss(0, 3) for i in range(length)]
        assert assess(values).cut == brute_force_cut(values, length // 5 - 5) > 0


def test_a_change_in_the_second_half_is_no_steady_state() -> None:
    seen = assess([100.0] * 35 + [50.0] * 25)
    assert seen.steady is False
    assert "No steady state" in seen.why
    assert (seen.cut, seen.mean) == (0, pytest.approx(4750 / 60))


def test_a_cut_of_exactly_half_is_allowed() -> None:
    seen = assess([100.0] * 30 + [50.0] * 30)
    assert (seen.cut, seen.steady, seen.mean) == (30, True, 50.0)


def moving(*means: float) -> str:
    """The window test alone, on windows of 12 seconds with these means: MSER would cut some of them."""
    return _moving(np.array([mean for mean in means for _ in range(12)], dtype=float))


@pytest.mark.parametrize(
    ("means", "steady"),
    [
        ((100, 110, 90, 110, 90), True),  # range 20 % of the mean, exactly allowed; line falls 8 %
        ((100, 111, 89, 110, 90), False),  # range 22 %
        ((95.1, 97.6, 100, 102.4, 104.9), True),  # line rises 9.76 %
        ((94.7, 97.3, 100, 102.6, 105.4), False),  # line rises 10.68 %, range 10.7 %
    ],
)
def test_the_window_test(means: tuple[float, ...], steady: bool) -> None:
    assert (moving(*means) == "") is steady


def test_a_slope_says_its_direction_and_size() -> None:
    assert "it falls by 16% of the mean" in moving(108, 104, 100, 96, 92)
    assert "it rises by 16% of the mean" in moving(92, 96, 100, 104, 108)
    assert "range over 30% of the mean" in moving(100, 115, 85, 100, 100)


def test_a_steady_fall_never_becomes_steady() -> None:
    assert assess([200 - i for i in range(100)]).steady is False


@pytest.mark.parametrize("length", range(10))
def test_few_samples_are_not_judged(length: int) -> None:
    seen = assess([5.0] * length)
    assert (seen.cut, seen.steady, seen.mean) == (0, None, 5.0 if length else None)
    assert "too short" in seen.why


def test_ten_samples_are_judged() -> None:
    assert assess([5.0] * 10).steady is True
    assert assess([5.0] * 5 + [9.0] * 5).steady is False


def test_a_device_that_does_nothing_is_steady_at_zero_and_one_burst_is_not() -> None:
    assert assess([0.0] * 30).steady is True
    assert assess([0.0] * 28 + [7.0, 7.0]).steady is False


def test_values_that_are_not_finite_are_left_out() -> None:
    assert assess([math.nan, *[3.0] * 20, math.inf]) == assess([3.0] * 20)


@given(st.lists(levels, min_size=10, max_size=80), st.integers(-10, 10))
def test_the_unit_does_not_matter(values: list[float], power: int) -> None:
    here, there = assess(values), assess([value * 2.0**power for value in values])
    assert (here.cut, here.steady) == (there.cut, there.steady)
    assert there.mean == pytest.approx(here.mean * 2.0**power)  # type: ignore[operator]


@given(st.lists(levels, min_size=1, max_size=80))
def test_the_cut_leaves_half_and_the_mean_lies_among_the_values(values: list[float]) -> None:
    seen = assess(values)
    assert 0 <= seen.cut <= len(values) / 2
    assert seen.cut % 5 == 0
    assert seen.mean is not None
    assert min(values) * (1 - 1e-9) <= seen.mean <= max(values) * (1 + 1e-9)
    assert seen.why.endswith(".")


@given(st.integers(10, 200), levels, st.integers(0, 10**6))
def test_small_white_noise_is_steady(length: int, level: float, seed: int) -> None:
    chance = random.Random(seed)
    seen = assess([level * (1 + 0.005 * chance.uniform(-1, 1)) for _ in range(length)])
    assert seen.mean == pytest.approx(level, rel=0.006)
    # The search for the best cut may end in the last part by chance; what it may not do is see movement.
    assert seen.steady or "No steady state" in seen.why
