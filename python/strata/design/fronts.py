"""What to visit next when a Pareto front is wanted: stacks of which it is least sure whether they are on it.

Each metric has an additive model of its own (`analysis.additive`). From joint draws of all of them follows how likely
each stack is to be on the front; a visit is worth most where that is near a half and little is known. Doubt never ends
where stacks are alike, so the number of visits is fixed beforehand: one for each stack that can run at a confidence
below 0.9, else two. Who is on the front is then judged by what was measured alone (`analysis.pareto`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from strata.analysis.additive import Array, Posterior, Readings, fit
from strata.analysis.cells import usable
from strata.analysis.evidence import Evidence
from strata.analysis.objective import find
from strata.analysis.pareto import correlation, measured, on_front
from strata.model import View

VISITS_PER_STACK = {False: 1, True: 2}  # whether the confidence is 0.9 or more
_DRAWS = 200
_BATCH = 8
_FEWEST_OF_MEMBERS = 2


def visits_wanted(view: View, found: Evidence) -> int:
    """Of the whole campaign."""
    return VISITS_PER_STACK[view.rule.confidence >= 0.9] * found.eligible.size


def visits_made(view: View, found: Evidence) -> int:
    """Of the stacks that are still eligible: what was spent on others is no visit of these."""
    able = {found.stacks[k] for k in found.eligible}
    visits = {trial.visit for trial in view.trials if trial.stack in able}
    return len(visits | {visit.visit for visit in view.failed if visit.stack in able})


def next_visits(view: View, found: Evidence, names: Sequence[str]) -> list[int]:
    """The stacks to visit, at most a batch; empty when all visits are made or no metric has a figure yet."""
    left = visits_wanted(view, found) - visits_made(view, found)
    readings = [each for each in (_readings(view, found, name) for name in names) if len(each)]
    if left <= 0 or not readings:
        return []
    posteriors = [fit(found.shape, each, drift=found.drift) for each in readings]
    chance = np.random.default_rng([view.seed, sum(map(len, readings))])
    drawn = _together(posteriors, readings, chance)[:, found.eligible]
    margin = -math.log1p(-view.rule.within)
    share = np.mean([on_front(level, margin) for level in drawn], axis=0)
    blur = np.sqrt(sum((posterior.variance() for posterior in posteriors), np.zeros(len(found.stacks))))
    # One that is sure to be on the front has to be measured to be shown there, and once may be luck.
    few = posteriors[0].visits[found.eligible] < _FEWEST_OF_MEMBERS
    doubt = np.where(few, share, np.minimum(share, 1 - share))
    # Some chance, so that stacks which look alike take turns.
    worth = doubt * (blur / found.cost)[found.eligible] * chance.uniform(0.5, 1.5, share.size)
    worth += 1e-9 * blur[found.eligible]
    order = np.argsort(-worth, kind="stable")[: min(_BATCH, left)]
    return [int(k) for k in found.eligible[order]]


def _together(posteriors: Sequence[Posterior], readings: Sequence[Readings], chance: np.random.Generator) -> Array:
    """Draws x stacks x metrics. The metrics of a visit share its noise, so what is not known of them errs together, as
    much as their residuals do; each metric by itself is as its posterior says."""
    root = np.linalg.cholesky(correlation([_residuals(*pair) for pair in zip(posteriors, readings, strict=True)]))
    most, stacks = max(each.mean.size for each in posteriors), posteriors[0].visits.size
    parts = chance.standard_normal((_DRAWS, most, len(posteriors))) @ root.T
    own = chance.standard_normal((_DRAWS, stacks, len(posteriors))) @ root.T
    drawn = [each.drawn(parts[:, : each.mean.size, i], own[..., i]) for i, each in enumerate(posteriors)]
    return np.stack(drawn, axis=-1)


def _residuals(posterior: Posterior, readings: Readings) -> dict[int, float]:
    """In spreads, by stack and number of its visit."""
    count: dict[int, int] = {}
    found = {}
    for k, odd in zip(readings.stack.tolist(), posterior.odd.tolist(), strict=True):
        count[k] = count.get(k, 0) + 1
        found[count[k] * posterior.visits.size + k] = odd
    return found


def _readings(view: View, found: Evidence, name: str) -> Readings:
    """Of one metric, larger is better: logarithms where all its figures are positive, else shares of their mean."""
    chosen = find(name, view.workloads, view.machine_metrics)
    table = measured(view, chosen)
    place = {stack: k for k, stack in enumerate(found.stacks)}
    when: dict[int, tuple[int, float]] = {}
    for trial in usable(view):
        when.setdefault(trial.visit, (trial.order, trial.started_at / 3600))
    rows = sorted(
        (*when[visit], place[stack], value)
        for stack, visits in table.visits.items()
        if stack in place
        for visit, value in visits.items()
        if visit in when
    )
    value: Array = np.array([row[3] for row in rows])
    if value.size:
        value = np.log(value) if table.log else value / (float(np.abs(value).mean()) or 1.0)
    hour = np.array([row[1] for row in rows])
    sign = -1.0 if chosen.metric.better == "lower" else 1.0
    stack = np.array([row[2] for row in rows], dtype=np.int64)
    return Readings(stack, sign * value, hour - hour[0] if hour.size else hour)
