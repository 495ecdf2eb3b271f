"""The figures of a view: one value for each stack and visit. Missing is NaN in arrays.

A visit is the replicate: several trials of one workload in a visit are averaged first. Only trials whose outcome is
OK count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strata.model import Outcome, TrialResult, View

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
