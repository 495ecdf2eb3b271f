"""Two runs of the same stacks: what became of each figure, and what changed its place. Pure.

The runs are independent: another machine, kernel or year. So a figure of one against the other is a difference of two
means of logarithms with Welch's interval (Welch 1947, degrees of freedom after Satterthwaite), and a stack against
another is compared within each run, as that run's verdict does, and only then from run to run.

A published study has one figure for each stack and no machine of ours: only its ratios between two of its own stacks
are used, each held against the same ratio here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from strata.analysis import compare
from strata.analysis.cells import figures, unlog, usable
from strata.analysis.estimate import Estimate
from strata.analysis.student import t_quantile
from strata.errors import BadInput
from strata.model import Metric, View, WorkloadView

WELCH = "ratio of geometric means over visits of two independent runs, Welch interval on the log scale"

Change = Literal["turned", "no longer shown", "newly shown"]
Agreement = Literal["same", "turned", "not shown here", "as good here"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One stack under one workload in both runs."""

    stack: str
    first: float  # geometric mean, in the metric's unit
    second: float
    ratio: Estimate  # how many times as good it is in the second run, whichever way the metric goes


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


@dataclass(frozen=True, slots=True)
class Comparison:
    stacks: tuple[str, ...]  # common to both
    tables: tuple[Table, ...]
    places: tuple[Places, ...]
    turns: tuple[Turn, ...]
    notes: tuple[str, ...]  # what could not be compared, as sentences


@dataclass(frozen=True, slots=True)
class Printed:
    """A published figure, and the stack of today that it is of."""

    stack: str
    workload: str  # name
    metric: str
    goodness: float  # logarithm; larger is better


@dataclass(frozen=True, slots=True)
class Held:
    """A published ratio held against the same here: how many times as good `stack` is as `other`."""

    workload: str
    metric: str
    stack: str
    other: str
    published: float
    here: Estimate
    agreement: Agreement


@dataclass(frozen=True, slots=True)
class Claimed:
    """A published finding without figures, and what it means among the stacks of a run."""

    workload: str  # name
    better: str  # as the study calls them
    worse: str
    better_like: str  # patterns of texts of stacks
    worse_like: str
    ratio: str  # as printed


@dataclass(frozen=True, slots=True)
class Retried:
    """A finding tried again on one pair of stacks."""

    claimed: Claimed
    workload: str
    stack: str  # which the study would have better
    other: str
    here: Estimate
    agreement: Agreement


def runs(first: View, second: View) -> Comparison:
    """Raises BadInput when they have no stack, or no workload, in common that both have figures of."""
    workloads = [(mine, theirs) for mine in first.workloads for theirs in second.workloads if mine.text == theirs.text]
    if not workloads:
        raise BadInput(
            "these runs have no workload in common: "
            + "; ".join(
                f"{view.campaign} has {_listed([each.text for each in view.workloads])}" for view in (first, second)
            )
            + "; run one of them again with a workload of the other."
        )
    have = [{trial.stack for trial in usable(view)} for view in (first, second)]
    common = [stack for stack in first.stacks if stack in have[0] and stack in have[1]]
    if not common:
        raise BadInput(
            "these runs have no stack in common that both have figures of: "
            + "; ".join(
                f"{view.campaign} has {_listed([stack for stack in view.stacks if stack in there])}"
                for view, there in zip((first, second), have, strict=True)
            )
            + "; run one of them again with a stack of the other."
        )
    tables, places, turns = [], [], []
    for mine, theirs in workloads:
        made = _tables(first, second, mine, common)
        tables += made
        places += [_places(table) for table in made if table.decides]
        turns += _turns(first, second, mine, theirs, common)
    return Comparison(tuple(common), tuple(tables), tuple(places), tuple(turns), tuple(_notes(first, second, common)))


def held(view: View, printed: Sequence[Printed]) -> tuple[Held, ...]:
    """Each published ratio to the first common stack of its workload, and the same ratio here.

    Raises BadInput when no workload has two stacks in common: one alone gives no ratio.
    """
    found = []
    for workload in view.workloads:
        trials = [trial for trial in usable(view) if trial.workload == workload.text]
        for name in dict.fromkeys(each.metric for each in printed if _alike(each.workload, workload.name)):
            metric = workload.metrics.get(name)
            theirs = {each.stack: each.goodness for each in printed
                      if each.metric == name and _alike(each.workload, workload.name)}  # fmt: skip
            levels = {} if metric is None else _levels(figures(trials, name).visits, metric)
            common = [stack for stack in view.stacks if stack in theirs and stack in levels]
            for stack in common[1:]:
                other = common[0]
                here = _ratio(levels[stack], levels[other], view.rule.confidence)
                published = unlog(theirs[stack] - theirs[other])
                found.append(
                    Held(workload.text, name, stack, other, published, here, _agreement(published, here, view))
                )
    if not found:
        stacks = list(dict.fromkeys(each.stack for each in printed))
        raise BadInput(
            "a published figure is used only as a ratio to a stack that both have, so two are needed under a workload; "
            f"this run has {_listed(list(view.stacks))}, and the study has:\n  " + "\n  ".join(stacks)
            + "\nRun two of these with one of " + ", ".join(dict.fromkeys(each.workload for each in printed)) + "."
        )  # fmt: skip
    return tuple(found)


