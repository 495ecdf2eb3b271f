"""Which stacks fail too often to be chosen: one rule, the same for rounds, race, adaptive and a front.

A visit fails when it gives no figure under one of the workloads that weigh anything, or more, whatever the cause: the
build failed, a program failed, or a check rejected the figure. The figures of a stack's other visits say nothing of how
often it works, so a stack whose reliability is in doubt is not the best, whatever they are; race and adaptive do not
visit it again. They look after every batch and rounds once, so the rule holds however often it is looked at: a stack
that fails in at most `TOLERATED` of its visits is ever set aside with a chance of at most `ERROR`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from strata.analysis.cells import usable
from strata.analysis.objective import counted
from strata.model import Outcome, TrialResult, View, WorkloadView
from strata.text import some_of

TOLERATED = 0.05  # share of a stack's visits that may fail
ERROR = 0.05


def in_doubt(view: View, rounds: range | None = None, weights: Sequence[float] | None = None) -> dict[str, str]:
    """Stacks whose reliability is in doubt: failed visits, of how many, and the first cause.

    `rounds`: count visits of these alone; None: of all. `weights`: of the workloads; None: as the run's objective says.
    """
    made = _visits(view, rounds)
    return {
        stack: f"{_share(failed, made[stack])}, first cause: {next(iter(failed.values())).rstrip('.')}"
        for stack, failed in failures(view, rounds, weights).items()
        if fails_too_often(len(failed), len(made[stack]))
    }


@lru_cache(maxsize=4096)
def fails_too_often(failed: int, visits: int) -> bool:
    """Whether so many failed visits show that more than `TOLERATED` of them fail, however often one looks.

    The likelihood of all larger shares, each as likely as the next, is held against that of the tolerated one. By
    Ville's inequality their ratio passes 1 / `ERROR` at any time with a chance of at most `ERROR` where the share is
    the tolerated one or less (Robbins, "Statistical methods related to the law of the iterated logarithm", Annals of
    Mathematical Statistics 41:5, 1970, section 3). The integral of p^f (1 - p)^(n - f) from there to 1 is a sum: of the
    chances of f failures or fewer in n + 1 visits.
    """
    above = math.fsum(_chance_of(count, visits + 1) for count in range(failed + 1)) / ((visits + 1) * (1 - TOLERATED))
    return above * ERROR >= _chance_of(failed, visits)


def _chance_of(failed: int, visits: int) -> float:
    """That so many of the visits fail, where the tolerated share does."""
    ways = math.lgamma(visits + 1) - math.lgamma(failed + 1) - math.lgamma(visits - failed + 1)
    return math.exp(ways + failed * math.log(TOLERATED) + (visits - failed) * math.log1p(-TOLERATED))


def failures(
    view: View, rounds: range | None = None, weights: Sequence[float] | None = None
) -> dict[str, dict[int, str]]:
    """Stack -> its visits without a figure under every workload -> the first cause."""
    found: dict[str, dict[int, str]] = {}
    complete = complete_visits(view, weights)  # also where the stack could not be removed afterwards
    for visit in view.failed:
        if visit.visit not in complete and (rounds is None or visit.round in rounds):
            found.setdefault(visit.stack, {})[visit.visit] = visit.reason
    trials = sorted(view.trials, key=lambda trial: trial.order)
    of_visit: dict[tuple[str, int], list[TrialResult]] = {}
    for trial in trials:
        if trial.visit not in complete and (rounds is None or trial.round in rounds):
            of_visit.setdefault((trial.stack, trial.visit), []).append(trial)
    for (stack, visit_), made in of_visit.items():
        found.setdefault(stack, {}).setdefault(visit_, _cause(counted(view, weights), made))
    return found


def in_vain(view: View, weights: Sequence[float] | None = None) -> dict[str, str]:
    """Stacks that were visited and have no visit with a figure under every workload: how, and the first cause."""
    made = _visits(view, None)
    found = {}
    for stack, failed in failures(view, None, weights).items():
        if len(failed) == len(made[stack]):
            which = "its only visit" if len(failed) == 1 else f"all {len(failed)} visits"
            found[stack] = f"failed in {which}: {next(iter(failed.values())).rstrip('.')}"
    return found


def complete_visits(view: View, weights: Sequence[float] | None = None) -> set[int]:
    """Visits with a figure under every workload that weighs anything."""
    primary = {load.text: load.primary.name for load in counted(view, weights)}
    have: dict[int, set[str]] = {}
    for trial in usable(view):
        if math.isfinite(trial.metrics.get(primary.get(trial.workload, ""), math.nan)):
            have.setdefault(trial.visit, set()).add(trial.workload)
    return {visit for visit, texts in have.items() if len(texts) == len(primary)}


def failure_sentences(view: View, doubtful: Mapping[str, str], weights: Sequence[float] | None = None) -> list[str]:
    """For the verdict. `doubtful`: of `in_doubt`."""
    said = []
    if doubtful:
        causes = [f"{stack} ({why})" for stack, why in sorted(doubtful.items())]
        one = len(causes) == 1
        said.append(
            f"Not to be chosen, because {'its' if one else 'their'} reliability is in doubt: {some_of(causes)}. "
            "Find the cause first."
        )
    vain = [f"{stack} {how}" for stack, how in sorted(in_vain(view, weights).items()) if stack not in doubtful]
    if vain:
        said.append(f"Not compared: {some_of(vain)}.")
    made = _visits(view, None)
    rest = [
        f"{stack} ({_share(failed, made[stack])})"
        for stack, failed in sorted(failures(view, None, weights).items())
        if stack not in doubtful and len(failed) < len(made[stack])
    ]
    if rest:
        said.append(f"Compared by the visits with a figure under every workload: {some_of(rest)}.")
    return said


def _share(failed: Mapping[int, str], made: set[int]) -> str:
    return f"{len(failed)} of {len(made)} visits failed"


def _visits(view: View, rounds: range | None) -> dict[str, set[int]]:
    every = [(each.stack, each.visit, each.round) for each in view.trials]
    every += [(each.stack, each.visit, each.round) for each in view.failed]
    made: dict[str, set[int]] = {}
    for stack, visit, number in every:
        if rounds is None or number in rounds:
            made.setdefault(stack, set()).add(visit)
    return made


def _cause(loads: Sequence[WorkloadView], made: Sequence[TrialResult]) -> str:
    """Of a visit that lacks a figure: what its first trial that failed says, else which workload has none."""
    primary = {load.text: load.primary.name for load in loads}
    told = [trial.reason for trial in made if trial.reason and trial.workload in primary]
    if told:
        return told[0]
    have = {
        trial.workload
        for trial in made
        if trial.outcome is Outcome.OK and math.isfinite(trial.metrics.get(primary.get(trial.workload, ""), math.nan))
    }
    return f"no figure under {some_of([text for text in primary if text not in have])}"
