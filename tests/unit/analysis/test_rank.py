from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.analysis.cells import effects
from strata.analysis.checks import warnings
from strata.analysis.compare import LARGEST_WEIGHT, pairwise, prior
from strata.analysis.evidence import CERTIFYING
from strata.analysis.modelled import ranking
from strata.analysis.rank import Ranking, rank
from strata.analysis.scale import primary_table
from strata.model import Design, FailedVisit, Metric, Outcome, Rule, Skipped, Testbed, TrialResult, View, WorkloadView

from .noisy_views import IOPS, TIME, campaign, exact, trial, view

T_975_2 = 4.302652729911275


def decisions(ranking: Ranking) -> dict[str, str]:
    return {row.stack: row.decision for row in ranking.rows}


# ---------------------------------------------------------------- known answers


def test_two_stacks_by_hand() -> None:
    # log ratios of b to a in the rounds: -1, -2, -3: mean -2, standard deviation 1
    seen = rank(exact({"a": [10.0, 20.0, 5.0], "b": [10 / math.e, 20 / math.e**2, 5 / math.e**3]}))
    b = seen.rows[1].ratio
    assert b is not None and b.low is not None and b.high is not None
    half = T_975_2 / math.sqrt(3)
    assert (math.log(b.point), math.log(b.low), math.log(b.high)) == pytest.approx((-2, -2 - half, -2 + half))
    assert b.n == 3
    assert decisions(seen) == {"a": "leader", "b": "undecided"}
    assert (seen.leader, seen.best, seen.tied, seen.undecided) == ("a", None, ("a", "b"), True)


def test_a_shared_slow_round_cancels() -> None:
    seen = rank(exact({"a": [100.0, 20.0, 300.0, 101.0], "b": [80.0, 15.9, 240.0, 81.0]}))
    assert (seen.best, seen.tied, seen.undecided) == ("a", ("a",), False)
    assert decisions(seen)["b"] == "worse"


def test_the_score_is_the_geometric_mean_of_the_ratios_to_each_workloads_mean() -> None:
    trials = []
    for number in range(3):
        for stack, iops, seconds in (("a", 400.0, 10.0), ("b", 100.0, 40.0), ("c", 200.0, 5.0)):
            trials.append(trial(stack, number, {"iops": iops}))
            trials.append(trial(stack, number, {"run_time": seconds}, workload=TIME.text))
    seen = rank(view(["a", "b", "c"], trials, workloads=(IOPS, TIME)))
    mean_iops, mean_seconds = (400 * 100 * 200) ** (1 / 3), (10 * 40 * 5) ** (1 / 3)
    want = {
        "a": math.sqrt(400 / mean_iops * mean_seconds / 10),
        "b": math.sqrt(100 / mean_iops * mean_seconds / 40),
        "c": math.sqrt(200 / mean_iops * mean_seconds / 5),
    }
    assert {row.stack: row.score for row in seen.rows} == pytest.approx(want)


def test_a_large_workload_weighs_no_more_than_a_small_one() -> None:
    big = WorkloadView("big", "big", Metric("x", "MiB/s", "higher"), {})
    trials = []
    for number in range(3):
        for stack, iops, x in (("a", 1.0, 2e6), ("b", 2.0, 1e6)):
            trials += [trial(stack, number, {"iops": iops}), trial(stack, number, {"x": x}, workload="big")]
    seen = rank(view(["a", "b"], trials, workloads=(IOPS, big)))
    assert [row.score for row in seen.rows] == pytest.approx([1, 1])
    assert decisions(seen)["b"] == "equivalent"


