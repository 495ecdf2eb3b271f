"""One figure with an interval for every stack, workload and metric. Visits are the replicates.

Positive figures are taken on the log scale: the point is the geometric mean and the interval, Student's t on the
logarithms, is a ratio about it. Where a figure of a stack is 0 or negative its figures are taken as they are; those of
other stacks do not change how. An interval of figures that are never negative does not reach below 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from strata.analysis.cells import figures, unlog, usable
from strata.analysis.student import t_quantile
from strata.model import TrialResult, View

GEOMETRIC = "geometric mean over visits, Student t interval on the log scale"
ARITHMETIC = "mean over visits, Student t interval on the plain scale, because a figure is not positive"


Metrics = Literal["all", "primary"]
"""Which figures are estimated: a display of the ranking so far needs no more than those that decide."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """In the metric's unit, or a ratio. `low` and `high` are None when fewer than 2 visits give no spread."""

    point: float
    low: float | None
    high: float | None
    n: int  # visits, or rounds that both stacks of a ratio have
    method: str


def estimate(values: Sequence[float], confidence: float, log: bool) -> Estimate:
    """From one value per visit (at least one); `log` needs all of them positive."""
    n = len(values)
    scaled = [math.log(value) for value in values] if log else list(values)
    mean = math.fsum(scaled) / n
    back = unlog if log else float
    method = GEOMETRIC if log else ARITHMETIC
    if n < 2:
        return Estimate(values[0], None, None, n, method)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in scaled) / (n - 1))
    half = t_quantile((1 + confidence) / 2, n - 1) * spread / math.sqrt(n)
    low = back(mean - half)
    return Estimate(back(mean), max(low, 0.0) if min(values) >= 0 else low, back(mean + half), n, method)


def estimates(view: View, metrics: Metrics = "all") -> dict[str, dict[str, dict[str, Estimate]]]:
    """stack -> workload text -> metric -> estimate, for every metric that a trial holds; absent where none does.

    Metrics recorded beside a trial (CPU, device bytes) are in as well. Intervals hold one by one at the
    confidence of the campaign's rule.
    """
    by_workload: dict[str, list[TrialResult]] = {}
    for trial in usable(view):
        by_workload.setdefault(trial.workload, []).append(trial)
    result: dict[str, dict[str, dict[str, Estimate]]] = {}
    for workload, trials in by_workload.items():
        for metric in _names(view, workload, trials, metrics):
            table = figures(trials, metric)
            for stack, visits in table.visits.items():
                values = list(visits.values())
                cell = estimate(values, view.rule.confidence, all(value > 0 for value in values))
                result.setdefault(stack, {}).setdefault(workload, {})[metric] = cell
    return result


def _names(view: View, workload: str, trials: Sequence[TrialResult], metrics: Metrics) -> Sequence[str]:
    """Declared metrics in their declared order, then what else the trials hold; or only the one that decides."""
    if metrics == "primary":
        return [each.primary.name for each in view.workloads if each.text == workload]
    declared: Mapping[str, object] = next((w.metrics for w in view.workloads if w.text == workload), {})
    seen = {name: None for trial in trials for name in trial.metrics}
    known = [*declared, *view.machine_metrics]
    return [name for name in dict.fromkeys([*known, *seen]) if name in seen]
