"""Ratios between stacks, from differences of logarithms within rounds.

A round visits every stack once in a short time, so what the machine does to a whole round cancels in the difference
of two stacks in it. Two stacks are compared over the rounds that both have; the mean difference has a Student t
interval. With 4 stacks or more the variance of a difference is moderated: pulled towards the typical variance of all
pairs, whose weight in degrees of freedom is estimated from the data (Smyth, "Linear models and empirical Bayes methods
for assessing differential expression in microarray experiments", SAGMB 3:1, 2004, section 6.2).

The weight is at most `LARGEST_WEIGHT`; the variance is the one that goes with the weight as estimated. Pairs share
stacks, so they look more alike than they are and the estimate is too large. In simulation with stacks of 1 % to 25 %
variation a weight of 2 keeps the coverage of plain paired t within two percent and makes the tied group a tenth to a
fifth smaller; more weight loses coverage and gains little.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from strata.analysis.cells import Array, unlog
from strata.analysis.estimate import Estimate
from strata.analysis.scale import primary_table, without_ratio
from strata.analysis.student import t_quantile
from strata.analysis.verdict import FEWEST_VISITS
from strata.model import View, WorkloadView

Decision = Literal["better", "worse", "equivalent", "undecided"]

LARGEST_WEIGHT = 2.0
FEWEST_TO_MODERATE = 4
# Pairs grow with the square of the stacks; this many stacks tell the typical variance well enough.
_STACKS_FOR_PRIOR = 100

PAIRED = "paired within rounds, Student t on the log scale"
MODERATED = "paired within rounds, moderated Student t on the log scale"


@dataclass(frozen=True, slots=True)
class Prior:
    """What the other pairs say about the variance of a difference; `df` 0: nothing."""

    df: float = 0.0
    variance: float = 0.0


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean difference of logarithms, first minus second; positive: the first is better."""

    mean: float
    half: float  # half the width of the interval; inf when fewer than 2 rounds are common
    n: int  # common rounds
    variance: float  # of one round's difference, moderated; nan when n < 2
    df: float  # that go with the variance


@dataclass(frozen=True, slots=True)
class Pair:
    """`ratio` says how many times as good `stack` is as `other`: above 1 is better, whichever way the metric goes.

    None: no round has a figure of both, or a figure of one is 0 or less.
    """

    stack: str
    other: str
    ratio: Estimate | None
    decision: Decision


