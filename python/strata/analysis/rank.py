"""Who is best, who ties with the best, or that the data cannot decide.

A stack's score is the geometric mean, with equal weights, of its ratio to each workload's mean over the primary
metrics ("lower is better" turned over). Stacks are compared by differences of the log score within rounds (`compare`).

The leader has the best score. Every other stack is compared with it, each interval at an error of
(1 - confidence) / (K - 1), two-sided. The tied group is the leader and every stack that is not shown worse; a stack
whose whole interval lies inside the margin `within` is as good, not worse. The truly best stack can fall out only if
one of its K - 1 comparisons errs, so it falls out with a chance of at most 1 - confidence, whoever leads (the argument
of Hsu's multiple comparisons with the best, Annals of Statistics 12:3, 1984), and two equal stacks are called different
as seldom.

The promise is about who falls out of the group, not about all intervals at once: the leader was chosen because it
looked best, and by luck it may look better than it is. At 95 %, in simulated campaigns, each interval holds in 95 % or
more, but all of one campaign together in 93 % to 97 % where stacks differ and in 88 % where 20 stacks are all equal
(tests/unit/analysis/test_calibration.py measures all of this). And it is about a number of rounds that was fixed before
looking; adding rounds because the result was not to one's liking, again and again, errs more often.

Rounds that certified a shortlist (from `CERTIFYING` on) do not count here: who was in them and when they ended was
decided by what was seen, and the promise is about rounds that visit all alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

import numpy as np

from strata.analysis.cells import Array, effects, unlog
from strata.analysis.compare import (
    Decision,
    Difference,
    Pair,
    Prior,
    as_ratio,
    decide,
    differences,
    level_of,
    prior,
)
from strata.analysis.estimate import Estimate, Metrics, estimates
from strata.analysis.evidence import CERTIFYING
from strata.analysis.objective import counted
from strata.analysis.reliability import failure_sentences, in_doubt
from strata.analysis.scale import primary_table, scale_sentences, score_table, without_ratio
from strata.analysis.verdict import FEWEST_VISITS, Facts, sentences
from strata.model import View, WorkloadView
from strata.units import format_percent

NOT_VISITED = "It has not been visited yet."
MOST_ROUNDS = 100  # beyond this, more rounds are no advice


@dataclass(frozen=True, slots=True)
class Row:
    """One ranked stack."""

    stack: str
    score: float  # geometric mean over workloads of its ratio to the workload's mean; above 1 is better than the mean
    ratio: Estimate | None  # of its score to the leader's; 1 for the leader; None: no common round, or a figure of 0
    decision: Literal["leader"] | Decision  # against the leader
    tied: bool  # in the group that holds the best
    visits: int  # with a figure under every workload
    metrics: Mapping[str, Mapping[str, Estimate]]  # workload -> metric -> figure, all metrics
    against_leader: Mapping[str, Pair]  # workload -> the same comparison by that workload's primary metric alone
    best: float | None = None  # P(this is the best stack), where a model says


@dataclass(frozen=True, slots=True)
class Unranked:
    stack: str
    reason: str  # a sentence
    metrics: Mapping[str, Mapping[str, Estimate]]  # what there is


@dataclass(frozen=True, slots=True)
class Ranking:
    rows: tuple[Row, ...]  # best score first
    unranked: tuple[Unranked, ...]  # could run, but have no score, or fail too often; skipped stacks are not here
    leader: str | None  # best score, whether or not that is shown; None when nothing is ranked
    best: str | None  # the leader where the data say so
    tied: tuple[str, ...]  # the leader and every stack not shown worse, best score first
    undecided: bool
    rounds_needed: int | None  # in all, for a decision at the present spread; None: decided, unknown, or over 100
    sentences: tuple[str, ...]  # the verdict first, then what to know or do
    method: str  # how it was compared, one sentence
    sure: float | None = None  # P(the leader is within the margin of the best), where a model says


def rank(view: View, weights: Sequence[float] | None = None, *, metrics: Metrics = "all") -> Ranking:
    """From whatever the run has so far. Never raises for missing figures.

    `weights`: of the workloads, in the order of the view; None: as the run's objective says.

    `metrics`: which figures the rows hold beside the ranking; it itself is the same.
    """
    figures = estimates(view, metrics)
    tried = {trial.stack for trial in view.trials if trial.round < CERTIFYING}
    tried |= {visit.stack for visit in view.failed if visit.round < CERTIFYING}
    doubtful = in_doubt(view, range(CERTIFYING), weights)
    rows, unranked, rounds_needed = _rows(view, figures, tried, doubtful, weights)
    leader = rows[0].stack if rows else None
    group = [row for row in rows if row.tied]
    settled = all(row.decision in ("leader", "equivalent") for row in group)
    waiting = any(loser.stack not in tried for loser in unranked)
    best = leader if settled and not (waiting and len(rows) == 1) else None
    facts = Facts(
        rows=tuple((row.stack, row.ratio, row.decision, row.visits) for row in rows),
        unranked=tuple((loser.stack, loser.reason) for loser in unranked if loser.stack not in doubtful),
        best=best,
        rounds=max((row.visits for row in rows), default=0),
        rounds_needed=rounds_needed,
        without_ratio=frozenset(without_ratio(view, weights)),
        set_aside=len(doubtful),
    )
    return Ranking(
        rows=tuple(rows),
        unranked=tuple(unranked),
        leader=leader,
        best=best,
        tied=tuple(row.stack for row in group),
        undecided=best is None,
        rounds_needed=rounds_needed,
        sentences=(
            *sentences(view, facts),
            *failure_sentences(view, doubtful, weights),
            *scale_sentences(view, weights),
        ),
        method=_method(view, rows),
    )


def _rows(
    view: View,
    figures: Mapping[str, Mapping[str, Mapping[str, Estimate]]],
    tried: AbstractSet[str],
    doubtful: Mapping[str, str],
    weights: Sequence[float] | None,
) -> tuple[list[Row], list[Unranked], int | None]:
    skipped = {skip.stack for skip in view.skipped}
    stacks = [stack for stack in dict.fromkeys(view.stacks) if stack not in skipped]
    everything = score_table(view, stacks, weights)[:, :CERTIFYING]
    # The figures of a stack that fails say nothing of how often it works, so it has no place among the others.
    has = [
        stack not in doubtful and bool((~np.isnan(cells)).any())
        for stack, cells in zip(stacks, everything, strict=True)
    ]
    unranked = [
        Unranked(
            stack,
            _reason(view, stack, doubtful, counted(view, weights)) if stack in tried else NOT_VISITED,
            figures.get(stack, {}),
        )
        for stack, scored in zip(stacks, has, strict=True)
        if not scored
    ]
    names = [stack for stack, scored in zip(stacks, has, strict=True) if scored]
    if not names:
        return [], unranked, None
    table = everything[[i for i, scored in enumerate(has) if scored]]
    level = level_of(view.rule.confidence, len(names))
    scores = effects(table)
    order = sorted(range(len(names)), key=lambda i: -scores[i])  # stable: campaign order where they are the same
    leader = order[0]
    known = prior(table)
    gaps = differences(table, leader, known, level)
    by_workload = {
        workload.text: _against(primary_table(view, workload, names, weights)[:, :CERTIFYING], leader, level)
        for workload in view.workloads
    }
    none = without_ratio(view, weights)
    rows = []
    for i in order:
        no_ratio = i != leader and not none.isdisjoint({names[i], names[leader]})
        decision = decide(gaps[i], view.rule.within)
        rows.append(
            Row(
                stack=names[i],
                score=unlog(scores[i]),
                ratio=None if no_ratio else as_ratio(gaps[i], known.df > 0),
                decision="leader" if i == leader else decision,
                tied=i == leader or decision != "worse",
                visits=int((~np.isnan(table[i])).sum()),
                metrics=figures.get(names[i], {}),
                against_leader={
                    workload: Pair(
                        names[i],
                        names[leader],
                        None if no_ratio else as_ratio(gap[i], weighed),
                        decide(gap[i], view.rule.within),
                    )
                    for workload, (gap, weighed) in by_workload.items()
                    if i != leader
                },
            )
        )
    open_gaps = [gap for i, gap in enumerate(gaps) if i != leader and decide(gap, view.rule.within) == "undecided"]
    # Up to the last with a figure: before a certification there may be hundreds of numbers that nobody visited.
    rounds = 1 + int(np.flatnonzero((~np.isnan(table)).any(axis=0))[-1])
    return rows, unranked, _rounds_needed(open_gaps, known, level, view.rule.within, rounds)


def _against(table: Array, leader: int, level: float) -> tuple[list[Difference], bool]:
    known = prior(table)
    return differences(table, leader, known, level), known.df > 0


def _rounds_needed(gaps: Sequence[Difference], known: Prior, level: float, within: float, rounds: int) -> int | None:
    """The rounds after which every open comparison would be closed, were mean and spread to stay as they are.

    A gap closes when its interval leaves 0 or falls inside the margin, whichever comes first. Rounds that gave no
    figure of both stacks stay lost.
    """
    from scipy.special import stdtrit

    if not gaps or any(not math.isfinite(gap.half) for gap in gaps):
        return None
    candidates = np.arange(max(rounds + 1, FEWEST_VISITS), MOST_ROUNDS + 1)
    margin = -math.log1p(-within)
    closed = np.ones(candidates.size, dtype=bool)
    for gap in gaps:
        n = candidates - (rounds - gap.n)
        half = np.asarray(stdtrit(n - 1 + known.df, 1 - level / 2)) * np.sqrt(gap.variance / n)
        closed &= half <= max(abs(gap.mean), margin - abs(gap.mean))
    return int(candidates[np.argmax(closed)]) if closed.any() else None


def _reason(view: View, stack: str, doubtful: Mapping[str, str], loads: Sequence[WorkloadView]) -> str:
    """Why a stack that was visited is not ranked, with the first cause that is known."""
    trials = [trial for trial in view.trials if trial.stack == stack]
    without = [workload.text for workload in loads if np.isnan(primary_table(view, workload, [stack])).all()]
    causes = [visit.reason for visit in view.failed if visit.stack == stack]
    causes += [trial.reason for trial in trials if trial.reason]
    cause = f" First cause: {causes[0].rstrip('.')}." if causes else ""
    if not trials:
        return f"None of its visits could be measured.{cause}"
    if len(without) == len(loads):
        return f"It has no figure that can be compared under any workload.{cause}"
    if without:
        return f"It has no figure that can be compared under {', '.join(without)}.{cause}"
    if stack in doubtful:
        return f"Its reliability is in doubt: {doubtful[stack]}."
    return f"No single visit of it gave a figure under every workload.{cause}"


def _method(view: View, rows: Sequence[Row]) -> str:
    if len(rows) < 2:
        return "Nothing was compared."
    complete = len({row.visits for row in rows}) == 1
    fit = (
        "mean of the log score over rounds"
        if complete
        else "least-squares fit of stack and round to the log score, because some visits gave no figure"
    )
    return (
        f"Score: {fit}. Comparison: differences within the rounds that both stacks have, Student t"
        f"{', moderated over all pairs' if _moderated(rows) else ''}. Promise: with a confidence of "
        f"{format_percent(view.rule.confidence, ' %')} the best stack is in the tied group."
    )


def _moderated(rows: Sequence[Row]) -> bool:
    return any(row.ratio is not None and "moderated" in row.ratio.method for row in rows)
