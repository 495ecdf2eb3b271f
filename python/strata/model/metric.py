"""A named figure with its unit and its direction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Merge = Literal["sum", "mean", "largest", "smallest", "worst", "none"]
"""How the figures of several tenants become one. "worst" takes that of the tenant for which it is worst, under a name
of its own, since it is not that of all: percentiles have no sum and no mean. "none": there is no figure of all."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A named figure, declared once. `unit` is UCUM-like text: "IOPS", "MiB/s", "ms", "s", "%", "bytes"."""

    name: str
    unit: str
    better: Literal["higher", "lower", "neither"]
    about: str = ""
    merge: Merge = field(default="worst", compare=False)  # not stored, and so no part of what is compared
