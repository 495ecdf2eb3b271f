"""What every stack of a factorial campaign achieves, from few readings: the posterior of an additive model.

    reading = level + f[stack] + d[time] + noise
    f = sum of main effects of the stack's factors + sum of pair effects + its own residual

Logarithms throughout, larger is better. Effects of one kind share a spread, which is learned; residuals have Student's
t (4 degrees of freedom) as their prior, so that one odd stack does not make all of them uncertain. The machine drifts
as a random walk. Noise is Student's t as well, with a spread per stack that is pulled towards the common one.

Given the spreads everything is normal and the posterior is exact: residuals are integrated out one by one, so the
matrix to be factored has the size of effects and times, not of stacks. Spreads and weights are found by alternating
(EM with weak priors; West, "Outlier models and prior distributions in Bayesian linear regression", JRSS B 46:3, 1984,
for Student's t as a mixture of normals). Spreads so found are too sure of themselves; whoever states a probability
widens the posterior for it (`belief`).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

DEGREES = 4.0  # of Student's t, for noise and residuals
USUAL_NOISE = 0.06  # spread of one visit that is assumed before there are repeats
USUAL_NOISE_WEIGHT = 3.0  # in visits
DRIFT_PER_ROOT_HOUR = 0.03
USUAL_DRIFT_WEIGHT = 4.0  # in steps
_LEVEL_PRECISION = 1e-2  # of the first time: the overall level is not known beforehand
_SHORTEST_STEP_H = 0.02
_FEWEST_TO_TRUST_A_HIGH = 3  # visits before a surprisingly good reading is treated as an outlier
_HIGH, _FREE = 2.0, 0.05  # spreads from which readings are a stack's own; what its own is divided by then, squared
_PAIR_COLUMNS = 600
ITERATIONS = 10


@dataclass(frozen=True, slots=True)
class EffectKind:
    """The prior for the spread of effects of one kind: as if `weight` effects of spread `usual` had been observed."""

    name: str
    usual: float
    weight: float
    start: float
    floor: float = 0.0


MAIN = EffectKind("factor", usual=0.12, weight=1.0, start=0.15)
PAIR = EffectKind("pair of factors", usual=0.05, weight=3.0, start=0.05)
RESIDUAL = EffectKind("stack", usual=0.035, weight=8.0, start=0.04, floor=0.02)
# The residual where there are no factors.
ALONE = EffectKind("stack without factors", usual=0.25, weight=4.0, start=0.3, floor=0.02)


@dataclass(frozen=True, slots=True)
class Layout:
    """Which effects each stack is the sum of."""

    columns: Array  # stacks x effects, 0 or 1
    term: Ints  # of each effect: which term (factor, or pair of factors) it belongs to
    kinds: tuple[EffectKind, ...]  # of each term
    names: tuple[str, ...]  # of each term
    residual: EffectKind
    codes: Ints  # stacks x factors: the level of each


@dataclass(frozen=True, slots=True)
class Readings:
    """One row for each visit with a figure, in the order they were made."""

    stack: Ints
    value: Array  # logarithm, larger is better
    hour: Array  # when, since anything

    def __len__(self) -> int:
        return int(self.stack.size)


@dataclass(frozen=True, slots=True)
class Posterior:
    """Of f, for every stack of the layout, visited or not.

    f = shift + loading @ a + own * z, with a normal (mean, cov) and z independent standard normal.
    """

    layout: Layout
    shift: Array
    loading: Array  # stacks x (effects + times)
    own: Array
    mean: Array
    cov: Array
    noise: Array  # spread of one visit of each stack
    visits: Ints  # readings of each stack
    odd: Array  # residual over spread, of each reading
    weight: Array  # of each reading: below about 0.3 it was taken for an outlier
    times: Array  # hour of each step of the drift
    spreads: Array  # of each term, the residual last

    @property
    def level(self) -> Array:
        """Posterior mean of f."""
        return np.asarray(self.shift + self.loading @ self.mean)

    def variance(self) -> Array:
        return np.asarray(np.einsum("ij,ij->i", self.loading @ self.cov, self.loading) + self.own**2)

    @property
    def drift(self) -> Array:
        """Posterior mean of the drift at `times`."""
        return np.asarray(self.mean[self.layout.columns.shape[1] :])

    def draws(self, chance: np.random.Generator, count: int) -> Array:
        """`count` x stacks, joint draws of f."""
        size = self.mean.size
        return self.drawn(chance.standard_normal((count, size)), chance.standard_normal((count, self.own.size)))

    def drawn(self, parts: Array, own: Array) -> Array:
        """Joint draws of f from standard normals: of the effects and times, and of each stack's own."""
        root = np.linalg.cholesky(self.cov + 1e-12 * np.eye(self.mean.size))
        a = self.mean + parts @ root.T
        return np.asarray(self.shift + a @ self.loading.T + own * self.own)


