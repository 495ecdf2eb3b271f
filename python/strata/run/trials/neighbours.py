"""What tenants cost each other: the figure of each among all others, alone, and beside each single other.

A slowdown is how many times better the figure is without the neighbours. Fairness is Jain's index of what each tenant
keeps of its own speed: 1 when all lose alike, 1/n when one of n has it all. Source: R. Jain, D. Chiu, W. Hawe, "A
quantitative measure of fairness and discrimination for resource allocation in shared computer systems", DEC-TR-301,
1984, here of the normalised progress of each (1 / slowdown), as is usual for unlike loads. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from strata.model import Metric
from strata.run.trials.trial import Trial

PREFIX = "neighbours."

_FAIRNESS = Metric(
    f"{PREFIX}fairness", "ratio", "higher", "Jain's index of what each tenant keeps of its speed alone; 1: all alike"
)
_MEAN = Metric(f"{PREFIX}slowdown_mean", "ratio", "lower", "geometric mean of the tenants' slowdowns")
_WORST = Metric(f"{PREFIX}slowdown_worst", "ratio", "lower", "slowdown of the tenant that loses most")


@dataclass(slots=True)
class Figures:
    """The primary figure of each tenant within each group, and why some are missing."""

    figures: dict[tuple[int, ...], Mapping[int, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, group: tuple[int, ...], primaries: Sequence[str], trials: Sequence[Trial]) -> None:
        for tenant, trial in zip(group, trials, strict=True):
            if trial.reason is not None:
                named = " and ".join(map(str, group))
                self.notes.append(f"tenant {tenant} without the others (measured: {named}): {trial.reason}")
        self.figures[group] = {
            tenant: trial.figures[primary]
            for tenant, primary, trial in zip(group, primaries, trials, strict=True)
            if trial.figures is not None and trial.reason is None
        }


def compared(
    results: Sequence[Trial], tenants: Sequence[int], primaries: Sequence[Metric], apart: Figures
) -> list[Trial]:
    """The trials of all, with what the neighbours cost. There is one for each tenant, or one of all of them.

    `primaries`: of each tenant's load.
    """
    own = len(results) == len(tenants)
    metrics = dict(zip(tenants, primaries, strict=True))
    among: dict[int, float] = {}
    for number, tenant in enumerate(tenants):
        figures = results[number if own else 0].figures or {}
        name = metrics[tenant].name
        value = figures.get(name if own else f"tenant{tenant}.{name}")
        if value is not None:
            among[tenant] = value
    found: dict[int, list[tuple[Metric, float]]] = {}
    slowdowns: list[float] = []
    for tenant, value in among.items():
        metric = metrics[tenant]
        alone = apart.figures.get((tenant,), {}).get(tenant)
        slower = None if alone is None else slowdown(metric, alone, value)
        if alone is None or slower is None:
            continue
        slowdowns.append(slower)
        mine = f"{PREFIX}tenant{tenant}"
        about = f"{metric.name} of tenant {tenant} while the others do nothing"
        found[tenant] = [
            (Metric(f"{mine}.alone_{metric.name}", metric.unit, metric.better, about), alone),
            (Metric(f"{mine}.slowdown", "ratio", "lower", f"what the others cost tenant {tenant}"), slower),
        ]
        for group, seen in apart.figures.items():
            if len(group) == 2 and tenant in seen:
                (other,) = set(group) - {tenant}
                by = slowdown(metric, alone, seen[tenant])
                if by is not None:
                    about = f"what tenant {other} alone costs tenant {tenant}"
                    found[tenant].append((Metric(f"{mine}.slowdown_by_{other}", "ratio", "lower", about), by))
    common = _common(slowdowns) if len(slowdowns) == len(tenants) else []
    compared = []
    for number, trial in enumerate(results):
        whose = [tenants[number]] if own else tenants
        extra = [*(each for tenant in whose for each in found.get(tenant, ())), *common]
        compared.append(_with(trial, extra, apart.notes))
    return compared


def _with(trial: Trial, extra: Sequence[tuple[Metric, float]], notes: Sequence[str]) -> Trial:
    trial = replace(trial, notes=(*trial.notes, *notes))
    if trial.figures is None:
        return trial
    return replace(
        trial,
        figures={**trial.figures, **{metric.name: value for metric, value in extra}},
        extra=(*trial.extra, *(metric for metric, _ in extra)),
    )


def slowdown(metric: Metric, alone: float, among: float) -> float | None:
    """None where the figures do not say: one of them is nothing, or neither way is better."""
    if alone <= 0 or among <= 0 or metric.better == "neither":
        return None
    return alone / among if metric.better == "higher" else among / alone


def jain(shares: Sequence[float]) -> float:
    return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))


def _common(slowdowns: Sequence[float]) -> list[tuple[Metric, float]]:
    return [
        (_FAIRNESS, jain([1 / each for each in slowdowns])),
        (_MEAN, math.exp(sum(map(math.log, slowdowns)) / len(slowdowns))),
        (_WORST, max(slowdowns)),
    ]
