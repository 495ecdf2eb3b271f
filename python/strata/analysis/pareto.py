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

from strata.analysis.cells import Array, figures, usable
from strata.errors import BadInput
from strata.model import Metric, View

DRAWS = 2000
LIKELY = 0.5
_PRIOR_VISITS = 3.0


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
    chosen = [_find(view, name) for name in names]
    trials = usable(view)
    seen = list(dict.fromkeys(trial.stack for trial in trials))
    stacks = [stack for stack in view.stacks if stack in set(seen)]
    means, errors, shown = [], [], []
    for workload, metric in chosen:
        table = figures((t for t in trials if workload in (None, t.workload)), metric.name)
        rows = [list(table.visits.get(stack, {}).values()) for stack in stacks]
        mean, error = _summaries(rows, table.log)
        # A metric that may be 0 has no ratios: its margin is a share of its usual size.
        usual = 1.0 if table.log else float(np.nanmean(np.abs(mean))) or 1.0
        sign = -1.0 if metric.better == "lower" else 1.0
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
    return Front(
        tuple(names),
        members,
        without,
        f"On the front of {', '.join(names)}: {likely} of {len(there)} measured stacks, with a chance of a half or "
        f"more; {len(members) - likely} others may be.",
    )


def on_front(level: Array, margin: float) -> Array:
    """1 or 0 for each row; larger is better in every column, and closer than `margin` is as good."""
    stacks = level.shape[0]
    out = np.zeros(stacks)
    for k in range(stacks):
        no_worse = (level >= level[k]).all(axis=1)
        better = (level > level[k] + margin).any(axis=1)
        out[k] = not bool((no_worse & better).any())
    return out


def _find(view: View, name: str) -> tuple[str | None, Metric]:
    """The workload (None: a figure of the machine, over all of them) and the metric."""
    prefix, _, last = name.rpartition(":")
    found: list[tuple[str | None, Metric]] = [
        (workload.text, workload.metrics[last])
        for workload in view.workloads
        if last in workload.metrics and prefix in workload.text
    ]
    if not found and not prefix and last in view.machine_metrics:
        found = [(None, view.machine_metrics[last])]
    if len(found) != 1:
        known = sorted({metric for workload in view.workloads for metric in workload.metrics} | {*view.machine_metrics})
        if found:
            texts = ", ".join(f"{text}:{last}" for text, _ in found)
            raise BadInput(f"--pareto: '{name}' is a metric of several workloads; write one of {texts}.")
        raise BadInput(f"--pareto: '{name}' is no metric of this run; they are {', '.join(known)}.")
    if found[0][1].better == "neither":
        raise BadInput(f"--pareto: of '{name}' neither more nor less is better; leave it out.")
    return found[0]


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
