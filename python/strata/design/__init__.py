"""Pure: what to visit next, and when to stop. One module per decision rule; all have one shape.

The run loop asks `next_batch`, makes the visits of the batch in the order given, stores the decision as an event, and
asks again with a fresh view, until the batch says stop. So a rule

- gets all it knows from its arguments: no clock, no file, no memory of earlier calls. Asked again with the same view
  (a run that went on after a crash) it gives the same batch;
- returns only visits of stacks in `runnable`, none of which is done in the view, and never the same stack twice in a
  row where it has another to visit;
- returns no visits exactly when it stops, and says why in `decision`, a sentence for people;
- counts a visit that failed as done: a failure is an outcome, not a reason to try until it works.

`rounds` visits every stack equally often. Rules that learn from the figures plug in beside it.
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
