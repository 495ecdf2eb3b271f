"""Intervals that may be looked at after every visit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

from strata.analysis.anytime import Prior, half_width, moderated, prior_of

ALPHA = 0.05


def bayes_factor(mean: float, spread: float, n: int) -> float:
    """Of a shifted mean against 0, worked out by integrating over the effect: N(0, 1) on effect / spread, and the
    right Haar prior on the spread. By numbers alone, for the formula to be held against."""
    freedom = n - 1
    t = mean * math.sqrt(n) / spread

    def density(effect: float) -> float:
        # The noncentral t's density over the central one's, by its integral over chi.
        shift = effect * math.sqrt(n)

        def inner(y: float) -> float:
            return y**freedom * math.exp(-0.5 * (y - t * shift / math.sqrt(t * t + freedom)) ** 2)

        top = quad(inner, 0, 60, limit=200)[0]
        zero = quad(lambda y: y**freedom * math.exp(-0.5 * y * y), 0, 60, limit=200)[0]
        return math.exp(-0.5 * shift**2 * freedom / (t * t + freedom)) * top / zero

    return quad(lambda d: density(d) * math.exp(-0.5 * d * d) / math.sqrt(2 * math.pi), -12, 12, limit=200)[0]


@pytest.mark.parametrize("n", [6, 12])
def test_the_interval_is_where_the_evidence_reaches_the_limit(n: int) -> None:
    """Ville: the interval holds what is not refuted by a factor of 1 / alpha."""
    edge = brentq(lambda mean: math.log(bayes_factor(mean, 1.0, n)) - math.log(1 / ALPHA), 0.3, 5.0, xtol=1e-6)
    assert half_width(1.0, n, ALPHA) == pytest.approx(edge, rel=1e-4)


def test_few_visits_say_nothing_and_more_say_more() -> None:
    assert half_width(1.0, 1, ALPHA) == math.inf
    assert half_width(1.0, 3, ALPHA / 99) == math.inf
    widths = [half_width(1.0, n, ALPHA) for n in (5, 10, 20, 40)]
    assert widths == sorted(widths, reverse=True)
    assert half_width(2.0, 10, ALPHA) == pytest.approx(2 * widths[1])


def test_peeking_after_every_visit_keeps_the_error() -> None:
    """4,000 races of two equals, looked at 40 times each; a plain t interval errs in a quarter of them."""
    runs, most = 4000, 40
    chance = np.random.default_rng(1)
    # Skewed noise and interference, as in `benchmarks.research.noise`.
    skewed = math.sqrt(0.6) * chance.normal(size=(2, runs, most)) - math.sqrt(0.4) * (
        chance.exponential(size=(2, runs, most)) - 1
    )
    noise = 0.08 * skewed - (chance.random((2, runs, most)) < 0.05) * chance.uniform(0.05, 0.5, (2, runs, most))
    difference = noise[0] - noise[1]
    wrong = np.zeros(runs, dtype=bool)
    for n in range(2, most + 1):
        mean, spread = difference[:, :n].mean(axis=1), difference[:, :n].std(axis=1, ddof=1)
        wrong |= np.abs(mean) > half_width(1.0, n, ALPHA) * spread
    assert wrong.mean() < 0.05


def test_borrowed_spreads_keep_the_error_too() -> None:
    """One stack against 29 equals of very different spreads, looked at from 3 visits to 40: is any ever shown better?

    An approximation, so it is measured: about 5 % where the intervals say 2.5 %.
    """
    runs, stacks, most = 200, 29, 40
    chance = np.random.default_rng(2)
    wrong = 0
    for _ in range(runs):
        size = np.exp(chance.uniform(math.log(0.01), math.log(0.25), stacks + 1))
        values = chance.normal(0, size[:, None], (stacks + 1, most))
        difference = values[1:] - values[0]
        for n in (*range(3, 12), *range(12, most + 1, 3)):
            spread2 = difference[:, :n].var(axis=1, ddof=1)
            known = prior_of(spread2, n)
            assert known is not None
            if np.any(difference[:, :n].mean(axis=1) > moderated(spread2, n, ALPHA / stacks, known)):
                wrong += 1
                break
    assert wrong / runs < 0.05 + 2 * math.sqrt(0.05 * 0.95 / runs)


def test_what_others_say_about_a_spread() -> None:
    chance = np.random.default_rng(3)
    alike = chance.normal(0, 0.1, (200, 6)).var(axis=1, ddof=1)
    known = prior_of(alike, 6)
    assert known is not None
    assert known.weight > 20
    assert known.variance == pytest.approx(0.01, rel=0.15)
    unlike = alike * np.exp(chance.normal(0, 3, 200))
    loose = prior_of(unlike, 6)
    assert loose is not None
    assert loose.weight == 3.0
    assert prior_of(alike[:3], 6) is None
    assert moderated(np.array([0.0]), 5, 0.05, Prior(3.0, 0.01))[0] > 0


def test_the_variance_of_a_few_stacks_that_are_alike_is_theirs() -> None:
    """Their number bounds the weight, and must not make their variance smaller."""
    chance = np.random.default_rng(4)
    learned = [prior_of(chance.normal(0, 0.1, (8, 20)).var(axis=1, ddof=1), 20) for _ in range(400)]
    assert float(np.median([known.variance for known in learned if known is not None])) == pytest.approx(0.01, rel=0.05)
