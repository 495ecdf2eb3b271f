from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.design import Batch, NextBatch
from strata.design import rounds as rounds_module
from strata.design.rounds import next_batch, order
from strata.model import FailedVisit, Metric, Outcome, Rule, TrialResult, View, WorkloadView

LOAD = WorkloadView("w", "w", Metric("iops", "IOPS", "higher"), {})
STACKS = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True)


def empty(stacks: list[str], rounds: int, seed: int = 1, budget_s: float | None = None) -> View:
    return View(
        campaign="c",
        about="",
        seed=seed,
        rule=Rule(rounds=rounds, budget_s=budget_s),
        stacks=tuple(stacks),
        workloads=(LOAD,),
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
    )


def visited(view: View, round_: int, stack: str, outcome: Outcome = Outcome.OK) -> View:
    number = view.visits_done
    result = TrialResult(number, stack, round_, number, "w", outcome, None, 0.0, 1.0, {"iops": 1.0}, {}, (), ())
    return replace(view, trials=(*view.trials, result), visits_done=number + 1)


def failed(view: View, round_: int, stack: str) -> View:
    """A visit that failed while it was built: it has no trial."""
    number = view.visits_done
    broken = FailedVisit(number, stack, round_, "mkfs failed")
    return replace(view, failed=(*view.failed, broken), visits_done=number + 1)


def campaign(view: View, runnable: list[str], broken: frozenset[str] = frozenset()) -> list[tuple[int, str]]:
    made = []
    while not (batch := next_batch(view, runnable)).stop:
        for number, stack in batch.visits:
            made.append((number, stack))
            view = failed(view, number, stack) if stack in broken else visited(view, number, stack)
    return made


@given(STACKS, st.integers(0, 7), st.integers(0, 2**40))
def test_every_stack_once_per_round_and_never_twice_in_a_row(stacks: list[str], rounds: int, seed: int) -> None:
    visits = order(stacks, rounds, seed)
    assert Counter(visits) == Counter((number, stack) for number in range(rounds) for stack in stacks)
    assert [number for number, _ in visits] == sorted(number for number, _ in visits)
    if len(stacks) > 1:
        assert all(here != there for (_, here), (_, there) in itertools.pairwise(visits))


@given(STACKS, st.integers(0, 5), st.integers(0, 5), st.integers(0, 2**40))
def test_more_rounds_leave_the_earlier_ones_as_they_are(stacks: list[str], few: int, more: int, seed: int) -> None:
    assert order(stacks, few + more, seed)[: few * len(stacks)] == order(stacks, few, seed)


def test_the_seed_decides_and_stays() -> None:
    """The stored seed must give the same order in every later version, or a run could not go on."""
    assert order(["a", "b", "c", "d"], 2, 7) == order(["a", "b", "c", "d"], 2, 7)
    assert "".join(stack for _, stack in order(["a", "b", "c", "d"], 3, 7)) == FIXED
    assert len({tuple(order(["a", "b", "c", "d"], 2, seed)) for seed in range(50)}) > 40


FIXED = "dcabcdabcabd"


def test_every_first_order_is_as_likely() -> None:
    seen = Counter("".join(stack for _, stack in order(["a", "b", "c"], 1, seed)) for seed in range(6000))
    assert len(seen) == 6
    assert all(count == pytest.approx(1000, abs=150) for count in seen.values())


def test_a_whole_campaign_follows_the_order() -> None:
    stacks = ["a", "b", "c", "d"]
    assert campaign(empty(stacks, 5, seed=9), stacks) == order(stacks, 5, 9)


def test_failed_visits_are_done() -> None:
    stacks = ["a", "b", "c", "d"]
    assert campaign(empty(stacks, 4, seed=9), stacks, frozenset("bd")) == order(stacks, 4, 9)


def test_a_failed_trial_is_done_too() -> None:
    view = visited(visited(empty(["a", "b"], 1), 0, "a", Outcome.FAILED), 0, "b", Outcome.INVALID)
    assert next_batch(view, ["a", "b"]).stop


def test_a_round_that_was_interrupted_is_finished_first() -> None:
    stacks = ["a", "b", "c", "d"]
    plan = order(stacks, 2, 3)
    view = empty(stacks, 2, seed=3)
    for number, stack in plan[:2]:
        view = visited(view, number, stack)
    batch = next_batch(view, stacks)
    assert batch.visits == tuple(plan[2:4])
    assert batch.decision == "Round 1 of 2: the last 2 visits."


