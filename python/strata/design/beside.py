"""Instruments beside a race or a model: visited a few times to compare with, while the rule decides among the rest.

A RAM disk that raced with the others would win, and end the race before the others were distinguished.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from strata.analysis.evidence import CERTIFYING
from strata.analysis.instruments import choosable, instrument_in
from strata.analysis.survivors import tried
from strata.design import Batch, NextBatch
from strata.model import View

VISITS = 3  # of each instrument: the fewest whose spread says anything


def beside(rule: NextBatch) -> NextBatch:
    """The same rule, which sees no stack with an instrument unless there is no other."""

    def next_batch(
        view: View,
        runnable: Sequence[str],
        *,
        seconds_left: float | None = None,
        seconds_per_visit: float | None = None,
    ) -> Batch:
        held = [stack for stack in dict.fromkeys(runnable) if instrument_in(stack)]
        rest = [stack for stack in runnable if stack not in held]
        if not held or not rest:
            return rule(view, runnable, seconds_left=seconds_left, seconds_per_visit=seconds_per_visit)
        batch = rule(choosable(view), rest, seconds_left=seconds_left, seconds_per_visit=seconds_per_visit)
        if not batch.visits or (number := batch.visits[0][0]) >= CERTIFYING:
            return batch
        done = tried(view)
        due = [s for s in held if len(done.get(s, ())) < VISITS and number not in done.get(s, ())]
        return replace(batch, visits=(*batch.visits, *((number, stack) for stack in due)))

    return next_batch
