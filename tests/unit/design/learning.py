"""Campaigns of made-up stacks through the rules that learn, view by view, as the run loop does it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from strata.design import NextBatch
from strata.model import FailedVisit, Metric, Outcome, Rule, TrialResult, View, WorkloadView

SPEED = Metric("speed", "MiB/s", "higher")
LOAD = WorkloadView("w", "w", SPEED, {"speed": SPEED})


def grid(*levels: int) -> dict[str, dict[str, str]]:
    """Stacks of a factorial campaign, each with its levels; called after them: "0-2-1"."""
    stacks: dict[str, dict[str, str]] = {"": {}}
    for number, count in enumerate(levels):
        stacks = {
            f"{text}-{level}".strip("-"): {**factors, f"factor {number}": str(level)}
            for text, factors in stacks.items()
            for level in range(count)
        }
    return stacks


def empty(factors: Mapping[str, Mapping[str, str]], rule: Rule, seed: int = 1) -> View:
    return View(
        campaign="c",
        about="",
        seed=seed,
        rule=rule,
        stacks=tuple(factors),
        workloads=(LOAD,),
        trials=(),
        steps=(),
        skipped=(),
        failed=(),
        events=(),
        visits_planned=0,
        visits_done=0,
        facts=None,
        versions={},
        commands={},
        disks=(),
        factors=factors,
    )


def visited(view: View, number: int, stack: str, figures: Mapping[str, float], wall_s: float = 60.0) -> View:
    """`figures`: workload -> its primary figure; empty: the visit failed."""
    n = view.visits_done
    if not figures:
        broken = FailedVisit(n, stack, number, "mkfs failed")
        return replace(view, failed=(*view.failed, broken), visits_done=n + 1)
    trials = tuple(
        TrialResult(
            n, stack, number, n, load, Outcome.OK, None, n * 80.0, wall_s, {_primary(view, load): value}, {}, (), ()
        )
        for load, value in figures.items()
    )
    return replace(view, trials=(*view.trials, *trials), visits_done=n + 1)


def ran_in_vain(view: View, number: int, stack: str) -> View:
    """The stack was built, and its program failed."""
    n = view.visits_done
    trials = tuple(
        TrialResult(n, stack, number, n, each.text, Outcome.FAILED, "exit code 3", n * 80.0, None, {}, {}, (), ())
        for each in view.workloads
    )
    return replace(view, trials=(*view.trials, *trials), visits_done=n + 1)


def _primary(view: View, load: str) -> str:
    return next(workload.primary.name for workload in view.workloads if workload.text == load)


def campaign(
    view: View,
    rule: NextBatch,
    measure: Callable[[str, int], float | None],
    most: int = 2000,
    runnable: list[str] | None = None,
) -> tuple[View, str]:
    """Until it stops: the last view, and why. `measure`: logarithm of the figure of a stack's visit; None: it fails."""
    able = list(view.stacks) if runnable is None else runnable
    while not (batch := rule(view, able)).stop:
        for number, stack in batch.visits:
            value = measure(stack, view.visits_done)
            view = visited(view, number, stack, {} if value is None else {"w": math.exp(value)})
        assert view.visits_done < most, "it does not stop"
    return view, batch.decision
