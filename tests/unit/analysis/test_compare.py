"""How a difference of two stacks is decided, and what is learned of its variance."""

from __future__ import annotations

import math

import numpy as np
import pytest

from strata.analysis.compare import Decision, Difference, Prior, decide, differences, prior

# "Within 3 %": down to 0.97 of the other, or up to 1 / 0.97.
MARGIN = -math.log(0.97)


@pytest.mark.parametrize(
    ("mean", "half", "decision"),
    [
        (0.0, MARGIN * 0.999, "equivalent"),
        (0.0, MARGIN * 1.001, "undecided"),
        (math.log(0.9702), 1e-6, "equivalent"),  # 2.98 % slower
        (math.log(0.9698), 1e-6, "worse"),  # 3.02 %
        (-math.log(0.9702), 1e-6, "equivalent"),
        (-math.log(0.9698), 1e-6, "better"),
        (0.1, 0.2, "undecided"),
        (-0.1, 0.2, "undecided"),
        (5.0, math.inf, "undecided"),
    ],
)
def test_the_margin_lies_on_both_sides(mean: float, half: float, decision: Decision) -> None:
    assert decide(Difference(mean, half, 5, 0.01, 4.0), 0.03) == decision


def noisy(stacks: int, deviation: float) -> np.ndarray:
    return np.random.default_rng(7).normal(0.0, deviation, (stacks, 6))


@pytest.mark.parametrize("stacks", [99, 250])
def test_the_variance_of_a_difference_is_learned_from_any_number_of_stacks(stacks: int) -> None:
    """Of 250 every third is looked at. A difference of two has twice the variance of one. That the prior counts like
    two rounds at most made it 0.56 of that."""
    known = prior(noisy(stacks, 0.1))
    assert known.df == 2
    assert known.variance == pytest.approx(2 * 0.1**2, rel=0.2)


@pytest.mark.parametrize("rounds", [2, 3, 5])
def test_intervals_hold_where_few_stacks_vary_alike(rounds: int) -> None:
    """Of 8 stacks, 94 % held where 95 % are stated: the other pairs lent too small a variance."""
    chance = np.random.default_rng(rounds)
    held = []
    for _ in range(400):
        table = chance.normal(0.0, 0.05, (8, rounds))
        held += [abs(each.mean) <= each.half for each in differences(table, 0, prior(table), 0.05)[1:]]
    assert np.mean(held) >= 0.95


def test_too_few_stacks_and_figures_without_spread_tell_nothing() -> None:
    assert prior(noisy(3, 0.1)) == Prior()
    assert prior(np.ones((20, 6))) == Prior()
