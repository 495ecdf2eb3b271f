from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.analysis import additive, doubts
from strata.analysis.belief import believe, unexplained, visits_to_go
from strata.analysis.evidence import CERTIFYING, belief_of, evidence
from strata.analysis.modelled import ranking
from strata.design.adaptive import apart, decide, next_batch, start
from strata.model import Metric, Rule, Skipped, View, WorkloadView

from .learning import LOAD, SPEED, campaign, empty, grid, ran_in_vain, visited

RULE = Rule(design="adaptive")
STACKS = grid(4, 3, 3)
EFFECTS = ((0.0, 0.3, -0.2, 0.1), (0.0, 0.2, -0.1), (0.0, -0.25, 0.15))
BEST = "1-1-2"


def good(stack: str) -> float:
    return sum(EFFECTS[j][int(level)] for j, level in enumerate(stack.split("-")))


def noisy(seed: int, spread: float = 0.02):  # noqa: ANN201 - a function of a function
    chance = random.Random(seed)
    return lambda stack, order: good(stack) + chance.gauss(0, spread)


def test_it_finds_the_best_and_leaves_hopeless_stacks_alone() -> None:
    view, why = campaign(empty(STACKS, RULE), next_batch, noisy(1))
    seen = ranking(view)
    assert seen.best == BEST
    assert BEST in why
    assert seen.sentences[0].startswith(f"Best: {BEST}. P(within 3 % of the best) ")
    assert seen.sure is not None
    assert seen.sure >= 0.95
    visits = Counter(trial.stack for trial in view.trials)
    assert visits[BEST] >= 5
    assert view.visits_done < 2 * len(STACKS)
    assert len(visits) < len(STACKS)
    assert "never built" in " ".join(seen.sentences)
    unseen = [left for left in seen.unranked if "predicted, not measured" in left.reason]
    assert len(unseen) == len(STACKS) - len(visits)


def test_asked_again_it_says_the_same_and_less_confidence_never_takes_more() -> None:
    view, _ = campaign(empty(STACKS, RULE), next_batch, noisy(2, 0.05))
    part = replace(view, trials=view.trials[:20], visits_done=20)
    assert next_batch(part, list(STACKS)) == next_batch(part, list(STACKS))
    quick = replace(RULE, confidence=0.8)
    sooner, _ = campaign(empty(STACKS, quick), next_batch, noisy(2, 0.05))
    assert sooner.visits_done <= view.visits_done


def test_a_stack_that_is_far_better_than_its_parts_is_not_taken_for_noise() -> None:
    """Two readings that agree are the stack's own. Its parts say 0.2 below the best; it is 0.3 above that."""
    stacks = grid(5, 4, 3)
    odd = "2-2-1"
    shape = additive.layout(list(stacks), stacks)
    chance = np.random.default_rng(1)
    level = np.array([0.1 * int(stack[0]) - 0.1 * int(stack[2]) for stack in stacks])
    level[list(stacks).index(odd)] += 0.5
    stack = np.concatenate([chance.choice(len(stacks), 40), [list(stacks).index(odd)] * 2])
    value = level[stack] + chance.normal(0, 0.05, stack.size)
    found = additive.fit(shape, additive.Readings(stack, value, np.arange(stack.size) / 45))
    assert int(np.argmax(found.level)) == list(stacks).index(odd)