def retried(view: View, claims: Sequence[Claimed]) -> tuple[Retried, ...]:
    """Every finding on every pair of stacks that it is about, by the metric that decides.

    A stack that both kinds match is of the narrower one. Raises BadInput when no finding is about two stacks here.
    """
    found = []
    for claimed in claims:
        for workload in (each for each in view.workloads if _alike(claimed.workload, each.name)):
            trials = [trial for trial in usable(view) if trial.workload == workload.text]
            levels = _levels(figures(trials, workload.primary.name).visits, workload.primary)
            kinds = [
                {stack for stack in levels if re.search(like, stack)}
                for like in (claimed.better_like, claimed.worse_like)
            ]
            better, worse = _apart(*kinds)
            for stack in (each for each in view.stacks if each in better):
                for other in (each for each in view.stacks if each in worse):
                    here = _ratio(levels[stack], levels[other], view.rule.confidence)
                    found.append(Retried(claimed, workload.text, stack, other, here, _agreement(2.0, here, view)))
    if not found:
        about = [f"{claimed.better} before {claimed.worse} under {claimed.workload}" for claimed in claims]
        raise BadInput(
            "this run has no two stacks that a finding of the study is about; they are:\n  " + "\n  ".join(about)
            + "\nRun the study's campaign."
        )  # fmt: skip
    return tuple(found)


def _apart(better: set[str], worse: set[str]) -> tuple[set[str], set[str]]:
    """Without what is in both, which is of the narrower kind where one holds the other, else of neither."""
    both = better & worse
    return (better if better < worse else better - both), (worse if worse < better else worse - both)


# ---------------------------------------------------------------- two runs


@dataclass(frozen=True, slots=True)
class _Level:
    """Mean of logarithms over visits, larger is better; `variance` of the mean, None for one visit."""

    mean: float
    variance: float | None
    visits: int


def _levels(visits: Mapping[str, Mapping[int, float]], metric: Metric) -> dict[str, _Level]:
    """Of stacks all of whose figures are positive: others have no ratio."""
    sign = -1.0 if metric.better == "lower" else 1.0
    found = {}
    for stack, values in visits.items():
        if values and all(value > 0 for value in values.values()):
            logs = sign * np.log(list(values.values()))
            spread = float(np.var(logs, ddof=1)) / logs.size if logs.size > 1 else None
            found[stack] = _Level(float(logs.mean()), spread, int(logs.size))
    return found


def _ratio(one: _Level, other: _Level, confidence: float) -> Estimate:
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


def _tables(first: View, second: View, workload: WorkloadView, common: Sequence[str]) -> list[Table]:
    """Of every metric that goes one way, that which decides first."""
    trials = [[trial for trial in usable(view) if trial.workload == workload.text] for view in (first, second)]
    metrics = {**workload.metrics, **{n: m for n, m in first.machine_metrics.items() if n in second.machine_metrics}}
    order = [workload.primary.name, *(name for name in metrics if name != workload.primary.name)]
    tables = []
    for name in order:
        metric = metrics[name]
        if metric.better == "neither":
            continue
        mine, theirs = (_levels(figures(each, name).visits, metric) for each in trials)
        sign = -1.0 if metric.better == "lower" else 1.0
        cells = [
            Cell(
                stack,
                unlog(sign * mine[stack].mean),
                unlog(sign * theirs[stack].mean),
                _ratio(theirs[stack], mine[stack], first.rule.confidence),
            )
            for stack in common
            if stack in mine and stack in theirs
        ]
        if cells:
            tables.append(Table(workload.text, metric, name == workload.primary.name, tuple(cells)))
    return tables


def _places(table: Table) -> Places:
    sign = 1.0 if table.metric.better == "lower" else -1.0
    orders = [
        sorted(table.cells, key=lambda cell: sign * cell.first),
        sorted(table.cells, key=lambda cell: sign * cell.second),
    ]
    place = [{cell.stack: number for number, cell in enumerate(order, start=1)} for order in orders]
    return Places(table.workload, tuple((cell.stack, place[0][cell.stack], place[1][cell.stack]) for cell in orders[0]))


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
            notes.append(f"Only in {view.campaign}, or without figures in the other: {_listed(alone)}.")
    names = {each.name: each.text for each in second.workloads}
    for workload in first.workloads:
        other = names.get(workload.name)
        if other is not None and workload.text not in {each.text for each in second.workloads}:
            notes.append(f"{workload.text} and {other} have other arguments, so they are not compared.")
    return notes


# ---------------------------------------------------------------- a study


def _alike(name: str, workload: str) -> bool:
    """A family that takes a path ends in a colon."""
    return workload == name or (name.endswith(":") and workload.startswith(name))


def _agreement(published: float, here: Estimate, view: View) -> Agreement:
    if here.low is None or here.high is None:
        return "not shown here"
    margin = 1 / (1 - view.rule.within)
    if 1 / margin <= here.low and here.high <= margin:
        return "as good here"
    if here.low <= 1.0 <= here.high:
        return "not shown here"
    return "same" if (here.point > 1) == (published > 1) else "turned"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "none"
