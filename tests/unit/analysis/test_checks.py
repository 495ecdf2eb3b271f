from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.research.noise import Noise

from strata.analysis.checks import Caution, two_modes, warnings
from strata.model import FailedVisit, Outcome, Rule, Testbed, View

from .noisy_views import IOPS, TIME, campaign, exact, trial, view


def kinds(view_: View) -> list[tuple[str, str | None]]:
    return [(warning.kind, warning.stack) for warning in warnings(view_)]


QUIET = [100.0, 101.0, 99.0, 100.5, 99.5]


def test_a_quiet_run_has_no_warning() -> None:
    assert kinds(exact({"a": QUIET, "b": QUIET[::-1], "c": [50.0, 50.2, 49.9, 50.1, 50.0]})) == []


def test_nothing_measured_has_no_warning() -> None:
    assert kinds(view(["a", "b"], [])) == []
    assert kinds(view(["a"], [], workloads=())) == []


@pytest.mark.parametrize(("sway", "seen"), [(0.085, False), (0.1, True)])
def test_spread_over_visits(sway: float, seen: bool) -> None:
    # two values a fraction `sway` above and below: coefficient of variation about sway * sqrt(6 / 5)
    values = [100 * (1 + sway * sign) for sign in (1, -1, 1, -1, 1, -1)]
    assert (("spread", "a") in kinds(exact({"a": values}))) is seen


def test_an_outlier_is_named_with_its_round_and_kept() -> None:
    data = exact({"a": [100.0, 101.0, 70.0, 99.0, 100.5, 100.0], "b": [50.0, 50.5, 49.5, 50.2, 50.1, 50.0]})
    found = [warning for warning in warnings(data) if warning.kind == "outlier"]
    assert [(warning.stack, warning.workload) for warning in found] == [("a", IOPS.text)]
    assert "in round 3 (30 % worse)" in found[0].text


def test_an_outlier_of_a_time_is_worse_when_it_is_longer() -> None:
    seconds = [10.0, 10.1, 9.9, 10.0, 14.0, 10.05]
    trials = [trial("a", n, {"run_time": value}, workload=TIME.text) for n, value in enumerate(seconds)]
    found = [w for w in warnings(view(["a"], trials, workloads=(TIME,))) if w.kind == "outlier"]
    assert "worse" in found[0].text


def test_small_deviations_and_slow_rounds_are_no_outliers() -> None:
    assert ("outlier", "a") not in kinds(exact({"a": [100.0, 100.0, 100.0, 100.0, 104.0]}))
    slow = [1.0, 1.0, 0.6, 1.0, 1.0, 1.0]
    data = {name: [level * s for s in slow] for name, level in (("a", 100.0), ("b", 90.0), ("c", 50.0))}
    assert not [kind for kind, _ in kinds(exact(data)) if kind == "outlier"]


def test_what_is_far_depends_on_the_spread_of_the_stack_and_of_the_others() -> None:
    assert ("outlier", "a") not in kinds(exact({"a": [100.0, 115.0, 88.0, 108.0, 93.0]}))
    lucky = [100.0, 100.1, 99.9, 100.0, 109.0]  # four visits that agree, while others in this run vary by some percent
    restless = {"b": [50.0, 53.0, 47.5, 52.0, 48.5], "c": [70.0, 66.0, 73.0, 67.5, 72.5]}
    assert ("outlier", "a") in kinds(exact({"a": lucky}))
    assert ("outlier", "a") not in kinds(exact({"a": lucky, **restless}))


def test_four_visits_are_too_few_for_outliers() -> None:
    assert ("outlier", "a") not in kinds(exact({"a": [100.0, 101.0, 70.0, 99.0]}))


