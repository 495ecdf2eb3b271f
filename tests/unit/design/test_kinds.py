"""Whole simulated campaigns, with several workloads and with failures: the quick part of `make calibrate`."""

from __future__ import annotations

import os

import numpy as np
import pytest
from benchmarks.research.simulate import kinds
from benchmarks.research.simulate.kinds import KINDS, Kind, Machine, Result, campaign

from strata.analysis import evidence
from strata.model import View

CAMPAIGNS = int(os.environ.get("STRATA_CALIBRATE", "0"))
FIRST_SEED = 20_000


def made(kind: str, quick: int = 12) -> list[Result]:
    return [campaign(KINDS[kind], seed) for seed in range(FIRST_SEED, FIRST_SEED + (CAMPAIGNS or quick))]


def test_intervals_hold_where_workloads_share_the_noise_of_a_visit() -> None:
    """With a posterior for each workload, as if these were independent, 70 % of them held."""
    kind = "8 workloads, correlation 1"
    every = made(kind, quick=6)
    held, wrong = float(np.mean([each.held for each in every])), sum(each.wrong for each in every)
    print(f"{kind}: {held:.1%} of 95 % intervals hold, {wrong} of {len(every)} wrong")
    assert held >= 0.93
    assert wrong <= max(1, 0.05 * len(every))


@pytest.mark.parametrize("kind", ["1 workload, a failing stack", "4 workloads, one fails on the best stack"])
def test_a_stack_that_always_fails_one_workload_is_set_aside_after_two_visits(kind: str) -> None:
    every = made(kind, quick=2)
    assert all(each.settled for each in every)
    assert [each.set_aside for each in every] == [1] * len(every)
    # Two may be in the batch in which the second failure is seen.
    assert max(each.set_aside_visits for each in every) <= 4


def test_a_healthy_best_stack_that_was_set_aside_by_chance_makes_the_campaign_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was counted as right, against those that were left."""
    kind, seed = Kind(), 20_034  # the best is 6 % ahead
    best = int(np.argmax(Machine(kind, seed).truth.level))
    without = campaign(kind, seed)
    assert without.settled and not without.wrong

    def doubted(view: View, *_: object) -> dict[str, str]:
        stack = view.stacks[best]
        return {stack: "by chance"} if any(trial.stack == stack for trial in view.trials) else {}

    for module in (kinds, evidence):
        monkeypatch.setattr(module, "in_doubt", doubted)
    aside = campaign(kind, seed)
    assert (aside.settled, aside.set_aside, aside.wrong) == (True, 1, True)


def test_workloads_of_a_visit_share_as_much_of_their_noise_as_the_kind_says() -> None:
    machine = Machine(Kind(2, 0.7, drift=0.0), 1)
    together, alone = 0.0, 0.0
    for stack in range(30):
        values = np.array([machine.visit(stack, n) for n in range(200)], dtype=float)
        matrix = np.cov(values.T)
        together, alone = together + matrix[0, 1], alone + np.trace(matrix) / 2
    assert together / alone == pytest.approx(0.7, abs=0.1)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_keeps_what_is_stated(kind: str) -> None:
    every = made(kind, quick=20)
    settled = [each for each in every if each.settled]
    wrong = sum(each.wrong for each in settled)
    held = [each.held for each in every]
    print(f"{kind}: {wrong} of {len(settled)} wrong, {np.nanmean(held):.1%} of intervals hold")
    # Two standard errors: intervals of one campaign hold or fail together.
    assert wrong <= 0.05 * len(settled) + 2 * np.sqrt(0.05 * 0.95 * len(settled))
    assert np.nanmean(held) >= 0.94 - 2 * np.nanstd(held) / np.sqrt(len(held))