def prior(table: Array) -> Prior:
    """From stacks x rounds of logarithms. Moments of the log variances of all pairs, as in Smyth (2004)."""
    stacks = table.shape[0]
    if stacks < FEWEST_TO_MODERATE:
        return Prior()
    some = table[:: -(-stacks // _STACKS_FOR_PRIOR)]
    first, second = np.triu_indices(some.shape[0], 1)
    variance, count = _variances(some[first] - some[second])
    variance, df = variance[count >= 2], count[count >= 2] - 1.0
    typical = float(np.median(variance)) if variance.size else 0.0
    if variance.size < FEWEST_TO_MODERATE or typical == 0.0:
        return Prior()  # exact instruments leave no variance to learn from
    from scipy.special import digamma, polygamma

    # A variance of 0 by chance would be an infinite outlier on the log scale.
    logs = np.log(np.maximum(variance, 1e-5 * typical)) - digamma(df / 2) + np.log(df / 2)
    excess = float(np.var(logs, ddof=1) - np.mean(polygamma(1, df / 2)))
    centre, weight = float(np.mean(logs)), LARGEST_WEIGHT
    if excess > 0:  # else the variances are as alike as they could be, and their common one needs no correction
        learned = 2 * _inverse_trigamma(excess)
        centre += float(digamma(learned / 2)) - math.log(learned / 2)
        weight = min(learned, LARGEST_WEIGHT)
    return Prior(weight, math.exp(centre))


def differences(table: Array, leader: int, known: Prior, level: float) -> list[Difference]:
    """Every row of `table` minus row `leader`. `level` is the two-sided error of each interval."""
    gaps = table - table[leader]
    variance, count = _variances(gaps)
    result = []
    for row in range(table.shape[0]):
        n = int(count[row])
        mean = float(np.nanmean(gaps[row])) if n else math.nan
        if row == leader:
            result.append(Difference(0.0, 0.0, n, 0.0, math.inf))
        elif n < 2:
            result.append(Difference(mean, math.inf, n, math.nan, 0.0))
        else:
            df = n - 1 + known.df
            moderated = (known.df * known.variance + (n - 1) * float(variance[row])) / df
            half = t_quantile(1 - level / 2, df) * math.sqrt(moderated / n)
            result.append(Difference(mean, half, n, moderated, df))
    return result


def decide(difference: Difference, within: float) -> Decision:
    """Return what is shown of a difference; nothing is with fewer than `FEWEST_VISITS` common rounds.

    `within` is a fraction: stacks closer than it are as good as each other, even where a difference is proved.
    """
    if difference.n < FEWEST_VISITS or not math.isfinite(difference.half):
        return "undecided"
    low, high = difference.mean - difference.half, difference.mean + difference.half
    margin = -math.log1p(-within)
    if -margin <= low and high <= margin:
        return "equivalent"
    if high < 0:
        return "worse"
    return "better" if low > 0 else "undecided"


def as_ratio(difference: Difference, moderated: bool) -> Estimate | None:
    """None when there is no common round."""
    if difference.n == 0:
        return None
    method = MODERATED if moderated else PAIRED
    if not math.isfinite(difference.half):
        return Estimate(unlog(difference.mean), None, None, difference.n, method)
    low, high = unlog(difference.mean - difference.half), unlog(difference.mean + difference.half)
    return Estimate(unlog(difference.mean), low, high, difference.n, method)


def level_of(confidence: float, stacks: int) -> float:
    """Two-sided error of each comparison, so that all those with one given stack hold together (Bonferroni)."""
    return (1 - confidence) / max(1, stacks - 1)


def pairwise(view: View, workload: WorkloadView) -> tuple[Pair, ...]:
    """Every pair of stacks with figures under one workload, by its primary metric, in the order of the campaign.

    The intervals of any one stack, named beforehand, hold together at the campaign's confidence.
    """
    everything = primary_table(view, workload, view.stacks)
    rows = [row for row in range(len(view.stacks)) if not np.isnan(everything[row]).all()]
    table = everything[rows]
    known, level = prior(table), level_of(view.rule.confidence, len(rows))
    names, none = [view.stacks[row] for row in rows], without_ratio(view)
    pairs = []
    for second in range(len(rows)):
        for first, difference in enumerate(differences(table, second, known, level)[:second]):
            pairs.append((first, second, difference))
    return tuple(
        Pair(
            names[first],
            names[second],
            as_ratio(difference, known.df > 0) if none.isdisjoint({names[first], names[second]}) else None,
            decide(difference, view.rule.within),
        )
        for first, second, difference in sorted(pairs, key=lambda pair: pair[:2])
    )


def _variances(gaps: Array) -> tuple[Array, Array]:
    """Variance (n - 1 below) and count of what is there in each row; the variance is 0 where the count is under 2."""
    there = ~np.isnan(gaps)
    count = there.sum(axis=1).astype(float)
    filled = np.where(there, gaps, 0.0)
    mean = filled.sum(axis=1) / np.maximum(count, 1)
    squares = (np.where(there, filled - mean[:, None], 0.0) ** 2).sum(axis=1)
    return squares / np.maximum(count - 1, 1), count


def _inverse_trigamma(value: float) -> float:
    """x with trigamma(x) = `value` > 0, by Newton's method on 1 / trigamma, which is nearly straight (Smyth 2004)."""
    from scipy.special import polygamma

    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, x))
        x += step
        if -step / x < 1e-8:
            break
    return x
