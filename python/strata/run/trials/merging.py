"""One trial out of those of all tenants under the same load. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from strata.model import Merge, Metric
from strata.planning import machine_metrics
from strata.run.trials import records
from strata.run.trials.together import Together
from strata.run.trials.trial import Trial

WORST = "worst_tenant."
"""Stands before the name of a figure that is that of one tenant: the one for which it is worst."""

_RULES: Mapping[Merge, Callable[[Sequence[float]], float]] = {
    "sum": sum,
    "mean": fmean,
    "largest": max,
    "smallest": min,
}


def merged(together: Together, tenants: Sequence[int], metrics: Sequence[Metric]) -> Trial:
    """Every figure of all tenants by the rule that its metric declares, and every tenant's own beside it. A figure that
    one tenant lacks is known of no sum. `metrics`: those of the load, the one that decides first, which keeps its name
    under every rule; a note says when it is that of the worst tenant."""
    trials = list(zip(tenants, together.trials, strict=True))
    first = replace(
        together.trials[0],
        commands=tuple(argv for _, each in trials for argv in each.commands),
        raw=(*(part for _, each in trials for part in each.raw), *together.raw),
        evidence=tuple(seen for _, each in trials for seen in each.evidence),
        flags=tuple(dict.fromkeys(flag for _, each in trials for flag in each.flags)),
        notes=tuple(f"tenant {tenant}: {note}" for tenant, each in trials for note in each.notes),
    )
    if first.figures is None:
        return first
    primary = metrics[0]
    known = {metric.name: metric for metric in (*metrics, *(more for _, each in trials for more in each.extra))}
    apart = {metric.name: metric for metric in machine_metrics.GUEST_METRICS} | known
    figures: dict[str, float] = {}
    extra = list(first.extra)
    notes = first.notes
    rules: dict[str, tuple[str, ...]] = {}
    series: dict[str, Sequence[tuple[float, float]]] = {}
    for name in dict.fromkeys(name for _, each in trials for name in each.figures or {}):
        values = [(tenant, each.figures[name]) for tenant, each in trials if each.figures and name in each.figures]
        if name in apart:
            extra += [replace(apart[name], name=f"tenant{tenant}.{name}") for tenant, _ in values]
            figures |= {f"tenant{tenant}.{name}": value for tenant, value in values}
        if len(values) < len(trials):
            continue
        numbers = [value for _, value in values]
        rule = known[name].merge if name in known else machine_metrics.merge_of(name)
        worst = _worst(known.get(name), numbers)
        better = known[name].better if name in known else "neither"
        rules[name] = (rule, better, "decides") if name == primary.name else (rule, better)
        if rule in _RULES:
            figures[name] = _RULES[rule](numbers)
        elif name == primary.name and worst is not None:
            figures[name] = worst
            notes = (*notes, f"{name} is that of the tenant for which it is worst: of all there is none")
        elif rule == "worst" and worst is not None:
            about = f"of the tenant for which it is worst: {known[name].about}"
            extra.append(replace(known[name], name=f"{WORST}{name}", about=about))
            figures[f"{WORST}{name}"] = worst
    for tenant, each in trials:
        series |= {f"tenant{tenant}.{name}": points for name, points in (each.series or {}).items() if name in known}
    return replace(
        first,
        notes=notes,
        figures={**figures, **together.figures},
        extra=tuple(extra),
        series={**series, **together.series},
        raw=records.with_rules(first.raw, rules),
    )


def _worst(metric: Metric | None, numbers: Sequence[float]) -> float | None:
    """None where neither more nor less is better."""
    if metric is None or metric.better == "neither":
        return None
    return max(numbers) if metric.better == "lower" else min(numbers)
