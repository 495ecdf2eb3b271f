"""Time and memory of choosing the next batch, late in a large campaign: 300 stacks, 2,000 visits, on one core.

Run: python -m benchmarks.choose_batch
Prints the seconds of CPU, also as a ratio to factoring a matrix of 1,000 rows, which hardly depends on the machine;
and the most memory that the process took. Exits with 1 when a choice takes a second or 500 MB.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from benchmarks.research.simulate.ours import MARGIN
from benchmarks.research.simulate.truth import truth_of

from strata.analysis import additive
from strata.design import adaptive

STACKS, VISITS = 300, 2000
MOST_S, MOST_BYTES = 1.0, 500e6


def _fastest(what: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times):
        begin = time.process_time()
        what()
        taken.append(time.process_time() - begin)
    return min(taken)


def main() -> None:
    truth = truth_of(STACKS, 1)
    chance = np.random.default_rng(1)
    # As the rule leaves it: most visits are of few stacks, and most stacks have one or none.
    leading = np.argsort(-truth.level)
    stack = np.where(
        chance.random(VISITS) < 0.7, leading[chance.integers(0, 20, VISITS)], chance.integers(0, STACKS, VISITS)
    )
    value = truth.level[stack] + chance.normal(0, 0.06, VISITS)
    readings = additive.Readings(stack.astype(np.int64), value, np.arange(VISITS) * 80 / 3600)
    shape = additive.of_codes(truth.codes)

    def choose() -> None:
        # A margin and a confidence that are not reached: stopping would be the cheaper answer.
        adaptive.decide(shape, readings, np.arange(STACKS), margin=MARGIN / 100, confidence=0.999, seed=1)

    matrix = np.eye(1000) + chance.random((1000, 1000)) / 2000
    square = matrix @ matrix.T
    unit_s = _fastest(lambda: np.linalg.cholesky(square), 5)
    took_s = _fastest(choose, 3)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        f"next batch of {STACKS} stacks after {VISITS:,} visits: {took_s:.2f} s of CPU, "
        f"{took_s / unit_s:.0f} times a Cholesky factorisation of 1,000 rows; at most {peak / 1e6:.0f} MB"
    )
    sys.exit(took_s > MOST_S or peak > MOST_BYTES)


if __name__ == "__main__":
    main()