def test_the_same_view_gives_the_same_batch() -> None:
    view = empty(["a", "b", "c"], 3)
    assert next_batch(view, ["a", "b", "c"]) == next_batch(view, ["a", "b", "c"])


@given(STACKS, st.integers(0, 30), st.integers(0, 1000))
def test_only_runnable_stacks_and_no_repeat_when_the_set_changes(stacks: list[str], done: int, seed: int) -> None:
    view = empty(stacks, 4, seed=seed)
    for number, stack in order(stacks, 4, seed)[:done]:
        view = visited(view, number, stack)
    runnable = stacks[: max(1, len(stacks) - 1)]
    batch = next_batch(view, runnable)
    assert {stack for _, stack in batch.visits} <= set(runnable)
    assert batch.stop is (not batch.visits)
    if len(batch.visits) > 1 and view.trials:
        assert batch.visits[0][1] != view.trials[-1].stack


def test_a_changed_set_of_stacks_does_not_repeat_the_last_one() -> None:
    """`b` cannot run any more, so the order of the rest is another, and may begin with the stack measured last."""
    begins_alike = 0
    for seed in range(40):
        view = empty(["a", "b", "c"], 2, seed=seed)
        for number, stack in order(["a", "b", "c"], 1, seed):
            view = visited(view, number, stack)
        last = view.trials[-1].stack
        begins_alike += order(["a", "c"], 2, seed)[2][1] == last
        visits = next_batch(view, ["a", "c"]).visits
        assert sorted(visits) == [(1, "a"), (1, "c")]
        assert visits[0][1] != last
    assert begins_alike > 5


def test_a_visit_that_failed_after_a_trial_counts_once() -> None:
    view = visited(visited(empty(["a", "b"], 2, seed=5), 0, "a"), 0, "b")
    view = replace(view, failed=(FailedVisit(view.trials[0].visit, "a", 0, "could not be removed"),))
    assert set(next_batch(view, ["a", "b"]).visits) == {(1, "a"), (1, "b")}


def test_more_rounds_go_on() -> None:
    stacks = ["a", "b", "c"]
    view = empty(stacks, 2, seed=5)
    for number, stack in order(stacks, 2, 5):
        view = visited(view, number, stack)
    assert next_batch(view, stacks) == Batch((), True, "Stopped: all 2 rounds are done.")
    more = replace(view, rule=Rule(rounds=3))
    assert next_batch(more, stacks).visits == tuple(order(stacks, 3, 5)[6:])


def test_one_of_a_thing_is_written_in_the_singular() -> None:
    view = empty(["a", "b"], 1, seed=5)
    first, last = order(["a", "b"], 1, 5)
    view = visited(view, *first)
    assert next_batch(view, ["a", "b"]) == Batch((last,), False, "Round 1 of 1: the last visit.")
    assert next_batch(visited(view, *last), ["a", "b"]) == Batch((), True, "Stopped: the only round is done.")


def test_nothing_runnable_stops() -> None:
    assert next_batch(empty(["a"], 3), []).stop
    assert next_batch(empty(["a"], 0), ["a"]).stop


@pytest.mark.parametrize(
    ("left", "each", "stop"),
    [(None, None, False), (100.0, None, False), (30.0, 10.0, False), (29.0, 10.0, True), (0.0, None, True)],
)
def test_a_batch_must_fit_into_the_budget_whole(left: float | None, each: float | None, stop: bool) -> None:
    batch = next_batch(empty(["a", "b", "c"], 3), ["a", "b", "c"], seconds_left=left, seconds_per_visit=each)
    assert batch.stop is stop


def test_the_budget_sentence() -> None:
    stacks = ["a", "b"]
    view = empty(stacks, 5, seed=5, budget_s=1200)
    for number, stack in order(stacks, 3, 5):
        view = visited(view, number, stack)
    batch = next_batch(view, stacks, seconds_left=100.0, seconds_per_visit=200.0)
    assert batch.decision == (
        "Stopped: the budget of 20 min is used up after 3 of 5 rounds: what is left of it is 1 min 40 s and the next "
        "round takes 6 min 40 s."
    )


def test_it_has_the_shape_that_every_rule_has() -> None:
    rule: NextBatch = rounds_module.next_batch
    assert rule(empty(["a"], 1), ["a"]).visits == ((0, "a"),)