def test_six_stacks_share_the_error_among_five_comparisons() -> None:
    figures = {name: [100.0 + i, 101.0 - i, 100.5] for i, name in enumerate("abcdef")}
    apart, together = (
        rank(exact(figures, rule=Rule(confidence=confidence))).rows[1].ratio for confidence in (0.99, 0.95)
    )
    pair = pairwise(exact(dict(list(figures.items())[:2]), rule=Rule(confidence=0.99)), IOPS)[0].ratio
    assert apart is not None and together is not None and pair is not None
    assert together.n == 3
    # With K = 6, 95 % for all is 99 % for each; moderation adds to the degrees of freedom, so compare with the formula.
    seen = rank(exact(figures))
    leader = seen.leader
    assert leader is not None
    table = primary_table(exact(figures), IOPS, list(figures))
    known = prior(table)
    row = next(row for row in seen.rows if row.stack == "f") if leader != "f" else seen.rows[-1]
    assert row.ratio is not None and row.ratio.high is not None
    gaps = table[list(figures).index(row.stack)] - table[list(figures).index(leader)]
    variance = (known.df * known.variance + 2 * gaps.var(ddof=1)) / (known.df + 2)
    from scipy.stats import t

    half = t.ppf(1 - 0.05 / 5 / 2, 2 + known.df) * math.sqrt(variance / 3)
    assert math.log(row.ratio.high) == pytest.approx(gaps.mean() + half)


def test_equivalent_stacks_tie_and_the_leader_is_named() -> None:
    seen = rank(
        exact({"a": [100.0, 101.0, 99.0, 100.0], "b": [100.5, 101.5, 99.5, 100.5], "c": [50.0, 50.1, 49.9, 50]})
    )
    assert (seen.leader, seen.best, seen.undecided) == ("b", "b", False)
    assert seen.tied == ("b", "a")
    assert decisions(seen) == {"b": "leader", "a": "equivalent", "c": "worse"}
    assert "b and a tie within 3 %" in seen.sentences[0]


def test_the_margin_is_the_campaigns() -> None:
    figures = {"a": [100.0, 101.0, 99.0], "b": [99.0, 99.99, 98.01]}  # 1 % apart, exactly
    assert decisions(rank(exact(figures)))["b"] == "equivalent"
    assert decisions(rank(exact(figures, rule=Rule(within=0.005))))["b"] == "worse"


def test_a_stack_against_itself_on_an_exact_machine_ties() -> None:
    seen = rank(exact({"a": [5.0, 6.0, 7.0], "b": [5.0, 6.0, 7.0]}))
    assert (seen.best, seen.tied, decisions(seen)["b"]) == ("a", ("a", "b"), "equivalent")


# ---------------------------------------------------------------- sentences


def test_the_winning_sentence() -> None:
    seen = rank(exact({"x": [112.0, 112.1, 111.9, 112.0, 112.0], "y": [100.0, 100.0, 100.0, 100.1, 99.9]}))
    assert seen.sentences == (
        "Best: x. It is 12 % (12 to 12 %) faster than the next, y, under fio/rand, 5 visits each.",
    )


def test_twice_as_fast_is_said_in_times() -> None:
    seen = rank(exact({"x": [250.0, 251.0, 249.0, 250.0], "y": [100.0, 100.0, 100.0, 100.0]}))
    assert "2.5 times (2.5 to 2.5 times) as fast as the next, y" in seen.sentences[0]


def test_what_is_not_a_speed_is_better_not_faster() -> None:
    space = WorkloadView("space", "space", Metric("used", "bytes", "lower"), {})
    trials = [
        trial(stack, number, {"used": used + number}, workload="space")
        for number in range(4)
        for stack, used in (("x", 1000.0), ("y", 1200.0))
    ]
    assert "better than the next, y" in rank(view(["x", "y"], trials, workloads=(space,))).sentences[0]


def test_not_settled_says_how_many_rounds() -> None:
    figures = {"a": [100.0, 110.0, 95.0], "b": [97.0, 99.0, 98.0]}
    seen = rank(exact(figures))
    assert seen.undecided
    assert seen.rounds_needed is not None and seen.rounds_needed > 3
    assert f"about {seen.rounds_needed} rounds in all" in seen.sentences[1]
    # Raising the number of rounds after a look would not keep the confidence; a race does.
    assert "run it again with --design race" in seen.sentences[1] and "--rounds" not in seen.sentences[1]
    # With that many rounds of the same mean and spread it is settled, and one fewer does not do.
    from scipy.stats import t

    gaps = [math.log(b / a) for a, b in zip(figures["a"], figures["b"], strict=True)]
    mean = sum(gaps) / 3
    spread = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / 2)
    wanted = max(abs(mean), -math.log(0.97) - abs(mean))
    reach = {n: t.ppf(0.975, n - 1) * spread / math.sqrt(n) for n in (seen.rounds_needed - 1, seen.rounds_needed)}
    assert reach[seen.rounds_needed] <= wanted < reach[seen.rounds_needed - 1]


