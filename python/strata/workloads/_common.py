"""Small parts that several families share. Pure."""

from __future__ import annotations

import re

from strata.model import Metric, WorkloadInfo


def declared(info: WorkloadInfo, name: str) -> Metric:
    """The metric of that name. Raises StopIteration when `info` does not declare it."""
    return next(metric for metric in info.metrics if metric.name == name)


def last_lines(text: str, count: int = 3) -> str:
    """The end of what a program said, in one line, for an error message; lines that differ only in numbers once."""
    lines = {re.sub(r"\d+", "0", line): line.strip() for line in reversed(text.splitlines()) if line.strip()}
    return "; ".join(reversed(list(lines.values())[:count]))