# ---------------------------------------------------------------- the layout


def layout(stacks: Sequence[str], factors: Mapping[str, Mapping[str, str]]) -> Layout:
    """`factors`: stack -> factor -> level. A factor that a stack does not have is a level of its own.

    Left out: factors with one level, those that split the stacks as another does, and pairs with so many combinations
    that hardly two stacks share one (those say no more than the stacks' own residuals).
    """
    names = list(dict.fromkeys(name for stack in stacks for name in factors.get(stack, {})))
    codes: list[Ints] = []
    kept: list[str] = []
    for name in names:
        levels = [factors.get(stack, {}).get(name, "") for stack in stacks]
        code = _dense(levels)
        if code.max(initial=0) > 0 and not any(np.array_equal(code, other) for other in codes):
            codes.append(code)
            kept.append(name)
    return of_codes(np.array(codes, dtype=np.int64).T.reshape(len(stacks), len(codes)), kept)


def of_codes(codes: Ints, names: Sequence[str] | None = None) -> Layout:
    """From stacks x factors of level numbers."""
    stacks, factors = codes.shape
    called = list(names) if names is not None else [str(i + 1) for i in range(factors)]
    blocks, kinds, said = [], [], []
    for j in range(factors):
        blocks.append(_one_hot(_dense(codes[:, j])))
        kinds.append(MAIN)
        said.append(called[j])
    pairs = []
    for a, b in itertools.combinations(range(factors), 2):
        combined = _dense(codes[:, a] * (int(codes[:, b].max(initial=0)) + 1) + codes[:, b])
        count = int(combined.max(initial=0)) + 1
        finer = max(int(codes[:, a].max(initial=0)), int(codes[:, b].max(initial=0))) + 1
        if finer < count <= stacks / 2:
            pairs.append((count, f"{called[a]} x {called[b]}", combined))
    used = 0
    for count, name, combined in sorted(pairs, key=lambda pair: pair[0]):
        if used + count > _PAIR_COLUMNS:
            break
        used += count
        blocks.append(_one_hot(combined))
        kinds.append(PAIR)
        said.append(name)
    term = np.repeat(np.arange(len(blocks)), [block.shape[1] for block in blocks]).astype(np.int64)
    columns = np.hstack(blocks) if blocks else np.zeros((stacks, 0))
    return Layout(columns, term, tuple(kinds), tuple(said), RESIDUAL if blocks else ALONE, codes)


def _dense(levels: Sequence[object] | Ints) -> Ints:
    """Numbers from 0 in the order of first appearance: renaming levels changes nothing."""
    seen: dict[object, int] = {}
    return np.array([seen.setdefault(level, len(seen)) for level in np.asarray(levels).tolist()], dtype=np.int64)


def _one_hot(code: Ints) -> Array:
    return np.asarray(code[:, None] == np.arange(int(code.max(initial=0)) + 1), dtype=float)


# ---------------------------------------------------------------- the fit


def steps_of(hours: Array, per_step: int = 8, longest_h: float = 1.0) -> tuple[Ints, Array]:
    """The drift is held over `per_step` readings that follow each other, and never over more than `longest_h`.

    The step of each reading, and the mean hour of each step.
    """
    step = np.zeros(hours.size, dtype=np.int64)
    number, begun, count = -1, 0.0, 0
    for i, hour in enumerate(hours):
        if number < 0 or count == per_step or abs(hour - begun) > longest_h:
            number, begun, count = number + 1, float(hour), 0
        step[i] = number
        count += 1
    size = np.bincount(step, minlength=number + 1)
    return step, np.asarray(np.bincount(step, hours, number + 1) / np.maximum(size, 1))