def test_two_modes_are_seen_from_eight_visits_on() -> None:
    values = [100.0, 80.0, 101.0, 100.5, 80.5, 99.5, 79.5, 100.2]
    found = [warning for warning in warnings(exact({"a": values})) if warning.kind == "bimodal"]
    assert len(found) == 1
    assert "20 % below" in found[0].text and "38 % of the visits" in found[0].text
    assert ("bimodal", "a") not in kinds(exact({"a": values[:7]}))


def test_one_mode_is_seldom_taken_for_two() -> None:
    chance = random.Random(5)
    wrong = sum(two_modes(np.array([chance.gauss(0, 0.05) for _ in range(10)])) is not None for _ in range(300))
    assert wrong <= 15


def test_the_evidence_for_two_modes_is_that_of_an_independent_formula() -> None:
    """Two tight groups of 5: the likelihoods are sums of plain normal densities, no common term left out."""
    from math import log

    from scipy.stats import norm

    values = np.array([-0.01, -0.005, 0.0, 0.005, 0.01, 0.99, 0.995, 1.0, 1.005, 1.01])
    modes = two_modes(values)
    assert modes is not None
    assert modes.slow_share == pytest.approx(0.5)
    assert modes.gap == pytest.approx(1 - np.exp(-1))
    # Between the groups so close that the gain is just above and just below 6.
    gains = []
    for gap in np.linspace(0.02, 0.2, 200):
        data = np.concatenate([values[:5], values[:5] + gap])
        spread = values[:5].std()
        one = -2 * norm.logpdf(data, data.mean(), data.std()).sum() + 2 * log(10)
        two = -2 * np.log(0.5 * norm.pdf(data, 0, spread) + 0.5 * norm.pdf(data, gap, spread)).sum() + 4 * log(10)
        gains.append((one - two, two_modes(data) is not None))
    assert any(found for _, found in gains) and not all(found for _, found in gains)
    assert all(found == (gain > 6) for gain, found in gains if abs(gain - 6) > 0.7)


def test_a_slope_over_the_run_is_drift() -> None:
    data = {"a": [100.0, 99.0, 98.0, 97.0, 96.0], "b": [50.1, 49.4, 49.1, 48.4, 48.1]}
    found = [warning for warning in warnings(exact(data)) if warning.kind == "drift"]
    assert len(found) == 1 and found[0].stack is None
    assert "4 % worse over the run" in found[0].text


def test_uneven_rounds_are_drift_and_noise_is_not() -> None:
    uneven = [1.0, 1.0, 0.85, 0.85, 1.0, 1.0]
    tilt = [1.0, 1.002, 0.999, 1.001, 1.0, 0.998]
    data = {
        "a": [100 * u * t for u, t in zip(uneven, tilt, strict=True)],
        "b": [70 * u / t for u, t in zip(uneven, tilt, strict=True)],
    }
    assert ("drift", None) in kinds(exact(data))
    chance = random.Random(2)
    false = 0
    for _ in range(200):
        noise = {name: [100 * (1 + 0.05 * chance.gauss(0, 1)) for _ in range(5)] for name in "abcd"}
        false += ("drift", None) in kinds(exact(noise))
    assert false <= 30  # two tests at 5 %


def test_in_virtual_time_nothing_is_blamed_on_noise_or_on_the_hours() -> None:
    def both(figures: dict[str, list[float | None]]) -> tuple[list[Caution], list[Caution]]:
        data = exact(figures)
        lab = Testbed("lab", clock="virtual")
        return list(warnings(data)), list(warnings(replace(data, testbed=lab)))

    real, virtual = both({"a": [100.0, 99.0, 98.0, 97.0, 96.0], "b": [50.1, 49.4, 49.1, 48.4, 48.1]})
    assert ([caution.kind for caution in real], virtual) == (["drift"], [])
    real, virtual = both({"a": [100.0, 101.0, 99.0, 100.0, 20.0], "b": [50.1, 48.4, 52.1, 49.4, 51.1]})
    assert {caution.kind for caution in real} == {caution.kind for caution in virtual} == {"spread", "outlier"}
    assert not [caution for caution in virtual if "other work" in caution.text or "something else" in caution.text]
    assert any("depends that much on its seed" in caution.text for caution in virtual)


