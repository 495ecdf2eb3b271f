from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from strata.analysis import pareto
from strata.analysis.cells import Array
from strata.analysis.objective import find
from strata.analysis.pareto import front, measured, on_front
from strata.errors import BadInput
from strata.model import FailedVisit, Metric, StepTime, Testbed, View, WorkloadView

from .noisy_views import trial, view

IOPS, LATENCY = Metric("iops", "IOPS", "higher"), Metric("p99", "ms", "lower")
BOTH = WorkloadView("w", "w", IOPS, {"iops": IOPS, "p99": LATENCY, "kind": Metric("kind", "", "neither")})
FIGURES = {"fast": (200.0, 10.0), "calm": (100.0, 1.0), "beaten": (90.0, 12.0), "twin": (201.0, 10.05)}


def campaign(**more: object):  # noqa: ANN201 - a view
    trials = [
        trial(stack, n, {"iops": iops * (1 + 0.01 * (n - 1)), "p99": p99}, workload="w", order=n)
        for stack, (iops, p99) in FIGURES.items()
        for n in range(3)
    ]
    return view(list(FIGURES), trials, workloads=(BOTH,))


def test_the_front_holds_who_is_beaten_by_nobody() -> None:
    found = front(campaign(), ["iops", "p99"])
    chance = {member.stack: member.probability for member in found.members}
    assert chance.keys() == {"fast", "calm", "twin"}
    assert chance["calm"] == 1.0
    assert min(chance.values()) > 0.9  # the twin is within the margin: none of the two beats the other
    assert found.members[0].figures.keys() == {"iops", "p99"}
    assert "3 of 4 measured stacks" in found.sentence


def test_one_visit_each_states_no_chance() -> None:
    """The front of the single figures is shown, and what would tell how sure it is."""
    everything = campaign()
    once = replace(everything, trials=tuple(each for each in everything.trials if each.round == 0))
    found = front(once, ["iops", "p99"])
    assert found.members == ()
    assert [(each.stack, each.probability) for each in found.unjudged] == [
        ("fast", None),
        ("calm", None),
        ("twin", None),
    ]
    assert found.unjudged[0].figures == pytest.approx({"iops": 198.0, "p99": 10.0})
    assert found.sentence == (
        "One visit each with a figure of iops, p99: nothing is known of the spread, so no chance of being on the front "
        "is stated; run again with --rounds 5. By these figures alone 3 of 4 measured stacks are on the front of "
        "iops, p99: fast, calm and twin."
    )
    adaptive = replace(once, rule=replace(once.rule, design="adaptive"))
    assert "is stated; run it again. By" in front(adaptive, ["iops", "p99"]).sentence
    virtual = replace(once, testbed=Testbed(clock="virtual"))
    assert "is stated; run again with --seeds 5. By" in front(virtual, ["iops", "p99"]).sentence


def noisy(seed: int, visits: Sequence[int], correlation: float = 0.0) -> tuple[View, Array]:
    """Stacks that differ by 10 %, each visited so often, noise of 5 %; and which are on the front in truth.

    `correlation`: of the noise of the two metrics of a visit.
    """
    root = np.linalg.cholesky([[1.0, correlation], [correlation, 1.0]])
    chance = np.random.default_rng(seed)
    truth = chance.normal(0, 0.10, (len(visits), 2))
    names = [f"s{k}" for k in range(len(visits))]
    trials = [
        trial(names[k], n, {"iops": math.exp(iops), "p99": math.exp(-p99)}, workload="w", visit=100 * k + n)
        for k, count in enumerate(visits)
        for n, (iops, p99) in enumerate(truth[k] + 0.05 * chance.standard_normal((count, 2)) @ root.T)
    ]
    return view(names, trials, workloads=(BOTH,)), on_front(truth, -math.log1p(-0.03))