def test_rounds_needed_to_show_that_two_are_as_good() -> None:
    sway = [1.03, 1 / 1.03, 1.03, 1 / 1.03]  # no difference at all: only the margin can be reached
    figures: dict[str, list[float | None]] = {"a": [100.0] * 4, "b": [100.0 * x for x in sway]}
    needed = rank(exact(figures)).rounds_needed
    assert needed is not None and 4 < needed < 15
    # Two rounds in which b failed are lost, and have to be made up for.
    lost: dict[str, list[float | None]] = {"a": [100.0] * 6, "b": [*figures["b"], None, None]}
    assert rank(exact(lost)).rounds_needed == needed + 2


def test_rounds_that_certified_a_shortlist_are_no_rounds_here() -> None:
    """Who was in them was decided by what was seen; and their numbers are no count."""
    figures = {"a": [100.0, 110.0, 95.0], "b": [97.0, 99.0, 98.0]}
    plain = exact(figures)
    more = tuple(
        replace(each, round=CERTIFYING + each.round, visit=each.visit + 100, order=each.order + 100)
        for each in plain.trials
    )
    certified = replace(plain, trials=(*plain.trials, *more))
    seen, without = rank(certified, metrics="primary"), rank(plain, metrics="primary")
    assert seen.rounds_needed == without.rounds_needed is not None
    assert seen.sentences == without.sentences
    assert [row.visits for row in seen.rows] == [3, 3]
    assert seen.rows[1].against_leader == without.rows[1].against_leader


def test_hopeless_noise_says_so() -> None:
    seen = rank(exact({"a": [100.0, 300.0, 30.0, 90.0], "b": [101.0, 30.0, 300.0, 90.0]}))
    assert seen.rounds_needed is None
    assert "100 rounds would not settle" in seen.sentences[1]


def test_an_unfinished_run_says_how_far_it_is() -> None:
    seen = rank(exact({"a": [100.0, 110.0], "b": [97.0, 99.0]}, planned=10, rule=Rule(budget_s=60)))
    assert seen.sentences[1:] == (
        "So far 4 of 10 visits are done: run it again with a larger --budget to do the rest.",
    )


# ---------------------------------------------------------------- what is missing


def test_nothing_measured() -> None:
    seen = rank(view(["a", "b"], []))
    assert (seen.rows, seen.best, seen.leader, seen.tied, seen.undecided) == ((), None, None, (), True)
    assert [loser.stack for loser in seen.unranked] == ["a", "b"]
    assert seen.sentences[0].startswith("No verdict")


def test_no_workload_at_all() -> None:
    assert rank(view(["a"], [], workloads=())).best is None


def test_one_round_decides_nothing() -> None:
    seen = rank(exact({"a": [100.0], "b": [10.0], "c": [1.0], "d": [1.0]}))
    assert set(decisions(seen).values()) == {"leader", "undecided"}
    assert (seen.best, seen.tied, seen.undecided) == (None, ("a", "b", "c", "d"), True)
    assert seen.rows[1].ratio is not None
    assert (seen.rows[1].ratio.low, seen.rows[1].ratio.high) == (None, None)
    assert "--rounds 5" in seen.sentences[1]


def test_one_stack_alone_is_best_and_nothing_was_compared() -> None:
    seen = rank(exact({"a": [100.0, 90.0]}))
    assert (seen.best, seen.tied, seen.undecided) == ("a", ("a",), False)
    assert "nothing was compared" in seen.sentences[0]


def test_one_stack_is_not_best_while_others_wait() -> None:
    seen = rank(view(["a", "b"], [trial("a", 0, {"iops": 5.0})], planned=2))
    assert (seen.best, seen.undecided) == (None, True)
    assert "only a has been measured so far" in seen.sentences[0]


def test_one_stack_is_best_when_the_others_cannot_work() -> None:
    trials = [trial("a", number, {"iops": 5.0}) for number in range(3)]
    seen = rank(
        view(
            ["a", "b", "c"],
            trials,
            skipped=[Skipped("c", ("no such module",))],
            failed=[FailedVisit(77, "b", 1, "mkfs said no.")],
        )
    )
    assert (seen.best, seen.undecided) == ("a", False)
    assert [(loser.stack, loser.reason) for loser in seen.unranked] == [
        ("b", "None of its visits could be measured. First cause: mkfs said no.")
    ]


