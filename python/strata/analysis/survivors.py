"""Who is left of a race: rounds of all that may still be the best; who is shown to be worse drops out.

Every stack is compared with the leader by the differences within the rounds that both have, with intervals that hold
however often one looks (`anytime`), each at an error of (1 - confidence) / (K - 1), two-sided. The race is over when
everything left is shown to be within the margin of the leader. It assumes nothing about how stacks are related, so it
also serves where they have nothing in common, and pays for that: each stack is visited several times.

A round counts from which no stack is missing that has yet to be met; one that dropped out stays out of the later ones,
also where a confidence that was raised since would have kept it. Visits that another design chose before the race, by
what it saw, make no round unless they met every stack left: they are not there alike, nor at the same time. A stack
that fails again and again is out by that.

Before differences are taken, a reading that is far from the stack's others (3 spreads by the median) is pulled in to
that distance: one visit hit by something else must not decide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strata.analysis.anytime import Prior, half_width, moderated, prior_of
from strata.analysis.cells import Array
from strata.analysis.evidence import CERTIFYING
from strata.analysis.reliability import in_doubt
from strata.analysis.scale import score_table
from strata.model import View

FEWEST_ROUNDS = 3  # two differences say next to nothing about their spread, borrowed or not
_FEWEST_TO_PULL = 4
_FAR = 3.0


@dataclass(frozen=True, slots=True)
class Standing:
    """After all rounds so far. Arrays are over the stacks of the table; logarithms, to the leader."""

    alive: tuple[int, ...]
    leader: int | None  # None: no stack has a figure
    gap: Array  # nan where nothing was compared
    half: Array
    rounds: int  # that count
    settled: bool  # every stack left is within the margin of the leader, or alone

    @property
    def compared(self) -> bool:
        """Whether another stack was compared with the leader."""
        return bool(np.isfinite(np.delete(self.gap, [] if self.leader is None else [self.leader])).any())


def raced(view: View, stacks: Sequence[str], weights: Sequence[float] | None = None) -> Standing:
    """The race of these stacks, from all visits so far. `weights`: of the workloads; None: as the objective says."""
    done, gone = tried(view), given_up(view, weights)
    place = [k for k, stack in enumerate(stacks) if stack not in gone]
    running = [stacks[k] for k in place]
    rounds = 1 + max((max(numbers) for numbers in done.values()), default=-1)
    table = np.full((len(running), rounds), np.nan)
    scores = score_table(view, running, weights)[:, :rounds]  # ends with the last figure; what follows failed
    table[:, : scores.shape[1]] = scores
    met = np.array([[n in done.get(stack, ()) for n in range(rounds)] for stack in running], dtype=bool)
    margin = -math.log1p(-view.rule.within)
    now = standing(table, margin, view.rule.confidence, met.reshape(table.shape), _before_the_race(view))
    gap, half = np.full(len(stacks), np.nan), np.full(len(stacks), np.inf)
    gap[place], half[place] = now.gap, now.half
    leader = None if now.leader is None else place[now.leader]
    return Standing(tuple(place[k] for k in now.alive), leader, gap, half, now.rounds, now.settled)


def _before_the_race(view: View) -> int:
    """How many rounds, from the first, have visits that another design chose: each change of it is an event."""
    changed = [event.at for event in view.events if event.kind == "design"]
    if len(changed) < 2:
        return 0
    earlier = (trial.round for trial in view.trials if trial.started_at < changed[-1] and trial.round < CERTIFYING)
    return 1 + max(earlier, default=-1)


def tried(view: View) -> dict[str, set[int]]:
    """The rounds in which each stack was visited, whatever came of it; those that certified a shortlist are no part of
    a race."""
    done: dict[str, set[int]] = {}
    visits = [(trial.stack, trial.round) for trial in view.trials]
    for stack, number in visits + [(visit.stack, visit.round) for visit in view.failed]:
        if number < CERTIFYING:
            done.setdefault(stack, set()).add(number)
    return done


def given_up(view: View, weights: Sequence[float] | None = None) -> set[str]:
    """Stacks that are not visited again, because their reliability is in doubt."""
    return set(in_doubt(view, range(CERTIFYING), weights))


def standing(
    table: Array, margin: float, confidence: float, met: NDArray[np.bool_] | None = None, before: int = 0
) -> Standing:
    """`table`: stacks x rounds of logarithms, larger is better; nan: no figure, for a stack that failed or dropped out.

    `met`: of the same shape: the stack was visited. A round is passed over where a stack is missing that is left and
    has been in no round yet; of the first `before` rounds each where any that is left is missing. None: none is.

    Replays the race round by round, so that the same table always gives the same survivors.
    """
    stacks = table.shape[0]
    alive = list(range(stacks))
    gap, half = np.full(stacks, np.nan), np.full(stacks, np.inf)
    error = (1 - confidence) / max(stacks - 1, 1)
    leader: int | None = None
    settled = False
    known: Prior | None = None  # kept while the field shrinks: late in the race few are left to learn from
    counted: list[int] = []
    for number in range(table.shape[1]):
        if met is not None:
            missing = [k for k in alive if not met[k, number]]
            if missing and (number < before or not met[np.ix_(missing, counted)].any(axis=1).all()):
                continue
        counted.append(number)
        if len(counted) >= 2:  # who never gave a figure is out
            alive = [k for k in alive if not np.isnan(table[k, counted]).all()]
        if len(counted) < 2 or not alive:
            continue
        so_far = _pulled(table[np.ix_(alive, counted)])
        lead = int(np.argmax(_means(so_far)))
        leader = alive[lead]
        mean, width, known = _against(so_far, lead, error, known)
        gap[alive], half[alive] = mean, width
        keep = mean + width >= 0
        keep[lead] = True
        settled = bool(np.all((mean + width)[keep & (np.arange(len(alive)) != lead)] < margin))
        alive = [k for k, stays in zip(alive, keep, strict=True) if stays]
    if leader is None and counted and not np.isnan(table[:, counted[0]]).all():
        leader = int(np.nanargmax(table[:, counted[0]]))
    return Standing(tuple(alive), leader, gap, half, len(counted), settled and leader is not None)


def _means(table: Array) -> Array:
    """Of each row, rounds taken out by their medians, so that a missed slow round is no merit."""
    return np.asarray(np.nanmean(table - _medians(table), axis=1))


def _medians(table: Array) -> Array:
    return np.array([np.nanmedian(column) if (~np.isnan(column)).any() else 0.0 for column in table.T])


def _pulled(table: Array) -> Array:
    """Rounds taken out, and far readings pulled in."""
    level = table - _medians(table)
    if table.shape[1] < _FEWEST_TO_PULL:
        return level
    middle = np.nanmedian(level, axis=1, keepdims=True)
    spread = 1.4826 * np.nanmedian(np.abs(level - middle), axis=1, keepdims=True)
    limit = _FAR * np.maximum(spread, 0.5 * np.nanmedian(spread))
    return np.asarray(np.clip(level, middle - limit, middle + limit))


def _against(table: Array, lead: int, error: float, known: Prior | None) -> tuple[Array, Array, Prior | None]:
    """Mean difference of each row to the leader's, half its interval, and what is known of spreads.

    `error` is two-sided. With fewer than 4 others nothing can be borrowed, and the interval is the exact one.
    """
    differences = table - table[lead]
    there = ~np.isnan(differences)
    count = there.sum(axis=1)
    filled = np.where(there, differences, 0.0)
    mean = filled.sum(axis=1) / np.maximum(count, 1)
    spread2 = (np.where(there, filled - mean[:, None], 0.0) ** 2).sum(axis=1) / np.maximum(count - 1, 1)
    width = np.full(count.size, np.inf)
    others = np.arange(count.size) != lead
    known = prior_of(spread2[others & (count == count.max())], int(count.max())) or known
    for n in np.unique(count[others & (count >= FEWEST_ROUNDS)]):
        rows = np.flatnonzero(others & (count == n))
        if known is None:
            width[rows] = [half_width(float(np.sqrt(spread2[k])), int(n), error) for k in rows]
        else:
            width[rows] = moderated(spread2[rows], int(n), error, known)
    mean[lead] = width[lead] = 0.0
    return mean, width, known