def fit(
    shape: Layout,
    readings: Readings,
    *,
    drift: float = DRIFT_PER_ROOT_HOUR,
    iterations: int = ITERATIONS,
    spreads: Array | None = None,
    noise: float | None = None,
) -> Posterior:
    """The posterior after `readings` (at least one).

    `spreads` and `noise`: known, and not learned; then nothing is robust either, and the posterior is the exact one of
    a normal model.
    """
    k, y = readings.stack, readings.value
    stacks = shape.columns.shape[0]
    step, times = steps_of(readings.hour)
    count = np.bincount(k, minlength=stacks)
    level = float(np.median(y))
    seen = np.flatnonzero(count)
    spread2 = np.array([kind.start for kind in (*shape.kinds, shape.residual)]) ** 2 if spreads is None else spreads**2
    pooled = USUAL_NOISE**2 if noise is None else noise**2
    noise2 = np.full(stacks, pooled)
    weight, heavy = np.ones(len(readings)), np.ones(stacks)
    walk = _walk(times, drift)
    known = spreads is not None
    for turn in range(1 if known else iterations + 1):
        solved = _solve(shape, seen, k, step, y - level, weight / noise2[k], spread2, heavy, walk)
        if known or turn == iterations:
            break
        off, blur = solved.residuals(k, step, y - level)
        square = off**2 + blur
        weight = (DEGREES + 1) / (DEGREES + square / noise2[k])
        weight[(off > 0) & (count[k] < _FEWEST_TO_TRUST_A_HIGH)] = 1.0
        noise2, pooled = _noise(k, weight * square, count)
        spread2, heavy = _spreads(shape, solved, spread2, heavy)
        walk = _walk(times, _rate(solved, times, drift))
        if turn == 0:
            heavy[_agreeing_highs(solved, k, off, count, pooled)] = _FREE
    off, _ = solved.residuals(k, step, y - level)
    whole = _solve(shape, np.arange(stacks), k, step, y - level, weight / noise2[k], spread2, heavy, walk, solved)
    return Posterior(
        layout=shape,
        shift=whole.shift + level,
        loading=whole.loading,
        own=np.sqrt(whole.own2),
        mean=whole.mean,
        cov=whole.cov,
        noise=np.sqrt(noise2),
        visits=count,
        odd=off / np.sqrt(noise2[k]),
        weight=weight,
        times=times,
        spreads=np.sqrt(spread2),
    )


def _walk(times: Array, drift: float) -> Array:
    """Precision of the drift at `times`."""
    precision = np.zeros((times.size, times.size))
    precision[0, 0] = _LEVEL_PRECISION
    for i in range(1, times.size):
        tie = 1 / (drift**2 * max(times[i] - times[i - 1], _SHORTEST_STEP_H) + 1e-6)
        precision[i, i] += tie
        precision[i - 1, i - 1] += tie
        precision[i, i - 1] -= tie
        precision[i - 1, i] -= tie
    return precision


def _agreeing_highs(solved: _Solved, k: Ints, off: Array, count: Ints, pooled: float) -> Ints:
    """Stacks whose readings agree that they are better than their factors say.

    Such readings can be read as noise or as the stack's own, and the fit stays with what it took them for first. Taken
    for noise the best stack is lost; taken for its own it is measured again.
    """
    own = solved.own_shift + solved.own_loading @ solved.mean
    total = np.bincount(k, off + own[solved.place[k]], count.size)
    with np.errstate(invalid="ignore", divide="ignore"):
        surprise = total / np.sqrt(count * pooled)
    return np.flatnonzero((count >= 2) & (surprise > _HIGH)).astype(np.int64)


def _rate(solved: _Solved, times: Array, usual: float) -> float:
    """Of the walk, per root of an hour: one step of EM, pulled towards `usual`; 0 stays 0."""
    if usual == 0 or times.size < 2:
        return usual
    at = np.arange(solved.effects, solved.effects + times.size)
    mean, cov = solved.mean[at], solved.cov[np.ix_(at, at)]
    moved = np.diff(mean) ** 2 + np.diag(cov)[1:] + np.diag(cov)[:-1] - 2 * np.diag(cov, 1)
    square = moved / np.maximum(np.diff(times), _SHORTEST_STEP_H)
    weight = USUAL_DRIFT_WEIGHT
    return float(np.sqrt((square.sum() + weight * usual**2) / (square.size + weight)))


