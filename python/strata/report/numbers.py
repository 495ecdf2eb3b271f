"""How numbers look to people: the one place that rounds, scales and writes them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median_low

MISSING = "–"
MINUS = "−"

# unit -> (smallest magnitude that is written in it, unit, how many of the declared unit it holds), largest first
_LADDERS: dict[str, tuple[tuple[float, str], ...]] = {
    "bytes": ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "bytes")),
    "bytes/s": ((2.0**40, "TiB/s"), (2.0**30, "GiB/s"), (2.0**20, "MiB/s"), (2.0**10, "KiB/s"), (1.0, "bytes/s")),
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "ms": ((1e3, "s"), (1.0, "ms"), (1e-3, "µs"), (1e-6, "ns")),
    "us": ((1e6, "s"), (1e3, "ms"), (1.0, "µs"), (1e-3, "ns")),
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")),
}
_SPELT = {"ratio": "×", "us": "µs", "B": "bytes", "B/s": "bytes/s", "usec": "µs"}
_SAME = {"B": "bytes", "B/s": "bytes/s", "µs": "us", "usec": "us"}


@dataclass(frozen=True, slots=True)
class Scale:
    """What a column is written in: `shown = declared / per`."""

    unit: str
    per: float = 1.0

    def of(self, value: float | None) -> float | None:
        return None if value is None else value / self.per


def scale_for(unit: str, values: Iterable[float | None]) -> Scale:
    """The unit in which the largest of `values` (given in `unit`) is between 1 and about 1000."""
    largest = max((abs(v) for v in values if v is not None and math.isfinite(v)), default=0.0)
    ladder = _LADDERS.get(_SAME.get(unit, unit))
    if ladder is None or largest == 0.0:
        return Scale(_SPELT.get(unit, unit))
    for per, name in ladder:
        if largest >= per:
            return Scale(name, per)
    return Scale(ladder[-1][1], ladder[-1][0])


_TIMES = ("_s", "_ms", "_us", "_ns")


def scale_of(metric: str, unit: str, values: Iterable[float | None]) -> Scale:
    """As `scale_for`, for a column that has the name of a metric: a name that ends in a unit of time stays true."""
    if metric.endswith(_TIMES):
        return Scale(_SPELT.get(unit, unit))
    return scale_for(unit, values)


def decimals(value: float, digits: int) -> int:
    """Decimals that leave `digits` significant ones; 0 from 10**(digits-1) on."""
    if value == 0 or not math.isfinite(value):
        return 0
    return max(0, digits - 1 - math.floor(math.log10(abs(value))))


def number(value: float | None, digits: int = 3, places: int | None = None) -> str:
    """`value` for people: "–" when missing, "12,345", "1.23", "0.00012", "1.2e-07"."""
    if value is None or not math.isfinite(value):
        return MISSING
    if 0 < abs(value) < 1e-5 or abs(value) >= 1e15:
        text = f"{value:.{digits - 1}e}"
    else:
        text = f"{value:,.{decimals(value, digits) if places is None else places}f}"
    if not text.strip("-0.,"):
        text = text.lstrip("-")
    return text.replace("-", MINUS, 1) if text.startswith("-") else text


def places_for(point: float, low: float | None, high: float | None) -> int:
    """Decimals for an estimate: two significant digits of the interval's width, within 3..4 digits of the point."""
    fewest, most = decimals(point, 3), decimals(point, 4)
    if low is None or high is None or high <= low:
        return fewest
    return min(max(decimals(high - low, 2), fewest), most)


def with_interval(point: float, low: float, high: float) -> tuple[str, str]:
    """The point and "LOW to HIGH", with the same decimals."""
    places = places_for(point, low, high)
    return number(point, places=places), f"{number(low, places=places)} to {number(high, places=places)}"


def places_together(points: Iterable[tuple[float, float | None, float | None]]) -> int | None:
    """Decimals for a column of (point, low, high); None where it spans so much that each needs its own."""
    known = [entry for entry in points if entry[0] != 0]
    sizes = [abs(point) for point, _, _ in known]
    if not known or max(sizes) > 30 * min(sizes):
        return None
    return median_low(places_for(*entry) for entry in known)
