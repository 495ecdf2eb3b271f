"""Fresh rounds of a shortlist, and what they leave of it when they are judged without the model.

Rounds from `CERTIFYING` on come in blocks of `MOST_ROUNDS`, one for each shortlist that was begun. Their visits were
chosen for nothing that they show, so they are compared as a race is (`survivors`), by rounds that are complete. A stack
that fails again and again is out by that, and was not compared.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from strata.analysis.evidence import CERTIFYING
from strata.analysis.reliability import in_doubt
from strata.analysis.scale import score_table
from strata.analysis.survivors import FEWEST_ROUNDS, Standing, standing
from strata.model import View

MOST_ROUNDS = 40


@dataclass(frozen=True, slots=True)
class Block:
    stacks: tuple[str, ...]  # the shortlist
    first: int  # number of its first round
    begun: int  # rounds
    complete: int
    failing: tuple[str, ...]  # failed too often in these rounds
    raced: tuple[str, ...]  # the others, which `now` is of
    now: Standing

    @property
    def leader(self) -> str | None:
        return None if self.now.leader is None else self.raced[self.now.leader]

    @property
    def alive(self) -> tuple[str, ...]:
        return tuple(self.raced[k] for k in self.now.alive)

    @property
    def compared(self) -> bool:
        return len(self.raced) > 1 and self.complete >= FEWEST_ROUNDS

    def speaks_against(self, stack: str) -> bool:
        """Which is in it: it failed, or was shown to be worse than another."""
        return stack in self.failing or (self.compared and stack not in self.alive)

    @property
    def over(self) -> bool:
        return len(self.alive) < 2 or (self.compared and self.now.settled) or self.begun >= MOST_ROUNDS


def blocks(
    view: View, weights: Sequence[float] | None = None, runnable: Collection[str] | None = None
) -> tuple[Block, ...]:
    """In the order in which they were begun, judged by `weights` of the workloads (None: the run's objective).

    `runnable`: the stacks that can be visited from now on, whose visits a round waits for; None: as the view knows it.
    """
    made = [(t.round, t.stack) for t in view.trials] + [(f.round, f.stack) for f in view.failed]
    unable = {skip.stack for skip in (*view.halted, *view.skipped)}
    waiting = {
        (number, stack)
        for number, stack in view.open_visits
        if (stack not in unable if runnable is None else stack in runnable)
    }
    latest = max((number for number, _ in (*made, *waiting)), default=0)
    firsts = range(CERTIFYING, latest + 1, MOST_ROUNDS)
    return tuple(_block(view, weights, first, made, waiting) for first in firsts)


def _block(
    view: View,
    weights: Sequence[float] | None,
    first: int,
    made: Collection[tuple[int, str]],
    waiting: Collection[tuple[int, str]],
) -> Block:
    within = range(first, first + MOST_ROUNDS)
    named = {stack for number, stack in (*made, *waiting) if number in within}
    stacks = tuple(stack for stack in view.stacks if stack in named)
    # A block can be left with visits that nobody can make any more.
    begun = max(_in((*made, *waiting), within), default=first - 1) - first + 1
    complete = min(_in(waiting, within), default=first + begun) - first
    doubtful = in_doubt(view, within, weights)
    failing = tuple(stack for stack in stacks if stack in doubtful)
    raced = tuple(stack for stack in stacks if stack not in failing)
    table = score_table(view, raced, weights)[:, first : first + complete]
    now = standing(table, -math.log1p(-view.rule.within), view.rule.confidence)
    return Block(stacks, first, begun, complete, failing, raced, now)


def _in(visits: Collection[tuple[int, str]], within: range) -> Iterator[int]:
    return (number for number, _ in visits if number in within)


def of(found: Sequence[Block], lead: str) -> Block | None:
    """The block begun last of those that the stack is in."""
    return next((block for block in reversed(found) if lead in block.stacks), None)