@dataclass(frozen=True, slots=True)
class _Solved:
    """The posterior with spreads as given, for the stacks `rows`."""

    rows: Ints
    place: Ints  # of each stack in `rows`; -1 when it is not there
    shift: Array
    loading: Array
    own2: Array
    mean: Array
    cov: Array
    effects: int
    own_loading: Array  # residual = own_shift + own_loading @ a + noise of own2
    own_shift: Array

    def residuals(self, k: Ints, step: Ints, y: Array) -> tuple[Array, Array]:
        """What each reading is off, and the posterior variance of where it was expected."""
        row = self.place[k]
        through = self.loading @ self.cov
        at = self.effects + step
        level = self.shift + self.loading @ self.mean
        variance = np.einsum("ij,ij->i", through, self.loading) + self.own2
        off = y - level[row] - self.mean[at]
        return off, variance[row] + np.diag(self.cov)[at] + 2 * through[row, at]


def _solve(
    shape: Layout,
    rows: Ints,
    k: Ints,
    step: Ints,
    y: Array,
    precision: Array,
    spread2: Array,
    heavy: Array,
    walk: Array,
    before: _Solved | None = None,
) -> _Solved:
    """`before`: the same problem solved for the stacks that were visited, so that only the others are added."""
    place = np.full(shape.columns.shape[0], -1, dtype=np.int64)
    place[rows] = np.arange(rows.size)
    row, effects, times = place[k], shape.columns.shape[1], walk.shape[0]
    phi = np.hstack([shape.columns[rows], np.zeros((rows.size, times))])
    # Sums of precision over the readings of each stack, each time, and each stack at each time.
    met = np.bincount(row * times + step, precision, rows.size * times).reshape(rows.size, times)
    of_stack = met.sum(axis=1)
    pulled = np.bincount(row, precision * y, rows.size)
    own = heavy[rows] / spread2[-1] + of_stack  # precision of a residual when all else is known
    cross = phi * of_stack[:, None]
    cross[:, effects:] += met
    if before is None:
        matrix = phi.T @ cross
        matrix[effects:, :effects] += met.T @ phi[:, :effects]
        matrix[effects:, effects:] += np.diag(met.sum(axis=0)) + walk
        matrix[np.arange(effects), np.arange(effects)] += 1 / spread2[shape.term]
        right = phi.T @ pulled
        right[effects:] += np.bincount(step, precision * y, times)
        matrix -= cross.T @ (cross / own[:, None])
        right -= cross.T @ (pulled / own)
        cov = _inverse(matrix)
        mean = cov @ right
    else:
        mean, cov = before.mean, before.cov
    own_loading = -cross / own[:, None]
    own_shift = pulled / own
    return _Solved(rows, place, own_shift, phi + own_loading, 1 / own, mean, cov, effects, own_loading, own_shift)


def _inverse(matrix: Array) -> Array:
    from scipy.linalg import lapack

    root, failed = lapack.dpotrf(matrix, lower=1)
    assert failed == 0, "a precision matrix is positive definite"
    lower, _ = lapack.dpotri(root, lower=1)
    return np.asarray(np.tril(lower) + np.tril(lower, -1).T)


def _noise(k: Ints, square: Array, count: Ints) -> tuple[Array, float]:
    """Variance of one visit of each stack, pulled towards that of all stacks with repeats."""
    repeated = count[k] >= 2
    prior = USUAL_NOISE_WEIGHT
    pooled = (prior * USUAL_NOISE**2 + float(square[repeated].sum())) / (prior + int(repeated.sum()))
    return (prior * pooled + np.bincount(k, square, count.size)) / (prior + count), pooled


def _spreads(shape: Layout, solved: _Solved, spread2: Array, heavy: Array) -> tuple[Array, Array]:
    """One step of EM, with the priors of the kinds."""
    effects = shape.columns.shape[1]
    new = spread2.copy()
    square = solved.mean[:effects] ** 2 + np.diag(solved.cov)[:effects]
    terms = len(shape.kinds)
    sums, sizes = np.bincount(shape.term, square, terms), np.bincount(shape.term, minlength=terms)
    for i, kind in enumerate(shape.kinds):
        new[i] = (sums[i] + kind.weight * kind.usual**2) / (sizes[i] + kind.weight)
    own = solved.own_shift + solved.own_loading @ solved.mean
    variance = np.einsum("ij,ij->i", solved.own_loading @ solved.cov, solved.own_loading) + solved.own2
    square = own**2 + variance
    heavy = heavy.copy()
    heavy[solved.rows] = np.clip((DEGREES + 1) / (DEGREES + square / spread2[-1]), 0.02, 1.25)
    kind = shape.residual
    learned = float((heavy[solved.rows] * square).sum())
    new[-1] = max((learned + kind.weight * kind.usual**2) / (solved.rows.size + kind.weight), kind.floor**2)
    return new, heavy