def test_a_stack_without_a_figure_under_one_workload_is_not_ranked() -> None:
    trials = []
    for number in range(3):
        for stack in ("a", "b", "c"):
            trials.append(trial(stack, number, {"iops": 100.0 + number}))
            outcome, reason = (Outcome.INVALID, "in memory") if stack == "c" else (Outcome.OK, None)
            trials.append(trial(stack, number, {"run_time": 9.0}, workload=TIME.text, outcome=outcome, reason=reason))
    seen = rank(view(["a", "b", "c"], trials, workloads=(IOPS, TIME)))
    assert {row.stack for row in seen.rows} == {"a", "b"}
    assert seen.unranked[0].stack == "c"
    assert "under build" in seen.unranked[0].reason and "in memory" in seen.unranked[0].reason
    assert seen.unranked[0].metrics[IOPS.text]["iops"].n == 3


def test_a_figure_of_zero_has_a_place_below_the_others_and_the_verdict_says_so() -> None:
    higher = rank(exact({"a": [1.0, 2.0], "b": [0.0, 0.0]}))
    assert [row.stack for row in higher.rows] == ["a", "b"]
    visits = {"zero": [0.0, 0.0, 0.0, 4.0, 5.0], "three": [3.0] * 5}
    trials = [
        trial(stack, n, {"run_time": value}, workload=TIME.text)
        for stack, values in visits.items()
        for n, value in enumerate(values)
    ]
    for design in ("rounds", "race", "adaptive"):
        lower = ranking(view(list(visits), trials, workloads=(TIME,), rule=Rule(design=design)))
        assert lower.leader == "zero", design
        (zeros,) = [each for each in lower.sentences if each.startswith(TIME.text)]
        assert "3 figures of run_time are 0 or less (zero)" in zeros and "asinh(figure / 0.3 s)" in zeros
        assert [row.ratio is None for row in lower.rows] == [False, True], "no ratio to a figure of 0"


@pytest.mark.parametrize("design", ["rounds", "race", "adaptive"])
def test_a_figure_of_zero_leaves_the_comparison_of_the_others_as_it_was(design: Design) -> None:
    """One 0 of the stack that is worst by far made 1 and 2 ms a tie, as shares of what is usual (100 ms)."""
    usual = {"a": 1.0, "b": 2.0, "c": 100.0, "d": 120.0, "e": 150.0}
    trials = [
        trial(
            stack, n, {"run_time": time * (1 + 0.004 * ((3 * n + place) % 5))}, workload=TIME.text, visit=10 * n + place
        )
        for n in range(8)
        for place, (stack, time) in enumerate(usual.items())
    ]

    def seen(changed: list[TrialResult]) -> Ranking:
        return ranking(view(list(usual), changed, workloads=(TIME,), rule=Rule(design=design, confidence=0.95)))

    before, after = seen(trials), seen([replace(trials[4], metrics={"run_time": 0.0}), *trials[:4], *trials[5:]])
    assert before.leader == after.leader == "a"
    assert "b" not in after.tied
    was, now = (next(row.ratio for row in found.rows if row.stack == "b") for found in (before, after))
    assert was is not None and now is not None
    assert now.point == pytest.approx(was.point, rel=0.01)
    assert "e" not in {row.stack for row in after.rows if row.ratio is not None}


