"""What the layers of a stack say of themselves after a trial, added to its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from strata.model import Metered
from strata.planning.layout import Layout, PlacedLayer
from strata.run.trials.trial import Trial
from strata.run.visits.guests import Machines

_ADDED_UP = frozenset({"bytes", "count", "s"})

Told = tuple[PlacedLayer, Mapping[str, float]]


def told(machines: Machines, plan: Layout) -> list[Told]:
    """What the layers say of themselves: bytes before and after compression, hits of a cache."""
    metered = [
        (placed, cast("Metered", placed.driver), (placed.node.call, placed.below, placed.place))
        for placed in plan.layers
        if placed.driver.info.metrics
    ]
    answers = machines.ask_all([(placed, driver.plan_figures(*asked)) for placed, driver, asked in metered])
    return [
        (placed, driver.figures(*asked, seen)) for (placed, driver, asked), seen in zip(metered, answers, strict=True)
    ]


def added(known: frozenset[str], told: Sequence[Told], plan: Layout, tenant: int | None, result: Trial) -> Trial:
    """`result`, whose load names this tenant, with what that one's layers and those of all told. Of several of one kind
    bytes and counts are added up, and of shares the mean is taken; times of tenants, which pass at once, are no sum
    either."""
    if result.figures is None:
        return result
    found: dict[str, list[float]] = {}
    units: dict[str, str] = {}
    for placed, figures in told:
        if tenant is not None and placed.tenant not in (None, tenant):
            continue
        units |= {metric.name: metric.unit for metric in placed.driver.info.metrics}
        for name, value in figures.items():
            found.setdefault(name, []).append(value)
    at_once = frozenset({"s"}) if plan.shares else frozenset()
    of_layers = {
        name: sum(values) if units[name] in _ADDED_UP - at_once else sum(values) / len(values)
        for name, values in found.items()
        if name in known
    }
    return replace(result, figures={**result.figures, **of_layers})
