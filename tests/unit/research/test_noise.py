from __future__ import annotations

import math
import statistics

import pytest
from benchmarks.research.noise import Noise

CALM = {"spread": (0.0, 0.0), "bimodal": 0.0, "interference": 0.0, "drift": 0.0}


def test_draws_follow_from_the_arguments_alone() -> None:
    one, two = Noise(7), Noise(7)
    forward = [one.draw("a", hour / 10, visit=hour) for hour in range(50)]
    backward = [two.draw("a", hour / 10, visit=hour) for hour in reversed(range(50))]
    assert forward == backward[::-1]
    assert forward != [Noise(8).draw("a", hour / 10, visit=hour) for hour in range(50)]


def test_visits_trials_and_stacks_differ() -> None:
    machine = Noise(7)
    draws = {
        machine.draw("a", 0.0, visit=1),
        machine.draw("a", 0.0, visit=2),
        machine.draw("a", 0.0, visit=1, trial=1),
        machine.draw("b", 0.0, visit=1),
        machine.draw("a", 0.0),
        machine.draw("a", 0.001),
    }
    assert len(draws) == 6


def test_everything_can_be_turned_off() -> None:
    assert Noise(1, **CALM).draw("a", 5.0) == 0.0  # type: ignore[arg-type]


def test_spreads_are_log_uniform_over_stacks() -> None:
    machine = Noise(3)
    logs = [math.log(machine.profile(str(i)).spread) for i in range(4000)]
    assert min(logs) >= math.log(0.01) and max(logs) <= math.log(0.25)
    assert statistics.fmean(logs) == pytest.approx((math.log(0.01) + math.log(0.25)) / 2, abs=0.06)
    assert sum(machine.profile(str(i)).slow_share > 0 for i in range(4000)) / 4000 == pytest.approx(0.12, abs=0.02)


def test_moments_of_one_stack() -> None:
    machine = Noise(3, spread=(0.1, 0.1), bimodal=0.0, interference=0.0, drift=0.0)
    first = [machine.draw("a", 0, visit=visit, trial=0) for visit in range(8000)]
    second = [machine.draw("a", 0, visit=visit, trial=1) for visit in range(8000)]
    assert statistics.fmean(first) == pytest.approx(0, abs=0.005)
    assert statistics.stdev(first) == pytest.approx(0.1, rel=0.04)
    assert statistics.correlation(first, second) == pytest.approx(0.3, abs=0.04)
    assert statistics.fmean((x / 0.1) ** 3 for x in first) < -0.1  # longer to the slow side


def test_modes_are_centred() -> None:
    machine = Noise(3, spread=(0.0, 0.0), bimodal=1.0, interference=0.0, drift=0.0)
    for stack in "abcdef":
        draws = [round(machine.draw(stack, 0, visit=visit), 12) for visit in range(4000)]
        assert len(set(draws)) == 2
        assert statistics.fmean(draws) == pytest.approx(0, abs=0.01)
        assert max(draws) - min(draws) == pytest.approx(machine.profile(stack).slow_by)


def test_interference_only_slows() -> None:
    machine = Noise(3, spread=(0.0, 0.0), bimodal=0.0, drift=0.0)
    draws = [machine.draw("a", 0, visit=visit) for visit in range(5000)]
    hit = [draw for draw in draws if draw]
    assert len(hit) / 5000 == pytest.approx(0.05, abs=0.01)
    assert all(-0.5 <= draw <= -0.05 for draw in hit)


def test_drift_is_slow_shared_and_of_its_size() -> None:
    quiet = {**CALM, "drift": 1.0}
    starts = [Noise(seed, **quiet).draw("a", 0.0) / Noise(seed, **quiet).profile("a").drift for seed in range(2000)]  # type: ignore[arg-type]
    assert statistics.pstdev(starts) == pytest.approx(math.hypot(0.04, 0.015), rel=0.05)
    steps = []
    for seed in range(2000):
        machine = Noise(seed, **quiet)  # type: ignore[arg-type]
        a, b = machine.profile("a").drift, machine.profile("b").drift
        assert machine.draw("a", 2.0) / a == pytest.approx(machine.draw("b", 2.0) / b)
        steps.append((machine.draw("a", 1 / 15) - machine.draw("a", 0.0)) / a)
    assert 0.003 < statistics.pstdev(steps) < 0.02
