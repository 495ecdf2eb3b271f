"""Our own rules as strategies, by the code that decides in real campaigns."""

from __future__ import annotations

import math

import numpy as np
from benchmarks.research.simulate.peers import Ended
from benchmarks.research.simulate.truth import Machine

from strata.analysis import additive
from strata.analysis.belief import Belief
from strata.analysis.survivors import standing
from strata.design import adaptive, race

MARGIN = -math.log(0.97)
MOST_VISITS_PER_STACK = 20


def run_adaptive(
    machine: Machine, seed: int, confidence: float, structured: bool = True, margin: float = MARGIN
) -> Ended:
    """`structured`: False hides the factors from it, so that every stack stands alone."""
    codes = machine.truth.codes
    stacks = codes.shape[0]
    shape = additive.of_codes(codes if structured else codes[:, :0])
    eligible = np.arange(stacks)
    made: list[tuple[int, float, float]] = []

    def visit(k: int) -> None:
        value = machine.visit(k)[0]
        made.append((k, value, machine.seconds / 3600))

    for k in adaptive.start(shape, eligible, np.random.default_rng([seed, 0])):
        visit(k)
    while True:
        stack, value, hour = (np.array(column) for column in zip(*made, strict=True))
        readings = additive.Readings(stack.astype(np.int64), value, hour)
        decided = adaptive.decide(shape, readings, eligible, margin=margin, confidence=confidence, seed=seed)
        if not decided.visits or len(made) >= MOST_VISITS_PER_STACK * stacks:
            break
        for k in decided.visits:
            visit(k)
    belief = decided.belief
    assert belief is not None
    return ended(belief, len(np.unique(stack)), settled=not decided.visits)


def ended(belief: Belief, measured: int, settled: bool) -> Ended:
    tied = np.zeros(belief.level.size, dtype=bool)
    tied[belief.tied] = True
    low, high = belief.gap - belief.half, belief.gap + belief.half
    return Ended(belief.chosen, low, high, tied, measured, settled, belief.sure)


def run_race(machine: Machine, seed: int, confidence: float, margin: float = MARGIN) -> Ended:
    stacks = machine.truth.level.size
    table = np.full((stacks, race.MOST_ROUNDS), np.nan)
    chance = np.random.default_rng([seed, 1])
    alive = tuple(range(stacks))
    for number in range(race.MOST_ROUNDS):
        for k in chance.permutation(alive):
            table[k, number] = machine.visit(int(k))[0]
        now = standing(table[:, : number + 1], margin, confidence)
        alive = now.alive
        if now.settled:
            break
    assert now.leader is not None
    tied = np.zeros(stacks, dtype=bool)
    tied[list(now.alive)] = True
    stated = confidence if now.settled else None
    return Ended(now.leader, now.gap - now.half, now.gap + now.half, tied, stacks, now.settled, stated)
