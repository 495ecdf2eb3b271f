"""Who is beaten by no other in several metrics at once, and how sure that is.

A stack is on the front when no other is at least as good in every metric and better by more than the margin in one.
Each metric of each stack is its mean over visits, whose error is normal with a spread that is pulled towards that of
all stacks (few visits say little about their own spread). Membership is the share of joint draws in which it is on the
front. Predictions of stacks that were never built are left out: a front of guesses would be long.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strata.analysis.cells import Array, Figures, figures, usable
from strata.analysis.objective import PROVISIONING, SPACE, Chosen, find
from strata.model import View

DRAWS = 2000
LIKELY = 0.5
_PRIOR_VISITS = 3.0
_TAKEN = ".physical_bytes"


@dataclass(frozen=True, slots=True)
class Member:
    stack: str
    probability: float  # of being on the front
    figures: Mapping[str, float]  # mean of each metric, in its unit


@dataclass(frozen=True, slots=True)
class Front:
    metrics: tuple[str, ...]
    members: tuple[Member, ...]  # likeliest first; all with more than a small chance
    without: tuple[str, ...]  # stacks with visits that lack a figure
    sentence: str


def front(view: View, names: Sequence[str]) -> Front:
    """`names`: metrics, or WORKLOAD:METRIC where several workloads have it. Raises BadInput."""
    chosen = [find(name, view.workloads, view.machine_metrics) for name in names]
    trials = usable(view)
    seen = list(dict.fromkeys(trial.stack for trial in trials))
    stacks = [stack for stack in view.stacks if stack in set(seen)]
    means, errors, shown = [], [], []
    for each in chosen:
        table = measured(view, each)
        rows = [list(table.visits.get(stack, {}).values()) for stack in stacks]
        mean, error = _summaries(rows, table.log)
        # A metric that may be 0 has no ratios: its margin is a share of its usual size.
        usual = 1.0 if table.log else float(np.nanmean(np.abs(mean))) or 1.0
        sign = -1.0 if each.metric.better == "lower" else 1.0
        means.append(sign * mean / usual)
        errors.append(error / usual)
        shown.append([float(np.exp(m)) if table.log else float(m) for m in mean])
    there = [k for k in range(len(stacks)) if not any(math.isnan(mean[k]) for mean in means)]
    without = tuple(stacks[k] for k in range(len(stacks)) if k not in there)
    if not there:
        return Front(tuple(names), (), without, "No front: no stack has a figure of all these metrics yet.")
    chance = np.random.default_rng([view.seed, len(trials)])
    level = np.array([mean[there] for mean in means]).T
    blur = np.array([error[there] for error in errors]).T
    margin = -math.log1p(-view.rule.within)
    count = np.zeros(len(there))
    for _ in range(DRAWS):
        count += on_front(level + blur * chance.standard_normal(level.shape), margin)
    share = count / DRAWS
    order = [int(k) for k in np.argsort(-share, kind="stable") if share[k] > 1 - view.rule.confidence]
    members = tuple(
        Member(
            stacks[there[k]],
            float(share[k]),
            {name: column[there[k]] for name, column in zip(names, shown, strict=True)},
        )
        for k in order
    )
    likely = sum(member.probability >= LIKELY for member in members)
    skipped = {skip.stack for skip in view.skipped}
    never = sum(stack not in skipped for stack in view.stacks) - len(stacks)
    rest = f" {never} stacks were never built, and nothing is said of them." if never else ""
    return Front(
        tuple(names),
        members,
        without,
        f"On the front of {', '.join(names)}: {likely} of {len(there)} measured stacks, with a chance of a half or "
        f"more; {len(members) - likely} others may be.{rest}",
    )


def on_front(level: Array, margin: float) -> Array:
    """1 or 0 for each row; larger is better in every column, and closer than `margin` is as good."""
    no_worse = np.ones((level.shape[0],) * 2, dtype=bool)
    better = np.zeros((level.shape[0],) * 2, dtype=bool)
    for column in level.T:  # [k, j]: j against k
        no_worse &= column[None, :] >= column[:, None]
        better |= column[None, :] > column[:, None] + margin
    return np.asarray(~(no_worse & better).any(axis=1), dtype=float)


def measured(view: View, chosen: Chosen) -> Figures:
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


def _summaries(rows: Sequence[Sequence[float]], log: bool) -> tuple[Array, Array]:
    """Mean of each row and its standard error, on the log scale where `log`; nan where a row is empty."""
    values = [np.log(row) if log else np.asarray(row, dtype=float) for row in rows]
    mean = np.array([float(v.mean()) if v.size else math.nan for v in values])
    freedom = sum(max(v.size - 1, 0) for v in values)
    squares = [float(((v - v.mean()) ** 2).sum()) if v.size else 0.0 for v in values]
    pooled = sum(squares) / freedom if freedom else 0.0
    error = np.array(
        [
            math.sqrt((_PRIOR_VISITS * pooled + square) / (_PRIOR_VISITS + max(v.size - 1, 0)) / max(v.size, 1))
            for v, square in zip(values, squares, strict=True)
        ]
    )
    return mean, error
