"""Who is beaten by no other in several metrics at once, and how sure that is.

A stack is on the front when no other is at least as good in every metric and better by more than the margin in one.
Membership is the share of joint draws of all means over visits in which it is on the front. The spreads that these
means err by are estimates too, and are drawn with them: what is usual for all stacks, from all repeats there are (few
repeats: a wide draw), and each stack's own, pulled towards what is usual, for few visits say little about their own
spread. The marginal of a mean is Student's t. The metrics of a visit share its noise, so means err together, as much as
the metrics of all visits do about their stacks' means. Where no stack was visited twice nothing is known of the spread,
and no chance is stated: only who is on the front by the single figures. Predictions of stacks that were never built are
left out: a front of guesses would be long. So are stacks whose reliability is in doubt.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strata.analysis.cells import Array, Figures, figures, usable
from strata.analysis.objective import PROVISIONING, SPACE, FrontMetric, find
from strata.analysis.reliability import in_doubt, in_vain
from strata.model import View
from strata.text import some_of

DRAWS = 2000
LIKELY = 0.5
_PRIOR_FREEDOM = 3.0  # what the usual spread weighs against a stack's own, in degrees of freedom
_TAKEN = ".physical_bytes"


@dataclass(frozen=True, slots=True)
class Member:
    stack: str
    probability: float  # of being on the front
    figures: Mapping[str, float]  # mean of each metric, in its unit


@dataclass(frozen=True, slots=True)
class Unjudged:
    """On the front by figures whose spread is not known."""

    stack: str
    figures: Mapping[str, float]
    probability: None = None  # in the JSON output, where a member has its own


@dataclass(frozen=True, slots=True)
class Front:
    metrics: tuple[str, ...]
    members: tuple[Member, ...]  # likeliest first; all with more than a small chance
    unjudged: tuple[Unjudged, ...]  # in their place when nothing is known of the spread
    without: tuple[str, ...]  # stacks with visits that lack a figure
    doubtful: Mapping[str, str]  # stacks whose reliability is in doubt, and why: on no front
    sentence: str


@dataclass(frozen=True, slots=True)
class _Column:
    """One metric of all stacks, on a scale where larger is better and the margin is a share."""

    level: Array  # means over visits; nan: no figure
    squares: Array  # sums of squares about them
    visits: Array
    shown: Array  # the means, in the metric's unit
    off: Mapping[int, float]  # of each visit: its figure less the stack's mean

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the spread, over all stacks."""
        return float(np.maximum(self.visits - 1, 0).sum())


def front(view: View, names: Sequence[str]) -> Front:
    """`names`: metrics, or WORKLOAD:METRIC where several workloads have it. Raises BadInput."""
    chosen = [find(name, view.workloads, view.machine_metrics) for name in names]
    doubtful = in_doubt(view)
    vain = in_vain(view)
    seen = {trial.stack for trial in usable(view)} - doubtful.keys()
    stacks = [stack for stack in view.stacks if stack in seen]
    columns = [_column(measured(view, each), stacks, each.metric.better == "lower") for each in chosen]
    there = [k for k in range(len(stacks)) if not any(math.isnan(column.level[k]) for column in columns)]
    without = tuple(stacks[k] for k in range(len(stacks)) if k not in there)
    if not there:
        return Front(
            tuple(names), (), (), without, doubtful, "No front: no stack has a figure of all these metrics yet."
        )
    margin = -math.log1p(-view.rule.within)
    shown = [
        {name: float(column.shown[k]) for name, column in zip(names, columns, strict=True)} for k in range(len(stacks))
    ]
    unknown = [name for name, column in zip(names, columns, strict=True) if not column.freedom]
    if unknown:
        best = on_front(np.array([column.level[there] for column in columns]).T, margin)
        leading = tuple(Unjudged(stacks[k], shown[k]) for k, on in zip(there, best, strict=True) if on)
        return Front(tuple(names), (), leading, without, doubtful, _unjudged(view, names, unknown, leading, len(there)))
    share = _membership(columns, there, margin, np.random.default_rng([view.seed, len(usable(view))]))
    order = [int(k) for k in np.argsort(-share, kind="stable") if share[k] > 1 - view.rule.confidence]
    members = tuple(Member(stacks[there[k]], float(share[k]), shown[there[k]]) for k in order)
    likely = sum(member.probability >= LIKELY for member in members)
    skipped = {skip.stack for skip in view.skipped}
    known = {*skipped, *doubtful, *vain, *stacks}
    never = sum(stack not in known for stack in view.stacks)
    rest = f" {never} stacks were never built, and nothing is said of them." if never else ""
    return Front(
        tuple(names),
        members,
        (),
        without,
        doubtful,
        f"On the front of {', '.join(names)}: {likely} of {len(there)} measured stacks, with a chance of a half or "
        f"more; {len(members) - likely} others may be.{rest}",
    )


