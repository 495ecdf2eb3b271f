"""An instrument is visited to compare with, and neither wins a race nor ends it."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from strata.analysis import modelled
from strata.cli.verdict import model_of
from strata.design import choice
from strata.model import Design, Metric, Outcome, Rule, TrialResult, View, WorkloadView
from strata.store import reader

from .learning import empty, grid
from .learning import visited as measured

SPEEDS = {"nullblk | ext4": 900.0, "disk | ext4": 101.0, "disk | xfs": 50.0, "disk | btrfs": 49.0}
IOPS = Metric("iops", "IOPS", "higher")


def visited(view: View, visits: Sequence[tuple[int, str]]) -> View:
    trials = list(view.trials)
    for number, stack in visits:
        place = len(trials)
        figure = SPEEDS[stack] * (1 + 0.002 * (place % 5))
        trials.append(
            TrialResult(place, stack, number, place, "w", Outcome.OK, None, 0.0, 1.0, {"iops": figure}, {}, (), ())
        )
    return replace(view, trials=tuple(trials), visits_done=len(trials), visits_planned=len(trials))


def start(design: Design) -> View:
    return View(
        campaign="made up",
        about="",
        seed=1,
        rule=Rule(design=design),
        stacks=tuple(SPEEDS),
        workloads=(WorkloadView("w", "w", IOPS, {"iops": IOPS}),),
        trials=(),
        steps=(),
        skipped=(),
        failed=(),
        events=(),
        visits_planned=0,
        visits_done=0,
        facts=None,
        versions={},
        commands={},
        disks=(),
        factors={stack: {"file system": stack.split()[-1]} for stack in SPEEDS},
    )


@pytest.mark.parametrize("design", ["race", "adaptive"])
def test_the_rule_decides_among_the_others_and_the_instrument_is_visited_a_few_times(design: Design) -> None:
    view = start(design)
    for _ in range(60):
        batch = choice.RULES[design](view, view.stacks)
        if batch.stop:
            break
        assert not {(t.round, t.stack) for t in view.trials} & set(batch.visits), "no visit is made twice"
        view = visited(view, batch.visits)
    assert batch.stop, "it comes to an end"
    assert sum(trial.stack == "nullblk | ext4" for trial in view.trials) in (2, 3)
    found = modelled.ranking(view)
    assert found.best == "disk | ext4", found.sentences


def test_what_is_doubted_is_the_ranking_without_instruments(monkeypatch: pytest.MonkeyPatch) -> None:
    """A RAM disk that is fifty times as fast made factors that explain all others look as if they did not."""
    view, chance = empty(grid(5, 5), Rule(design="adaptive", confidence=0.95)), random.Random(4)
    factors = {f"disk | {stack}": levels for stack, levels in view.factors.items()}
    factors["nullblk | 0-0"] = view.factors["0-0"]
    view = replace(view, stacks=tuple(factors), factors=factors)
    for n in range(3):
        for stack in factors:
            level = 4.0 if stack.startswith("nullblk") else 0.1 * sum(map(int, stack[-3:].split("-")))
            view = measured(view, n, stack, {"w": math.exp(level + chance.gauss(0, 0.03))})
    monkeypatch.setattr(reader, "view", lambda *_, **__: view)
    kinds = {warned.kind for warned in model_of(Path("unused")).warnings}
    assert not kinds & {"unexplained", "noise"}
