"""Fresh rounds of a shortlist, and what they leave of it when they are judged without the model.

Rounds from `CERTIFYING` on come in blocks of `MOST_ROUNDS`, one block for each shortlist that was begun; the last one
counts. Its visits were chosen for nothing that they show, so they are compared as a race is (`survivors`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from strata.analysis.cells import Array, score_table
from strata.analysis.evidence import CERTIFYING
from strata.analysis.survivors import Standing, standing
from strata.model import View

MOST_ROUNDS = 40


@dataclass(frozen=True, slots=True)
class Certification:
    stacks: tuple[str, ...]  # those that were visited in the block
    first: int  # number of its first round
    rounds: int  # begun
    table: Array  # stacks x rounds
    now: Standing

    @property
    def leader(self) -> str | None:
        return None if self.now.leader is None else self.stacks[self.now.leader]

    @property
    def alive(self) -> tuple[str, ...]:
        return tuple(self.stacks[k] for k in self.now.alive)


def last(view: View, weights: Sequence[float] | None = None) -> Certification | None:
    """The block that was begun last, judged by `weights` of the workloads (None: the run's objective). None before the
    first."""
    visits = [(t.stack, t.round) for t in view.trials] + [(f.stack, f.round) for f in view.failed]
    latest = max((number for _, number in visits), default=0)
    if latest < CERTIFYING:
        return None
    first = latest - (latest - CERTIFYING) % MOST_ROUNDS
    named = {stack for stack, number in visits if number >= first}
    stacks = tuple(stack for stack in view.stacks if stack in named)
    table = score_table(view, stacks, weights)[:, first:]
    margin = -math.log1p(-view.rule.within)
    return Certification(stacks, first, latest - first + 1, table, standing(table, margin, view.rule.confidence))
