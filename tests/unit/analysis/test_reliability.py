"""Which stacks fail too often: one rule that holds however often one looks."""

from __future__ import annotations

import math

import pytest
from scipy.integrate import quad

from strata.analysis.reliability import ERROR, TOLERATED, fails_too_often


def ever_set_aside(share: float, visits: int) -> float:
    """The chance that a stack which fails in `share` of its visits is set aside at any of the looks after each."""
    going, gone = {0: 1.0}, 0.0
    for made in range(1, visits + 1):
        after: dict[int, float] = {}
        for failed, chance in going.items():
            after[failed] = after.get(failed, 0.0) + chance * (1 - share)
            after[failed + 1] = after.get(failed + 1, 0.0) + chance * share
        gone += math.fsum(chance for failed, chance in after.items() if fails_too_often(failed, made))
        going = {failed: chance for failed, chance in after.items() if not fails_too_often(failed, made)}
    return gone


@pytest.mark.parametrize("visits", [20, 400])
def test_a_tolerable_stack_is_seldom_set_aside_however_often_one_looks(visits: int) -> None:
    """A fifth of the visits, and two, set it aside in 9.6 % within 20 visits."""
    assert ever_set_aside(TOLERATED, visits) < 0.02 < ERROR


def test_a_stack_that_always_fails_is_set_aside_after_two_visits_and_one_failure_is_no_doubt() -> None:
    assert fails_too_often(2, 2)
    assert not fails_too_often(1, 1)
    assert not fails_too_often(0, 100)


def test_a_stack_that_fails_often_is_set_aside_in_the_end() -> None:
    assert ever_set_aside(0.4, 20) > 0.95
    assert ever_set_aside(0.2, 200) > 0.99
    assert fails_too_often(4, 10)


@pytest.mark.parametrize(("failed", "visits"), [(2, 3), (2, 4), (3, 8), (3, 9), (8, 40), (7, 40)])
def test_the_likelihood_of_larger_shares_is_held_against_that_of_the_tolerated_one(failed: int, visits: int) -> None:
    def likelihood(share: float) -> float:
        return share**failed * (1 - share) ** (visits - failed)

    larger = quad(likelihood, TOLERATED, 1)[0] / (1 - TOLERATED)
    assert fails_too_often(failed, visits) == (larger / likelihood(TOLERATED) >= 1 / ERROR)


def test_more_visits_than_a_number_of_floating_point_holds_the_chance_of() -> None:
    assert fails_too_often(2000, 2000)
    assert not fails_too_often(10, 2000)
