"""The yardstick against cases that can be solved by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from benchmarks.research.simulate.bound import fewest_visits, main


def test_two_equal_stacks_share_the_visits() -> None:
    """s^2/n + s^2/n <= (m/z)^2: n = 2 (s z / m)^2 each."""
    visits = fewest_visits(np.zeros(2), np.array([0.05, 0.05]), z=1.645, margin=0.03)
    assert visits == pytest.approx(4 * (0.05 * 1.645 / 0.03) ** 2, rel=0.01)


def test_who_varies_more_is_visited_more() -> None:
    """The least of a + b with s^2/a + t^2/b = d^2 is (s + t)^2 / d^2."""
    visits = fewest_visits(np.array([0.0, -0.07]), np.array([0.02, 0.06]), z=2.0, margin=0.03)
    assert visits == pytest.approx((0.02 + 0.06) ** 2 / (0.1 / 2.0) ** 2, rel=0.01)


def test_a_stack_far_below_costs_next_to_nothing() -> None:
    two = fewest_visits(np.array([0.0, -0.02]), np.full(2, 0.05), z=1.645)
    three = fewest_visits(np.array([0.0, -0.02, -2.0]), np.full(3, 0.05), z=1.645)
    assert two < three < 1.02 * two


def test_it_is_said_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--stacks", "30", "--campaigns", "2", "--confidence", "80%"])
    quick = json.loads(capsys.readouterr().out)
    main(["--stacks", "30", "--campaigns", "2"])
    sure = json.loads(capsys.readouterr().out)
    assert 0 < quick["hours"] < sure["hours"]
