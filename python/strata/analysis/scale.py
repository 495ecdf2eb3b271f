"""The scale on which a workload's primary metric is compared, and the tables of stacks and rounds on it.

It is the logarithm, so that differences are ratios. A figure of 0 or less has none: where there is one, all figures of
that workload are taken as asinh(figure / c) instead, with c a tenth of the smallest positive figure that is compared.
That is the logarithm of twice the figure over c, to 0.25 %, for every positive figure, so ratios and the margin stay
what they are, and it has a place for a 0, about 3 (a factor of 20) below the smallest of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strata.analysis.cells import Array, usable
from strata.analysis.objective import counted, weights_of
from strata.analysis.reliability import complete_visits, in_doubt
from strata.model import View, WorkloadView
from strata.text import some_of
from strata.units import human_number

_SHARE_OF_SMALLEST = 0.1


@dataclass(frozen=True, slots=True)
class Scale:
    """Larger is better, and the margin is that of ratios."""

    sign: float
    small: float | None  # None: logarithms; else asinh of the figure over this

    def of(self, value: float) -> float:
        return self.sign * (math.log(value) if self.small is None else math.asinh(value / self.small))


def scale_of(view: View, workload: WorkloadView, weights: Sequence[float] | None = None) -> Scale:
    """Of all figures of a workload; only those that are compared, by `weights`, say how small is small."""
    values = _figures(view, workload)
    sign = -1.0 if workload.primary.better == "lower" else 1.0
    if all(value > 0 for _, _, value in values):
        return Scale(sign, None)
    doubtful, complete = in_doubt(view, None, weights), complete_visits(view, weights)
    positive = [value for stack, visit, value in values if value > 0 and stack not in doubtful and visit in complete]
    return Scale(sign, _SHARE_OF_SMALLEST * min(positive, default=1.0))


def without_ratio(view: View, weights: Sequence[float] | None = None) -> set[str]:
    """Stacks with a figure of 0 or less under a workload that weighs anything: there is no ratio to them."""
    return {stack for workload in counted(view, weights) for stack, _, value in _figures(view, workload) if value <= 0}


def scale_sentences(view: View, weights: Sequence[float] | None = None) -> list[str]:
    """For the verdict: which figures that are compared have no logarithm, and how they are compared."""
    said = []
    doubtful, complete = in_doubt(view, None, weights), complete_visits(view, weights)
    for workload in counted(view, weights):
        low = [
            stack
            for stack, visit, value in _figures(view, workload)
            if value <= 0 and stack not in doubtful and visit in complete
        ]
        small = scale_of(view, workload, weights).small
        if low and small is not None:
            primary, one = workload.primary, len(low) == 1
            said.append(
                f"{workload.text}: {len(low)} {'figure' if one else 'figures'} of {primary.name} "
                f"{'is' if one else 'are'} 0 or less ({some_of(sorted(set(low)))}), which has no logarithm. All are "
                f"compared there by asinh(figure / {human_number(small)} {primary.unit}): for positive figures that is "
                "their ratio, and a 0 has a place below them. No ratio is stated to a stack with such a figure."
            )
    return said


def _figures(view: View, workload: WorkloadView) -> list[tuple[str, int, float]]:
    """Stack, visit and primary figure of every trial that has one."""
    name = workload.primary.name
    trials = [trial for trial in usable(view) if trial.workload == workload.text]
    found = [(trial.stack, trial.visit, trial.metrics.get(name, math.nan)) for trial in trials]
    return [each for each in found if math.isfinite(each[2])]


def primary_table(
    view: View, workload: WorkloadView, stacks: Sequence[str], weights: Sequence[float] | None = None
) -> Array:
    """The primary metric on its scale (`scale_of`), stacks x rounds. NaN: no figure."""
    scale = scale_of(view, workload, weights)
    row = {stack: i for i, stack in enumerate(stacks)}
    rounds = 1 + max((trial.round for trial in view.trials), default=-1)
    sums, counts = np.zeros((len(stacks), rounds)), np.zeros((len(stacks), rounds))
    for trial in usable(view):
        value = trial.metrics.get(workload.primary.name)
        if trial.workload != workload.text or trial.stack not in row or value is None:
            continue
        if math.isfinite(value):
            sums[row[trial.stack], trial.round] += scale.of(value)
            counts[row[trial.stack], trial.round] += 1
    with np.errstate(invalid="ignore", divide="ignore"):
        return sums / counts


def score_table(view: View, stacks: Sequence[str], weights: Sequence[float] | None = None) -> Array:
    """Score of each visit: weighted mean over the workloads, each on its scale; NaN unless it has a figure of each
    that weighs anything.

    `weights`: of the workloads; None: those of the run's objective.
    """
    given = weights_of(view) if weights is None else weights
    tables = [primary_table(view, load, stacks, given) for load in counted(view, given)]
    if not tables:
        return np.full((len(stacks), 0), np.nan)
    return np.asarray(np.average(tables, axis=0, weights=[weight for weight in given if weight > 0]))
