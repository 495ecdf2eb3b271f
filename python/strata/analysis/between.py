"""Two runs of the same stacks: what became of each figure, and what changed its place. Pure.

The runs are independent: another machine, kernel or year. So a figure of one against the other is a difference of two
means of logarithms with Welch's interval (Welch 1947, degrees of freedom after Satterthwaite), and a stack against
another is compared within each run, as that run's verdict does, and only then from run to run.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from strata.analysis import compare
from strata.analysis.cells import figures, unlog, usable
from strata.analysis.estimate import Estimate
from strata.analysis.student import t_quantile
from strata.errors import BadInput
from strata.model import Metric, View, WorkloadView
from strata.text import listed

WELCH = "ratio of geometric means over visits of two independent runs, Welch interval on the log scale"

Change = Literal["turned", "no longer shown", "newly shown"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One stack under one workload in both runs."""

    stack: str
    first: float  # geometric mean, in the metric's unit
    second: float
    ratio: Estimate  # how many times as good it is in the second run, whichever way the metric goes
    change: compare.Decision = "undecided"  # of the second run against the first


@dataclass(frozen=True, slots=True)
class Table:
    workload: str
    metric: Metric
    decides: bool
    cells: tuple[Cell, ...]  # in the order of the first run


@dataclass(frozen=True, slots=True)
class Turn:
    """A pair of stacks whose order is not what it was."""

    workload: str
    stack: str
    other: str
    first: Estimate  # how many times as good `stack` is as `other` in the first run
    second: Estimate
    change: Change


@dataclass(frozen=True, slots=True)
class Places:
    """Where the common stacks stand under one workload, by the metric that decides."""

    workload: str
    rows: tuple[tuple[str, int, int], ...]  # stack, place in the first run and in the second, from 1
    shown: tuple[str, ...] = ()  # stacks whose place changed by more than the noise of the visits


@dataclass(frozen=True, slots=True)
class Comparison:
    stacks: tuple[str, ...]  # common to both
    tables: tuple[Table, ...]
    places: tuple[Places, ...]
    turns: tuple[Turn, ...]
    notes: tuple[str, ...]  # what could not be compared, as sentences
    within: float = 0.03  # a fraction: figures closer than this count as unchanged
    confidence: float = 0.95  # of each interval by itself


def runs(first: View, second: View) -> Comparison:
    """Raises BadInput when they have no stack, or no workload, in common that both have figures of."""
    workloads = [(mine, theirs) for mine in first.workloads for theirs in second.workloads if mine.text == theirs.text]
    if not workloads:
        raise BadInput(
            "these runs have no workload in common: "
            + "; ".join(
                f"{view.campaign} has {listed([each.text for each in view.workloads])}" for view in (first, second)
            )
            + "; run one of them again with a workload of the other."
        )
    have = [{trial.stack for trial in usable(view)} for view in (first, second)]
    common = [stack for stack in first.stacks if stack in have[0] and stack in have[1]]
    if not common:
        raise BadInput(
            "these runs have no stack in common that both have figures of: "
            + "; ".join(
                f"{view.campaign} has {listed(stack for stack in view.stacks if stack in there) or 'none'}"
                for view, there in zip((first, second), have, strict=True)
            )
            + "; run one of them again with a stack of the other."
        )
    tables, places, turns, notes = [], [], [], _notes(first, second, common)
    for mine, theirs in workloads:
        made, without = _tables(first, second, mine, common)
        tables += made
        notes += without
        places += [_places(table) for table in made if table.decides]
        turns += _turns(first, second, mine, theirs, common)
    rule = first.rule
    return Comparison(
        tuple(common), tuple(tables), tuple(places), tuple(turns), tuple(notes), rule.within, rule.confidence
    )


@dataclass(frozen=True, slots=True)
class Level:
    """Mean of logarithms over visits, larger is better; `variance` of the mean, None for one visit."""

    mean: float
    variance: float | None
    visits: int


def levels_of(visits: Mapping[str, Mapping[int, float]], metric: Metric) -> dict[str, Level]:
    """Of stacks all of whose figures are positive: others have no ratio."""
    sign = -1.0 if metric.better == "lower" else 1.0
    found = {}
    for stack, values in visits.items():
        if values and all(value > 0 for value in values.values()):
            logs = sign * np.log(list(values.values()))
            spread = float(np.var(logs, ddof=1)) / logs.size if logs.size > 1 else None
            found[stack] = Level(float(logs.mean()), spread, int(logs.size))
    return found


def ratio_of(one: Level, other: Level, confidence: float) -> Estimate:
    """How many times as good `one` is; Welch."""
    point, n = one.mean - other.mean, min(one.visits, other.visits)
    if one.variance is None or other.variance is None:
        return Estimate(unlog(point), None, None, n, WELCH)
    total = one.variance + other.variance
    if total == 0.0:  # exact instruments
        return Estimate(unlog(point), unlog(point), unlog(point), n, WELCH)
    df = total**2 / (one.variance**2 / (one.visits - 1) + other.variance**2 / (other.visits - 1))
    half = t_quantile((1 + confidence) / 2, df) * math.sqrt(total)
    return Estimate(unlog(point), unlog(point - half), unlog(point + half), n, WELCH)


