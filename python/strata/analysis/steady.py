"""Where the warm-up of a trial ends, and whether what follows is steady.

Warm-up: MSER-5 (White, "An effective truncation heuristic for bias reduction in simulation output", Simulation 69:6,
1997; White, Cobb and Spratt, WSC 2000; properties in Pasupathy and Schmeiser, "The initial transient in steady-state
point estimation: contexts, a bibliography, the MSE criterion, and the MSER statistic", WSC 2010). The series is
averaged in batches of 5; the cut d is where the squared standard error of what remains, S2(d) / (m - d), is least.
A cut in the second half means that the trial was too short to become steady.

Steady: the window test of the SNIA Solid State Storage Performance Test Specification, on 5 windows of what remains:
the range of their means at most 20 % of the mean, and the excursion of their least-squares line at most 10 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BATCH = 5
SHORTEST = 2 * BATCH  # fewer samples than this: nothing can be said
WINDOWS = 5
LARGEST_RANGE = 0.20  # of the mean
LARGEST_EXCURSION = 0.10  # of the mean, over the span from the first window to the last
# Among the last few batches a chance agreement of neighbours looks like a perfect steady state: a long series keeps
# the last 5 out of the search, a short one (where the search ends at the half) the last 3.
_TAIL, _SHORT_TAIL = 5, 3


@dataclass(frozen=True, slots=True)
class Steadiness:
    cut: int  # samples to leave out at the start
    mean: float | None  # of the samples after the cut; None when there is no sample
    steady: bool | None  # None: too short to judge
    why: str  # a sentence


def assess(values: Sequence[float], *, warm_up: bool = True) -> Steadiness:
    """Judge a series sampled at equal steps (1 s), oldest first. Values that are not finite are left out.

    `warm_up`: whether one may be cut off. Where the figure counts every sample, every sample is judged.
    """
    series = np.asarray([value for value in values if math.isfinite(value)], dtype=float)
    if series.size < SHORTEST:
        mean = float(series.mean()) if series.size else None
        why = f"The series has {series.size} samples and {SHORTEST} are needed: too short to judge."
        return Steadiness(0, mean, None, why)
    cut = _mser(series) if warm_up else 0
    if cut > series.size / 2:
        why = f"No steady state: the warm-up would be {cut} of {series.size} samples, more than half."
        return Steadiness(0, float(series.mean()), False, why)
    rest = series[cut:]
    reason = _moving(rest)
    mean = float(rest.mean())
    cut_text = f"after a warm-up of {cut} samples" if cut else "from the first sample"
    if reason:
        return Steadiness(cut, mean, False, f"Not steady {cut_text}: {reason}.")
    return Steadiness(cut, mean, True, f"Steady {cut_text}.")


def _mser(series: NDArray[np.float64]) -> int:
    """The MSER-5 cut in samples, a multiple of 5; the smallest one where several are as good."""
    batches = series[: series.size // BATCH * BATCH].reshape(-1, BATCH).mean(axis=1)
    count = batches.size
    # About its own level, so that the differences of squares below keep their digits.
    centred = batches - batches.mean()
    last = max(count - _TAIL, min(count // 2, count - _SHORT_TAIL), 0)
    left = count - np.arange(last + 1)
    sums = np.cumsum(centred[::-1])[::-1][: left.size]
    squares = np.cumsum(centred[::-1] ** 2)[::-1][: left.size]
    spread = np.maximum(squares - sums**2 / left, 0.0)
    score = spread / left.astype(float) ** 2
    # Rounding leaves about 1e-16 of the squares behind where there is no spread at all.
    score[score <= 1e-14 * squares[0]] = 0.0
    return int(np.argmin(score)) * BATCH


def _moving(rest: NDArray[np.float64]) -> str:
    """Why the SNIA window test fails, or "" when it holds. `rest` has at least 5 samples."""
    windows = np.array([part.mean() for part in np.array_split(rest, WINDOWS)])
    mean = abs(float(windows.mean()))
    spread = float(windows.max() - windows.min())
    places = np.arange(WINDOWS) - (WINDOWS - 1) / 2
    slope = float(places @ windows / (places @ places))
    excursion = abs(slope) * (WINDOWS - 1)
    # A hair of tolerance: a range of exactly 20 % passes, however the last digit was rounded.
    hair = 1e-12 * mean
    reasons = []
    if spread > LARGEST_RANGE * mean + hair:
        reasons.append(
            f"the means of {WINDOWS} windows range over {_share(spread, mean)} (at most {LARGEST_RANGE:.0%} allowed)"
        )
    if excursion > LARGEST_EXCURSION * mean + hair:
        way = "rises" if slope > 0 else "falls"
        reasons.append(f"it {way} by {_share(excursion, mean)} (at most {LARGEST_EXCURSION:.0%} allowed)")
    return " and ".join(reasons)


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%} of the mean" if whole > 0 else "more than its mean, which is 0"
