from __future__ import annotations

import pytest

from strata.analysis.verdict import probability


@pytest.mark.parametrize(
    ("chance", "said"),
    [
        (0.0, "= 0.00"),
        (0.9499, "= 0.94"),  # short of a limit of 0.95
        (0.95, "= 0.95"),
        (0.29, "= 0.29"),  # 0.29 * 100 is less than 29 in binary
        (0.995, "= 0.99"),
        (0.998, "> 0.99"),
        (1.0, "> 0.99"),
    ],
)
def test_a_chance_is_never_shown_as_larger_than_it_is(chance: float, said: str) -> None:
    assert probability(chance) == said
