"""How far the exact lab puts stacks in the order in which a real machine puts them.

    python benchmarks/exact_validity.py docs/concepts/deciding/pilot/visits.parquet EXACT [--list]

The first is a data set of real visits, EXACT one of visits of the same stacks on the virtual clock, on disks whose
model was probed from the disk that carried the real ones. `python -m benchmarks.research.dataset RUN FILE.parquet`
makes both.

Real visits are noisy, so they are resampled 2000 times (a stack's visits, with replacement). Printed are the rank
correlations (Spearman, Kendall's tau-b) with the interval in which 95 % of them lie; the same of one half of the real
rounds with the other, and what a perfect model would reach by it (Spearman and Brown); and of the pairs of stacks that
the real visits distinguish (the same one faster in 97.5 % of the draws) how many the lab puts in that order, by how far
they are apart really; and, as one who has the lab alone would ask, of the pairs that are so far apart in the lab how
many are really in that order. Of the stacks within a quarter of the real median stack the correlation is printed alone.
--list: every stack, its figure beside the median stack's, real and in the lab.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import kendalltau, spearmanr

from strata.analysis.cells import Array

DRAWS = 2000
# How far the stacks of a pair are apart, really: the larger over the smaller.
BOUNDS = (1.0, 1.1, 1.25, 2.0, 5.0, float("inf"))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("real", type=Path)
    parser.add_argument("exact", type=Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    real, exact = pl.read_parquet(options.real), pl.read_parquet(options.exact)
    stacks = sorted(set(real["stack"]) & set(exact["stack"]))
    if len(stacks) < 3:
        parser.error(f"{len(stacks)} stacks are in both data sets; three are needed to speak of an order.")
    visits = [real.filter(pl.col("stack") == stack).sort("round")["value"].to_numpy() for stack in stacks]
    lab = np.array([exact.filter(pl.col("stack") == stack)["value"].to_numpy().mean() for stack in stacks])
    mean = np.array([values.mean() for values in visits])
    chance = np.random.default_rng(options.seed)
    drawn = np.array(
        [[chance.choice(values, len(values)).mean() for values in visits] for _ in range(DRAWS)]
    )  # draws x stacks

    print(f"{len(stacks)} stacks, {min(map(len, visits))} real visits of each at least")
    for name, measure in (("Spearman", spearman), ("Kendall", kendall)):
        low, high = np.quantile([measure(draw, lab) for draw in drawn], [0.025, 0.975])
        print(f"{name}: {measure(mean, lab):.2f}, 95 % of the draws {low:.2f} to {high:.2f}")
    halves = [np.array([values[half::2].mean() for values in visits]) for half in (0, 1)]
    between = spearman(*halves)
    print(f"half of the real rounds with the other: Spearman {between:.2f}, Kendall {kendall(*halves):.2f}")
    # what is common to two halves is what all of the rounds have of the truth: Spearman, and Brown, 1910
    print(f"so a perfect model would reach about {(2 * between / (1 + between)) ** 0.5:.2f} (Spearman)")
    middle = np.abs(mean - np.median(mean)) < np.log(1.25)
    among = spearman(mean[middle], lab[middle])
    print(f"the {middle.sum()} stacks within a quarter of the median stack: Spearman {among:.2f}")
    for line in pairs(mean, lab, drawn):
        print(line)
    if options.list:
        print("\nbeside the median stack: real, in the lab")
        for number in np.argsort(mean):
            own, modelled = np.exp(mean[number] - np.median(mean)), np.exp(lab[number] - np.median(lab))
            print(f"{own:7.3f} {modelled:7.3f}  {stacks[number]}")
    return 0


def spearman(one: Array, other: Array) -> float:
    return float(spearmanr(one, other).statistic)


def kendall(one: Array, other: Array) -> float:
    return float(kendalltau(one, other).statistic)


def pairs(mean: Array, lab: Array, drawn: Array) -> list[str]:
    """One line for each class of distances that the real visits distinguish."""
    first, second = np.triu_indices(len(mean), 1)
    faster = (drawn[:, first] > drawn[:, second]).mean(axis=0)
    told = (faster >= 0.975) | (faster <= 0.025)
    apart = np.exp(np.abs(mean[first] - mean[second]))
    agrees = (mean[first] > mean[second]) == (lab[first] > lab[second])
    lines = [
        f"{told.sum()} of {len(told)} pairs are distinguished by real visits; the lab agrees on {agrees[told].sum()}"
    ]
    for name, here in _classes(apart):
        within = told & here
        if within.any():
            lines.append(f"  {name}: {agrees[within].sum()} of {within.sum()}")
    lines.append("of all pairs, by how far they are apart in the lab: really in that order")
    foretold = np.exp(np.abs(lab[first] - lab[second]))
    for name, within in _classes(foretold):
        if within.any():
            against = (within & told & ~agrees).sum()
            line = f"  {name}: {agrees[within].sum()} of {within.sum()}"
            lines.append(f"{line}; of the others the real visits tell {against} apart")
    return lines


def _classes(apart: Array) -> Iterator[tuple[str, np.ndarray[Any, np.dtype[np.bool_]]]]:
    """Each class of distances in words, and which pairs are of it."""
    for least, most in itertools.pairwise(BOUNDS):
        upto = f"to {most:g}" if np.isfinite(most) else "and more"
        yield f"{least:g} {upto} times apart", (apart >= least) & (apart < most)


if __name__ == "__main__":
    raise SystemExit(main())
