"""How little time could do: a yardstick for strategies, of somebody who knows all that they have to find out.

    python -m benchmarks.research.simulate.bound --stacks 100 --campaigns 60 --seed 1 --confidence 95%

It knows how good every stack is and how much its visits vary, drift and interference do not happen to it, and it may
make parts of visits. It only has to show, pair by pair and each at the confidence asked for, that no stack is better
than the one it names by more than the margin: sigma_c^2 / n_c + sigma_k^2 / n_k <= ((gap_k + margin) / z)^2 for each k,
with the fewest visits in all. Stacks say nothing about each other here: what a rule may learn from their factors, it
does not have. So it is a yardstick, not a bound on every rule.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence

import numpy as np
from benchmarks.research.simulate.ours import MARGIN
from benchmarks.research.simulate.truth import LEVELS, NOISES, SET_UP_S, TRIAL_S, Pretended, machine_of, truth_of

from strata.analysis.additive import Array
from strata.units import parse_percent

_STEPS = 400


def fewest_visits(level: Array, spread: Array, z: float, margin: float = MARGIN) -> float:
    """Of the stack that is cheapest to show good enough. `spread`: of one visit of each stack, logarithm."""
    fewest = math.inf
    for chosen in np.flatnonzero(level > level.max() - margin):
        others = np.arange(level.size) != chosen
        allowed = ((level[chosen] - level[others] + margin) / z) ** 2
        least = float((spread[chosen] ** 2 / allowed).max())
        for own in least * np.geomspace(1.0001, 100, _STEPS):
            fewest = min(fewest, own + float((spread[others] ** 2 / (allowed - spread[chosen] ** 2 / own)).sum()))
    return fewest


def spread_of(machine: Pretended, stack: int) -> float:
    """Of one visit, its modes counted and interference not."""
    profile = machine.noise.profile("the one stack" if machine.alike else str(stack))
    return math.sqrt(profile.spread**2 + profile.slow_share * (1 - profile.slow_share) * profile.slow_by**2)


def main(arguments: Sequence[str] | None = None) -> None:
    from scipy.special import ndtri

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.research.simulate.bound", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--stacks", type=int, choices=sorted(LEVELS), default=100)
    parser.add_argument("--campaigns", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--noise", choices=sorted(NOISES), default="realistic")
    parser.add_argument("--confidence", default="95%", metavar="PERCENT")
    given = parser.parse_args(arguments)
    z = float(ndtri(parse_percent(given.confidence)))
    if not 0 < z < math.inf:
        parser.error("--confidence is more than 50% and less than 100%")
    hours = []
    for seed in range(given.seed, given.seed + given.campaigns):
        machine = machine_of(truth_of(given.stacks, seed, given.noise), seed, given.noise)
        spread = np.array([spread_of(machine, k) for k in range(given.stacks)])
        hours.append(fewest_visits(machine.truth.level, spread, z) * (TRIAL_S + SET_UP_S) / 3600)
    said = {key: getattr(given, key) for key in ("stacks", "campaigns", "seed", "noise", "confidence")}
    mean, median = round(float(np.mean(hours)), 3), round(float(np.median(hours)), 3)
    print(json.dumps({"version": 1, **said, "hours": mean, "hours_median": median}))


if __name__ == "__main__":
    main()
