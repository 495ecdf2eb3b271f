"""Visits where they matter: stacks that may be the best are measured again, hopeless ones hardly or not at all.

An additive model of the stacks' factors (`analysis.additive`) says what each stack may achieve, also those that were
never built. Every batch, two stacks are drawn for each visit by the chance that they are the best (top-two Thompson
sampling: Russo, "Simple Bayesian algorithms for best-arm identification", Operations Research 68:6, 2020), and the one
whose visit teaches more for its cost is taken. It stops when the chosen stack is within the margin of the best with the
confidence asked for, and has been visited often enough for its own figure to be more than luck.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strata.analysis import certified
from strata.analysis.additive import (
    DRIFT_PER_ROOT_HOUR,
    Array,
    Ints,
    Layout,
    Posterior,
    Readings,
    fit,
    steps_of,
)
from strata.analysis.belief import FEWEST_VISITS, Belief, believe, visits_to_go
from strata.analysis.evidence import CERTIFYING, Evidence, evidence
from strata.analysis.objective import objective_of
from strata.analysis.verdict import probability
from strata.design import Batch, certify, fronts, stopped, used_up
from strata.model import View
from strata.units import count, human_time

BATCH = 8
FEWEST_AT_START = 16  # stacks
_SECOND_LOOKS = 4  # of a batch at most
_SURPRISE = 1.5  # spreads
_TRIES = 40


@dataclass(frozen=True, slots=True)
class Next:
    """`visits` in order; empty exactly when it stops because it is sure enough."""

    visits: tuple[int, ...]
    belief: Belief | None  # None while the first stacks are visited
    to_go: int | None  # visits, about; None: not known


def start(shape: Layout, eligible: Ints, chance: np.random.Generator) -> list[int]:
    """The stacks to visit first: enough to see every level, and levels and pairs of levels about equally often."""
    factors = shape.codes.shape[1]
    levels = [int(shape.codes[:, j].max(initial=0)) + 1 for j in range(factors)]
    wanted = max(int(1.5 * (1 + sum(level - 1 for level in levels))), FEWEST_AT_START)
    if factors == 0 or wanted >= eligible.size:
        return [int(k) for k in chance.permutation(eligible)]
    left = [int(k) for k in chance.permutation(eligible)]
    # How often each column (a level or a pair) was taken, weighed so that factors of many levels count alike.
    size = np.bincount(shape.term)[shape.term].astype(float)
    worth = np.where(shape.term < factors, size, 0.5)
    taken = np.zeros(shape.columns.shape[1])
    order: list[int] = []
    while len(order) < wanted:
        score = shape.columns[left] @ (taken * worth)
        k = left.pop(int(np.argmin(score)))
        order.append(k)
        taken += shape.columns[k]
    return order


def decide(
    shape: Layout,
    readings: Readings,
    eligible: Ints,
    *,
    margin: float,
    confidence: float,
    seed: int,
    cost: Array | None = None,
    drift: float = DRIFT_PER_ROOT_HOUR,
) -> Next:
    """From the scores of all visits; the same for the same arguments."""
    posterior = fit(shape, readings, drift=drift)
    chance = np.random.default_rng([seed, len(readings)])
    odd = surprising(posterior, driftless(posterior, readings), eligible, margin)
    return choose(
        posterior,
        eligible,
        margin=margin,
        confidence=confidence,
        chance=chance,
        cost=cost,
        surprises=odd,
    )


def driftless(posterior: Posterior, readings: Readings) -> Array:
    """Mean reading of each stack with the drift taken out; nan where there is none."""
    step, _ = steps_of(readings.hour)
    stacks = posterior.visits.size
    total = np.bincount(readings.stack, readings.value - posterior.drift[step], stacks)
    with np.errstate(invalid="ignore"):
        return np.asarray(total / posterior.visits)


def choose(
    posterior: Posterior,
    eligible: Ints,
    *,
    margin: float,
    confidence: float,
    chance: np.random.Generator,
    cost: Array | None = None,
    surprises: Ints | None = None,
    batch: int = BATCH,
    fewest: int = FEWEST_VISITS,
) -> Next:
    """The next visits among `eligible`, after the start. `cost` of a visit of each stack, in any unit.

    `surprises`: stacks visited once whose only reading is better than the model expects (`surprising`).
    """
    belief = believe(posterior, eligible, margin=margin, chance=chance)
    visits = posterior.visits
    if belief.sure >= confidence and visits[belief.chosen] >= fewest:
        return Next((), belief, 0)
    known, noise = posterior.variance(), posterior.noise**2
    price = np.ones(visits.size) if cost is None else cost / cost.mean()
    wanted = list(surprises[:_SECOND_LOOKS]) if surprises is not None else []
    if belief.sure >= confidence:
        wanted = [belief.chosen] * (fewest - int(visits[belief.chosen]))
    winners = eligible[belief.draws[:, eligible].argmax(axis=1)]
    planned = np.bincount(np.asarray(wanted, dtype=np.int64), minlength=visits.size)
    while len(wanted) < batch:
        first = int(chance.choice(winners))
        second = _challenger(belief, winners, eligible, first, chance)
        gain = known**2 / (known + noise) / (1 + planned) / price
        k = first if gain[first] > gain[second] else second
        planned[k] += 1
        wanted.append(k)
    ordered = apart([int(k) for k in chance.permutation(np.asarray(wanted[:batch], dtype=np.int64))])
    to_go = visits_to_go(belief, visits, margin, confidence)
    if to_go is not None:
        to_go = max(to_go, fewest - int(visits[belief.chosen]))
    return Next(tuple(ordered), belief, to_go)


def surprising(posterior: Posterior, values: Array, eligible: Ints, margin: float) -> Ints:
    """Stacks visited once that would contend if their one reading (`values`, nan: none) were taken at its word.

    A single good reading is the hardest to believe and the costliest to miss. Most surprising first.
    """
    level = posterior.level
    once = eligible[posterior.visits[eligible] == 1]
    odd = (values[once] - level[once]) / posterior.noise[once]
    contending = values[once] >= level[eligible].max() - margin
    found = once[(odd > _SURPRISE) & contending]
    return np.asarray(found[np.argsort(-(values - level)[found], kind="stable")], dtype=np.int64)


def _challenger(belief: Belief, winners: Ints, eligible: Ints, first: int, chance: np.random.Generator) -> int:
    for _ in range(_TRIES):
        second = int(chance.choice(winners))
        if second != first:
            return second
    # Nearly certain: whoever comes second in one draw.
    draw = belief.draws[int(chance.integers(belief.draws.shape[0]))].copy()
    draw[first] = -np.inf
    return int(eligible[np.argmax(draw[eligible])])


def apart(order: list[int], last: int | None = None) -> list[int]:
    """The same visits, no stack twice in a row (nor first after `last`) as far as that can be."""
    left, made = list(order), list[int]()
    while left:
        before = made[-1] if made else last
        counts: Mapping[int, int] = {k: left.count(k) for k in left}
        # A stack that fills more than half of what is left has to go now, or it will meet itself.
        crowded = [k for k in counts if 2 * counts[k] > len(left) and k != before]
        k = crowded[0] if crowded else next((k for k in left if k != before), left[0])
        left.remove(k)
        made.append(k)
    return made


# ---------------------------------------------------------------- in a campaign


def next_batch(
    view: View,
    runnable: Sequence[str],
    *,
    seconds_left: float | None = None,
    seconds_per_visit: float | None = None,
) -> Batch:
    """The next visits. Their round is how often the stack was visited before; all that is asked for fits the budget."""
    found = evidence(view, runnable)
    if found.eligible.size == 0:
        return stopped("Stopped: no stack is left that can run and does not fail.")
    rule = view.rule
    first = _still_to_start(view, found.shape, found.eligible, found.stacks)
    if first or found.visited == 0:
        visits, to_go = [found.stacks[k] for k in first[:BATCH]], len(first[BATCH:])
        seen = len({trial.stack for trial in view.trials} | {visit.stack for visit in view.failed})
        text = f"A first look: {len(visits)} stacks that between them have the most levels, after {seen} others."
        if not visits:
            return stopped("Stopped: not one visit gave a figure.")
        return _within_budget(view, visits, text, to_go, seconds_left, seconds_per_visit)
    front = objective_of(view).front
    if front:
        return _for_front(view, found, front, seconds_left, seconds_per_visit)
    blocks = certified.blocks(view, runnable=runnable) if rule.certify else ()
    for block in reversed(blocks):
        # Once begun it continues to its end, whatever its visits make of the model; unless something else is asked now.
        asked = evidence(certify.before(view, block), runnable)
        if asked.visited and asked.eligible.size and asked.stacks[_decided(view, asked)[1].chosen] in block.stacks:
            going_on = certify.go_on(view, block, runnable)
            if going_on:
                return _certification(going_on, block.first, seconds_left, seconds_per_visit)
            break
    decided, belief = _decided(view, found)
    lead, sure = found.stacks[belief.chosen], f"P(within {rule.within:.2g} of the best) {probability(belief.sure)}"
    if not decided.visits:
        judged = certified.of(blocks, lead)
        if judged is not None and judged.speaks_against(lead):
            return stopped(f"Stopped: {lead} leads by the model, {sure}, and the fresh rounds speak against it.")
        if rule.certify and judged is None:
            fresh = certify.begin(view, _shortlist(found, belief), blocks)
            if fresh:
                return _certification(fresh, fresh[0][0], seconds_left, seconds_per_visit)
        return stopped(f"Stopped: {lead} is the one to choose, {sure}; {rule.confidence:.2f} was asked for.")
    text = (
        f"{found.named(belief.chosen)} leads, {sure}; {len(belief.tied)} of {len(found.stacks)} stacks may be as good."
    )
    visits = [found.stacks[k] for k in decided.visits]
    after = None if decided.to_go is None else max(decided.to_go - len(visits), 0)
    return _within_budget(view, visits, text, after, seconds_left, seconds_per_visit)


def _for_front(
    view: View, found: Evidence, names: Sequence[str], seconds_left: float | None, seconds_per_visit: float | None
) -> Batch:
    wanted, asked = fronts.next_visits(view, found, names), ", ".join(names)
    if not wanted:
        return stopped(f"Stopped: all {fronts.visits_wanted(view, found)} visits for the front of {asked} are made.")
    text = f"Visits where it is least sure who is on the front of {asked}."
    left = fronts.visits_wanted(view, found) - fronts.visits_made(view, found) - len(wanted)
    visits = [found.stacks[k] for k in wanted]
    return _within_budget(view, visits, text, max(left, 0), seconds_left, seconds_per_visit)


def _still_to_start(view: View, shape: Layout, eligible: Ints, stacks: Sequence[str]) -> list[int]:
    """What is left of the start. A run that began otherwise (rounds, a race) has it behind it when it saw as many."""
    order = start(shape, eligible, np.random.default_rng([view.seed, 0]))
    tried = {trial.stack for trial in view.trials} | {visit.stack for visit in view.failed}
    if len(tried) >= len(order):
        return []
    return [k for k in order if stacks[k] not in tried]


def _decided(view: View, found: Evidence) -> tuple[Next, Belief]:
    decided = decide(
        found.shape,
        found.readings,
        found.eligible,
        margin=-math.log1p(-view.rule.within),
        confidence=view.rule.confidence,
        seed=view.seed,
        cost=found.cost,
        drift=found.drift,
    )
    assert decided.belief is not None
    return decided, decided.belief


def _shortlist(found: Evidence, belief: Belief) -> list[str]:
    """The tied group, the chosen one first; at least two, for there is nothing to certify about one."""
    order = [int(k) for k in belief.tied]
    if len(order) < 2:
        rest = [int(k) for k in found.eligible if k not in order]
        order += sorted(rest, key=lambda k: (-belief.best[k], -belief.level[k]))[:1]
    return [found.stacks[k] for k in order]


def _certification(
    visits: certify.Visits, first: int, seconds_left: float | None, seconds_per_visit: float | None
) -> Batch:
    if used_up(len(visits), seconds_left, seconds_per_visit):
        return stopped("Stopped: the budget is used up before the shortlist was certified.")
    number = visits[0][0] - first + 1
    return Batch(
        tuple(visits), False, f"Round {number} of the certification: {count(len(visits), 'stack')} of the shortlist."
    )


def _within_budget(
    view: View,
    stacks: Sequence[str],
    text: str,
    to_go: int | None,
    seconds_left: float | None,
    seconds_per_visit: float | None,
) -> Batch:
    """The visits with their rounds; as many as fit into what is left."""
    if seconds_left is not None and seconds_per_visit:
        stacks = stacks[: max(int(seconds_left / seconds_per_visit), 0)]
    if not stacks or used_up(len(stacks), seconds_left, seconds_per_visit):
        budget = "" if view.rule.budget_s is None else f" of {human_time(view.rule.budget_s)}"
        return stopped(f"Stopped: the budget{budget} is used up. {text}")
    taken: dict[str, set[int]] = {}
    for trial in view.trials:
        taken.setdefault(trial.stack, set()).add(trial.round)
    for failed in view.failed:
        taken.setdefault(failed.stack, set()).add(failed.round)
    last = max(view.trials, key=lambda trial: trial.order, default=None)
    place = {stack: k for k, stack in enumerate(dict.fromkeys(stacks))}
    names = list(place)
    order = apart([place[stack] for stack in stacks], place.get(last.stack) if last is not None else None)
    if to_go:
        text += f" About {count(to_go, 'visit')} to go after these {len(stacks)}."
    visits = []
    for k in order:
        used = taken.setdefault(names[k], set())
        number = next(n for n in range(CERTIFYING) if n not in used)
        used.add(number)
        visits.append((number, names[k]))
    return Batch(tuple(visits), False, text, to_go)
