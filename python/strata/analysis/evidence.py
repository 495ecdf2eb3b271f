"""What a view holds for the additive model: the score of every visit, which stacks fail, what a visit costs.

Rounds from `CERTIFYING` on are those in which a shortlist is certified: fresh visits that chose nothing, so that they
may be counted without the model. To the model they are visits like any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strata.analysis.additive import DRIFT_PER_ROOT_HOUR, Array, Ints, Layout, Posterior, Readings, fit, layout
from strata.analysis.belief import Belief, believe
from strata.analysis.cells import usable
from strata.analysis.objective import weights_of
from strata.analysis.reliability import complete_visits, in_doubt, in_vain
from strata.analysis.scale import scale_of
from strata.model import View

CERTIFYING = 1000  # the first such round


@dataclass(frozen=True, slots=True)
class Evidence:
    stacks: tuple[str, ...]  # all but the skipped ones
    shape: Layout
    readings: Readings  # the score of each visit
    eligible: Ints  # stacks that may be chosen
    failing: Mapping[str, str]  # stacks whose reliability is in doubt: why
    vain: Mapping[str, str]  # visited and without a figure: how
    cost: Array  # seconds a visit, of each stack
    drift: float

    @property
    def visited(self) -> int:
        return len(self.readings)

    def named(self, stack: int) -> str:
        """With what there is beside a name whose figure is a prediction."""
        text = self.stacks[stack]
        if stack in self.readings.stack:
            return text
        return f"{text} (predicted, {'failed' if text in self.vain else 'never built'})"

    def posterior(self) -> Posterior:
        """Of the stacks' scores. There must be a reading."""
        return fit(self.shape, self.readings, drift=self.drift)


def evidence(view: View, runnable: Sequence[str] | None = None, weights: Sequence[float] | None = None) -> Evidence:
    """`runnable`: the stacks that can be visited from now on; None: those that the view does not know to be unable.

    `weights`: of the workloads; None: as the run's objective says.
    """
    skipped = {skip.stack for skip in view.skipped}
    stacks = tuple(stack for stack in dict.fromkeys(view.stacks) if stack not in skipped)
    halted = {skip.stack for skip in view.halted}
    able = set(runnable) if runnable is not None else {stack for stack in stacks if stack not in halted}
    failing = in_doubt(view, None, weights)
    eligible = [i for i, stack in enumerate(stacks) if stack in able and stack not in failing]
    return Evidence(
        stacks=stacks,
        shape=layout(stacks, view.factors),
        readings=_scores(view, stacks, weights or weights_of(view)),
        eligible=np.array(eligible, dtype=np.int64),
        failing=failing,
        vain=in_vain(view, weights),
        cost=_cost(view, stacks),
        # On the virtual clock nothing happens to the machine from one visit to the next.
        drift=0.0 if view.testbed.clock == "virtual" else DRIFT_PER_ROOT_HOUR,
    )


def belief_of(found: Evidence, posterior: Posterior, within: float, seed: int) -> Belief:
    """The same for the same evidence. There must be a stack that may be chosen."""
    chance = np.random.default_rng([seed, found.visited])
    return believe(posterior, found.eligible, margin=-math.log1p(-within), chance=chance)


def _scores(view: View, stacks: Sequence[str], weights: Sequence[float]) -> Readings:
    """Of visits with a figure under every workload; several trials of one workload in a visit are averaged.

    The workloads of a visit share its noise, so the visit is scored whole, and the spread of the scores is what they
    have in common and what they have not.
    """
    place = {stack: i for i, stack in enumerate(stacks)}
    complete = complete_visits(view, weights)
    share = dict(zip((workload.text for workload in view.workloads), np.divide(weights, sum(weights)), strict=True))
    primary = {workload.text: workload.primary.name for workload in view.workloads}
    scale = {workload.text: scale_of(view, workload, weights) for workload in view.workloads}
    values: dict[int, dict[str, list[float]]] = {}
    when: dict[int, tuple[int, float, int]] = {}
    for trial in usable(view):
        value = trial.metrics.get(primary.get(trial.workload, ""), math.nan)
        if trial.visit in complete and trial.stack in place and math.isfinite(value):
            values.setdefault(trial.visit, {}).setdefault(trial.workload, []).append(scale[trial.workload].of(value))
            when.setdefault(trial.visit, (trial.order, trial.started_at / 3600, place[trial.stack]))
    order = sorted(values, key=when.__getitem__)
    score = [math.fsum(share[text] * float(np.mean(each)) for text, each in values[visit].items()) for visit in order]
    hour = np.array([when[visit][1] for visit in order])
    return Readings(
        np.array([when[visit][2] for visit in order], dtype=np.int64),
        np.array(score),
        hour - hour[0] if hour.size else hour,
    )


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
