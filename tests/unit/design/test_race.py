from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from strata.analysis.modelled import ranking
from strata.analysis.survivors import raced, standing
from strata.design import adaptive
from strata.design.choice import chosen
from strata.design.race import next_batch
from strata.model import Rule, Skipped

from .learning import campaign, empty, grid, ran_in_vain, visited

RULE = Rule(design="race")
LEVEL = {"a": 0.0, "b": -0.3, "c": 0.4, "d": -0.5, "e": 0.39, "f": 0.0}
ALONE: dict[str, dict[str, str]] = {name: {} for name in LEVEL}


def noisy(seed: int, spread: float = 0.02):  # noqa: ANN201 - a function of a function
    chance = random.Random(seed)
    return lambda stack, order: LEVEL[stack] + chance.gauss(0, spread)


def test_losers_drop_out_and_equals_tie() -> None:
    view, why = campaign(empty(ALONE, RULE), next_batch, noisy(1))
    seen = ranking(view)
    assert seen.best in ("c", "e")
    assert set(seen.tied) == {"c", "e"}
    assert seen.best in why
    visits = Counter(trial.stack for trial in view.trials)
    assert visits["d"] < visits["c"] == visits["e"]
    assert all(row.decision == "worse" for row in seen.rows if row.stack not in "ce")


def test_asked_again_in_the_middle_of_a_round_it_asks_for_the_rest() -> None:
    view, _ = campaign(empty(ALONE, RULE), next_batch, noisy(2))
    part = replace(view, trials=view.trials[:9], visits_done=9)
    batch = next_batch(part, list(LEVEL))
    assert {number for number, _ in batch.visits} == {1}
    assert {stack for _, stack in batch.visits} == set(LEVEL) - {trial.stack for trial in part.trials[6:]}


def test_a_stack_that_fails_drops_out() -> None:
    measure = noisy(3)
    view, _ = campaign(empty(ALONE, RULE), next_batch, lambda s, n: None if s == "c" else measure(s, n))
    assert ranking(view).best == "e"
    assert 1 <= sum(visit.stack == "c" for visit in view.failed) <= 2


@pytest.mark.parametrize("built", [False, True])
def test_the_best_that_breaks_in_the_middle_does_not_keep_the_others_going(built: bool) -> None:
    view, measure = empty(ALONE, RULE), noisy(5)
    while not (batch := next_batch(view, list(view.stacks))).stop:
        for number, stack in batch.visits:
            if stack == "c" and number:
                view = ran_in_vain(view, number, stack) if built else visited(view, number, stack, {})
            else:
                view = visited(view, number, stack, {"w": math.exp(measure(stack, number))})
    seen = ranking(view)
    assert seen.best == "e"
    cause = "exit code 3" if built else "mkfs failed"
    assert (
        f"Not to be chosen, because its reliability is in doubt: c (2 of 3 visits failed, first cause: {cause}). "
        "Find the cause first."
    ) in seen.sentences
    assert view.visits_done < 60


@pytest.mark.parametrize("seed", range(5))
def test_more_confidence_goes_on_from_the_rounds_that_there_are(seed: int) -> None:
    measure = noisy(seed, 0.05)
    view, _ = campaign(empty(ALONE, replace(RULE, confidence=0.8)), next_batch, measure)
    rounds = 1 + max(trial.round for trial in view.trials)
    surer = replace(view, rule=replace(RULE, confidence=0.95))
    assert raced(surer, list(LEVEL)).rounds == rounds
    whole, _ = campaign(surer, next_batch, measure)
    afresh, _ = campaign(empty(ALONE, replace(RULE, confidence=0.95)), next_batch, noisy(seed + 50, 0.05))
    assert whole.visits_done - view.visits_done <= max(afresh.visits_done, 12)
    assert ranking(whole).best in ("c", "e")


def test_it_gives_up_when_no_end_is_in_sight() -> None:
    view, why = campaign(empty(ALONE, replace(RULE, within=0.0001)), next_batch, noisy(4))
    assert "no end" in why or "left" in why
    assert max(trial.round for trial in view.trials) < 40


def test_two_stacks_are_compared_exactly() -> None:
    """With nobody to borrow from, the interval is that of the theorem: wide with three rounds, and never shrunk."""
    chance = np.random.default_rng(1)
    table = np.vstack([np.full(3, 0.1), np.zeros(3)]) + chance.normal(0, 0.01, (2, 3))
    now = standing(table, 0.03, 0.95)
    assert set(now.alive) == {0, 1}
    assert now.half[1] > 0.05


@pytest.mark.parametrize(
    ("stacks", "design"),
    [(grid(3, 2), "race"), (grid(5, 5, 2, 2), "adaptive"), ({str(n): {} for n in range(50)}, "race")],
)
def test_the_choice_is_stated(stacks: dict[str, dict[str, str]], design: str) -> None:
    found, why = chosen(Rule(design="auto"), list(stacks), stacks)
    assert found == design
    assert why.startswith(f"Design: {design}, because")
    assert chosen(Rule(design="rounds"), list(stacks), stacks)[0] == "rounds"


@pytest.mark.parametrize("seed", range(3))
def test_a_stack_that_an_adaptive_start_left_unbuilt_is_raced_too(seed: int) -> None:
    """It is the best, by what its parts do not show: only a visit can tell."""
    stacks = grid(4, 3, 3)
    view = empty(stacks, Rule(design="adaptive"), seed=seed + 1)
    chance = random.Random(seed)
    level = {stack: 0.1 * sum(map(int, stack.split("-"))) for stack in stacks}
    for _ in range(3):
        for number, stack in adaptive.next_batch(view, list(stacks)).visits:
            view = visited(view, number, stack, {"w": math.exp(level[stack] + chance.gauss(0, 0.02))})
    never = [stack for stack in stacks if stack not in {trial.stack for trial in view.trials}]
    odd = never[0]
    level[odd] = max(level.values()) + 0.2
    view = replace(view, rule=RULE)
    seen = ranking(view)
    assert seen.best is None and seen.undecided
    assert seen.sentences[0].startswith("Not settled: no round of the race has met all 36 stacks yet.")
    assert f"{len(never)} of 36 stacks were never built: " in seen.sentences[0]
    view, why = campaign(view, next_batch, lambda stack, n: level[stack] + chance.gauss(0, 0.02))
    assert ranking(view).best == odd
    assert odd in why


def test_visits_chosen_by_another_design_make_no_round() -> None:
    """Numbers of visits that met only some of the stacks left are passed over; those that met all count."""
    some, every = np.full((2, 4), np.nan), np.zeros((2, 4))
    some[0] = 9.0
    every[1] = 0.5
    table = np.hstack([some, every])
    now = standing(table, 0.03, 0.95, ~np.isnan(table))
    assert (now.leader, now.rounds) == (1, 4)
    assert standing(some, 0.03, 0.95, ~np.isnan(some)).alive == (0, 1)


def test_a_stack_that_cannot_run_any_more_is_out_of_the_race() -> None:
    view, _ = campaign(empty(ALONE, RULE), next_batch, noisy(5))
    cut = replace(view, trials=tuple(t for t in view.trials if t.stack != "e" or t.round < 2))
    assert ranking(cut).best is None
    able = [stack for stack in LEVEL if stack != "e"]
    cut = replace(cut, halted=(Skipped("e", ("its tool is gone",)),))
    over, _ = campaign(cut, next_batch, noisy(6), runnable=able)
    seen = ranking(over)
    assert seen.best == "c"
    assert next(row.decision for row in seen.rows if row.stack == "e") == "undecided"
