"""A run held against a published study. Pure.

A study has one figure for each stack and no machine of ours: only its ratios between two of its own stacks are used,
each held against the same ratio here. Where it printed only charts, its findings are tried on pairs of stacks.

A published ratio within the margin is a tie and has no direction. The statements of one comparison hold together: each
interval is at the error of the rule divided by their number (Bonferroni).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from strata.analysis.between import Level, levels_of, ratio_of
from strata.analysis.cells import figures, unlog, usable
from strata.analysis.estimate import Estimate
from strata.errors import BadInput
from strata.model import View
from strata.text import listed

Agreement = Literal["same", "turned", "not shown here", "as good here", "no direction there"]


@dataclass(frozen=True, slots=True)
class Printed:
    """A published figure, and the current stack that it belongs to."""

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
class StudyClaim:
    """A published finding without figures, and what it means among the stacks of a run."""

    workload: str  # name
    metric: str | None  # None: the one that decides
    better: str  # as the study calls them
    worse: str
    better_like: str  # patterns of texts of stacks
    worse_like: str
    ratio: str  # as printed


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """A finding tried again on one pair of stacks."""

    claimed: StudyClaim
    workload: str
    stack: str  # which the study would have better
    other: str
    here: Estimate
    agreement: Agreement


def held(view: View, printed: Sequence[Printed], resolution: float = 0.0) -> tuple[Held, ...]:
    """Each published ratio to the first common stack of its workload, and the same ratio here.

    `resolution`: published figures no further apart than this fraction are a tie, as those within the margin are.

    Raises BadInput when no workload has two stacks in common: one alone gives no ratio.
    """
    pairs = list[tuple[str, str, str, str, float, Level, Level]]()
    for workload in view.workloads:
        trials = [trial for trial in usable(view) if trial.workload == workload.text]
        for name in dict.fromkeys(each.metric for each in printed if _alike(each.workload, workload.name)):
            metric = workload.metrics.get(name)
            theirs = {each.stack: each.goodness for each in printed
                      if each.metric == name and _alike(each.workload, workload.name)}  # fmt: skip
            levels = {} if metric is None else levels_of(figures(trials, name).visits, metric)
            common = [stack for stack in view.stacks if stack in theirs and stack in levels]
            for stack in common[1:]:
                other = common[0]
                published = unlog(theirs[stack] - theirs[other])
                pairs.append((workload.text, name, stack, other, published, levels[stack], levels[other]))
    if not pairs:
        stacks = list(dict.fromkeys(each.stack for each in printed))
        raise BadInput(
            "a published figure is used only as a ratio to a stack that both have, so two are needed under a workload; "
            f"this run has {listed(list(view.stacks))}, and the study has:\n  " + "\n  ".join(stacks)
            + "\nRun two of these with one of " + ", ".join(dict.fromkeys(each.workload for each in printed)) + "."
        )  # fmt: skip
    confidence, tie = _together(view, len(pairs)), max(resolution, view.rule.within)
    found = []
    for text, name, stack, other, published, one, another in pairs:
        here = ratio_of(one, another, confidence)
        agreement = _agreement(_direction(published, tie), here, view)
        found.append(Held(text, name, stack, other, published, here, agreement))
    return tuple(found)


def claim_results(view: View, claims: Sequence[StudyClaim]) -> tuple[ClaimResult, ...]:
    """Every finding on every pair of stacks that it is about, by its metric or the one that decides.

    A stack that both kinds match is of the narrower one. Raises BadInput when no finding is about two stacks here.
    """
    pairs = list[tuple[StudyClaim, str, str, str, Level, Level]]()
    for claimed in claims:
        for workload in (each for each in view.workloads if _alike(claimed.workload, each.name)):
            trials = [trial for trial in usable(view) if trial.workload == workload.text]
            metric = workload.primary if claimed.metric is None else workload.metrics.get(claimed.metric)
            if metric is None:
                continue
            levels = levels_of(figures(trials, metric.name).visits, metric)
            kinds = [
                {stack for stack in levels if re.search(like, stack)}
                for like in (claimed.better_like, claimed.worse_like)
            ]
            better, worse = apart(*kinds)
            for stack in (each for each in view.stacks if each in better):
                for other in (each for each in view.stacks if each in worse):
                    pairs.append((claimed, workload.text, stack, other, levels[stack], levels[other]))
    if not pairs:
        about = [f"{each.better} before {each.worse} under {under(each)}" for each in claims]
        raise BadInput(
            "this run has no two stacks that a finding of the study is about; they are:\n  " + "\n  ".join(about)
            + "\nRun the study's campaign."
        )  # fmt: skip
    confidence = _together(view, len(pairs))
    found = []
    for claimed, text, stack, other, one, another in pairs:
        here = ratio_of(one, another, confidence)
        found.append(ClaimResult(claimed, text, stack, other, here, _agreement(1, here, view)))
    return tuple(found)


def under(claimed: StudyClaim) -> str:
    """The workload, and the figure of it where that does not decide."""
    return claimed.workload if claimed.metric is None else f"{claimed.workload}, {claimed.metric}"


def apart(better: set[str], worse: set[str]) -> tuple[set[str], set[str]]:
    """Two kinds without what is in both: that is of the narrower one where one holds the other, else of neither."""
    both = better & worse
    return (better if better < worse else better - both), (worse if worse < better else worse - both)


def _alike(name: str, workload: str) -> bool:
    """A family that takes a path ends in a colon."""
    return workload == name or (name.endswith(":") and workload.startswith(name))


def _together(view: View, pairs: int) -> float:
    """Confidence of each interval, so that all `pairs` of them hold together (Bonferroni)."""
    return 1 - (1 - view.rule.confidence) / pairs


def _direction(published: float, tie: float) -> int:
    """1: better, -1: worse, 0: no further apart than the fraction `tie`."""
    if min(published, 1 / published) >= 1 - tie:
        return 0
    return 1 if published > 1 else -1


def _agreement(direction: int, here: Estimate, view: View) -> Agreement:
    if here.low is None or here.high is None:
        return "not shown here"
    margin = 1 / (1 - view.rule.within)
    if 1 / margin <= here.low and here.high <= margin:
        return "as good here" if direction else "same"
    if here.low <= 1.0 <= here.high:
        return "not shown here"
    if not direction:
        return "no direction there"
    return "same" if (here.point > 1) == (direction > 0) else "turned"
