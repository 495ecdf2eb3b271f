"""Main effects and interactions: known answers, slow hours, products with holes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from strata.analysis.factorial import Factorial, effects
from strata.model import Metric, Outcome, Rule, TrialResult, View, WorkloadView
from strata.report import factorial, pages

SPEED = Metric("speed", "MiB/s", "higher")
LOAD = WorkloadView("w", "w", SPEED, {"speed": SPEED})
FS = {"ext4": 0.2, "xfs": -0.1, "btrfs": -0.1}
CACHE = {"none": 0.05, "writeback": -0.05}


def view(
    logs: Mapping[tuple[str, str], float], rounds: int = 3, slow: float = 0.0, noise: float = 0.0, factors: bool = True
) -> View:
    stacks = [f"disk | {fs} | vm(cache={cache})" for fs, cache in logs]
    trials = []
    for round_, (number, log) in itertools.product(range(rounds), enumerate(logs.values())):
        wobble = noise * (1 if (round_ + number) % 2 else -1)
        speed = 100 * math.exp(log + slow * round_ + wobble)
        trials.append(
            TrialResult(
                round_ * len(logs) + number,
                stacks[number],
                round_,
                0,
                "w",
                Outcome.OK,
                None,
                0.0,
                1.0,
                {"speed": speed},
                {},
                (),
                (),
            )
        )
    of = {f"disk | {fs} | vm(cache={cache})": {"fs": fs, "cache": cache} for fs, cache in logs} if factors else {}
    return View("v", "", 1, Rule(), tuple(stacks), (LOAD,), tuple(trials), (), (), (), (), len(trials), len(trials),
                None, {}, {}, (), factors=of)  # fmt: skip


def ratios(found: Factorial, *factors: str) -> dict[tuple[str, ...], float]:
    (term,) = [term for term in (*found.main, *found.pairs) if term.factors == factors]
    return {effect.levels: math.log(effect.ratio.point) for effect in term.effects}


ADDITIVE = {(fs, cache): FS[fs] + CACHE[cache] for fs in FS for cache in CACHE}


def test_what_adds_up_is_found_and_leaves_nothing_together() -> None:
    found = effects(view(ADDITIVE, slow=0.3))
    assert found.rounds == 3 and found.stacks == 6
    assert ratios(found, "fs") == pytest.approx({(fs,): value for fs, value in FS.items()})
    assert ratios(found, "cache") == pytest.approx({(cache,): value for cache, value in CACHE.items()})
    assert all(abs(value) < 1e-9 for value in ratios(found, "fs", "cache").values())
    assert all(effect.shown for effect in found.main[0].effects), "without noise every effect is shown"


def test_what_two_do_together_stands_beside_what_each_does() -> None:
    extra = {key: value + (0.3 if key == ("btrfs", "writeback") else 0.0) for key, value in ADDITIVE.items()}
    together = ratios(effects(view(extra)), "fs", "cache")
    assert max(together, key=together.__getitem__) == ("btrfs", "writeback")
    # 0.3 in one of six cells: what rows and columns do not take
    assert together["btrfs", "writeback"] == pytest.approx(0.3 * (2 / 3) * (1 / 2))
    assert sum(together.values()) == pytest.approx(0.0)


def test_noise_widens_and_what_it_covers_is_not_shown() -> None:
    found = effects(view(ADDITIVE, rounds=4, noise=0.4))
    (cache,) = [term for term in found.main if term.factors == ("cache",)]
    assert not any(effect.shown for effect in cache.effects)


def test_a_product_with_a_hole_is_fitted_as_a_sum() -> None:
    holed = {key: value for key, value in ADDITIVE.items() if key != ("xfs", "writeback")}
    found = effects(view(holed))
    assert ratios(found, "fs") == pytest.approx({(fs,): value for fs, value in FS.items()})
    assert ("xfs", "writeback") not in ratios(found, "fs", "cache")


def test_stacks_of_several_shapes_are_compared_with_their_like_alone() -> None:
    """As campaigns are: a factor that some stacks do not have, and stacks that have none."""
    logs = {**ADDITIVE, ("zfs", ""): 5.0, ("bare", "none"): 7.0}
    whole = view(logs)
    of = {stack: dict(levels) for stack, levels in whole.factors.items()}
    of["disk | zfs | vm(cache=)"] = {}
    del of["disk | bare | vm(cache=none)"]["fs"]
    found = effects(replace(whole, factors=of))
    assert ratios(found, "fs") == pytest.approx({(fs,): value for fs, value in FS.items()})
    assert ratios(found, "cache") == pytest.approx({(cache,): value for cache, value in CACHE.items()})
    assert not found.left_out


def test_a_factor_that_never_differs_alone_is_named() -> None:
    found = effects(view({("ext4", "none"): 0.1, ("xfs", "writeback"): 0.2}))
    assert not found.main and len(found.left_out) == 2 and "cache: no two stacks" in " ".join(found.left_out)


def test_one_round_has_no_intervals_and_no_factors_no_effects() -> None:
    found = effects(view(ADDITIVE, rounds=1))
    assert not any(effect.shown for term in found.main for effect in term.effects)
    assert "no intervals" in " ".join(factorial.build("v", found).notes)
    nothing = effects(view(ADDITIVE, factors=False))
    assert not nothing.main and "no factor" in " ".join(factorial.build("v", nothing).notes)


def test_the_page_draws_every_term() -> None:
    page = pages.factors(factorial.build("v", effects(view(ADDITIVE, noise=0.01))))
    assert page.count("<svg") == 3 and "<script" not in page
    assert "fs and cache: beyond what each does alone" in page