@pytest.mark.parametrize(
    ("visits", "fewest_sure"),
    [([1] * 20, 0), ([2] + [1] * 19, 0), ([2] * 4 + [1] * 16, 0), ([2] * 20, 5), ([5] * 20, 20)],
)
def test_stated_chances_hold(visits: list[int], fewest_sure: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of memberships stated at 95 % or more at least 95 % are true, and of those stated at all as many as is stated."""
    monkeypatch.setattr(pareto, "DRAWS", 200)
    stated, true = [], []
    for seed in range(50):
        seen, on = noisy(seed, visits)
        for member in front(seen, ["iops", "p99"]).members:
            stated.append(member.probability)
            true.append(on[seen.stacks.index(member.stack)])
    sure = [is_on for chance, is_on in zip(stated, true, strict=True) if chance >= 0.95]
    assert len(sure) >= fewest_sure
    assert sum(sure) >= 0.95 * len(sure)
    if max(visits) == 1:
        assert not stated
    else:
        assert np.mean(true) == pytest.approx(np.mean(stated), abs=0.05)


def test_stated_chances_hold_where_metrics_share_the_noise_of_a_visit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pareto, "DRAWS", 200)
    true = []
    for seed in range(80):
        seen, on = noisy(seed, [2] * 12, correlation=0.9)
        for member in front(seen, ["iops", "p99"]).members:
            if member.probability >= 0.8:
                true.append(on[seen.stacks.index(member.stack)])
    assert len(true) >= 50
    assert np.mean(true) >= 0.9


def test_a_stack_whose_reliability_is_in_doubt_is_on_no_front() -> None:
    view_ = campaign()
    lost = [FailedVisit(900 + n, "calm", 3 + n, "mkfs failed") for n in range(3)]
    found = front(replace(view_, failed=tuple(lost)), ["iops", "p99"])
    assert {member.stack for member in found.members} == {"fast", "twin"}
    assert found.doubtful == {"calm": "3 of 6 visits failed, first cause: mkfs failed"}


def test_a_stack_that_failed_in_its_only_visit_is_not_counted_as_never_built() -> None:
    view_ = campaign()
    lost = replace(view_, stacks=(*view_.stacks, "lost"), failed=(FailedVisit(900, "lost", 0, "mkfs failed"),))
    assert "never built" not in front(lost, ["iops", "p99"]).sentence


def test_dominance_needs_more_than_the_margin() -> None:
    level = np.array([[1.0, 1.0], [0.99, 1.0], [0.5, 0.9], [0.4, 2.0]])
    assert on_front(level, 0.03).tolist() == [1, 1, 0, 1]


@pytest.mark.parametrize(
    ("names", "match"), [(["speed"], "no metric of this run"), (["kind"], "neither more nor less")]
)
def test_what_is_no_metric_is_refused(names: list[str], match: str) -> None:
    with pytest.raises(BadInput, match=match):
        front(campaign(), names)


def test_building_and_room_are_figures_too() -> None:
    """Of the layers that tell what they take, the lowest counts; a step that never ended took no time."""
    room = {"xfs.physical_bytes": 9.0, "vdo.physical_bytes": 3.0, "iops": 1.0, "p99": 1.0}
    trials = [trial("disk | vdo | xfs", n, room, workload="w", visit=n, order=n) for n in range(2)]
    trials.append(trial("disk | xfs", 0, {"xfs.physical_bytes": 8.0, "iops": 1.0}, workload="w", visit=2, order=2))
    steps = tuple(
        StepTime(visit, stack, "l", "why", took, None)
        for visit, stack, took in (
            (0, "disk | vdo | xfs", 1.5),
            (0, "disk | vdo | xfs", 0.5),
            (1, "disk | vdo | xfs", None),
            (2, "disk | xfs", 1.0),
            (7, "disk | xfs", 99.0),  # of a visit that failed
        )
    )
    seen = replace(view(["disk | vdo | xfs", "disk | xfs"], trials, workloads=(BOTH,)), steps=steps)
    took = measured(seen, find("create_s", seen.workloads, {}))
    assert took.visits == {"disk | vdo | xfs": {0: 2.0}, "disk | xfs": {2: 1.0}}
    space = measured(seen, find("space_bytes", seen.workloads, {}))
    assert space.visits == {"disk | vdo | xfs": {0: 3.0, 1: 3.0}, "disk | xfs": {2: 8.0}}
    assert [each.stack for each in front(seen, ["create_s", "space_bytes"]).unjudged] == [
        "disk | vdo | xfs",
        "disk | xfs",
    ]
