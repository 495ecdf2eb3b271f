"""Every strategy on campaigns that resample what was really measured.

    python -m benchmarks.research.replay pilot.parquet --campaigns 100 --seed 1 --json

The data set has one row for each visit: `stack`, `hour`, `value` (natural logarithm, larger is better), and one column
`factor: NAME` for each factor; `python -m benchmarks.research.dataset DIR FILE` makes it from a run of many
interleaved rounds.
A stack's truth is its mean over all its visits, what the machine did to all taken out. A visit in a replay is that
truth, the machine's drift at that hour (the recorded course, over and over), and the rest of one of the stack's own
visits, drawn with replacement. Trials within one visit are drawn like visits, which flatters strategies that repeat
trials in one visit: what visits share is in no trial.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Before numpy is loaded: on matrices of this size a second thread waits more than it works.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import polars as pl
from benchmarks.research.simulate.tally import STRATEGIES, as_json, judge, summary, table
from benchmarks.research.simulate.truth import SET_UP_S, TRIAL_S, Truth

from strata import parquet
from strata.analysis.additive import Array, Readings, fit, layout, of_codes
from strata.errors import BadInput
from strata.text import visible
from strata.units import parse_percent

FACTOR = "factor: "
FEWEST_VISITS = 5


@dataclass(frozen=True, slots=True)
class Recorded:
    """A data set, taken apart."""

    stacks: tuple[str, ...]
    truth: Truth
    rest: tuple[Array, ...]  # of each stack: what its visits had of their own
    hours: Array  # of the rounds
    drift: Array  # of the rounds: what the machine did to all stacks alike
    factors: tuple[str, ...]  # those that distinguish stacks, in the order of the truth's codes


def recorded(data: pl.DataFrame) -> Recorded:
    """Raises BadInput when columns are missing, or a stack has too few visits to be resampled."""
    missing = {"stack", "hour", "value"} - set(data.columns)
    if missing:
        raise BadInput(f"the data set has no column {', '.join(sorted(missing))}; it needs stack, hour and value.")
    stacks = tuple(data["stack"].unique(maintain_order=True).to_list())
    rows = {stack: data.filter(pl.col("stack") == stack).sort("hour") for stack in stacks}
    few = [stack for stack, visits in rows.items() if visits.height < FEWEST_VISITS]
    if few:
        raise BadInput(f"{few[0]} has fewer than {FEWEST_VISITS} visits; run more rounds of the pilot.")
    rounds = min(visits.height for visits in rows.values())
    value = np.array([visits["value"].to_numpy()[:rounds] for visits in rows.values()])
    hour = np.array([visits["hour"].to_numpy()[:rounds] for visits in rows.values()])
    drift = np.median(value - value.mean(axis=1, keepdims=True), axis=0)
    drift = drift - drift.mean()
    level = (value - drift).mean(axis=1)
    names = [name for name in data.columns if name.startswith(FACTOR)]
    factors = {
        stack: {name: str(visits[name][0]) for name in names if visits[name][0] is not None}
        for stack, visits in rows.items()
    }
    shape = layout(stacks, factors)
    return Recorded(
        stacks,
        Truth(shape.codes, level - level.max()),
        tuple((value - drift)[k] - level[k] for k in range(len(stacks))),
        np.asarray(hour.mean(axis=0) - hour.min()),
        drift,
        tuple(name.removeprefix(FACTOR) for name in shape.names[: shape.codes.shape[1]]),
    )


class Replayed:
    """A machine made of a data set."""

    def __init__(self, data: Recorded, seed: int) -> None:
        self.truth = data.truth
        self.seconds = 0.0
        self._data = data
        self._seed = seed
        self._draws = [0] * len(data.stacks)

    def visit(self, stack: int, trials: int = 1) -> list[float]:
        self.seconds += SET_UP_S
        return [self.more(stack) for _ in range(trials)]

    def more(self, stack: int) -> float:
        """Draw n of a stack is the same whichever strategy makes it."""
        self._draws[stack] += 1
        chance = np.random.default_rng([self._seed, stack, self._draws[stack]])
        hours = self._data.hours
        at = (self.seconds / 3600) % max(float(hours[-1]), 1e-9)
        drift = float(np.interp(at, hours, self._data.drift))
        self.seconds += TRIAL_S
        return float(self.truth.level[stack]) + drift + float(chance.choice(self._data.rest[stack]))


@dataclass(frozen=True, slots=True)
class Noise:
    """What the noise of a data set looks like. Spreads are standard deviations of logarithms."""

    stacks: int
    visits: int
    hours: float
    spread_low: float  # of visits of one stack, drift taken out: the least, the middle and the largest of all stacks
    spread_middle: float
    spread_high: float
    drift_range: float  # between the best and the worst round, for all stacks together
    drift_spread: float  # of the rounds
    two_modes: float  # share of stacks whose visits fall into two groups
    outliers: float  # share of visits further than 3.5 robust spreads from the stack's median
    visit_share: float | None  # of the variance that all of a visit shares; None: the data set has no halves of trials
    pressure_share: float | None  # of the variance that goes with the waiting for a processor, over all visits
    effects: Mapping[str, float]  # spread of each kind of effect, by the additive model; the stacks' own comes last


def noise_of(data: Recorded, table: pl.DataFrame | None = None) -> Noise:
    """`table`: what `data` was made of, for what only it says."""
    from strata.analysis.checks import FEWEST_FOR_MODES, OUTLIER_Z, two_modes

    spreads = np.array([rest.std(ddof=1) for rest in data.rest])
    far = []
    for rest in data.rest:
        away = np.abs(rest - np.median(rest))
        far.append(float(np.mean(away > OUTLIER_Z * max(float(np.median(away)), 1e-9) / 0.6745)))
    judged = [rest for rest in data.rest if rest.size >= FEWEST_FOR_MODES]
    return Noise(
        stacks=len(data.stacks),
        visits=sum(rest.size for rest in data.rest),
        hours=float(data.hours[-1] - data.hours[0]),
        spread_low=float(spreads.min()),
        spread_middle=float(np.median(spreads)),
        spread_high=float(spreads.max()),
        drift_range=float(np.ptp(data.drift)),
        drift_spread=float(data.drift.std(ddof=1)),
        two_modes=float(np.mean([two_modes(rest) is not None for rest in judged])) if judged else 0.0,
        outliers=float(np.mean(far)),
        visit_share=None if table is None else _visit_share(data, table),
        pressure_share=None if table is None else _pressure_share(data, table),
        effects=_effects(data),
    )


def _visit_share(data: Recorded, table: pl.DataFrame) -> float | None:
    """From the two halves of each trial: what they do not have in common is not the visit's. Pooled over stacks.

    The halves follow each other, so what lasts longer than a trial counts as the visit's too.
    """
    if "early" not in table.columns:
        return None
    apart, whole, freedom = 0.0, 0.0, 0
    for stack, rest in zip(data.stacks, data.rest, strict=True):
        rows = table.filter(pl.col("stack") == stack).drop_nulls(["early", "late"])
        if rows.height < FEWEST_VISITS:
            continue
        gap = rows["early"].to_numpy() - rows["late"].to_numpy()
        apart += float(gap.var(ddof=1)) / 4  # variance of a mean of two halves
        whole += float(rest.var(ddof=1))
        freedom += 1
    return max(1 - apart / whole, 0.0) if freedom and whole > 0 else None


def _pressure_share(data: Recorded, table: pl.DataFrame) -> float | None:
    if "cpu_pressure" not in table.columns or table["cpu_pressure"].null_count():
        return None
    rest, pressure = [], []
    for stack, own in zip(data.stacks, data.rest, strict=True):
        waited = table.filter(pl.col("stack") == stack).sort("hour")["cpu_pressure"].to_numpy()[: own.size]
        rest.append(own + data.drift[: own.size])
        pressure.append(waited - waited.mean())
    together = np.corrcoef(np.concatenate(rest), np.concatenate(pressure))[0, 1]
    return float(together**2) if np.isfinite(together) else 0.0


def _effects(data: Recorded) -> dict[str, float]:
    """By the model that decides, from all visits there are."""
    rounds = data.drift.size
    stack = np.tile(np.arange(len(data.stacks)), rounds)
    value = np.concatenate([[data.truth.level[k] + rest[n] for k, rest in enumerate(data.rest)] for n in range(rounds)])
    shape = of_codes(data.truth.codes, data.factors)
    found = fit(shape, Readings(stack.astype(np.int64), value + np.repeat(data.drift, len(data.stacks)),
                                np.repeat(data.hours, len(data.stacks))))  # fmt: skip
    return {name: float(spread) for name, spread in zip((*shape.names, "a stack's own"), found.spreads, strict=True)}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.research.replay", description=__doc__.split("\n\n")[0])
    parser.add_argument("data", type=Path, metavar="FILE.parquet")
    parser.add_argument("--campaigns", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--within", default="3%", metavar="PERCENT", help="stacks closer than this are as good")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="strategies whose name holds it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(arguments)
    margin = -math.log1p(-parse_percent(given.within))
    try:
        with given.data.open("rb") as file:
            content = parquet.read(file)
        parquet.check(content)
        rows = pl.read_parquet(io.BytesIO(parquet.without_arrow_schema(content)))
    # PanicException is no Exception: polars panics on some broken files.
    except (ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        sys.exit(f"{given.data} is no data set of benchmarks.research.dataset: {error}; make it again.")
    data = recorded(rows)
    summaries = []
    for name, strategy in STRATEGIES.items():
        if given.only and not any(text in name for text in given.only):
            continue
        made = []
        for seed in range(given.seed, given.seed + given.campaigns):
            machine = Replayed(data, seed)
            made.append(judge(strategy(machine, seed, margin), machine, margin))
        summaries.append(summary(name, made))
    seen = noise_of(data, rows)
    if given.json:
        noise = {name: getattr(seen, name) for name in seen.__dataclass_fields__}
        said = {
            "data": given.data.name,
            "campaigns": given.campaigns,
            "seed": given.seed,
            "within": given.within,
            "noise": noise,
        }
        print(json.dumps({"version": 1, **said, "strategies": as_json(summaries)}, indent=1))
        return
    print(f"{seen.stacks} stacks, {seen.visits} visits over {seen.hours:.1f} h.")
    print(
        f"One visit varies by {seen.spread_low:.1%} to {seen.spread_high:.1%}, in the middle {seen.spread_middle:.1%}."
    )
    print(f"Rounds range over {seen.drift_range:.1%} for all stacks together.")
    print(f"{seen.two_modes:.0%} of stacks have two modes; {seen.outliers:.1%} of visits are outliers.")
    if seen.visit_share is not None:
        print(f"All of a visit shares {seen.visit_share:.0%} of the variance.")
    if seen.pressure_share is not None:
        print(f"Waiting for a processor goes with {seen.pressure_share:.0%} of the variance.")
    print(f"Effects: {', '.join(f'{visible(name)} {spread:.1%}' for name, spread in seen.effects.items())}.\n")
    print(table(summaries))


if __name__ == "__main__":
    main()
