"""Against printed tables: NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2 (t) and 1.3.6.7.3 (F)."""

from __future__ import annotations

import pytest

from strata.analysis.student import f_tail, t_quantile, t_two_sided


@pytest.mark.parametrize(
    ("probability", "df", "value"), [(0.975, 1, 12.706), (0.975, 4, 2.776), (0.95, 10, 1.812), (0.995, 30, 2.750)]
)
def test_quantiles_and_both_tails_are_those_of_the_table(probability: float, df: float, value: float) -> None:
    assert t_quantile(probability, df) == pytest.approx(value, abs=5e-4)
    for t in (value, -value):
        assert t_two_sided(t, df) == pytest.approx(2 * (1 - probability), rel=1e-3)


@pytest.mark.parametrize(("f", "above", "below", "tail"), [(4.965, 1, 10, 0.05), (3.326, 5, 10, 0.05)])
def test_the_upper_tail_of_f_is_that_of_the_table(f: float, above: float, below: float, tail: float) -> None:
    assert f_tail(f, above, below) == pytest.approx(tail, rel=1e-3)
