"""Stacks with a known truth, and a machine that pretends to measure them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from benchmarks.research.noise import Noise

from strata.analysis.additive import Array, Ints

LEVELS = {30: (5, 3, 2), 100: (5, 5, 2, 2), 300: (5, 5, 4, 3)}  # of the factors, for each number of stacks
TRIAL_S, SET_UP_S = 60.0, 20.0
_INERT_SHARE, _INERT_SPREAD = 0.35, 0.01
_MAIN_SPREAD = (0.08, 0.30)
_PAIR_SHARE, _PAIR_SPREAD = 0.5, (0.02, 0.10)
_OWN_SPREAD = 0.02
_CLIFFS, _CLIFF_SHARE, _CLIFF_SPREAD = 2.0, 0.05, 0.25

NOISES: dict[str, dict[str, float]] = {
    "realistic": {},
    "benign": {"drift": 0.0, "visit_share": 0.0, "interference": 0.0},
    "cliffs": {},  # the noise of realistic, on stacks that factors explain badly
    "drifty": {"drift": 3.0},
    "bimodal": {"bimodal": 0.4},
    "loud": {"spread": 2.0},  # times the usual
    "equal": {},  # one stack under many names: it misbehaves alike under all of them
}


@dataclass(frozen=True, slots=True)
class Truth:
    codes: Ints  # stacks x factors
    level: Array  # natural logarithm of how good each stack is


def truth_of(stacks: int, seed: int, noise: str = "realistic") -> Truth:
    """Main effects of 8 % to 30 % for two factors in three, interactions for half of the pairs, 2 % of its own.

    With "cliffs" interactions and own effects are twice as large, and every twentieth stack is 25 % off besides.
    """
    sizes = LEVELS[stacks]
    chance = np.random.default_rng([stacks, seed, 1])
    codes = np.array(list(itertools.product(*map(range, sizes))), dtype=np.int64)
    if noise == "equal":
        return Truth(codes, np.zeros(stacks))
    rough = _CLIFFS if noise == "cliffs" else 1.0
    level = np.zeros(stacks)
    for j, size in enumerate(sizes):
        spread = _INERT_SPREAD if chance.random() < _INERT_SHARE else chance.uniform(*_MAIN_SPREAD)
        level += chance.normal(0, spread, size)[codes[:, j]]
    for a, b in itertools.combinations(range(len(sizes)), 2):
        if chance.random() < _PAIR_SHARE:
            spread = rough * chance.uniform(*_PAIR_SPREAD)
            level += chance.normal(0, spread, (sizes[a], sizes[b]))[codes[:, a], codes[:, b]]
    level += chance.normal(0, _OWN_SPREAD * rough, stacks)
    if noise == "cliffs":
        jump = chance.random(stacks) < _CLIFF_SHARE
        level[jump] += chance.normal(0, _CLIFF_SPREAD, int(jump.sum()))
    return Truth(codes, level)


class Machine(Protocol):
    """What a strategy can do. Values are natural logarithms, larger is better."""

    truth: Truth
    seconds: float  # used so far

    def visit(self, stack: int, trials: int = 1) -> list[float]:
        """Set it up and run `trials` on it."""

    def more(self, stack: int) -> float:
        """One more trial on the stack that was visited last."""


@dataclass(slots=True)
class Pretended:
    """Visit n of a stack has the same luck whichever strategy makes it, but for the hour in which it does."""

    truth: Truth
    noise: Noise
    alike: bool = False  # all stacks misbehave as one, each with luck of its own
    seconds: float = 0.0
    _visits: dict[int, int] = field(default_factory=dict)
    _trial: int = 0

    def visit(self, stack: int, trials: int = 1) -> list[float]:
        self._visits[stack] = self._visits.get(stack, 0) + 1
        self._trial = 0
        self.seconds += SET_UP_S
        return [self.more(stack) for _ in range(trials)]

    def more(self, stack: int) -> float:
        name, visit = str(stack), self._visits[stack]
        if self.alike:
            name, visit = "the one stack", visit * self.truth.level.size + stack
        error = self.noise.draw(name, self.seconds / 3600, visit=visit, trial=self._trial)
        self._trial += 1
        self.seconds += TRIAL_S
        return float(self.truth.level[stack]) + error


def level_of_the_day(machine: Pretended) -> Array:
    """How good each stack was over the hours that the machine was used, with what it felt of the drift."""
    hours = np.linspace(0, machine.seconds / 3600, 50)
    names = ["the one stack" if machine.alike else str(k) for k in range(machine.truth.level.size)]
    felt = [np.mean([machine.noise.drift(name, float(hour)) for hour in hours]) for name in names]
    return np.asarray(machine.truth.level + np.array(felt))


def machine_of(truth: Truth, seed: int, noise: str = "realistic") -> Pretended:
    """A fresh machine, switched on at hour 0; the same again for the same arguments."""
    settings = dict(NOISES[noise])
    louder = settings.pop("spread", 1.0)
    low, high = 0.01 * louder, 0.25 * louder
    return Pretended(truth, Noise(seed, spread=(low, high), **settings), alike=noise == "equal")
