"""What a workload makes of its program's output, which may be forged or broken: figures that can be stored, or a failed
trial with a reason that can be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import astuple

from strata.errors import WorkloadFailed
from strata.model import LARGEST_FIGURE, Call, Measured, TrialOutput, Workload

# Of an error's own words, and of a reader's sentence, which may quote the program.
_WORDS, _SENTENCE = 200, 4000


def measured(workload: Workload, call: Call, output: TrialOutput) -> Measured:
    """Raises WorkloadFailed, whatever the output is: no reader has to think of all that a forged one can hold."""
    try:
        found = workload.read(call, output)
        problem = _problem(found)
    except WorkloadFailed as error:
        raise WorkloadFailed(_encodable(str(error))[:_SENTENCE]) from error
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        problem = f"{type(error).__name__}: {ascii(str(error)[:_WORDS])[1:-1][:_WORDS]}"
        raise _not_understood(call, problem) from error
    if problem is not None:
        raise _not_understood(call, problem)
    return found


def _not_understood(call: Call, problem: str) -> WorkloadFailed:
    return WorkloadFailed(
        f"the output of {call.text} is not what its program prints ({problem}); look at the output, which is kept with "
        "this trial, and see which program ran and which version it is"
    )


def _problem(found: Measured) -> str | None:
    """Why this cannot be calculated with or stored."""
    for name, value in _numbers(found):
        if not math.isfinite(value) or abs(value) > LARGEST_FIGURE:
            return f"{ascii(name[:_WORDS])[1:-1]} is {value:.3g}, and at most {LARGEST_FIGURE:g} can be stored"
    for text in (*found.notes, *(word for each in found.extra for word in (each.name, each.unit, each.about))):
        text.encode()  # raises UnicodeEncodeError, a ValueError, for half a surrogate pair
    return None


def _numbers(found: Measured) -> Iterator[tuple[str, float]]:
    yield from found.metrics.items()
    for name, points in found.series.items():
        yield from ((name, number) for point in points for number in point)
    yield "bytes_read", found.bytes_read or 0
    yield "bytes_written", found.bytes_written or 0
    if found.pattern is not None:
        yield from (("a part of its access pattern", number) for number in astuple(found.pattern))


def _encodable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()
