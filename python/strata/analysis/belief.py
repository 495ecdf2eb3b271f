"""How sure we are which stack is best: from joint draws of the posterior (`additive`) of the stacks' scores.

Draws are widened about their mean by `WIDENING`: spreads are estimated, and a posterior that takes them as known is
too sure (`benchmarks/calibration.py` measures it).

A stack that was never built may be far from what its parts say. Where those that were built are (`unexplained`), each
unseen one is given a small chance to jump, so that many of them near the top are a doubt that only visits of them end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from strata.analysis.additive import Array, Ints, Posterior

DRAWS = 1000
# 1.25 was fixed by simulation on seeds 5000 to 5299. With it, on seeds 20000 to 20199, campaigns with drift, two modes
# or loud noise were wrong in 6 % to 7 % at a stated 95 %, and 95 % intervals of stacks with cliffs held in 92.8 %.
WIDENING = 1.4
JUMP_SHARE, JUMP_SPREAD = 0.03, 0.25  # of stacks that are not what their parts say, and by how much
TIED_MASS = 0.95
FEWEST_VISITS = 5  # of the stack that is chosen, before it is called the best
INTERVAL_Z = 1.959964
_CANDIDATES = 4
# Spread of the stacks' own residuals beyond which their factors do not explain them. Of 150 simulated campaigns in
# which they do not, 49 % passed it, and of these 16 % were wrong at a stated 95 % before there were jumps (3.9 % of the
# rest); where they do, 6 % of 127 passed it. Seeds from 7100.
ODD_RESIDUAL = 0.037


@dataclass(frozen=True, slots=True)
class Belief:
    """Arrays are over all stacks of the layout; logarithms of ratios, larger is better."""

    chosen: int
    eligible: Ints  # the stacks that may be chosen
    sure: float  # P(the chosen one is within the margin of the best)
    best: Array  # P(this one is the best)
    close: Array  # P(this one is within the margin of the best)
    tied: Ints  # not shown to be worse than the chosen one by the margin or more, or likely the best; best first
    level: Array  # posterior mean of the score
    gap: Array  # of the score to the chosen one's
    half: Array  # half the width of the 95 % interval of `gap`, one by one
    draws: Array


def believe(
    posterior: Posterior,
    eligible: Ints,
    *,
    margin: float,
    chance: np.random.Generator,
    draws: int = DRAWS,
) -> Belief:
    """`margin`: on the log scale. `eligible`: the stacks that may be chosen, at least one."""
    wide = WIDENING
    mean = posterior.level
    drawn = posterior.draws(chance, draws) + _jumps(posterior, chance, draws)
    drawn = mean + wide * (drawn - mean)
    among = drawn[:, eligible]
    top = among.max(axis=1)
    close = np.zeros(mean.size)
    close[eligible] = (among >= top[:, None] - margin).mean(axis=0)
    best = np.zeros(mean.size)
    best[eligible] = np.bincount(among.argmax(axis=1), minlength=eligible.size) / draws
    leading = eligible[np.argsort(-mean[eligible], kind="stable")[:_CANDIDATES]]
    chosen = int(max(leading, key=lambda k: close[k]))
    by_mass = np.argsort(-best, kind="stable")
    likely = by_mass[: int(np.searchsorted(np.cumsum(best[by_mass]), TIED_MASS)) + 1]
    gap, half = mean - mean[chosen], INTERVAL_Z * wide * np.sqrt(spread2_of_gaps(posterior, chosen))
    as_good = gap + half >= -margin
    tied = {chosen, *likely.tolist(), *eligible[as_good[eligible]].tolist()}
    return Belief(
        chosen=chosen,
        eligible=eligible,
        sure=float(close[chosen]),
        best=best,
        close=close,
        tied=np.array(sorted(tied, key=lambda k: (k != chosen, -mean[k])), dtype=np.int64),
        level=mean,
        gap=gap,
        half=half,
        draws=drawn,
    )


def unexplained(posterior: Posterior) -> bool:
    """Whether the stacks' factors, where they have any, leave much of them open."""
    return bool(posterior.layout.kinds) and float(posterior.spreads[-1]) > ODD_RESIDUAL


def _jumps(posterior: Posterior, chance: np.random.Generator, draws: int) -> Array:
    """Of stacks that were never built, where factors do not explain those that were."""
    jumps = np.zeros((draws, posterior.visits.size))
    unseen = np.flatnonzero(posterior.visits == 0)
    if unseen.size and unexplained(posterior):
        does = chance.random((draws, unseen.size)) < JUMP_SHARE
        jumps[:, unseen] = does * chance.normal(0, JUMP_SPREAD, (draws, unseen.size))
    return jumps


def spread2_of_gaps(posterior: Posterior, chosen: int) -> Array:
    """Posterior variance of each stack's score less the chosen one's; 0 for the chosen one."""
    apart = posterior.loading - posterior.loading[chosen]
    variance = np.einsum("ij,ij->i", apart @ posterior.cov, apart) + posterior.own**2 + posterior.own[chosen] ** 2
    if unexplained(posterior):
        variance[posterior.visits == 0] += JUMP_SHARE * JUMP_SPREAD**2
    variance[chosen] = 0.0
    return np.asarray(variance)


def visits_to_go(belief: Belief, visits: Ints, margin: float, confidence: float) -> int | None:
    """About how many more visits until the belief is as sure, were all draws to close in on their mean; None: unknown.

    Visits go to the tied group, and a spread shrinks with the root of the visits that it has.
    """
    if belief.sure >= confidence:
        return 0
    away = belief.draws - belief.level
    have = float(visits[belief.tied].sum())
    for factor in (1.25, 1.5, 2, 3, 4, 6, 8, 12, 16, 32):
        draws = belief.level + away / math.sqrt(factor)
        top = draws[:, belief.eligible].max(axis=1)
        if float((top - draws[:, belief.chosen] <= margin).mean()) >= confidence:
            return max(1, math.ceil(have * (factor - 1)))
    return None
