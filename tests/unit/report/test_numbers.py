from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.report.numbers import (
    MISSING,
    Scale,
    number,
    places_for,
    places_together,
    scale_for,
    scale_of,
    with_interval,
)
from strata.units import count


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, MISSING),
        (math.nan, MISSING),
        (math.inf, MISSING),
        (0.0, "0"),
        (12345.6, "12,346"),
        (123.4, "123"),
        (12.34, "12.3"),
        (1.234, "1.23"),
        (0.01234, "0.0123"),
        (-1.5, "−1.50"),
        (2e-7, "2.00e-07"),
        (-0.0, "0"),
    ],
)
def test_number(value: float | None, text: str) -> None:
    assert number(value) == text


def test_a_negative_that_rounds_to_nothing_has_no_sign() -> None:
    assert number(-0.04, places=1) == "0.0"


@given(st.floats(min_value=1e-4, max_value=1e12))
def test_three_digits_are_kept(value: float) -> None:
    assert float(number(value).replace(",", "")) == pytest.approx(value, rel=0.005)


@pytest.mark.parametrize(
    ("unit", "largest", "shown"),
    [
        ("bytes", 5 * 2**30, Scale("GiB", 2**30)),
        ("bytes", 12.0, Scale("bytes", 1)),
        ("bytes", 0.0, Scale("bytes")),
        ("s", 0.25, Scale("ms", 1e-3)),
        ("s", 4.0, Scale("s", 1)),
        ("ms", 0.02, Scale("µs", 1e-3)),
        ("ms", 2000.0, Scale("s", 1e3)),
        ("us", 58.0, Scale("µs", 1)),
        ("IOPS", 1e6, Scale("IOPS")),
        ("ratio", 1.9, Scale("×")),
    ],
)
def test_scale(unit: str, largest: float, shown: Scale) -> None:
    assert scale_for(unit, [None, largest / 2, largest]) == shown


def test_an_unknown_value_stays_unknown_when_scaled() -> None:
    assert Scale("ms", 1e-3).of(None) is None


@pytest.mark.parametrize(
    ("point", "low", "high", "places"),
    [
        (4602.1, 4493.0, 4714.0, 0),
        (13.48, 13.16, 13.81, 2),
        (0.910, 0.871, 0.951, 3),
        (61.0, 54.0, 69.0, 1),
        (61.0, None, None, 1),
        (1.0, 1.0, 1.0, 2),
    ],
)
def test_places_follow_the_interval(point: float, low: float | None, high: float | None, places: int) -> None:
    assert places_for(point, low, high) == places


def test_a_column_is_written_alike_unless_it_spans_too_much() -> None:
    assert places_together([(1.9, 1.8, 2.0), (1.082, 1.081, 1.083), (1.9, 1.8, 2.0)]) == 2
    assert places_together([(1.9, 1.8, 2.0), (4000.0, 3900.0, 4100.0)]) is None
    assert places_together([]) is None


def test_count() -> None:
    assert [count(1, "visit"), count(1200, "visit")] == ["1 visit", "1,200 visits"]


def test_a_column_named_in_milliseconds_is_in_milliseconds() -> None:
    assert scale_of("read_lat_max_ms", "ms", [12_345.0]) == Scale("ms")
    assert scale_of("create_s", "s", [0.002]) == Scale("s")
    assert scale_of("space_bytes", "bytes", [3 * 2.0**30]) == Scale("GiB", 2.0**30)
    assert scale_of("latency", "ms", [12_345.0]) == Scale("s", 1e3)


def test_a_point_and_its_interval_have_the_same_decimals() -> None:
    assert with_interval(0.9996, 0.999, 1.0) == ("0.9996", "0.9990 to 1.0000")
    assert with_interval(1.0, 0.9, 1.1) == ("1.00", "0.90 to 1.10")


def test_negatives_span_a_column_as_positives_do() -> None:
    alike = [(-10.0, None, None), (-12.0, None, None)]
    assert places_together(alike) == places_together([(10.0, None, None), (12.0, None, None)]) == 1
    assert places_together([(-1000.0, None, None), (-1.0, None, None)]) is None


def test_the_largest_of_a_column_decides_its_unit_whatever_its_sign() -> None:
    assert scale_for("s", [0.002, -3.0, None, math.inf, math.nan]) == Scale("s")
    assert scale_for("us", [1_500_000.0]) == Scale("s", 1e6)
    assert scale_for("us", [999_999.0]) == Scale("ms", 1e3)
