"""What tenants cost each other, from figures whose answer is known."""

from __future__ import annotations

import pytest

from strata.model import Metric, Outcome
from strata.planning import measuring_order
from strata.run.trials import neighbours
from strata.run.trials.trial import Trial

IOPS = Metric("iops", "IOPS", "higher")
LATENCY = Metric("p99_ms", "ms", "lower")


def trial(figures: dict[str, float] | None, reason: str | None = None) -> Trial:
    return Trial(Outcome.OK if reason is None else Outcome.FAILED, reason, 0.0, 1.0, (), figures=figures)


def apart(**figures: dict[int, float]) -> neighbours.Figures:
    """By names such as t1 and t1_2."""
    found = neighbours.Figures()
    for name, values in figures.items():
        group = tuple(int(tenant) for tenant in name[1:].split("_"))
        found.figures[group] = values
    return found


@pytest.mark.parametrize(
    ("asked", "groups"),
    [
        ("off", []),
        ("alone", [(1,), (2,), (3,)]),
        ("pairs", [(1,), (2,), (3,), (1, 2), (1, 3), (2, 3)]),
    ],
)
def test_who_is_measured_by_himself(asked: str, groups: list[tuple[int, ...]]) -> None:
    assert list(measuring_order.groups_of(asked, (1, 2, 3))) == groups


def test_two_are_a_pair_already_and_one_is_alone_already() -> None:
    assert list(measuring_order.groups_of("pairs", (1, 4))) == [(1,), (4,)]
    assert list(measuring_order.groups_of("alone", (1,))) == []


# Jain's paper: the index is 1 when all have the same, k/n when k of n have all there is.
@pytest.mark.parametrize(("shares", "index"), [([2, 2, 2], 1.0), ([5, 0, 0, 0], 0.25), ([1, 1, 0, 0], 0.5)])
def test_fairness_has_the_known_answers(shares: list[float], index: float) -> None:
    assert neighbours.jain(shares) == pytest.approx(index)


def test_a_load_of_everybody_has_one_trial_with_every_tenant_s_slowdown() -> None:
    together = trial({"iops": 300.0, "tenant1.iops": 100.0, "tenant2.iops": 200.0})
    (found,) = neighbours.compared([together], [1, 2], [IOPS, IOPS], apart(t1={1: 400.0}, t2={2: 400.0}))
    assert found.figures is not None and found.figures["iops"] == 300
    own = {name.removeprefix(neighbours.PREFIX): value for name, value in found.figures.items() if "neigh" in name}
    assert own == {
        "tenant1.alone_iops": 400,
        "tenant1.slowdown": 4,
        "tenant2.alone_iops": 400,
        "tenant2.slowdown": 2,
        "fairness": pytest.approx(0.75**2 / (2 * (0.25**2 + 0.5**2))),
        "slowdown_mean": pytest.approx(8**0.5),
        "slowdown_worst": 4,
    }
    assert {metric.name for metric in found.extra} == {name for name in found.figures if "neighbours" in name}


def test_loads_of_single_tenants_have_their_own_and_what_is_common() -> None:
    trials = [trial({"iops": 100.0}), trial({"p99_ms": 30.0})]
    first, second = neighbours.compared(trials, [1, 3], [IOPS, LATENCY], apart(t1={1: 100.0}, t3={3: 10.0}))
    assert first.figures is not None and second.figures is not None
    assert first.figures["neighbours.tenant1.slowdown"] == 1 and "neighbours.tenant3.slowdown" not in first.figures
    assert second.figures["neighbours.tenant3.slowdown"] == 3  # less is better
    assert first.figures["neighbours.fairness"] == second.figures["neighbours.fairness"]


def test_who_slows_whom_is_a_matrix() -> None:
    together = trial({"tenant1.iops": 10.0, "tenant2.iops": 10.0, "tenant3.iops": 10.0})
    alone = {f"t{n}": {n: 100.0} for n in (1, 2, 3)}
    pairs = {"t1_2": {1: 50.0, 2: 100.0}, "t1_3": {1: 25.0, 3: 20.0}, "t2_3": {2: 100.0, 3: 100.0}}
    (found,) = neighbours.compared([together], [1, 2, 3], [IOPS] * 3, apart(**alone, **pairs))
    assert found.figures is not None
    matrix = {name.removeprefix("neighbours.tenant"): value for name, value in found.figures.items() if "_by_" in name}
    assert matrix == {
        "1.slowdown_by_2": 2,
        "1.slowdown_by_3": 4,
        "2.slowdown_by_1": 1,
        "2.slowdown_by_3": 1,
        "3.slowdown_by_1": 5,
        "3.slowdown_by_2": 1,
    }


def test_one_that_failed_alone_is_said_and_nothing_is_made_up_for_it() -> None:
    found = neighbours.Figures()
    found.add((1,), ["iops"], [trial(None, "it broke")])
    found.add((2,), ["iops"], [trial({"iops": 10.0})])
    together = trial({"tenant1.iops": 5.0, "tenant2.iops": 5.0})
    (compared,) = neighbours.compared([together], [1, 2], [IOPS, IOPS], found)
    assert compared.figures is not None and "neighbours.tenant1.slowdown" not in compared.figures
    assert compared.figures["neighbours.tenant2.slowdown"] == 2 and "neighbours.fairness" not in compared.figures
    assert any("tenant 1 without the others" in note and "it broke" in note for note in compared.notes)
