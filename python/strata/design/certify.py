"""After the model is sure: fresh rounds of the shortlist, judged without it.

The model may be wrong about how factors act together. The visits here are chosen for nothing that they show, and the
shortlist is compared as a race is (`analysis.certified`), with intervals that may be watched. That certifies within the
shortlist; that no stack outside is better still rests on the model.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from strata.analysis.certified import MOST_ROUNDS, Certification
from strata.analysis.evidence import CERTIFYING
from strata.model import View

SHORTLIST = 6

Visits = list[tuple[int, str]]


def before(view: View, begun: Certification) -> View:
    """The view as it was when these rounds began: what they show has no say in who is in them."""
    return replace(
        view,
        trials=tuple(trial for trial in view.trials if trial.round < begun.first),
        failed=tuple(visit for visit in view.failed if visit.round < begun.first),
    )


def begin(view: View, shortlist: Sequence[str], earlier: Certification | None) -> Visits:
    """The first round of the best of a shortlist, best first; empty where there is nobody to compare."""
    first = CERTIFYING if earlier is None else earlier.first + MOST_ROUNDS
    return _round(view, first, shortlist[:SHORTLIST])


def go_on(view: View, begun: Certification, shortlist: Sequence[str]) -> Visits:
    """What is left of the round that was begun, else the next one, of the stacks that are not out; empty: it is over.

    `shortlist`: as it was when they began, for a first round that was cut short before it reached all of them.
    """
    done = {(t.round, t.stack) for t in view.trials} | {(f.round, f.stack) for f in view.failed}
    latest = begun.first + begun.rounds - 1
    members = dict.fromkeys([*begun.stacks, *shortlist[:SHORTLIST]]) if begun.rounds == 1 else begun.alive
    left = [stack for stack in members if (latest, stack) not in done]
    if left:
        return [(latest, stack) for stack in left]
    if begun.now.settled or begun.rounds >= MOST_ROUNDS:
        return []
    return _round(view, latest + 1, begun.alive)


def _round(view: View, number: int, stacks: Sequence[str]) -> Visits:
    if len(stacks) < 2:
        return []
    chance = random.Random(f"strata certify {view.seed} {number - CERTIFYING}")
    return [(number, stack) for stack in chance.sample(list(stacks), len(stacks))]
