"""Sizes, times and counts as people write them, parsed and printed in one place.

Sizes are bytes (int) with binary units: 4K, 512M, 1.5G. Times are seconds (float): 100ms, 30s, 20m, 8h.
Percentages are fractions (float): 80% is 0.8. Printing then parsing gives the same number back.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

_SIZE = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_TIME = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# Limits keep every number exact: whole bytes of a disk, and seconds that a float can count.
_LARGEST_BYTES = 2**63 - 1
_LONGEST_S = 1e12
_NUMBER = r"([0-9]{1,30}(?:\.[0-9]{1,400})?)"
_NUMBER_UNIT = re.compile(_NUMBER + r"\s*([A-Za-z]*)")


def parse_size(text: str) -> int:
    """Bytes in `text` ("4K", "4k", "4KiB", "1.5G"). Units are powers of 1024. Raises ValueError."""
    match = _NUMBER_UNIT.fullmatch(text.strip())
    unit = re.sub(r"(?<=[KMGTP])(IB|B)$", "", match[2].upper()) if match else ""
    if not match or unit not in _SIZE:
        raise ValueError(f"'{text}' is not a size; write it as 4K, 512M or 10G")
    value = Fraction(match[1]) * _SIZE[unit]  # a float holds no more than 2**53 bytes exactly
    if value.denominator != 1:
        raise ValueError(f"'{text}' is not a whole number of bytes; write it in a smaller unit")
    if value > _LARGEST_BYTES:
        raise ValueError(f"'{text}' is larger than any disk; write a size below 8192P")
    return value.numerator


def format_size(size_bytes: int) -> str:
    """The shortest exact text: 4096 is "4K", 1000 is "1000"."""
    for unit in ("P", "T", "G", "M", "K"):
        if size_bytes and size_bytes % _SIZE[unit] == 0:
            return f"{size_bytes // _SIZE[unit]}{unit}"
    return str(size_bytes)


def parse_time(text: str) -> float:
    """Seconds in `text` ("100ms", "30s", "20m", "8h"); the unit must be written. Raises ValueError."""
    match = _NUMBER_UNIT.fullmatch(text.strip())
    if not match or match[2] not in _TIME:
        raise ValueError(f"'{text}' is not a time; write it as 100ms, 30s, 20m or 8h")
    # 100 * 1e-3 is not 0.1: divide by whole numbers so that printing and parsing agree to the last bit.
    scale = _TIME[match[2]]
    number = float(match[1])
    seconds = number * scale if scale >= 1 else number / round(1 / scale)
    if seconds > _LONGEST_S:
        raise ValueError(f"'{text}' is longer than any run; write a time below 30000 years")
    return seconds


def format_time(seconds: float) -> str:
    """The shortest exact text for times made by `parse_time`: 0.1 is "100ms", 90 is "90s", 7200 is "2h"."""
    if seconds == 0:
        return "0s"
    for unit in ("d", "h", "m"):
        if seconds % _TIME[unit] == 0:
            return f"{int(seconds // _TIME[unit])}{unit}"
    for unit, factor in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        count = round(seconds * factor)
        if count and count / factor == seconds:
            return f"{count}{unit}"
    return f"{_plain(Decimal(repr(seconds)))}s"


def parse_percent(text: str) -> float:
    """A fraction in 0..1 from "80%" (or "0.8"). Raises ValueError."""
    match = re.fullmatch(_NUMBER + "(%?)", text.strip())
    if not match:
        raise ValueError(f"'{text}' is not a percentage; write it as 80%")
    fraction = float(Fraction(match[1]) / 100 if match[2] else Fraction(match[1]))
    if fraction > 1 and not match[2]:
        raise ValueError(f"'{text}' has no unit; write it as {text.strip()}%")
    if fraction > 1:
        raise ValueError(f"'{text}' is more than 100 %; write a part of the whole as 80%")
    return fraction


def format_percent(fraction: float, sign: str = "%") -> str:
    """The shortest exact text: 0.8 is "80%". `sign`: " %" in a sentence."""
    return f"{_plain(Decimal(repr(fraction)) * 100)}{sign}"


def _plain(number: Decimal) -> str:
    """Its digits without an exponent and without zeros at the end."""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def human_time(seconds: float) -> str:
    """For people, rounded: "45 s", "3 min 20 s", "2 h 5 min"."""
    whole = round(seconds)
    if round(seconds, 1) < 10:
        return f"{seconds:.1f} s"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def human_size(size_bytes: float) -> str:
    """For people, rounded, binary units: "4.0 KiB", "1.5 GiB"."""
    value, unit = float(size_bytes), "B"
    for bigger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if round(value, 1) < 1024:
            break
        value, unit = value / 1024, bigger
    return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"


def human_number(value: float, digits: int = 3) -> str:
    """For people, rounded to `digits` significant digits and never with an exponent: "22,300", "1.5", "0.00012"."""
    text = f"{Decimal(f'{value:.{digits - 1}e}'):,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(fraction: float, sign: str = " %") -> str:
    """For people, two digits or whole: "0.4 %", "3 %", "12 %", "140 %". A setting is exact: `format_percent`."""
    value = 100 * fraction
    text = f"{value:.0f}" if abs(value) >= 10 else human_number(value, 2)
    return f"{text}{sign}"


def count(amount: int, noun: str, plural: str | None = None) -> str:
    """1 -> "1 visit", 3 -> "3 visits"."""
    return f"{amount:,} {noun if amount == 1 else plural or noun + 's'}"
