from __future__ import annotations

import numpy as np
import pytest

from strata.analysis.pareto import front, on_front
from strata.errors import BadInput
from strata.model import Metric, WorkloadView

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