def test_three_rounds_show_no_drift() -> None:
    assert ("drift", None) not in kinds(exact({"a": [100.0, 90.0, 80.0], "b": [100.0, 90.0, 80.0]}))


def test_flags_are_counted_and_said_once_per_workload() -> None:
    trials = [trial(s, n, {"iops": 100.0}, flags=("memory",) if s == "a" else ()) for s in "ab" for n in range(3)]
    trials.append(trial("b", 3, {"iops": 100.0}, flags=("unsteady",)))
    found = {warning.kind: warning for warning in warnings(view(["a", "b"], trials))}
    assert set(found) == {"memory", "unsteady"}
    assert found["memory"].stack == "a" and "3 of 7 trials" in found["memory"].text
    assert found["unsteady"].stack == "b"


def test_too_few_visits() -> None:
    assert kinds(exact({"a": [100.0, 101.0], "b": [50.0, 51.0]})) == [("few", None)]
    assert kinds(exact({"a": [100.0, 101.0, 99.0], "b": [50.0, 51.0, None]})) == [("few", "b")]


def test_failures_and_rejections_may_flatter() -> None:
    trials = [trial("a", n, {"iops": 100.0}, visit=n) for n in range(3)]
    trials += [
        trial("a", 3, {}, visit=3, outcome=Outcome.FAILED, reason="no space left."),
        trial("a", 4, {"iops": 9e9}, visit=4, outcome=Outcome.INVALID, reason="in memory"),
    ]
    found = warnings(view(["a"], trials, failed=[FailedVisit(5, "a", 1, "mkfs failed")]))
    assert [warning.kind for warning in found] == ["failed", "invalid"]
    assert "2 of 6 visits" in found[0].text and "no space left" in found[0].text
    assert "1 of 5 trials" in found[1].text


@pytest.mark.parametrize(
    ("visits", "said"), [(4, "All 4 visits of a failed (no space)."), (1, "The only visit of a fail")]
)
def test_where_all_failed_no_figures_are_spoken_of(visits: int, said: str) -> None:
    failed = [FailedVisit(n, "a", n, "no space") for n in range(visits - 1)]
    trials = [trial("a", 9, {}, visit=9, outcome=Outcome.FAILED, reason="no space")]
    (found,) = warnings(view(["a"], trials, failed=failed))
    assert found.kind == "failed"
    assert found.text.startswith(said) and "has no figures" in found.text and "flatter" not in found.text


def test_processor_pressure() -> None:
    def run(pressure: float) -> View:
        trials = [trial("a", n, {"iops": 100.0, "psi.cpu_some_pct": pressure}) for n in range(3)]
        return view(["a"], trials)

    assert kinds(run(9.0)) == []
    assert kinds(run(30.0)) == [("pressure", "a")]


def test_a_rebuild_that_was_over_before_the_trial() -> None:
    def run(stack: str, sync_pct: float) -> View:
        return view([stack], [trial(stack, n, {"iops": 100.0, "md.sync_pct": sync_pct}) for n in range(3)])

    slow, plain = "2*disk | md(raid1) | rebuilding", "2*disk | md(raid1)"
    assert kinds(run(slow, 40.0)) == []
    assert kinds(run(slow, 100.0)) == [("rebuilt", slow)]
    assert kinds(run(plain, 100.0)) == []


def test_texts_are_sentences_and_noisy_runs_do_not_crash() -> None:
    machine = Noise(3, bimodal=1.0)
    for seed in range(30):
        data = campaign(dict.fromkeys("abc", 0.0), seed, rounds=9, noise=machine, rule=Rule(rounds=9))
        for warning in warnings(data):
            assert warning.text.endswith(".")
            assert warning.stack is None or warning.stack in data.stacks
