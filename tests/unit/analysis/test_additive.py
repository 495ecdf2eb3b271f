"""The posterior of the additive model, against the same model worked out by brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from strata.analysis import additive
from strata.analysis.additive import Readings

SPREADS = np.array([0.15, 0.2, 0.1, 0.04, 0.03, 0.05, 0.02])  # three factors, three pairs, residual
NOISE = 0.05


def grid(*sizes: int) -> np.ndarray:
    return np.array(list(itertools.product(*map(range, sizes))), dtype=np.int64)


def readings(stacks: int, count: int, seed: int) -> Readings:
    chance = np.random.default_rng(seed)
    return Readings(
        chance.integers(0, stacks, count), chance.normal(3, 0.2, count), np.sort(chance.uniform(0, 3, count))
    )


def dense(codes: np.ndarray, data: Readings, spreads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of f by Gaussian regression with the whole kernel: nothing in common with the code."""
    factors = range(codes.shape[1])
    terms = [codes[:, [j]] == codes[:, j] for j in factors]
    terms += [terms[a] & terms[b] for a, b in itertools.combinations(factors, 2)]
    kernel = sum(s**2 * term for s, term in zip(spreads, [*terms, np.eye(len(codes))], strict=True))
    step, times = additive.steps_of(data.hour)
    drift = np.full((len(times), len(times)), 100.0)  # the first is anywhere; each further one adds a step
    for i in range(1, len(times)):
        gap = additive.DRIFT_PER_ROOT_HOUR**2 * max(times[i] - times[i - 1], 0.02) + 1e-6
        drift[i:, i:] += gap
    to_stack = np.eye(len(codes))[data.stack]
    to_time = np.eye(len(times))[step]
    seen = to_stack @ kernel @ to_stack.T + to_time @ drift @ to_time.T + NOISE**2 * np.eye(len(data))
    cross = kernel @ to_stack.T
    level = np.median(data.value)
    mean = cross @ np.linalg.solve(seen, data.value - level) + level
    return mean, kernel - cross @ np.linalg.solve(seen, cross.T)


@pytest.mark.parametrize("count", [1, 5, 40])
def test_the_posterior_is_that_of_dense_regression(count: int) -> None:
    codes = grid(4, 3, 3)
    data = readings(len(codes), count, seed=count)
    shape = additive.of_codes(codes)
    found = additive.fit(shape, data, spreads=SPREADS[_order(shape)], noise=NOISE)
    mean, cov = dense(codes, data, SPREADS)
    assert found.level == pytest.approx(mean, abs=1e-8)
    whole = found.loading @ found.cov @ found.loading.T + np.diag(found.own**2)
    assert whole == pytest.approx(cov, abs=1e-8)
    assert found.variance() == pytest.approx(np.diag(cov), abs=1e-8)


def _order(shape: additive.Layout) -> list[int]:
    """Pairs are laid out smallest first; SPREADS has them in the order 1x2, 1x3, 2x3."""
    known = ["1", "2", "3", "1 x 2", "1 x 3", "2 x 3"]
    return [*(known.index(name) for name in shape.names), 6]


def test_draws_have_the_moments_of_the_posterior() -> None:
    codes = grid(4, 3, 3)
    shape = additive.of_codes(codes)
    found = additive.fit(shape, readings(len(codes), 30, 3), spreads=SPREADS[_order(shape)], noise=NOISE)
    drawn = found.draws(np.random.default_rng(1), 40_000)
    assert drawn.mean(axis=0) == pytest.approx(found.level, abs=0.02)
    apart = np.var(drawn[:, 0] - drawn[:, 5])
    off = found.loading[0] - found.loading[5]
    assert apart == pytest.approx(off @ found.cov @ off + found.own[0] ** 2 + found.own[5] ** 2, rel=0.05)


def test_other_units_and_other_names_change_nothing() -> None:
    """Another unit adds a constant to logarithms; levels are only names."""
    codes = grid(4, 3, 2)
    data = readings(len(codes), 50, 7)
    found = additive.fit(additive.of_codes(codes), data)
    moved = additive.fit(additive.of_codes(codes), Readings(data.stack, data.value + 7.0, data.hour))
    assert moved.level - 7.0 == pytest.approx(found.level, abs=1e-8)
    renamed = codes.copy()
    renamed[:, 0] = np.array([2, 0, 3, 1])[codes[:, 0]]
    assert additive.fit(additive.of_codes(renamed), data).level == pytest.approx(found.level, abs=1e-8)


