"""Intervals that may be looked at after every visit: with the stated chance they hold at all times together.

For a mean of n normal differences whose spread is not known: mix the alternatives by a normal law on the effect in
units of the spread, with the right Haar prior on the spread, and let Ville's inequality bound the mixture (Lai,
"On confidence sequences", Annals of Statistics 4:2, 1976; Wang and Ramdas, "Anytime-valid t-tests and confidence
sequences for Gaussian means with unknown variance", arXiv 2310.03722). It is exact for normal data. With few visits it
is wide, and over many stacks endless.

`moderated` borrows the spread from the other stacks: the mixture for a known spread (Robbins, "Statistical methods
related to the law of the iterated logarithm", Annals of Mathematical Statistics 41:5, 1970), widened by what the t
quantile is above the normal one. That is an approximation and no theorem: `tests` measure its error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from strata.analysis.cells import Array

_MIXTURE = 3.0  # visits' worth: where the moderated interval is narrowest for its n
LEAST_WEIGHT, MOST_WEIGHT = 3.0, 50.0  # degrees of freedom that the other stacks are worth
FEWEST_TO_MODERATE = 4


def half_width(spread: float, n: int, alpha: float, prior: float = 1.0) -> float:
    """Half the width of the interval of a mean; `alpha` two-sided, `spread` the standard deviation (n - 1 below).

    Infinite as long as n is too small for `alpha`.
    """
    if n < 2:
        return math.inf
    root = ((n + prior) / prior / alpha**2) ** (1 / n)
    shrink = prior / (prior + n)
    if root * shrink >= 1:
        return math.inf
    return spread * math.sqrt((n - 1) * (root - 1) / (1 - root * shrink) / n)


def moderated(spread2: Array, n: int, alpha: float, known: Prior) -> Array:
    """Half widths of the intervals of several means of `n` differences each; `spread2` their variances."""
    from scipy.special import ndtri, stdtrit

    freedom = known.weight + n - 1
    steadied = np.sqrt((known.weight * known.variance + (n - 1) * spread2) / freedom)
    wider = float(stdtrit(freedom, 1 - alpha / 2) / ndtri(1 - alpha / 2))
    rho = _MIXTURE
    return np.asarray(wider * steadied / n * math.sqrt((n + rho) * math.log((n + rho) / (rho * alpha**2))))


@dataclass(frozen=True, slots=True)
class Prior:
    weight: float  # degrees of freedom
    variance: float


def prior_of(spread2: Array, n: int) -> Prior | None:
    """What the variances of at least 4 stacks with `n` differences each say about one (Smyth, SAGMB 3:1, 2004)."""
    from scipy.special import digamma, polygamma

    positive = spread2[spread2 > 0]
    if positive.size < FEWEST_TO_MODERATE or n < 2:
        return None
    half = (n - 1) / 2
    logs = np.log(positive) - digamma(half) + math.log(half)
    excess = max(float(np.var(logs, ddof=1)) - float(polygamma(1, half)), 1e-3)
    learned = 2 * _inverse_trigamma(excess)
    # The variance goes with the weight as estimated: with a smaller one it would come out too small.
    centre = float(logs.mean()) + float(digamma(learned / 2)) - math.log(learned / 2)
    # All differences share the leader, so of few stacks they look more alike than they are.
    weight = min(max(learned, LEAST_WEIGHT), MOST_WEIGHT, max(positive.size, LEAST_WEIGHT))
    return Prior(weight, math.exp(centre))


def _inverse_trigamma(value: float) -> float:
    from scipy.optimize import brentq
    from scipy.special import polygamma

    return float(brentq(lambda x: float(polygamma(1, x)) - value, 1e-3, 1e6))
