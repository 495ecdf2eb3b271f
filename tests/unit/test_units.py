"""Units: printing then parsing is the identity, and nothing but ValueError comes out of any text."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strata.units import (
    format_percent,
    format_size,
    format_time,
    human_number,
    human_size,
    human_time,
    parse_percent,
    parse_size,
    parse_time,
    percent,
)

PATIENT = settings(deadline=None)  # how long an example takes says nothing on a busy machine

DIGITS = st.from_regex(r"[0-9]{1,12}(\.[0-9]{1,12})?", fullmatch=True)


@PATIENT
@given(st.integers(0, 2**63 - 1))
@example(2**53 + 1)
@example(0)
def test_a_size_survives_printing(size_bytes: int) -> None:
    assert parse_size(format_size(size_bytes)) == size_bytes


@PATIENT
@given(st.integers(0, 9000), st.sampled_from("KMGTP"))
def test_a_size_is_printed_in_the_largest_whole_unit(count: int, unit: str) -> None:
    if count % 1024 and count * 1024 ** ("KMGTP".index(unit) + 1) < 2**63:
        assert format_size(parse_size(f"{count}{unit}")) == f"{count}{unit}"


@PATIENT
@given(DIGITS, st.sampled_from(["ns", "us", "ms", "s", "m", "h", "d"]))
@example("0.1", "ns")
@example("100", "ms")
@example("0." + "0" * 11 + "1", "ns")
def test_a_time_survives_printing(number: str, unit: str) -> None:
    try:
        seconds = parse_time(number + unit)
    except ValueError:
        assert float(number) > 1e7  # only because it is too long
        return
    assert parse_time(format_time(seconds)) == seconds


@PATIENT
@given(st.floats(0, 1, allow_nan=False))
@example(1 / 3)
@example(5e-324)
@example(0.29)
def test_a_percentage_survives_printing(fraction: float) -> None:
    assert parse_percent(format_percent(fraction)) == fraction


@pytest.mark.parametrize("parse", [parse_size, parse_time, parse_percent])
@PATIENT
@given(text=st.one_of(st.text(), DIGITS.flatmap(lambda n: st.sampled_from([n + "K", n + "s", n + "%", n]))))
@example(text="9" * 400)
@example(text="9" * 400 + "s")
@example(text="9" * 5000)
@example(text="٣K")
def test_any_other_text_is_a_value_error(parse: Callable[[str], float], text: str) -> None:
    with contextlib.suppress(ValueError):
        assert 0 <= parse(text) < float("inf")


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("0", 0), ("1000", 1000), ("4K", 4096), ("4k", 4096), ("4KiB", 4096), ("4KB", 4096), ("1.5G", 3 << 29), ("1B", 1)],
)
def test_sizes(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "K", "-1K", "4X", "4 iB", "1.0001K", "1e3", "8192P", "4IB"])
def test_not_sizes(text: str) -> None:
    with pytest.raises(ValueError, match=r"size|bytes|disk"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds", "printed"),
    [
        ("100ms", 0.1, "100ms"),
        ("90s", 90.0, "90s"),
        ("120s", 120.0, "2m"),
        ("8h", 28800.0, "8h"),
        ("0s", 0.0, "0s"),
        ("1.5s", 1.5, "1500ms"),
        ("7us", 7e-6, "7us"),
    ],
)
def test_times(text: str, seconds: float, printed: str) -> None:
    assert parse_time(text) == seconds
    assert format_time(seconds) == printed


@pytest.mark.parametrize("text", ["", "10", "s", "10 minutes", "-5s", "5S"])
def test_not_times(text: str) -> None:
    with pytest.raises(ValueError, match="100ms"):
        parse_time(text)


@pytest.mark.parametrize(
    ("text", "fraction", "printed"),
    [("80%", 0.8, "80%"), ("0.8", 0.8, "80%"), ("3%", 0.03, "3%"), ("100%", 1.0, "100%"), ("0%", 0.0, "0%")],
)
def test_percentages(text: str, fraction: float, printed: str) -> None:
    assert parse_percent(text) == fraction
    assert format_percent(fraction) == printed


def test_a_setting_is_printed_exactly_and_a_measured_share_is_rounded() -> None:
    assert [format_percent(0.975, " %"), format_percent(0.999, " %")] == ["97.5 %", "99.9 %"]
    assert [percent(share) for share in (0.004, 0.03, 0.1234, 1.4)] == ["0.4 %", "3 %", "12 %", "140 %"]


@pytest.mark.parametrize("text", ["", "%", "80", "101%", "-1%", "x"])
def test_not_percentages(text: str) -> None:
    with pytest.raises(ValueError, match="80%"):
        parse_percent(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.34, "0.3 s"), (45, "45 s"), (200, "3 min 20 s"), (120, "2 min"), (7500, "2 h 5 min"), (9.99, "10 s")],
)
def test_times_for_people(seconds: float, text: str) -> None:
    assert human_time(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1048575, "1.0 MiB"), (4096, "4.0 KiB"), (1.5 * 2**30, "1.5 GiB")]
)
def test_sizes_for_people(size: float, text: str) -> None:
    assert human_size(size) == text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (22320.0, 3, "22,300"),
        (2232000.4, 6, "2,232,000"),
        (120.4, 2, "120"),
        (1.5, 2, "1.5"),
        (2.0, 2, "2"),
        (0.0001234, 3, "0.000123"),
        (-99.96, 3, "-100"),
        (0.0, 3, "0"),
    ],
)
def test_numbers_for_people_have_no_exponent(value: float, digits: int, text: str) -> None:
    assert human_number(value, digits) == text
