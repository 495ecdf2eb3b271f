"""How storage benchmarks misbehave: numbers only, for tests and for the fake host. Nothing here was measured.

The sizes are assumptions after published studies: more than a quarter of configurations vary by more than 10 % from run
to run (Cao, Tarasov, Raman, Hildebrand and Zadok, "On the performance variation in modern storage stacks", FAST 2017),
and identical systems can seem to differ by a third when they are measured one after the other (Abedi and Brecht,
"Conducting repeatable experiments in highly variable cloud computing environments", ICPE 2017). Per stack:

- a coefficient of variation drawn log-uniformly from 1 % to 25 %; 30 % of the variance belongs to the visit (a new file
  system lies elsewhere on the disk), the rest to the trial, and that part is skewed to the slow side;
- 12 % of stacks have a second, 5 % to 20 % slower mode, taken 20 % to 50 % of the time, per visit or per trial;
- 5 % of trials are hit by interference that costs 0.05 to 0.5 on the log scale;
- the machine drifts: Ornstein-Uhlenbeck processes of 4 % over 6 h and 1.5 % over half an hour, and steps of 5 % about
  once a day; stacks feel 0.7 to 1.3 of it.

Modes are centred: without drift and interference the mean of a stack's error is 0, so the truth is what the
caller adds. Everything follows from the seed and the arguments, never from what was asked before.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

_GRID_H = 1 / 30  # the drift holds for two minutes
_SLOW = (0.04, 6.0)  # spread, relaxation time in hours
_FAST = (0.015, 0.5)
_STEP, _STEPS_PER_H = 0.05, 1 / 24
_SKEW = 0.4  # share of the trial's variance that is one-sided


@dataclass(frozen=True, slots=True)
class Profile:
    """How one stack misbehaves. Spreads are standard deviations of natural logarithms."""

    spread: float
    slow_share: float  # of visits or trials in the slow mode; 0: one mode
    slow_by: float
    slow_visits: bool  # the mode belongs to the visit, not to the trial
    drift: float  # how much of the machine's drift it feels


class Noise:
    """One machine. `drift`, `interference` (share of trials) and `bimodal` (share of stacks) may be turned to 0."""

    def __init__(
        self,
        seed: int,
        *,
        spread: tuple[float, float] = (0.01, 0.25),
        visit_share: float = 0.3,
        bimodal: float = 0.12,
        interference: float = 0.05,
        drift: float = 1.0,
    ) -> None:
        self._seed = seed
        self._spread = spread
        self._visit_share = visit_share
        self._bimodal = bimodal
        self._interference = interference
        self._drift = drift
        self._path = _Drift(random.Random(f"strata noise {seed} drift"))
        self._profiles: dict[str, Profile] = {}

    def profile(self, stack: str) -> Profile:
        """Of any key; equal keys are the same stack, so an A/A campaign draws both with one key."""
        if stack not in self._profiles:
            chance = random.Random(f"strata noise {self._seed} stack {stack}")
            low, high = self._spread
            spread = low * (high / low) ** chance.random() if low > 0 else 0.0
            slow = chance.random() < self._bimodal
            share, by = chance.uniform(0.2, 0.5), chance.uniform(0.05, 0.2)
            visits = chance.random() < 0.5
            self._profiles[stack] = Profile(
                spread, share if slow else 0.0, by if slow else 0.0, visits, chance.uniform(0.7, 1.3)
            )
        return self._profiles[stack]

    def draw(self, stack: str, hour: float, *, visit: int | None = None, trial: int = 0) -> float:
        """The error of one trial on the natural log scale: multiply a "higher is better" figure by its exponential.

        `hour` (>= 0) is when, since the machine was switched on. Trials with the same `visit` share what belongs to the
        visit; None: the hour distinguishes visits.
        """
        profile = self.profile(stack)
        place = f"strata noise {self._seed} stack {stack} visit {hour if visit is None else visit}"
        at_visit, at_trial = random.Random(place), random.Random(f"{place} trial {trial}")
        share = self._visit_share
        skewed = math.sqrt(1 - _SKEW) * at_trial.gauss(0, 1) - math.sqrt(_SKEW) * (at_trial.expovariate(1) - 1)
        error = profile.spread * (math.sqrt(share) * at_visit.gauss(0, 1) + math.sqrt(1 - share) * skewed)
        mode = (at_visit if profile.slow_visits else at_trial).random()
        error -= (mode < profile.slow_share) * profile.slow_by - profile.slow_share * profile.slow_by
        if at_trial.random() < self._interference:
            error -= at_trial.uniform(0.05, 0.5)
        if self._drift:
            error += self.drift(stack, hour)
        return error

    def drift(self, stack: str, hour: float) -> float:
        """The part of the error that is the machine's, as this stack feels it."""
        return self._drift * self.profile(stack).drift * self._path.at(hour)


class _Drift:
    """A path on a grid, made as far as it is asked for."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._slow = _SLOW[0] * chance.gauss(0, 1)
        self._fast = _FAST[0] * chance.gauss(0, 1)
        self._steps = 0.0
        self._path = [self._slow + self._fast]

    def at(self, hour: float) -> float:
        place = int(hour / _GRID_H)
        while len(self._path) <= place:
            self._slow = _relax(self._slow, *_SLOW, self._chance)
            self._fast = _relax(self._fast, *_FAST, self._chance)
            if self._chance.random() < _GRID_H * _STEPS_PER_H:
                self._steps += self._chance.gauss(0, _STEP)
            self._path.append(self._slow + self._fast + self._steps)
        return self._path[place]


def _relax(value: float, spread: float, hours: float, chance: random.Random) -> float:
    keep = math.exp(-_GRID_H / hours)
    return keep * value + spread * math.sqrt(1 - keep * keep) * chance.gauss(0, 1)
