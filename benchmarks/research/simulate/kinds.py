"""Whole simulated campaigns of several kinds, through the code that decides in real ones: views, rule and verdict.

Each workload has a level of its own for every stack, half of it common to all workloads. The workloads of a visit share
as much of their noise as `correlation` says, and the machine's drift.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from benchmarks.research.noise import Noise
from benchmarks.research.simulate.ours import MARGIN, MOST_VISITS_PER_STACK
from benchmarks.research.simulate.truth import SET_UP_S, TRIAL_S, Truth, truth_of

from strata.analysis.additive import Array
from strata.analysis.modelled import ranking
from strata.analysis.reliability import in_doubt
from strata.design import adaptive
from strata.model import Metric, Outcome, Rule, TrialResult, View, WorkloadView

_SPEED = Metric("speed", "MiB/s", "higher")
_TAIL_FREEDOM = 3.0
_LOUDNESS = (0.3, 3.0)  # times the usual, of the quietest and the loudest workload


@dataclass(frozen=True, slots=True)
class Kind:
    """Of campaigns. The rest is as in `truth`."""

    workloads: int = 1
    correlation: float = 0.0  # of the noise of two workloads of a visit, over all stacks together
    stacks: int = 30
    drift: float = 1.0  # times the usual
    bimodal: float = 0.12  # share of stacks with two modes
    tails: bool = False  # noise is Student's t with 3 degrees of freedom
    unequal: bool = False  # workloads differ tenfold in how noisy they are; with one workload stacks do, by 100
    missing: float = 0.0  # share of visits in which one workload gives no figure
    failing: bool = False  # the best stack always fails one workload
    cliffs: bool = False  # factors explain the stacks badly


def _several() -> dict[str, Kind]:
    return {
        f"{count} workloads, correlation {correlation:g}": Kind(count, correlation)
        for count in (2, 4, 8)
        for correlation in (0.0, 0.5, 1.0)
    }


KINDS: Mapping[str, Kind] = {
    "1 workload": Kind(),
    "1 workload, 100 stacks": Kind(stacks=100),
    "1 workload, drift times 3": Kind(drift=3.0),
    "1 workload, two modes": Kind(bimodal=0.4),
    "1 workload, heavy tails": Kind(tails=True),
    "1 workload, unequal variances": Kind(unequal=True),
    "1 workload, missing trials": Kind(missing=0.04),
    "1 workload, a failing stack": Kind(failing=True),
    "1 workload, 100 stacks with cliffs": Kind(stacks=100, cliffs=True),
    **_several(),
    "4 workloads, drift times 3": Kind(4, 0.7, drift=3.0),
    "4 workloads, two modes": Kind(4, 0.7, bimodal=0.4),
    "4 workloads, heavy tails": Kind(4, 0.7, tails=True),
    "4 workloads, unequal variances": Kind(4, 0.7, unequal=True),
    "4 workloads, missing trials": Kind(4, 0.7, missing=0.04),
    "4 workloads, one fails on the best stack": Kind(4, 0.7, failing=True),
}


@dataclass(frozen=True, slots=True)
class Result:
    """Of one campaign. Shares and errors are of what its verdict states."""

    hours: float
    visits: int
    settled: bool
    wrong: bool  # the stack named is more than the margin below the best but the one that always fails
    held: float  # share of the stated intervals that hold the truth
    set_aside: int  # stacks
    set_aside_visits: int  # of these stacks


class Machine:
    """Measures all workloads of a stack in one visit. The same again for the same arguments."""

    def __init__(self, kind: Kind, seed: int) -> None:
        self.kind = kind
        self.seconds = 0.0
        count = kind.workloads
        noise = "cliffs" if kind.cliffs else "realistic"
        truths = [truth_of(kind.stacks, seed + 100_000 * i, noise) for i in range(count + 1)]
        common, own = truths[-1].level, np.array([truth.level for truth in truths[:-1]])
        levels = own if count == 1 else math.sqrt(0.5) * (common + own)
        self.truth = Truth(truths[0].codes, levels.mean(axis=0))
        self._levels = levels
        spread = (0.003, 0.3) if kind.unequal and count == 1 else (0.01, 0.25)
        self._noise = [
            Noise(seed + 100_000 * i, spread=spread, bimodal=kind.bimodal, drift=0.0) for i in range(count + 1)
        ]
        self._drift = Noise(seed + 7, drift=kind.drift)
        low, high = _LOUDNESS
        shares = np.linspace(0, 1, count) if kind.unequal and count > 1 else np.full(count, 0.5)
        self._loudness = low * (high / low) ** shares if count > 1 and kind.unequal else np.ones(count)
        self.failing = int(np.argmax(self.truth.level)) if kind.failing else -1
        self._chance = np.random.default_rng([seed, 11])

    def visit(self, stack: int, number: int) -> list[float | None]:
        """Logarithm of the figure of each workload; None: it failed."""
        kind, name = self.kind, str(stack)
        tail = math.sqrt((_TAIL_FREEDOM - 2) / self._chance.chisquare(_TAIL_FREEDOM)) if kind.tails else 1.0
        missing = int(self._chance.integers(kind.workloads)) if self._chance.random() < kind.missing else -1
        shared, own = math.sqrt(kind.correlation), math.sqrt(1 - kind.correlation)
        hour = self.seconds / 3600
        in_common = self._noise[-1].draw(name, hour, visit=number)
        self.seconds += SET_UP_S
        found: list[float | None] = []
        for i in range(kind.workloads):
            hour = self.seconds / 3600
            error = shared * in_common + own * self._noise[i].draw(name, hour, visit=number)
            value = self._levels[i][stack] + self._loudness[i] * tail * error + self._drift.drift(name, hour)
            self.seconds += TRIAL_S
            failed = i == missing or (stack == self.failing and i == 0)
            found.append(None if failed else float(value))
        return found

    def level_of_the_day(self) -> Array:
        """How good each stack was over the hours of the campaign, with what it felt of the drift."""
        hours = np.linspace(0, self.seconds / 3600, 50)
        felt = [np.mean([self._drift.drift(str(k), float(hour)) for hour in hours]) for k in range(self.kind.stacks)]
        return np.asarray(self.truth.level + np.array(felt))


def campaign(kind: Kind, seed: int, confidence: float = 0.95) -> Result:
    """From the first visit to the verdict."""
    machine = Machine(kind, seed)
    view = _empty(kind, machine.truth, seed, confidence)
    place = {stack: k for k, stack in enumerate(view.stacks)}
    visits: dict[str, int] = {}
    while not (batch := adaptive.next_batch(view, view.stacks)).stop:
        for number, stack in batch.visits:
            visits[stack] = visits.get(stack, 0) + 1
            started = machine.seconds
            view = _visited(view, number, stack, machine.visit(place[stack], visits[stack]), started)
        if view.visits_done >= MOST_VISITS_PER_STACK * kind.stacks:
            break
    found = ranking(view, metrics="primary")
    # What is stated is of this day; under three times the usual drift the long run is something else.
    level = machine.level_of_the_day() if kind.drift > 1 else machine.truth.level
    aside = [place[stack] for stack in in_doubt(view)]
    able = np.delete(level, [machine.failing] if kind.failing else [])
    leader = level[place[found.leader]] if found.leader is not None else -math.inf
    held = [
        math.log(row.ratio.low) <= level[place[row.stack]] - leader <= math.log(row.ratio.high)
        for row in found.rows
        if row.stack != found.leader and row.ratio and row.ratio.low is not None and row.ratio.high is not None
    ]
    return Result(
        hours=machine.seconds / 3600,
        visits=view.visits_done,
        settled=found.best is not None,
        wrong=found.best is not None and float(able.max()) - leader > MARGIN,
        held=float(np.mean(held)) if held else math.nan,
        set_aside=len(aside),
        set_aside_visits=sum(visits[view.stacks[k]] for k in aside),
    )


def _empty(kind: Kind, truth: Truth, seed: int, confidence: float) -> View:
    stacks = {
        "-".join(map(str, row)): {f"factor {j}": str(level) for j, level in enumerate(row)}
        for row in truth.codes.tolist()
    }
    loads = tuple(WorkloadView(f"w{i}", f"w{i}", _SPEED, {_SPEED.name: _SPEED}) for i in range(kind.workloads))
    return View(
        campaign="simulated",
        about="",
        seed=seed,
        rule=Rule(design="adaptive", confidence=confidence),
        stacks=tuple(stacks),
        workloads=loads,
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
        factors=stacks,
    )


def _visited(view: View, number: int, stack: str, figures: list[float | None], started: float) -> View:
    n, count = view.visits_done, len(view.trials)
    trials = tuple(
        TrialResult(
            visit=n,
            stack=stack,
            round=number,
            order=count + i,
            workload=load.text,
            outcome=Outcome.FAILED if value is None else Outcome.OK,
            reason="exit code 1" if value is None else None,
            started_at=started + SET_UP_S,
            wall_s=TRIAL_S,
            metrics={} if value is None else {_SPEED.name: math.exp(value)},
            series={},
            flags=(),
            notes=(),
        )
        for i, (load, value) in enumerate(zip(view.workloads, figures, strict=True))
    )
    return replace(view, trials=(*view.trials, *trials), visits_done=n + 1)
