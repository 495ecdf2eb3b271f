"""An instrument is visited to compare with, and neither wins a race nor ends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from strata.analysis import modelled
from strata.design import choice
from strata.model import Design, Metric, Outcome, Rule, TrialResult, View, WorkloadView

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