def test_a_figure_of_zero_of_a_stack_that_is_set_aside_changes_nothing_and_is_not_said() -> None:
    """It turned the order of the others, which then were 58 times apart in place of 1.1."""
    speeds = {"a": (100.0, 1.0), "b": (60.0, 2.0), "c": (10.0, 1.0), "fails": (10.0, 1.0)}

    def seen(zero: bool) -> Ranking:
        trials = []
        for n in range(8):
            for stack, (fast, slow) in speeds.items():
                broken = stack == "fails" and n % 2 == 0
                figures = {IOPS.text: 0.0 if zero and stack == "fails" else fast + n % 3, TIME.text: 9.0 / slow}
                for load, value in figures.items():
                    failed = broken and load == TIME.text
                    name = "iops" if load == IOPS.text else "run_time"
                    outcome = Outcome.FAILED if failed else Outcome.OK
                    trials.append(trial(stack, n, {} if failed else {name: value}, workload=load, outcome=outcome))
        return rank(view(list(speeds), trials, workloads=(IOPS, TIME)))

    before, after = seen(False), seen(True)
    assert [row.stack for row in after.rows] == [row.stack for row in before.rows] == ["b", "a", "c"]
    for was, now in zip(before.rows, after.rows, strict=True):
        assert was.ratio is not None and now.ratio is not None
        assert now.ratio.point == pytest.approx(was.ratio.point, rel=0.01)
    assert not any(IOPS.text in each and "0 or less" in each for each in after.sentences)


@pytest.mark.parametrize("design", ["rounds", "race", "adaptive"])
def test_a_stack_that_fails_often_is_not_best_in_any_design(design: Design) -> None:
    """It is far ahead where it works, and fails in 4 of 10 visits under one of two workloads."""
    trials = []
    for n in range(10):
        for stack, speed in (("good", 100.0), ("fails", 200.0), ("once", 90.0)):
            broken = (stack == "fails" and n in (1, 4, 5, 8)) or (stack == "once" and n == 3)
            trials.append(trial(stack, n, {"iops": speed + n}))
            outcome, reason = (Outcome.FAILED, "no space left") if broken else (Outcome.OK, None)
            trials.append(trial(stack, n, {"run_time": 9.0}, workload=TIME.text, outcome=outcome, reason=reason))
    stacks = ["good", "fails", "once"]
    seen = ranking(view(stacks, trials, workloads=(IOPS, TIME), rule=Rule(design=design)))
    assert seen.leader == "good"
    assert "fails" not in seen.tied
    (aside,) = [loser for loser in seen.unranked if loser.stack == "fails"]
    assert "4 of 10 visits failed, first cause: no space left" in aside.reason
    said = " ".join(seen.sentences)
    assert "Not to be chosen, because its reliability is in doubt: fails (4 of 10 visits failed" in said
    assert "Compared by the visits with a figure under every workload: once (1 of 10 visits failed)." in said


@pytest.mark.parametrize("design", ["rounds", "race", "adaptive"])
def test_who_is_left_alone_by_failures_was_compared_with_nobody(design: Design) -> None:
    """The others are two and three times as fast, and are set aside: it was called the best of all, at 95 %."""
    speeds = {"a": 100.0, "b": 200.0, "c": 300.0}
    trials = []
    for n in range(6):
        for stack, speed in speeds.items():
            broken = stack != "a" and n in (3, 4, 5)
            outcome = Outcome.FAILED if broken else Outcome.OK
            trials.append(trial(stack, n, {"iops": speed + n}, outcome=outcome, reason="exit 1" if broken else None))
    seen = ranking(view(list(speeds), trials, rule=Rule(design=design, confidence=0.95)))
    assert seen.sentences[0] == "Best: a. It is the only one left; nothing was compared."
    trials += [trial("d", n, {"iops": 50.0 + n}) for n in range(6)]
    seen = ranking(view([*speeds, "d"], trials, rule=Rule(design=design, confidence=0.95)))
    assert seen.best == "a"
    assert "only one left" not in seen.sentences[0]
    if design == "race":
        assert seen.sentences[0] == "Best: a. At 95 %, none of the stacks not set aside is more than 3 % better."


def test_a_visit_with_every_figure_did_not_fail_because_the_stack_could_not_be_removed() -> None:
    trials = [
        trial(stack, n, {"iops": speed + n}, visit=2 * n + place)
        for n in range(5)
        for place, (stack, speed) in enumerate({"a": 200.0, "b": 100.0}.items())
    ]
    stuck = [FailedVisit(2 * n, "a", n, "the stack could not be removed: busy") for n in (0, 1)]
    seen = rank(view(["a", "b"], trials, failed=stuck))
    assert seen.best == "a"
    assert not any("reliability is in doubt" in said or "visits failed" in said for said in seen.sentences)


