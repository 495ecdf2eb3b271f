"""Many campaigns of one strategy, in a row of figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from benchmarks.research.simulate.ours import MARGIN, run_adaptive, run_race
from benchmarks.research.simulate.peers import Ended, halving, interleaved, phoronix, sequential
from benchmarks.research.simulate.truth import Machine

from strata.analysis.additive import Array

Strategy = Callable[[Machine, int, float], Ended]  # machine, seed, margin


def _luck(seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, 2])


STRATEGIES: dict[str, Strategy] = {
    "matrix x3, one after the other": lambda machine, seed, margin: sequential(machine, 3),
    "matrix x5, one after the other": lambda machine, seed, margin: sequential(machine, 5),
    "matrix x10, one after the other": lambda machine, seed, margin: sequential(machine, 10),
    "matrix x3, interleaved": lambda machine, seed, margin: interleaved(machine, 3, _luck(seed)),
    "matrix x5, interleaved": lambda machine, seed, margin: interleaved(machine, 5, _luck(seed)),
    "matrix x10, interleaved": lambda machine, seed, margin: interleaved(machine, 10, _luck(seed)),
    "Phoronix rule": lambda machine, seed, margin: phoronix(machine),
    "successive halving": lambda machine, seed, margin: halving(machine, _luck(seed)),
    "race, 95 %": lambda machine, seed, margin: run_race(machine, seed, 0.95, margin=margin),
    "adaptive, 50 %": lambda machine, seed, margin: run_adaptive(machine, seed, 0.50, margin=margin),
    "adaptive, 80 %": lambda machine, seed, margin: run_adaptive(machine, seed, 0.80, margin=margin),
    "adaptive, 95 %": lambda machine, seed, margin: run_adaptive(machine, seed, 0.95, margin=margin),
}


@dataclass(frozen=True, slots=True)
class Campaign:
    """The result of one strategy on one campaign."""

    hours: float
    wrong: bool  # the stack it names is more than the margin below the best
    below: float  # how far it is below the best, natural logarithm
    covered: float | None  # share of its 95 % intervals that hold the truth
    best_tied: bool  # the best is among those it reports as perhaps the best
    tied: int
    measured: int
    settled: bool
    stated: float | None


def judge(ended: Ended, machine: Machine, margin: float = MARGIN, level: Array | None = None) -> Campaign:
    """`level`: what is held to be true, where that is not what the stacks are in the long run."""
    level = machine.truth.level if level is None else level
    below = float(level.max() - level[ended.chosen])
    gap = level - level[ended.chosen]
    there = np.isfinite(ended.low) & np.isfinite(ended.high)
    there[ended.chosen] = False
    held = (ended.low <= gap) & (gap <= ended.high)
    return Campaign(
        hours=machine.seconds / 3600,
        wrong=below > margin,
        below=below,
        covered=float(held[there].mean()) if there.any() else None,
        best_tied=bool(ended.tied[int(np.argmax(level))]),
        tied=int(ended.tied.sum()),
        measured=ended.measured,
        settled=ended.settled,
        stated=ended.stated,
    )


@dataclass(frozen=True, slots=True)
class Summary:
    """Means over campaigns; `wrong_at_most` is what these campaigns leave possible of `wrong` (`at_most`)."""

    strategy: str
    campaigns: int
    hours: float
    hours_median: float
    hours_se: float
    wrong: float
    wrong_at_most: float
    below_pct: float
    coverage: float | None
    best_tied: float
    tied: float
    measured: float
    settled: float


def at_most(wrong: int, campaigns: int) -> float:
    """The upper limit, at 95 %, of a rate that was seen `wrong` times in so many (Clopper and
    Pearson, Biometrika 26:404, 1934). A standard error would be 0 where none was wrong, which is where least is known.
    """
    from scipy.special import betaincinv

    return 1.0 if wrong == campaigns else float(betaincinv(wrong + 1, campaigns - wrong, 0.95))


def summary(name: str, made: Sequence[Campaign]) -> Summary:
    n = len(made)
    hours = np.array([each.hours for each in made])
    wrong = sum(each.wrong for each in made)
    covered = [each.covered for each in made if each.covered is not None]
    return Summary(
        strategy=name,
        campaigns=n,
        hours=float(hours.mean()),
        hours_median=float(np.median(hours)),
        hours_se=float(hours.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan,
        wrong=wrong / n,
        wrong_at_most=at_most(wrong, n),
        below_pct=100 * float(np.mean([-math.expm1(-each.below) for each in made])),
        coverage=float(np.mean(covered)) if covered else None,
        best_tied=float(np.mean([each.best_tied for each in made])),
        tied=float(np.mean([each.tied for each in made])),
        measured=float(np.mean([each.measured for each in made])),
        settled=float(np.mean([each.settled for each in made])),
    )


def as_json(summaries: Sequence[Summary]) -> list[dict[str, object]]:
    """Numbers to 4 digits after the point: more is not known of them."""
    rows = []
    for each in summaries:
        row = {
            name: (round(value, 4) if isinstance(value, float) and math.isfinite(value) else value)
            for name, value in asdict(each).items()
        }
        rows.append(
            {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}
        )
    return rows


def table(summaries: Sequence[Summary]) -> str:
    """For people: one line a strategy."""
    head = f"{'strategy':32s} {'hours':>7s} {'wrong':>6s} {'at most':>7s} {'95 % int.':>9s} {'best tied':>9s}"
    lines = [f"{head} {'measured':>8s}"]
    for each in summaries:
        covered = "-" if each.coverage is None else f"{each.coverage:.1%}"
        lines.append(
            f"{each.strategy:32s} {each.hours:7.2f} {each.wrong:6.1%} {each.wrong_at_most:7.1%} {covered:>9s} "
            f"{each.best_tied:9.1%} {each.measured:8.1f}"
        )
    return "\n".join(lines)
