"""What a view holds for the additive model: readings of every workload, which stacks fail, what a visit costs.

Rounds from `CERTIFYING` on are those in which a shortlist is certified: fresh visits that chose nothing, so that they
may be counted without the model. To the model they are visits like any other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strata.analysis.additive import DRIFT_PER_ROOT_HOUR, Array, Ints, Layout, Posterior, Readings, fit, layout
from strata.analysis.belief import Belief, believe
from strata.analysis.cells import usable
from strata.model import View

CERTIFYING = 1000  # the first such round
FAILURES_TO_DROP = 2


@dataclass(frozen=True, slots=True)
class Evidence:
    stacks: tuple[str, ...]  # all but the skipped ones
    shape: Layout
    readings: tuple[Readings, ...]  # of each workload; rows are the same visits in all of them
    eligible: Ints  # stacks that may be chosen
    failing: Mapping[str, str]  # stacks that fail too often to be chosen: why
    cost: Array  # seconds a visit, of each stack
    drift: float

    @property
    def visited(self) -> int:
        return len(self.readings[0]) if self.readings else 0

    def posteriors(self) -> list[Posterior]:
        """One for each workload. There must be a reading."""
        return [fit(self.shape, each, drift=self.drift) for each in self.readings]


def evidence(view: View, runnable: Sequence[str] | None = None) -> Evidence:
    """`runnable`: the stacks that can be visited from now on; None: those that the view does not know to be unable."""
    skipped = {skip.stack for skip in view.skipped}
    stacks = tuple(stack for stack in dict.fromkeys(view.stacks) if stack not in skipped)
    halted = {skip.stack for skip in view.halted}
    able = set(runnable) if runnable is not None else {stack for stack in stacks if stack not in halted}
    failing = _failing(view)
    eligible = [i for i, stack in enumerate(stacks) if stack in able and stack not in failing]
    return Evidence(
        stacks=stacks,
        shape=layout(stacks, view.factors),
        readings=_readings(view, stacks),
        eligible=np.array(eligible, dtype=np.int64),
        failing=failing,
        cost=_cost(view, stacks),
        # By the virtual clock nothing happens to the machine from one visit to the next.
        drift=0.0 if view.testbed.clock == "virtual" else DRIFT_PER_ROOT_HOUR,
    )


def belief_of(
    found: Evidence, posteriors: Sequence[Posterior], weights: Sequence[float], within: float, seed: int
) -> Belief:
    """The same for the same evidence. There must be a stack that may be chosen."""
    chance = np.random.default_rng([seed, found.visited])
    return believe(posteriors, weights, found.eligible, margin=-math.log1p(-within), chance=chance)


def _readings(view: View, stacks: Sequence[str]) -> tuple[Readings, ...]:
    """Of visits with a figure under every workload; several trials of one workload in a visit are averaged."""
    place = {stack: i for i, stack in enumerate(stacks)}
    logs: dict[int, dict[str, list[float]]] = {}
    when: dict[int, tuple[int, float, int]] = {}
    known = {workload.text: workload.primary for workload in view.workloads}
    for trial in usable(view):
        primary = known.get(trial.workload)
        value = None if primary is None else trial.metrics.get(primary.name)
        if primary is None or value is None or trial.stack not in place or not (math.isfinite(value) and value > 0):
            continue
        sign = -1.0 if primary.better == "lower" else 1.0
        logs.setdefault(trial.visit, {}).setdefault(trial.workload, []).append(sign * math.log(value))
        when.setdefault(trial.visit, (trial.order, trial.started_at / 3600, place[trial.stack]))
    whole = sorted((when[visit], visit) for visit, found in logs.items() if len(found) == len(known))
    stack = np.array([place_ for (_, _, place_), _ in whole], dtype=np.int64)
    hour = np.array([hour for (_, hour, _), _ in whole])
    hour = hour - hour[0] if hour.size else hour
    return tuple(
        Readings(stack, np.array([float(np.mean(logs[visit][text])) for _, visit in whole]), hour) for text in known
    )


def failures(view: View, rounds: range | None = None) -> dict[str, dict[int, str]]:
    """Stack -> its visits without any figure, whether building failed or all that was run -> the first reason.

    `rounds`: of these alone; None: of all.
    """
    reasons: dict[str, dict[int, str]] = {}
    for visit in view.failed:
        if rounds is None or visit.round in rounds:
            reasons.setdefault(visit.stack, {})[visit.visit] = visit.reason
    good = {trial.visit for trial in usable(view)}
    for trial in view.trials:
        if trial.visit not in good and (rounds is None or trial.round in rounds):
            reasons.setdefault(trial.stack, {}).setdefault(trial.visit, trial.reason or "it gave no figure")
    return reasons


def _failing(view: View) -> dict[str, str]:
    """Failed at least twice, and in half of the visits or more: an outcome, not bad luck."""
    scored = Counter(stack for stack, _ in {(trial.stack, trial.visit) for trial in usable(view)})
    return {
        stack: f"{len(found)} of its {len(found) + scored[stack]} visits failed, first: {next(iter(found.values()))}"
        for stack, found in failures(view).items()
        if len(found) >= max(FAILURES_TO_DROP, scored[stack])
    }


def _cost(view: View, stacks: Sequence[str]) -> Array:
    """Seconds of building, measuring and removing; a stack with few visits is taken to cost much as the others."""
    seconds: dict[tuple[str, int], float] = {}
    for trial in view.trials:
        seconds[trial.stack, trial.visit] = seconds.get((trial.stack, trial.visit), 0.0) + (trial.wall_s or 0.0)
    for step in view.steps:
        took = (step.create_s or 0.0) + (step.remove_s or 0.0)
        seconds[step.stack, step.visit] = seconds.get((step.stack, step.visit), 0.0) + took
    usual = float(np.mean(list(seconds.values()))) if seconds else 1.0
    usual = usual if usual > 0 else 1.0
    total, count = dict.fromkeys(stacks, usual), dict.fromkeys(stacks, 1)
    for (stack, _), took in seconds.items():
        if stack in total:
            total[stack] += took
            count[stack] += 1
    return np.array([total[stack] / count[stack] for stack in stacks])
