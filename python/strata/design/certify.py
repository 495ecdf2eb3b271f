"""After the model is sure: fresh rounds of the shortlist, judged without it.

The model may be wrong about how factors act together. The visits here are chosen for nothing that they show, and the
shortlist is compared as a race is (`analysis.certified`), with intervals that may be watched. That certifies within the
shortlist; that no stack outside is better still rests on the model.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from strata.analysis.certified import MOST_ROUNDS, Block
from strata.analysis.evidence import CERTIFYING
from strata.model import View

SHORTLIST = 6

Visits = list[tuple[int, str]]


def before(view: View, block: Block) -> View:
    """The view as it was when these rounds began: what they show has no say in whether they go on."""
    return replace(
        view,
        trials=tuple(trial for trial in view.trials if trial.round < block.first),
        failed=tuple(visit for visit in view.failed if visit.round < block.first),
    )


def begin(view: View, shortlist: Sequence[str], blocks: Sequence[Block]) -> Visits:
    """The first round of the best of a shortlist, best first; empty where there is nobody to compare."""
    return _round(view, CERTIFYING + MOST_ROUNDS * len(blocks), shortlist[:SHORTLIST])


def go_on(view: View, block: Block, runnable: Sequence[str]) -> Visits:
    """What is left of the first round that is not complete, else the next one, of all that are not out; empty: over."""
    within = range(block.first, block.first + MOST_ROUNDS)
    able = [stack for stack in runnable if stack not in block.failing]
    left = [(number, stack) for number, stack in view.open_visits if number in within and stack in able]
    if left:
        earliest = min(number for number, _ in left)
        return [visit for visit in left if visit[0] == earliest]
    if block.over:
        return []
    return _round(view, block.first + block.begun, [stack for stack in block.alive if stack in able])


def _round(view: View, number: int, stacks: Sequence[str]) -> Visits:
    if len(stacks) < 2:
        return []
    chance = random.Random(f"strata certify {view.seed} {number - CERTIFYING}")
    return [(number, stack) for stack in chance.sample(list(stacks), len(stacks))]