@pytest.mark.parametrize("design", ["rounds", "race", "adaptive"])
def test_a_workload_that_weighs_nothing_sets_no_stack_aside(design: Design) -> None:
    trials = []
    for n in range(6):
        for stack, speed in (("a", 200.0), ("b", 100.0), ("c", 90.0)):
            trials.append(trial(stack, n, {"iops": speed + n}))
            outcome, reason = (Outcome.FAILED, "no space left") if stack == "a" else (Outcome.OK, None)
            figures = {} if stack == "a" else {"run_time": 0.0}
            trials.append(trial(stack, n, figures, workload=TIME.text, outcome=outcome, reason=reason))
    run = view(["a", "b", "c"], trials, workloads=(IOPS, TIME), rule=Rule(design=design))
    seen = ranking(run, (1.0, 0.0))
    assert seen.best == "a"
    assert not any("no space left" in said or "0 or less" in said for said in seen.sentences)
    assert "Not to be chosen, because its reliability is in doubt: a" in " ".join(ranking(run).sentences)


def test_common_rounds_are_compared_and_levels_are_fitted() -> None:
    # Every round halves; b missed the first, fast one. Plain means would put b far below a.
    view_ = exact({"a": [800.0, 400.0, 200.0, 100.0], "b": [None, 404.0, 202.0, 101.0]})
    seen = rank(view_)
    assert seen.leader == "b"
    assert seen.rows[1].ratio is not None
    assert (seen.rows[1].ratio.n, seen.rows[1].ratio.point) == (3, pytest.approx(1 / 1.01))
    assert seen.rows[0].score / seen.rows[1].score == pytest.approx(1.01)
    assert "least-squares" in seen.method
    assert "3 to 4 visits" in seen.sentences[0]


def test_stacks_without_a_common_round_stay_undecided() -> None:
    seen = rank(exact({"a": [100.0] * 3 + [None] * 3, "b": [None] * 3 + [50.0] * 3}))
    assert seen.undecided and len(seen.tied) == 2
    assert seen.rows[1].ratio is None
    assert "in common" in seen.sentences[1]


def test_trials_that_are_not_ok_never_rank() -> None:
    good = [trial(s, n, {"iops": v}) for n in range(4) for s, v in (("a", 10.0 + n), ("b", 20.0 + 2 * n))]
    bad = [trial("a", 5, {"iops": 9e9}, outcome=outcome) for outcome in (Outcome.INVALID, Outcome.FAILED)]
    bad = bad[:1]  # with more such visits its reliability would be in doubt
    assert rank(view(["a", "b"], good)).rows == rank(view(["a", "b"], good + bad)).rows


# ---------------------------------------------------------------- invariances

SMALL = st.lists(st.lists(st.floats(0.1, 10), min_size=4, max_size=4), min_size=2, max_size=6)


def named(table: list[list[float]]) -> dict[str, list[float | None]]:
    return {f"s{i}": list(row) for i, row in enumerate(table)}


def summary(ranking: Ranking) -> dict[str, tuple[float, float | None, float | None, str, bool]]:
    return {
        row.stack: (row.score, row.ratio.low, row.ratio.high, row.decision, row.tied)
        for row in ranking.rows
        if row.ratio is not None
    }


def check_same(one: Ranking, two: Ranking) -> None:
    """Equal up to rounding, which may decide an exact tie for the lead."""
    if one.leader != two.leader:
        scores = {row.stack: row.score for row in one.rows}
        assert scores[str(one.leader)] == pytest.approx(scores[str(two.leader)])
        return
    first, second = summary(one), summary(two)
    assert first.keys() == second.keys()
    for stack, row in first.items():
        assert row[:3] == pytest.approx(second[stack][:3], rel=1e-6)


@given(SMALL, st.floats(0.01, 100))
def test_the_unit_of_the_metric_does_not_matter(table: list[list[float]], factor: float) -> None:
    scaled = [[value * factor for value in row] for row in table]
    check_same(rank(exact(named(table))), rank(exact(named(scaled))))


@given(SMALL)
def test_lower_is_better_is_higher_is_better_turned_over(table: list[list[float]]) -> None:
    up = exact(named(table))
    down_metric = replace(IOPS, primary=replace(IOPS.primary, better="lower"))
    down = exact(named([[1 / value for value in row] for row in table]), workloads=(down_metric,))
    check_same(rank(up), rank(down))


