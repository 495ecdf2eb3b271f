"""Pure: what to visit next, and when to stop. One module per decision rule; all have one shape.

The run loop asks `next_batch`, makes the visits of the batch in the order given, stores the decision as an event, and
asks again with a fresh view, until the batch says stop. So a rule

- gets all it knows from its arguments: no clock, no file, no memory of earlier calls. Asked again with the same view
  (a run that went on after a crash) it gives the same batch;
- returns only visits of stacks in `runnable`, none of which is done in the view, and never the same stack twice in a
  row where it has another to visit;
- returns no visits exactly when it stops, and says why in `decision`, a sentence for people;
- counts a visit that failed as done: a failure is an outcome, not a reason to try until it works.

    rounds     every stack equally often
    race       rounds of those that may still be the best
    adaptive   visits where a model of the factors says that they matter
    choice     which of them, and why
    beside     instruments, visited a few times beside what the others decide among
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from strata.model import View


@dataclass(frozen=True, slots=True)
class Batch:
    visits: tuple[tuple[int, str], ...]  # (round, stack) in the order to make them; rounds count from 0
    stop: bool  # True exactly when there are no visits
    decision: str  # what was decided and why, a sentence
    to_go: int | None = None  # about how many visits come after these; None: not known


class NextBatch(Protocol):
    """The contract above. `seconds_left` None: no budget; `seconds_per_visit` None: not known yet."""

    def __call__(
        self,
        view: View,
        runnable: Sequence[str],
        *,
        seconds_left: float | None = None,
        seconds_per_visit: float | None = None,
    ) -> Batch: ...


def stopped(decision: str) -> Batch:
    return Batch((), True, decision)


def used_up(visits: int, seconds_left: float | None, seconds_per_visit: float | None) -> bool:
    """Whether a batch of `visits` does not fit into what is left of the budget."""
    if seconds_left is None:
        return False
    return seconds_left <= 0 or (seconds_per_visit is not None and seconds_per_visit * visits > seconds_left)
