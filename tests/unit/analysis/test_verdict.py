from __future__ import annotations

import pytest

from strata.analysis import rank
from strata.analysis.verdict import probability

from .noisy_views import exact


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


def test_a_large_lead_is_written_without_an_exponent() -> None:
    view = exact({"fast": [22320.0, 22300.0, 22340.0], "slow": [150.0, 150.2, 149.8]})
    assert "150 times (150 to 150 times) as fast as" in rank.rank(view).sentences[0]
