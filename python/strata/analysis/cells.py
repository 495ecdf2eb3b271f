"""The view as tables: one value for each stack and visit, or for each stack and round. Missing is NaN in arrays.

A visit is the replicate: several trials of one workload in a visit are averaged first. Only trials whose outcome is
OK count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strata.analysis.objective import weights_of
from strata.model import Outcome, TrialResult, View, WorkloadView

Array = NDArray[np.float64]

_LARGEST_LOG = 700.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Values of one metric under one workload."""

    log: bool  # every value of every stack is positive
    visits: Mapping[str, Mapping[int, float]]  # stack -> visit -> value


def usable(view: View) -> list[TrialResult]:
    """Trials with a figure to trust, in the order they ran."""
    return sorted((trial for trial in view.trials if trial.outcome is Outcome.OK), key=lambda trial: trial.order)


def figures(trials: Iterable[TrialResult], metric: str) -> Figures:
    """`trials` are of one workload; those without the metric, or with one that is not finite, are left out."""
    values: dict[str, dict[int, list[float]]] = {}
    unlogged: set[str] = set()
    for trial in trials:
        value = trial.metrics.get(metric)
        if value is None or not math.isfinite(value):
            continue
        if value <= 0:
            unlogged.add(trial.stack)
        values.setdefault(trial.stack, {}).setdefault(trial.visit, []).append(value)
    return Figures(
        not unlogged,
        {
            stack: {visit: average(several, stack not in unlogged) for visit, several in visits.items()}
            for stack, visits in values.items()
        },
    )


def unlog(value: float) -> float:
    """e to the power of `value`, as far as a float and its inverse reach: an interval of few visits may be endless."""
    return math.exp(min(max(value, -_LARGEST_LOG), _LARGEST_LOG))


def average(values: Sequence[float], log: bool) -> float:
    if len(values) == 1:
        return values[0]
    if log:
        return math.exp(math.fsum(math.log(value) for value in values) / len(values))
    return math.fsum(values) / len(values)


@dataclass(frozen=True, slots=True)
class Scale:
    """On which the primary metric of one workload is compared. Larger is better, and the margin is a share."""

    sign: float
    usual: float | None  # None: logarithms; else a figure of 0 or less has no logarithm, and all are shares of this
    not_positive: int  # trials with such a figure

    def of(self, value: float) -> float:
        return self.sign * (math.log(value) if self.usual is None else value / self.usual)


def scale_of(view: View, workload: WorkloadView) -> Scale:
    """The usual size of a figure is the median of the stacks' means, or their mean where that is 0."""
    found: dict[str, list[float]] = {}
    for trial in usable(view):
        value = trial.metrics.get(workload.primary.name)
        if trial.workload == workload.text and value is not None and math.isfinite(value):
            found.setdefault(trial.stack, []).append(value)
    sign = -1.0 if workload.primary.better == "lower" else 1.0
    low = sum(value <= 0 for values in found.values() for value in values)
    if not low:
        return Scale(sign, None, 0)
    sizes = [float(np.mean(np.abs(values))) for values in found.values()]
    return Scale(sign, float(np.median(sizes)) or float(np.mean(sizes)) or 1.0, low)


def scale_sentences(view: View) -> list[str]:
    """For the verdict: which workloads are not compared by ratios, and why."""
    said = []
    for workload in view.workloads:
        scale = scale_of(view, workload)
        if scale.usual is not None:
            primary, one = workload.primary, scale.not_positive == 1
            said.append(
                f"{workload.text}: {scale.not_positive} {'figure' if one else 'figures'} of {primary.name} "
                f"{'is' if one else 'are'} 0 or less, so stacks are compared there by differences, as shares of the "
                f"usual figure ({scale.usual:.3g} {primary.unit}); ratios shown are e to the power of these."
            )
    return said


def primary_table(view: View, workload: WorkloadView, stacks: Sequence[str]) -> Array:
    """The primary metric on its scale (`scale_of`), stacks x rounds. NaN: no figure."""
    scale = scale_of(view, workload)
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
    """Score of each visit: weighted mean over the workloads, each on its scale; NaN unless it has a figure of each.

    `weights`: of the workloads; None: those of the run's objective. One of weight 0 still has to have its figure.
    """
    tables = [primary_table(view, workload, stacks) for workload in view.workloads]
    if not tables:
        return np.full((len(stacks), 0), np.nan)
    return np.asarray(np.average(tables, axis=0, weights=weights_of(view) if weights is None else weights))


def effects(table: Array) -> Array:
    """The level of each stack (row), rounds (columns) taken out, about the mean of all rows.

    With every cell there these are plain row means. With cells missing it is the least-squares fit of
    stack + round, so that a stack is not favoured for having missed the slow round. Each row needs a cell.
    """
    table = table[:, ~np.isnan(table).all(axis=0)]
    if not np.isnan(table).any():
        levels = table.mean(axis=1)
    else:
        stacks, rounds = table.shape
        row, column = np.nonzero(~np.isnan(table))
        design = np.zeros((row.size, stacks + rounds))
        design[np.arange(row.size), row] = 1
        design[np.arange(row.size), stacks + column] = 1
        levels = np.linalg.lstsq(design, table[row, column], rcond=None)[0][:stacks]
    return np.asarray(levels - levels.mean())