def decide(ratio: Estimate, within: float) -> compare.Decision:
    """Return what is shown of a figure against its earlier self; see `compare.decide`."""
    if ratio.low is None or ratio.high is None:
        return "undecided"
    half = (math.log(ratio.high) - math.log(ratio.low)) / 2
    return compare.decide(compare.Difference(math.log(ratio.point), half, ratio.n, math.nan, math.inf), within)


def _tables(first: View, second: View, workload: WorkloadView, common: Sequence[str]) -> tuple[list[Table], list[str]]:
    """Of every metric that goes one way, that which decides first. And notes: who has no ratio there."""
    trials = [[trial for trial in usable(view) if trial.workload == workload.text] for view in (first, second)]
    metrics = {**workload.metrics, **{n: m for n, m in first.machine_metrics.items() if n in second.machine_metrics}}
    order = [workload.primary.name, *(name for name in metrics if name != workload.primary.name)]
    tables = []
    unlogged: dict[tuple[str, ...], list[str]] = {}  # stacks -> metrics
    for name in order:
        metric = metrics[name]
        if metric.better == "neither":
            continue
        visits = [figures(each, name).visits for each in trials]
        mine, theirs = (levels_of(each, metric) for each in visits)
        dropped = [
            stack
            for stack in common
            if all(each.get(stack) for each in visits) and not (stack in mine and stack in theirs)
        ]
        if dropped:
            unlogged.setdefault(tuple(dropped), []).append(name)
        sign = -1.0 if metric.better == "lower" else 1.0
        cells = [
            Cell(
                stack,
                unlog(sign * mine[stack].mean),
                unlog(sign * theirs[stack].mean),
                ratio,
                decide(ratio, first.rule.within),
            )
            for stack in common
            if stack in mine and stack in theirs
            for ratio in (ratio_of(theirs[stack], mine[stack], first.rule.confidence),)
        ]
        if cells:
            tables.append(Table(workload.text, metric, name == workload.primary.name, tuple(cells)))
    notes = [
        f"{workload.text}: no ratio of {listed(names)} for {listed(stacks)}, because a figure is 0 or less."
        for stacks, names in unlogged.items()
    ]
    return tables, notes


def _places(table: Table) -> Places:
    sign = 1.0 if table.metric.better == "lower" else -1.0
    orders = [
        sorted(table.cells, key=lambda cell: sign * cell.first),
        sorted(table.cells, key=lambda cell: sign * cell.second),
    ]
    place = [{cell.stack: number for number, cell in enumerate(order, start=1)} for order in orders]
    rows = tuple((cell.stack, place[0][cell.stack], place[1][cell.stack]) for cell in orders[0])
    changed = {cell.stack for cell in table.cells if cell.change in ("better", "worse")}
    return Places(table.workload, rows, tuple(row[0] for row in rows if _passed(row, rows, changed)))


def _passed(row: tuple[str, int, int], rows: Sequence[tuple[str, int, int]], changed: Collection[str]) -> bool:
    """Whether the stack of `row` exchanged its order with another one, and a figure of the two changed."""
    stack, was, now = row
    return any(
        (was - earlier) * (now - later) < 0 and (stack in changed or other in changed) for other, earlier, later in rows
    )


def _turns(first: View, second: View, mine: WorkloadView, theirs: WorkloadView, common: Sequence[str]) -> list[Turn]:
    """Pairs that one run decides and the other does not decide in the same way."""
    known = set(common)
    earlier = {(pair.stack, pair.other): pair for pair in compare.pairwise(first, mine)}
    later = {(pair.stack, pair.other): pair for pair in compare.pairwise(second, theirs)}
    found = []
    for (stack, other), was in earlier.items():
        now = later.get((stack, other)) or _swapped(later.get((other, stack)))
        if not {stack, other} <= known or now is None or was.ratio is None or now.ratio is None:
            continue
        change = _change(was.decision, now.decision)
        if change is not None:
            found.append(Turn(mine.text, stack, other, was.ratio, now.ratio, change))
    return found


_TURNED: Mapping[compare.Decision, compare.Decision] = {"better": "worse", "worse": "better"}


def _swapped(pair: compare.Pair | None) -> compare.Pair | None:
    if pair is None or pair.ratio is None:
        return None
    ratio = pair.ratio
    low, high = (None if edge is None else 1 / edge for edge in (ratio.high, ratio.low))
    turned = Estimate(1 / ratio.point, low, high, ratio.n, ratio.method)
    return compare.Pair(pair.other, pair.stack, turned, _TURNED.get(pair.decision, pair.decision))


def _change(was: compare.Decision, now: compare.Decision) -> Change | None:
    shown = ("better", "worse")
    if was in shown and now in shown:
        return "turned" if was != now else None
    if was in shown:
        return "no longer shown"
    return "newly shown" if now in shown else None


def _notes(first: View, second: View, common: Sequence[str]) -> list[str]:
    notes = []
    for view in (first, second):
        alone = [stack for stack in view.stacks if stack not in common]
        if alone:
            notes.append(f"Only in {view.campaign}, or without figures in the other: {listed(alone)}.")
    names = {each.name: each.text for each in second.workloads}
    for workload in first.workloads:
        other = names.get(workload.name)
        if other is not None and workload.text not in {each.text for each in second.workloads}:
            notes.append(f"{workload.text} and {other} have other arguments, so they are not compared.")
    return notes
