"""What others do, as strategies. Each ends with the stack it would name, and the intervals it would print."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from benchmarks.research.simulate.truth import Machine

from strata.analysis.additive import Array
from strata.analysis.student import t_quantile

# Phoronix Test Suite, pts_test_run_manager.php::increase_run_count_check at 84227e6aa, for tests of under two minutes
# with TimesToRun 3; the threshold that its user-config.xml ships.
PHORONIX_RUNS, PHORONIX_THRESHOLD = 3, 0.025
_MOST_IN_HALVING = 32


@dataclass(frozen=True, slots=True)
class Ended:
    """`low` and `high`: 95 % intervals of each stack's logarithm less the chosen one's; nan where there is none."""

    chosen: int
    low: Array
    high: Array
    tied: Array  # bool: reported as perhaps the best
    measured: int  # stacks
    settled: bool = True
    stated: float | None = None  # its own chance of being right; None: it states none


def sequential(machine: Machine, repeats: int) -> Ended:
    """Every stack set up once and measured `repeats` times, one stack after the other; the mean decides."""
    values = [machine.visit(k, repeats) for k in range(machine.truth.level.size)]
    return _by_means(values)


def interleaved(machine: Machine, repeats: int, chance: np.random.Generator) -> Ended:
    """`repeats` rounds over all stacks in random order; round medians are taken out."""
    stacks = machine.truth.level.size
    table = np.zeros((stacks, repeats))
    for number in range(repeats):
        for k in chance.permutation(stacks):
            table[k, number] = machine.visit(int(k))[0]
    return _welch([list(row) for row in table - np.median(table, axis=0)], by_mean_of_figures=False)


def phoronix(machine: Machine) -> Ended:
    """Three runs; more while they spread too much, one stack after the other."""
    values = []
    for k in range(machine.truth.level.size):
        runs = machine.visit(k, PHORONIX_RUNS)
        first: float | None = None
        while True:
            figures = np.exp(runs)
            spread = float(figures.std(ddof=1) / figures.mean())
            first = spread if first is None else first
            odd = bool(np.any(np.abs(figures - figures.mean()) > 3 * figures.std(ddof=1)))
            if not (spread >= PHORONIX_THRESHOLD or odd) or len(runs) >= 5 * PHORONIX_RUNS:
                break
            # Beyond four times the runs planned, only while the spread has hardly moved: so the code says.
            if len(runs) >= 4 * PHORONIX_RUNS and not abs(first - spread) < first / 2:
                break
            runs.append(machine.more(k))
        values.append(runs)
    return _by_means(values)


def halving(machine: Machine, chance: np.random.Generator) -> Ended:
    """Successive halving (Jamieson and Talwalkar, AISTATS 2016): the better half continues with twice the visits."""
    stacks = machine.truth.level.size
    alive, visits = np.arange(stacks), 1
    while alive.size > 1:
        table = np.zeros((alive.size, visits))
        for number in range(visits):
            for place in chance.permutation(alive.size):
                table[place, number] = machine.visit(int(alive[place]))[0]
        mean = (table - np.median(table, axis=0)).mean(axis=1)
        alive = alive[np.argsort(-mean, kind="stable")[: math.ceil(alive.size / 2)]]
        visits = min(2 * visits, _MOST_IN_HALVING)
    nothing = np.full(stacks, np.nan)
    tied = np.zeros(stacks, dtype=bool)
    tied[alive[0]] = True
    return Ended(int(alive[0]), nothing, nothing, tied, stacks)


def _by_means(values: list[list[float]]) -> Ended:
    return _welch(values, by_mean_of_figures=True)


def _welch(values: list[list[float]], by_mean_of_figures: bool) -> Ended:
    """Plain means with Welch's intervals, as one would print them."""
    mean = np.array([np.mean(v) for v in values])
    count = np.array([len(v) for v in values], dtype=float)
    error2 = np.maximum(np.array([np.var(v, ddof=1) for v in values]), 1e-12) / count
    deciding = np.array([np.mean(np.exp(v)) for v in values]) if by_mean_of_figures else mean
    chosen = int(np.argmax(deciding))
    total = error2 + error2[chosen]
    freedom = total**2 / (error2**2 / (count - 1) + error2[chosen] ** 2 / (count[chosen] - 1))
    half = np.array([t_quantile(0.975, float(f)) for f in freedom]) * np.sqrt(total)
    gap = mean - mean[chosen]
    tied = gap + half >= 0
    tied[chosen] = True
    return Ended(chosen, gap - half, gap + half, tied, mean.size)