@pytest.mark.parametrize(("odd", "doubted"), [(0.0, False), (0.2, True)])
def test_unseen_stacks_are_a_doubt_where_factors_do_not_explain_the_seen(
    odd: float, doubted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of 60 stacks were built; with a chance to jump the others make it less sure, or change nothing."""
    stacks = grid(6, 5, 2)
    shape = additive.layout(list(stacks), stacks)
    chance = np.random.default_rng(2)
    level = np.array([0.02 * int(stack[0]) for stack in stacks]) + odd * chance.choice([-1.0, 0.0, 0.0, 0.0], 60)
    level[0] = 0.3
    stack = np.repeat(np.arange(0, 60, 2), 12)
    value = level[stack] + chance.normal(0, 0.01, stack.size)
    post = additive.fit(shape, additive.Readings(stack, value, np.arange(stack.size) / 1e6), drift=0.0)
    assert unexplained(post) is doubted
    sure = []
    for share in (0.0, 0.03):
        monkeypatch.setattr("strata.analysis.belief.JUMP_SHARE", share)
        chance = np.random.default_rng(3)
        sure.append(believe(post, np.arange(60), margin=0.03, chance=chance).sure)
    assert (sure[1] < sure[0] - 0.02) is doubted


def test_more_confidence_goes_on_from_what_is_there() -> None:
    quick, _ = campaign(empty(STACKS, replace(RULE, confidence=0.8)), next_batch, noisy(3, 0.05))
    view, _ = campaign(replace(quick, rule=RULE), next_batch, noisy(4, 0.05))
    assert view.trials[: len(quick.trials)] == quick.trials
    rounds = Counter((trial.stack, trial.round) for trial in view.trials)
    assert max(rounds.values()) == 1


def test_never_the_same_stack_twice_in_a_row() -> None:
    view, _ = campaign(empty(STACKS, RULE), next_batch, noisy(5, 0.05))
    order = [trial.stack for trial in view.trials]
    assert all(here != there for here, there in itertools.pairwise(order))


@given(st.lists(st.integers(0, 4), max_size=12))
def test_visits_are_kept_apart_where_they_can_be(order: list[int]) -> None:
    made = apart(order)
    assert Counter(made) == Counter(order)
    if order and max(Counter(order).values()) <= math.ceil(len(order) / 2):
        assert all(here != there for here, there in itertools.pairwise(made))


def test_a_stack_that_fails_is_an_outcome() -> None:
    """The best cannot be built: it is tried, given up, and the next best is named."""
    measure = noisy(6)
    view, _ = campaign(empty(STACKS, RULE), next_batch, lambda s, n: None if s == BEST else measure(s, n))
    tried = [visit for visit in view.failed if visit.stack == BEST]
    assert 1 <= len(tried) <= 8
    seen = ranking(view)
    assert seen.best not in (None, BEST)
    assert any("fail" in said for said in seen.sentences) or not tried


def test_combinations_that_cannot_be_are_left_out() -> None:
    able = [stack for stack in STACKS if not stack.startswith("1-1")]
    view, _ = campaign(empty({s: STACKS[s] for s in able}, RULE), next_batch, noisy(7))
    best = max(able, key=good)
    assert good(ranking(view).best or "") > good(best) - 0.03
    # one that cannot run any more is not visited, and not chosen
    view, _ = campaign(empty(STACKS, RULE), next_batch, noisy(7), runnable=able)
    assert not any(trial.stack.startswith("1-1") for trial in view.trials)


def test_everything_failing_stops() -> None:
    view, why = campaign(empty(STACKS, RULE), next_batch, lambda s, n: None, most=200)
    assert "Stopped" in why
    assert ranking(view).best is None


def test_the_start_has_every_level_and_most_pairs() -> None:
    codes = np.array([[int(c) for c in stack.split("-")] for stack in grid(5, 5, 2, 2)])
    shape = additive.of_codes(codes)
    chosen = start(shape, np.arange(100), np.random.default_rng(1))
    assert len(chosen) == len(set(chosen)) == 16
    for j, size in enumerate((5, 5, 2, 2)):
        counts = Counter(codes[chosen, j].tolist())
        assert len(counts) == size
        assert max(counts.values()) - min(counts.values()) <= 1
    assert len({tuple(pair) for pair in codes[chosen][:, :2].tolist()}) == 16


def test_the_budget_bounds_the_batch() -> None:
    view = empty(STACKS, replace(RULE, budget_s=1000.0))
    batch = next_batch(view, list(STACKS), seconds_left=250.0, seconds_per_visit=80.0)
    assert len(batch.visits) == 3
    stopped = next_batch(view, list(STACKS), seconds_left=50.0, seconds_per_visit=80.0)
    assert stopped.stop
    assert "budget" in stopped.decision


def test_a_cheap_visit_is_preferred_where_it_teaches_as_much() -> None:
    """Two equals that lead: the one whose visit costs a tenth is visited more often."""
    shape = additive.of_codes(np.zeros((2, 0), dtype=np.int64))
    chance = np.random.default_rng(3)
    stack = np.tile([0, 1], 4)
    readings = additive.Readings(stack, chance.normal(0, 0.1, 8), np.arange(8) / 45)
    taken: Counter[int] = Counter()
    for seed in range(30):
        found = decide(
            shape,
            readings,
            np.arange(2),
            margin=0.001,
            confidence=0.999,
            seed=seed,
            cost=np.array([1.0, 10.0]),
        )
        taken.update(found.visits)
    assert taken[0] > 1.3 * taken[1]


def test_certified_measures_the_shortlist_again() -> None:
    rule = replace(RULE, certify=True)
    view, _ = campaign(empty(STACKS, rule), next_batch, noisy(8))
    fresh = [trial for trial in view.trials if trial.round >= CERTIFYING]
    assert len({trial.stack for trial in fresh}) >= 2
    assert any(said.startswith("Certified within the shortlist") for said in ranking(view).sentences)


def equal(seed: int, spread: float = 0.02):  # noqa: ANN201 - a function of a function
    chance = random.Random(seed)
    return lambda stack, order: chance.gauss(0, spread)


@pytest.mark.parametrize("seed", range(3))
def test_a_certification_is_of_the_stacks_that_it_began_with(seed: int) -> None:
    """Of many equal stacks: what the fresh rounds show changes the model, and must not change who is in them."""
    view, _ = campaign(empty(grid(3, 3, 2), replace(RULE, certify=True, within=0.05)), next_batch, equal(seed))
    order = [trial.round for trial in view.trials]
    first = next(k for k, number in enumerate(order) if number >= CERTIFYING)
    assert all(number >= CERTIFYING for number in order[first:])
    began = {trial.stack for trial in view.trials if trial.round == CERTIFYING}
    assert 2 <= len(began) <= 6
    assert {trial.stack for trial in view.trials if trial.round >= CERTIFYING} == began


def shortlisted(seed: int = 1, within: float = 0.05) -> tuple[View, list[tuple[int, str]]]:
    """Before the first fresh round of many equal stacks; and what it is to be."""
    view, _ = campaign(empty(grid(3, 3, 2), replace(RULE, within=within)), next_batch, equal(seed))
    view = replace(view, rule=replace(view.rule, certify=True))
    batch = next_batch(view, list(view.stacks))
    assert {number for number, _ in batch.visits} == {CERTIFYING}
    return view, list(batch.visits)


def test_a_first_round_that_was_cut_short_goes_on_with_the_same_stacks() -> None:
    view, planned = shortlisted()
    # These two look excellent: by the model nobody else would be left.
    for number, stack in planned[:2]:
        view = visited(view, number, stack, {"w": 3.0})
    again = next_batch(replace(view, open_visits=tuple(planned[2:])), list(view.stacks))
    assert list(again.visits) == planned[2:]


def test_one_that_cannot_run_any_more_is_not_waited_for() -> None:
    view, planned = shortlisted()
    gone = planned[-1][1]
    able = [stack for stack in view.stacks if stack != gone]
    for number, stack in planned[:-1]:
        view = visited(view, number, stack, {"w": 1.0})
    view = replace(view, open_visits=(planned[-1],))
    while not (batch := next_batch(view, able)).stop:
        assert gone not in {stack for _, stack in batch.visits}
        for number, stack in batch.visits:
            view = visited(view, number, stack, {"w": math.exp(equal(len(view.trials))(stack, 0))})
    assert any(trial.round > CERTIFYING for trial in view.trials)


def certifying(seed: int, fails: Callable[[str, int], bool], *, built: bool = False) -> View:
    """A campaign in which visits of fresh rounds fail; `fails`: of a stack, in its so many-th fresh visit. `built`: it
    is built then, and its program fails."""
    view, measure = empty(STACKS, replace(RULE, certify=True)), noisy(seed)
    while not (batch := next_batch(view, list(view.stacks))).stop:
        for number, stack in batch.visits:
            broken = number >= CERTIFYING and fails(stack, number - CERTIFYING)
            if broken and built:
                view = ran_in_vain(view, number, stack)
            else:
                view = visited(view, number, stack, {} if broken else {"w": math.exp(measure(stack, number))})
    return view


def fresh(view: View) -> Counter[str]:
    visits = {*((t.stack, t.round) for t in view.trials), *((f.stack, f.round) for f in view.failed)}
    return Counter(stack for stack, number in visits if number >= CERTIFYING)


@pytest.mark.parametrize("built", [False, True])
def test_a_leader_that_fails_in_fresh_rounds_is_not_called_beaten(built: bool) -> None:
    view = certifying(8, lambda stack, number: stack == BEST, built=built)
    seen = ranking(view)
    said = " ".join(seen.sentences)
    assert seen.best is None and "Take" not in said
    assert f"Not certified: {BEST} failed again and again in 2 fresh rounds" in said
    assert fresh(view)[BEST] == 2


@pytest.mark.parametrize("built", [False, True])
def test_what_was_compared_with_nobody_is_not_certified(built: bool) -> None:
    view = certifying(8, lambda stack, number: stack != BEST, built=built)
    said = " ".join(ranking(view).sentences)
    assert "nothing was compared" in said and "Certified" not in said
    assert max(fresh(view).values()) <= 3


def test_one_that_breaks_in_the_middle_does_not_keep_the_others_going() -> None:
    rivals = {stack for stack, count in fresh(certifying(8, lambda stack, number: False)).items() if stack != BEST}
    view = certifying(8, lambda stack, number: stack in rivals and number >= 1)
    assert all(fresh(view)[stack] <= 3 for stack in rivals)


def test_who_failed_is_not_among_the_certified() -> None:
    view, planned = shortlisted()
    broken = planned[-1][1]
    measure = equal(11)
    while not (batch := next_batch(view, list(view.stacks))).stop:
        for number, stack in batch.visits:
            figures = {"w": math.exp(measure(stack, number))}
            view = ran_in_vain(view, number, stack) if stack == broken else visited(view, number, stack, figures)
    (said,) = [each for each in ranking(view).sentences if "ertified" in each]
    assert said.startswith("Certified") and broken not in said.split(")")[0]
    assert f"because they failed: {broken}" in said
    assert fresh(view)[broken] == 2


def test_one_that_comes_back_has_its_earlier_round_made_up() -> None:
    view, planned = shortlisted()
    names = [stack for _, stack in planned]
    for number in (CERTIFYING, CERTIFYING + 1):
        for stack in names[1:]:
            view = visited(view, number, stack, {"w": 1.0})
    view = replace(view, open_visits=((CERTIFYING, names[0]),))
    assert list(next_batch(view, list(view.stacks)).visits) == [(CERTIFYING, names[0])]


def test_a_block_that_nobody_can_make_any_more_is_no_end_of_the_run() -> None:
    view, planned = shortlisted()
    gone = {stack for _, stack in planned}
    able = [stack for stack in view.stacks if stack not in gone]
    view = replace(view, open_visits=tuple(planned))
    for number in range(3):
        for stack in able[:3]:
            view = visited(view, CERTIFYING + 40 + number, stack, {"w": 1.0})
    view = replace(view, halted=tuple(Skipped(stack, ("gone",)) for stack in gone))
    assert ranking(view).sentences
    next_batch(view, able)


def test_one_failure_and_a_kill_put_nobody_out() -> None:
    view, planned = shortlisted()
    names = [stack for _, stack in planned]
    view = visited(view, CERTIFYING, names[0], {})
    for stack in names[1:]:
        view = visited(view, CERTIFYING, stack, {"w": 1.0})
    for stack in names[1:]:
        view = visited(view, CERTIFYING + 1, stack, {"w": 1.0})
    view = replace(view, open_visits=((CERTIFYING + 1, names[0]),))
    assert list(next_batch(view, list(view.stacks)).visits) == [(CERTIFYING + 1, names[0])]


def test_another_objective_has_fresh_rounds_of_its_own() -> None:
    other = WorkloadView("v", "v", SPEED, {"speed": SPEED})
    chance = random.Random(5)

    def measured(view: View) -> View:
        while not (batch := next_batch(view, list(view.stacks))).stop:
            for number, stack in batch.visits:
                figures = {
                    load: math.exp(sign * good(stack) + chance.gauss(0, 0.01)) for load, sign in (("w", 1), ("v", -1))
                }
                view = visited(view, number, stack, figures)
        return view

    view = replace(empty(STACKS, replace(RULE, certify=True, objective="w=1")), workloads=(LOAD, other))
    view = measured(view)
    assert ranking(view).best == BEST
    assert any(said.startswith("Certified") for said in ranking(view).sentences)

    turned = ranking(view, (0.0, 1.0))
    assert turned.leader is not None and good(turned.leader) < -0.3
    said = " ".join(turned.sentences)
    assert f"Not certified: {turned.leader} was in none of the fresh rounds" in said
    assert "Take" not in said

    view = measured(replace(view, rule=replace(view.rule, objective="v=1")))
    worst = min(STACKS, key=good)
    assert ranking(view).best == worst
    assert any(said.startswith("Certified") and worst in said for said in ranking(view).sentences)
    # What was shown of the first is shown still, and nothing is to be measured when it is asked for again.
    assert any(said.startswith("Certified") and BEST in said for said in ranking(view, (1.0, 0.0)).sentences)
    back = measured(replace(view, rule=replace(view.rule, objective="w=1")))
    assert back.visits_done == view.visits_done and ranking(back).best == BEST


@pytest.mark.parametrize("seed", range(4))
def test_whoever_looks_before_the_end_is_told_no_best(seed: int) -> None:
    """At every visit: what is called the best is what the rule would stop at."""
    view = empty(grid(3, 3, 2), RULE)
    measure = noisy(seed, 0.1)
    doubted = 0
    while not (batch := next_batch(view, list(view.stacks))).stop:
        assert ranking(view).best is None
        for number, stack in batch.visits:
            view = visited(view, number, stack, {"w": math.exp(measure(stack, view.visits_done))})
            seen = ranking(view)
            if seen.sure is not None and seen.sure >= RULE.confidence and seen.best is None:
                doubted += 1
                assert any("visits that make its figure more than luck" in said for said in seen.sentences)
    assert ranking(view).best is not None
    if seed == 0:
        assert doubted


def test_a_stack_that_ties_unseen_is_marked_as_predicted() -> None:
    view, _ = campaign(empty(STACKS, replace(RULE, within=0.3)), next_batch, noisy(3, 0.3))
    seen = ranking(view)
    unseen = set(seen.tied) - {row.stack for row in seen.rows}
    assert unseen, "this seed no longer shows it"
    for said in seen.sentences:
        for stack in unseen:
            if said.startswith(("Tied", "May be")) and stack in said:
                assert f"{stack} (predicted, never built)" in said
    for weights in (None, (1.0,)):
        assert [caution.kind for caution in doubts.warnings(view, weights)].count("predicted") == 1


def test_a_stack_that_failed_in_its_only_visit_is_not_called_never_built() -> None:
    """The likely best by its parts: it was called "predicted, never built", and its failure was named nowhere."""
    view, chance = empty(grid(4, 4), RULE), random.Random(3)
    for stack in view.stacks:
        level = 0.1 * sum(int(part) for part in stack.split("-"))
        view = visited(view, 0, stack, {} if stack == "3-3" else {"w": math.exp(level + chance.gauss(0, 0.03))})
    seen = ranking(view)
    assert seen.leader == "3-3", "this seed no longer shows it"
    said = " ".join(seen.sentences)
    assert "never built" not in said
    assert "3-3 (predicted, failed) leads" in said
    assert "Not compared: 3-3 failed in its only visit: mkfs failed." in seen.sentences
    (reason,) = [loser.reason for loser in seen.unranked]
    assert reason.startswith("It failed in its only visit: mkfs failed. Predicted, not measured, by")
    assert "3-3 (predicted, failed) leads" in next_batch(view, view.stacks).decision
    (doubt,) = [each.text for each in doubts.warnings(view) if each.kind == "predicted"]
    assert "failed in every visit" in doubt and "never built" not in doubt


def test_visits_to_go_are_counted_without_stacks_that_may_not_be_chosen() -> None:
    """One that is set aside is ahead of all, so that no number of visits made any other the best."""
    view, chance = empty(STACKS, RULE), random.Random(7)
    for n in range(2):
        for stack in STACKS:
            failed = stack == BEST and n
            view = visited(view, n, stack, {} if failed else {"w": math.exp(good(stack) + chance.gauss(0, 0.06))})
    for n in (2, 3, 4):
        view = visited(view, n, BEST, {} if n < 4 else {"w": math.exp(good(BEST) + 0.6)})
    seen = ranking(view)
    assert "Not to be chosen, because its reliability is in doubt: " + BEST in " ".join(seen.sentences)
    found = evidence(view)
    posterior = found.posterior()
    belief = belief_of(found, posterior, RULE.within, 1)
    margin, share = -math.log1p(-RULE.within), RULE.confidence
    assert belief.sure < share, "this seed no longer shows it"
    assert visits_to_go(belief, posterior.visits, margin, share) is not None
    assert "about" in " ".join(seen.sentences)


@pytest.mark.parametrize("broken", [0, 4, 6])
def test_a_front_is_given_its_visits_whatever_was_spent_on_stacks_that_fail(broken: int) -> None:
    """It ended when 2 visits for each stack left were made in all, those that failed among them."""
    higher, lower = Metric("iops", "IOPS", "higher"), Metric("lat", "ms", "lower")
    load = WorkloadView("w", "w", higher, {"iops": higher, "lat": lower})
    stacks = {f"s{k}": {"kind": str(k)} for k in range(10)}
    bad, chance = list(stacks)[:broken], random.Random(3)
    view = replace(empty(stacks, replace(RULE, objective="pareto:iops,lat")), workloads=(load,))
    while not (batch := next_batch(view, view.stacks)).stop:
        for number, stack in batch.visits:
            figures = {} if stack in bad else {"w": math.exp(0.05 * int(stack[1:]) + chance.gauss(0, 0.05))}
            view = visited(view, number, stack, figures)
            if figures:
                made = {**view.trials[-1].metrics, "lat": 5 * math.exp(chance.gauss(0, 0.05))}
                view = replace(view, trials=(*view.trials[:-1], replace(view.trials[-1], metrics=made)))
        assert view.visits_done < 60, "it does not stop"
    able = [trial for trial in view.trials if trial.stack not in bad]
    assert len(able) == 2 * (10 - broken)
    assert f"all {len(able)} visits for the front" in batch.decision


def test_cautions_are_of_the_weights_that_are_asked_for() -> None:
    """What leads by one workload was never built, and nothing of the kind is so by the other."""
    other = WorkloadView("v", "v", SPEED, {"speed": SPEED})
    view = replace(empty(grid(3, 3), replace(RULE, objective="w=1")), workloads=(LOAD, other))
    chance = random.Random(1)
    for k, stack in enumerate(("0-0", "0-1", "0-2", "1-0", "2-0") * 3):
        level = [int(part) for part in stack.split("-")]
        w, v = 0.5 * sum(level), -0.5 * sum(level)
        view = visited(view, k // 5, stack, {n: math.exp(x + chance.gauss(0, 0.01)) for n, x in (("w", w), ("v", v))})
    kinds = [[caution.kind for caution in doubts.warnings(view, weights)] for weights in ((1.0, 0.0), (0.0, 1.0))]
    assert "predicted" in kinds[0] and "predicted" not in kinds[1]


def test_a_wrong_model_is_found_out_by_certification() -> None:
    """Figures of the first phase flatter one stack; fresh rounds do not, and they are believed."""
    rule = replace(RULE, certify=True)
    view = empty(STACKS, rule)
    measure = noisy(9, 0.01)
    flattered, _ = campaign(
        replace(view, rule=RULE), next_batch, lambda s, n: measure(s, n) + (0.5 if s == "1-1-0" else 0.0)
    )
    other = replace(flattered, rule=rule)
    batch = next_batch(other, list(STACKS))
    assert {number for number, _ in batch.visits} == {CERTIFYING}
    assert "1-1-0" in {stack for _, stack in batch.visits}
    view, _ = campaign(other, next_batch, measure)
    seen = ranking(view)
    if seen.best != BEST:
        assert seen.best is None
        assert any(said.startswith("Not certified") and f"Take {BEST}" in said for said in seen.sentences)


def test_weights_change_the_verdict_without_a_trial() -> None:
    """Under one workload the first factor decides, under the other it turns round."""
    other = replace(LOAD, text="v", name="v", metrics={"speed": SPEED})
    view = replace(empty(grid(4, 3), RULE), workloads=(LOAD, other))
    chance = random.Random(1)
    for number, stack in itertools.product(range(3), list(grid(4, 3))):
        first = int(stack[0]) * 0.2
        figures = {"w": math.exp(first + chance.gauss(0, 0.01)), "v": math.exp(chance.gauss(0, 0.01) - 2 * first)}
        view = visited(view, number, stack, figures)
    best = {name: ranking(view, weights).leader for name, weights in {"w": (1, 0), "v": (0, 1), "both": (3, 1)}.items()}
    assert (best["w"] or "")[0] == "3"
    assert (best["v"] or "")[0] == "0"
    assert (best["both"] or "")[0] == "3"


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_lower_can_be_better(better: str) -> None:
    metric = replace(SPEED, better=better)
    load = replace(LOAD, primary=metric, metrics={"speed": metric})
    view = replace(empty(STACKS, RULE), workloads=(load,))
    sign = -1 if better == "lower" else 1
    measure = noisy(11)
    view, _ = campaign(view, next_batch, lambda s, n: sign * measure(s, n))
    assert ranking(view).best == BEST


def test_the_method_names_the_factors_whatever_spread_they_start_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(additive, "MAIN", replace(additive.MAIN, start=0.2))
    view = empty(grid(2, 2), Rule(design="adaptive"))
    for number, stack in enumerate(view.stacks):
        view = visited(view, number, stack, {"w": 1.0 + number})
    assert "Additive model of factor 0 and factor 1 and their pairs" in ranking(view).method
