"""After the model is sure: fresh rounds of the shortlist, judged without it.

The model may be wrong about how factors act together. The visits here were chosen for nothing that they show, and the
shortlist is compared as a race is (`analysis.survivors`), with intervals that may be watched. That certifies within the
shortlist; that no stack outside is better still rests on the model.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from strata.analysis.cells import Array, score_table
from strata.analysis.evidence import CERTIFYING
from strata.analysis.survivors import Standing, standing
from strata.model import View

SHORTLIST = 6
MOST_ROUNDS = 40


@dataclass(frozen=True, slots=True)
class Certification:
    stacks: tuple[str, ...]
    table: Array  # stacks x rounds of certification
    now: Standing
    rounds: int  # begun


def so_far(view: View) -> Certification | None:
    """None before it has begun."""
    rounds = {trial.round for trial in view.trials} | {visit.round for visit in view.failed}
    begun = [number for number in rounds if number >= CERTIFYING]
    if not begun:
        return None
    visits = [(t.stack, t.round) for t in view.trials] + [(f.stack, f.round) for f in view.failed]
    named = {stack for stack, number in visits if number >= CERTIFYING}
    stacks = tuple(stack for stack in view.stacks if stack in named)
    table = score_table(view, stacks)[:, CERTIFYING:]
    margin = -math.log1p(-view.rule.within)
    return Certification(stacks, table, standing(table, margin, view.rule.confidence), max(begun) - CERTIFYING + 1)


def next_round(view: View, shortlist: Sequence[str]) -> list[tuple[int, str]]:
    """What is left of the round that was begun, else the next one, of the stacks that are not out; empty: it is over.

    `shortlist`: to begin with; once begun, the stacks stay those that it began with.
    """
    begun = so_far(view)
    done = {(t.round, t.stack) for t in view.trials} | {(f.round, f.stack) for f in view.failed}
    if begun is None:
        wanted, number = list(shortlist[:SHORTLIST]), 0
    else:
        # One that was killed half way through its first round began with stacks that it never reached.
        members = list(dict.fromkeys([*begun.stacks, *(shortlist[:SHORTLIST] if begun.rounds == 1 else ())]))
        unfinished = [stack for stack in members if (CERTIFYING + begun.rounds - 1, stack) not in done]
        alive = {begun.stacks[k] for k in begun.now.alive} if begun.rounds > 1 else set(members)
        left = [stack for stack in unfinished if stack in alive]
        if left:
            return [(CERTIFYING + begun.rounds - 1, stack) for stack in left]
        if begun.now.settled or len(alive) < 2 or begun.rounds >= MOST_ROUNDS:
            return []
        wanted, number = [stack for stack in begun.stacks if stack in alive], begun.rounds
    if len(wanted) < 2:
        return []
    chance = random.Random(f"strata certify {view.seed} {number}")
    return [(CERTIFYING + number, stack) for stack in chance.sample(wanted, len(wanted))]