@given(SMALL, st.randoms(use_true_random=False))
def test_the_order_of_stacks_and_trials_does_not_matter(table: list[list[float]], chance: object) -> None:
    one = exact(named(table))
    names, trials = list(one.stacks), list(one.trials)
    chance.shuffle(names)  # type: ignore[attr-defined]
    chance.shuffle(trials)  # type: ignore[attr-defined]
    check_same(rank(one), rank(replace(one, stacks=tuple(names), trials=tuple(trials))))


@given(SMALL, st.lists(st.floats(0.1, 10), min_size=4, max_size=4))
def test_what_a_round_does_to_all_stacks_does_not_matter(table: list[list[float]], factors: list[float]) -> None:
    slow = [[value * factor for value, factor in zip(row, factors, strict=True)] for row in table]
    check_same(rank(exact(named(table))), rank(exact(named(slow))))


@given(
    st.lists(st.lists(st.none() | st.floats(0.1, 10), min_size=3, max_size=3), min_size=1, max_size=6),
    st.sampled_from([0.8, 0.95]),
)
def test_a_ranking_is_consistent_whatever_is_missing(table: list[list[float | None]], confidence: float) -> None:
    seen = rank(exact(named(table), rule=Rule(confidence=confidence)))  # type: ignore[arg-type]
    names = [row.stack for row in seen.rows] + [loser.stack for loser in seen.unranked]
    assert sorted(names) == sorted(named(table))  # type: ignore[arg-type]
    assert [row.score for row in seen.rows] == sorted((row.score for row in seen.rows), reverse=True)
    assert seen.undecided is (seen.best is None)
    assert seen.best in (None, seen.leader)
    if seen.rows:
        assert seen.tied[0] == seen.leader
        assert seen.sentences
    for row in seen.rows:
        assert row.tied is (row.decision != "worse")
        if row.ratio is not None and row.ratio.low is not None and row.ratio.high is not None:
            assert row.ratio.low <= row.ratio.point <= row.ratio.high


# ---------------------------------------------------------------- parts


def test_fit_without_gaps_is_the_row_means() -> None:
    import numpy as np

    assert effects(np.array([[1.0, 3.0], [5.0, 7.0]])) == pytest.approx([-2, 2])
    assert effects(np.array([[1.0, 3.0, 10.0], [5.0, 7.0, np.nan]])) == pytest.approx([-2, 2])


