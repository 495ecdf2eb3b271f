"""Every figure of a run as CSV: one row per trial and metric, as statistics programs read it. Pure."""

from __future__ import annotations

import csv
import io

from strata.model import Metric, TrialResult, View

_COLUMNS = (
    "stack", "round", "visit", "order", "trial", "workload", "outcome", "reason", "flags", "started_at", "wall_s",
    "metric", "value", "unit", "better", "decides",
)  # fmt: skip


def render(view: View) -> str:
    """A header and the rows, in the order of the trials. Values are in the declared unit and not rounded.

    A trial without figures has one row with an empty metric. A factor of the campaign is a column `factor.NAME`.
    """
    factors = sorted({name for levels in view.factors.values() for name in levels})
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow([*_COLUMNS, *(f"factor.{name}" for name in factors)])
    for trial in sorted(view.trials, key=lambda trial: (trial.order, trial.number)):
        levels = [view.factors.get(trial.stack, {}).get(name, "") for name in factors]
        for figure in _figures(trial, view):
            out.writerow([*_about(trial), *figure, *levels])
    return text.getvalue()


def _about(trial: TrialResult) -> tuple[object, ...]:
    return (
        trial.stack,
        trial.round + 1,
        trial.visit,
        trial.order + 1,
        trial.number,
        trial.workload,
        trial.outcome,
        trial.reason,
        " ".join(trial.flags),
        trial.started_at,
        trial.wall_s,
    )


def _figures(trial: TrialResult, view: View) -> list[tuple[object, ...]]:
    """Metric, value, unit, the better direction, and whether it decides, of each figure."""
    load = next(load for load in view.workloads if load.text == trial.workload)
    declared: dict[str, Metric] = {**view.machine_metrics, **load.metrics}
    figures: list[tuple[object, ...]] = []
    for name, value in trial.metrics.items():
        metric = declared.get(name)
        decides = "yes" if name == load.primary.name else "no"
        figures.append((name, value, metric.unit if metric else "", metric.better if metric else "", decides))
    return figures or [("", "", "", "", "")]
