from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from strata.analysis.objective import find
from strata.analysis.pareto import front, measured, on_front
from strata.errors import BadInput
from strata.model import Metric, StepTime, WorkloadView

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
    assert [member.stack for member in front(seen, ["create_s", "space_bytes"]).members] == [
        "disk | vdo | xfs",
        "disk | xfs",
    ]