def _unjudged(
    view: View, names: Sequence[str], unknown: Sequence[str], leading: Sequence[Unjudged], measured: int
) -> str:
    again = f"run again with --{view.testbed.repeats} 5"
    if view.rule.design == "adaptive":  # a number of rounds would end it
        again = "run it again"
    return (
        f"One visit each with a figure of {', '.join(unknown)}: nothing is known of the spread, so no chance of being "
        f"on the front is stated; {again}. By these figures alone {len(leading)} of {measured} "
        f"measured stacks are on the front of {', '.join(names)}: {some_of([each.stack for each in leading])}."
    )


def _membership(columns: Sequence[_Column], rows: Sequence[int], margin: float, chance: np.random.Generator) -> Array:
    """Share of joint draws in which each row is on the front. Every column has repeats."""
    level = np.array([column.level[rows] for column in columns]).T
    squares = np.array([column.squares[rows] for column in columns]).T
    visits = np.array([column.visits[rows] for column in columns]).T
    together = np.array([column.squares.sum() for column in columns])
    freedom = np.array([column.freedom for column in columns])
    count = np.zeros(len(rows))
    root = np.linalg.cholesky(correlation([column.off for column in columns]))
    for _ in range(DRAWS):
        usual = together / chance.chisquare(freedom)
        own = (_PRIOR_FREEDOM * usual + squares) / chance.chisquare(_PRIOR_FREEDOM + visits - 1)
        count += on_front(level + np.sqrt(own / visits) * (chance.standard_normal(level.shape) @ root.T), margin)
    return count / DRAWS


def correlation(off: Sequence[Mapping[int, float]]) -> Array:
    """Of the metrics of a visit about their stacks' means, over the visits that have all of them.

    Pulled towards none by the weight of as many visits as there are metrics and one more, which keeps it positive
    definite however few visits there are.
    """
    common = sorted(set(off[0]).intersection(*off[1:]))
    table = np.array([[each[visit] for each in off] for visit in common]).reshape(len(common), len(off))
    size = np.sqrt((table**2).sum(axis=0))
    table = table / np.where(size > 0, size, 1.0)
    repeated = np.abs(table).sum(axis=1) > 0
    weight = repeated.sum() / (repeated.sum() + len(off) + 1)
    together = weight * (table.T @ table)
    np.fill_diagonal(together, 1.0)
    return np.asarray(together)


def on_front(level: Array, margin: float) -> Array:
    """1 or 0 for each row; larger is better in every column, and closer than `margin` is as good."""
    no_worse = np.ones((level.shape[0],) * 2, dtype=bool)
    better = np.zeros((level.shape[0],) * 2, dtype=bool)
    for column in level.T:  # [k, j]: j against k
        no_worse &= column[None, :] >= column[:, None]
        better |= column[None, :] > column[:, None] + margin
    return np.asarray(~(no_worse & better).any(axis=1), dtype=float)


def measured(view: View, chosen: FrontMetric) -> Figures:
    """The figures of one metric, by stack and visit."""
    trials = [trial for trial in usable(view) if chosen.workload in (None, trial.workload)]
    if chosen.metric is PROVISIONING:
        good = {trial.visit for trial in trials}
        took: dict[str, dict[int, float]] = {}
        for step in view.steps:
            if step.visit in good and step.create_s is not None:
                of_stack = took.setdefault(step.stack, {})
                of_stack[step.visit] = of_stack.get(step.visit, 0.0) + step.create_s
        return Figures(all(value > 0 for each in took.values() for value in each.values()), took)
    if chosen.metric is SPACE:
        values: dict[str, dict[int, float]] = {}
        for trial in trials:
            told = [name for name in trial.metrics if name.endswith(_TAKEN)]
            if told:
                # Layers stand in the stack's text from the bottom to the top.
                lowest = min(told, key=lambda name: trial.stack.find(name.removesuffix(_TAKEN)))
                values.setdefault(trial.stack, {})[trial.visit] = trial.metrics[lowest]
        return Figures(all(value > 0 for each in values.values() for value in each.values()), values)
    return figures(trials, chosen.metric.name)


def _column(table: Figures, stacks: Sequence[str], lower: bool) -> _Column:
    made = [table.visits.get(stack, {}) for stack in stacks]
    rows = [np.array(list(visits.values()), dtype=float) for visits in made]
    values = [np.log(row) if table.log else row for row in rows]
    mean = np.array([float(v.mean()) if v.size else math.nan for v in values])
    squares = np.array([float(((v - v.mean()) ** 2).sum()) if v.size else 0.0 for v in values])
    # A metric that may be 0 has no ratios: its margin is a share of its usual size.
    there = mean[~np.isnan(mean)]
    usual = 1.0 if table.log or not there.size else float(np.abs(there).mean()) or 1.0
    sign = -1.0 if lower else 1.0
    off = {
        visit: sign * float(value - mean[k]) / usual
        for k, (visits, row) in enumerate(zip(made, values, strict=True))
        for visit, value in zip(visits, row, strict=True)
    }
    return _Column(
        level=sign * mean / usual,
        squares=squares / usual**2,
        visits=np.array([float(v.size) for v in values]),
        shown=np.exp(mean) if table.log else mean,
        off=off,
    )