def test_what_was_not_visited_is_predicted_from_what_was() -> None:
    codes = grid(4, 4)
    truth = np.array([0.0, 0.3, 0.6, 0.9])[codes[:, 0]] + np.array([0.0, 0.2, -0.2, 0.1])[codes[:, 1]]
    chance = np.random.default_rng(2)
    seen = np.array([k for k in np.tile(np.arange(16), 3) if k not in (5, 15)])
    data = Readings(seen, truth[seen] + chance.normal(0, 0.01, seen.size), np.arange(seen.size) / 60)
    found = additive.fit(additive.of_codes(codes), data)
    away = found.level - found.level[0] - (truth - truth[0])
    assert np.abs(away[[5, 15]]).max() < 0.08
    drawn = found.draws(np.random.default_rng(0), 4000)
    unsure, sure = (np.std(drawn[:, k] - drawn[:, 0]) for k in (5, 6))
    assert unsure > 2 * sure


def test_one_odd_reading_is_not_believed_much() -> None:
    codes = grid(4, 4)
    stack = np.tile(np.arange(16), 4)
    chance = np.random.default_rng(4)
    value = chance.normal(0, 0.01, stack.size)
    value[20] -= 0.5  # an hour in which something else used the disk
    found = additive.fit(additive.of_codes(codes), Readings(stack, value, np.arange(stack.size) / 60))
    assert found.weight[20] < 0.1
    assert abs(found.level[stack[20]] - found.level.mean()) < 0.03


def test_a_drifting_machine_makes_no_winner() -> None:
    """All stacks are equal, and the machine loses a third over the run."""
    codes = grid(4, 4)
    chance = np.random.default_rng(5)
    stack = np.concatenate([chance.permutation(16) for _ in range(6)])
    hour = np.arange(stack.size) / 45
    value = -0.15 * hour + chance.normal(0, 0.02, stack.size)
    found = additive.fit(additive.of_codes(codes), Readings(stack, value, hour))
    assert np.ptp(found.level) < 0.05
    assert found.drift[0] - found.drift[-1] == pytest.approx(0.15 * (hour[-1] - hour[0]), rel=0.2)


def test_factors_are_read_from_the_campaign() -> None:
    stacks = ["a", "b", "c", "d"]
    levels = {
        "a": {"fs": "ext4", "cache": "none", "same as fs": "1", "fixed": "x"},
        "b": {"fs": "xfs", "cache": "none", "same as fs": "2", "fixed": "x"},
        "c": {"fs": "ext4", "cache": "writeback", "same as fs": "1", "fixed": "x"},
        "d": {"fs": "xfs", "same as fs": "2", "fixed": "x"},
    }
    shape = additive.layout(stacks, levels)
    assert shape.names[:2] == ("fs", "cache")
    assert shape.codes.shape == (4, 2)
    assert len(set(shape.codes[:, 1].tolist())) == 3  # a stack without the factor is not one of its levels
    alone = additive.layout(stacks, {})
    assert alone.columns.shape == (4, 0)
    assert alone.residual == additive.ALONE


def test_a_step_of_the_drift_does_not_bridge_a_night() -> None:
    step, times = additive.steps_of(np.array([0.0, 0.1, 0.2, 14.0, 14.1]))
    assert step.tolist() == [0, 0, 0, 1, 1]
    assert times == pytest.approx([0.1, 14.05])


def test_how_fast_the_machine_drifts_is_learned() -> None:
    """Ten times the usual rate is not taken for noise of the stacks. On the virtual clock there is none to learn."""
    chance = np.random.default_rng(8)
    count, per_hour = 240, 45
    hour = np.arange(count) / per_hour
    walk = np.cumsum(chance.normal(0, 0.3 / np.sqrt(per_hour), count))
    stack = np.concatenate([chance.permutation(12) for _ in range(count // 12)])
    shape = additive.of_codes(np.array([[a, b] for a in range(4) for b in range(3)], dtype=np.int64))
    value = 0.1 * (stack // 3) + walk + chance.normal(0, 0.02, count)
    found = additive.fit(shape, Readings(stack, value, hour))
    step, _ = additive.steps_of(hour)
    means = np.bincount(step, walk) / np.bincount(step)
    assert np.corrcoef(found.drift, means)[0, 1] > 0.98
    slow = additive.fit(shape, Readings(stack, value, hour), drift=0.0)
    assert np.median(found.noise) < 0.5 * np.median(slow.noise)
    assert np.ptp(slow.drift) < 0.02