def test_pairs_are_all_there_and_turn_over() -> None:
    data = {"a": [10.0, 11.0, 12.0], "b": [20.0, 21.0, 25.0], "c": [5.0, 5.5, 6.5]}
    pairs = pairwise(exact(data), IOPS)
    assert [(pair.stack, pair.other) for pair in pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    turned = pairwise(exact(dict(reversed(data.items()))), IOPS)
    for pair in pairs:
        back = next(p for p in turned if (p.stack, p.other) == (pair.other, pair.stack)).ratio
        assert back is not None and pair.ratio is not None and back.high is not None
        assert (back.point, back.high) == (pytest.approx(1 / pair.ratio.point), pytest.approx(1 / pair.ratio.low))


def test_a_row_says_how_it_does_under_each_workload() -> None:
    seen = rank(campaign({"a": 0.0, "b": 0.5}, 1, workloads=(IOPS, TIME)))
    assert [row.stack for row in seen.rows] == ["b", "a"]
    assert seen.rows[0].against_leader == {}
    pair = seen.rows[1].against_leader[TIME.text]
    assert (pair.stack, pair.other) == ("a", "b")
    assert pair.ratio is not None and pair.ratio.point < 1  # slower: less good, though its seconds are more
    assert seen.rows[1].metrics[TIME.text]["run_time"].point > seen.rows[0].metrics[TIME.text]["run_time"].point


def test_the_prior_needs_four_stacks_and_some_variance() -> None:
    def table(view_: View) -> object:
        return primary_table(view_, IOPS, view_.stacks)

    noisy = campaign(dict.fromkeys("abcdef", 0.0), 3)
    assert 0 < prior(table(noisy)).df <= LARGEST_WEIGHT  # type: ignore[arg-type]
    assert prior(table(noisy)[:3]).df == 0  # type: ignore[index]
    assert prior(table(exact({name: [1.0, 2.0, 3.0] for name in "abcd"}))).df == 0  # type: ignore[arg-type]


def test_other_pairs_never_weigh_more_than_two_degrees_of_freedom() -> None:
    """Stacks that are all alike call for more; but pairs share stacks, and more loses coverage."""
    alike = exact(
        {name: [math.exp(0.1 * math.sin(7 * i + 3 * j)) for j in range(5)] for i, name in enumerate("abcdef")}
    )
    assert prior(primary_table(alike, IOPS, alike.stacks)).df == 2.0


def test_the_prior_is_smyths() -> None:
    """Moments by hand: weights solve trigamma(d0 / 2) = excess variance of the log variances."""
    import numpy as np
    from scipy.special import digamma, polygamma

    data = campaign(dict.fromkeys("abcdefgh", 0.0), 8)
    table = primary_table(data, IOPS, data.stacks)
    known = prior(table)
    logs = [
        np.log(np.var(table[i] - table[j], ddof=1)) - digamma(2) + np.log(2) for i in range(8) for j in range(i + 1, 8)
    ]
    excess = np.var(logs, ddof=1) - polygamma(1, 2)
    assert known.df < LARGEST_WEIGHT  # else this data does not test the equation
    assert polygamma(1, known.df / 2) == pytest.approx(excess)
    assert np.log(known.variance) == pytest.approx(np.mean(logs) + digamma(known.df / 2) - np.log(known.df / 2))


def test_an_endless_interval_is_no_error() -> None:
    seen = rank(exact({"a": [1.0, 1e6], "b": [1e6, 1.0], "c": [1e-300, 1e300]}, rule=Rule(rounds=2, confidence=0.999)))
    assert seen.undecided
    for row in seen.rows:
        for each in [row.ratio, *(figure for figures in row.metrics.values() for figure in figures.values())]:
            assert each is not None and each.low is not None and each.high is not None
            assert 0 < each.low <= each.point <= each.high
            assert math.isfinite(1 / each.low) and math.isfinite(1 / each.high)


def test_a_display_may_leave_out_what_does_not_decide() -> None:
    metrics = {"iops": 10.0, "lat": 2.0}
    seen = view(["a", "b"], [trial(stack, r, metrics) for stack in ("a", "b") for r in range(3)])
    whole, brief = rank(seen), rank(seen, metrics="primary")
    assert set(whole.rows[0].metrics[IOPS.text]) == {"iops", "lat"}
    assert set(brief.rows[0].metrics[IOPS.text]) == {"iops"}
    assert replace(whole, rows=()) == replace(brief, rows=())
    assert [replace(row, metrics={}) for row in whole.rows] == [replace(row, metrics={}) for row in brief.rows]


def test_by_the_virtual_clock_more_visits_are_seeds() -> None:
    """--rounds is refused there: what the verdict tells to type must work."""
    once = exact({"a": [100.0], "b": [97.0]})
    virtual = replace(once, testbed=Testbed("lab", clock="virtual"))
    assert rank(once).sentences[1] == "Run it again with --rounds 5 (at least 3)."
    assert rank(virtual).sentences[1] == "Run it again with --seeds 5 (at least 3)."
    assert "Run again with --seeds 5." in next(each.text for each in warnings(virtual) if each.kind == "few")
    needs = replace(
        exact({"a": [100.0, 110.0, 95.0], "b": [97.0, 99.0, 98.0]}), testbed=Testbed("lab", clock="virtual")
    )
    needed = rank(needs).rounds_needed
    assert f"about {needed} seeds in all" in rank(needs).sentences[1]


def test_two_visits_decide_nothing() -> None:
    seen = rank(exact({"a": [100.0, 100.1], "b": [50.0, 50.0]}))
    assert seen.best is None and seen.tied == ("a", "b")
    assert {row.decision for row in seen.rows} == {"leader", "undecided"}
    assert seen.sentences[0].startswith("Not settled: fewer than 3 visits of each stack decide nothing.")
    assert rank(exact({"a": [100.0, 100.1, 100.2], "b": [50.0, 50.0, 50.1]})).best == "a"
