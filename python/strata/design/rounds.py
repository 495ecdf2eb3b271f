"""A fixed number of interleaved rounds: every stack once per round, in random order.

Interleaving spreads what the machine does over time (a slow hour, a filling disk) over all stacks alike; a number of
rounds that is fixed beforehand keeps the error rate of the ranking what it says it is.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from strata.design import Batch
from strata.model import View
from strata.units import count, human_time


def order(stacks: Sequence[str], rounds: int, seed: int) -> list[tuple[int, str]]:
    """(round, stack) for `rounds` rounds. The same for the same arguments; asking for more rounds adds to the end.

    Each round is a random order of all stacks that does not begin with the stack before it. With two stacks that
    leaves one order, a strict alternation.
    """
    chance = random.Random(f"strata rounds {seed}")
    visits: list[tuple[int, str]] = []
    for number in range(rounds):
        turn = chance.sample(list(stacks), len(stacks))
        while visits and len(turn) > 1 and turn[0] == visits[-1][1]:
            turn = chance.sample(list(stacks), len(stacks))
        visits += [(number, stack) for stack in turn]
    return visits


def next_batch(
    view: View,
    runnable: Sequence[str],
    *,
    seconds_left: float | None = None,
    seconds_per_visit: float | None = None,
) -> Batch:
    """What is left of the first round that is not finished, or stop: rounds done, budget used up, nothing can run.

    A batch is begun only when it fits into `seconds_left` whole, so that rounds stay complete.
    """
    rounds = view.rule.rounds
    if not runnable:
        return _stop("Stopped: not one of the stacks can run.")
    stacks = list(dict.fromkeys(runnable))
    done = {stack: _rounds_done(view, stack) for stack in stacks}
    left = [(number, stack) for number, stack in order(stacks, rounds, view.seed) if number not in done[stack]]
    if not left:
        return _stop("Stopped: the only round is done." if rounds == 1 else f"Stopped: all {rounds} rounds are done.")
    number = min(number for number, _ in left)
    visits = _apart([visit for visit in left if visit[0] == number], view)
    if seconds_left is not None:
        takes = None if seconds_per_visit is None else seconds_per_visit * len(visits)
        if seconds_left <= 0 or (takes is not None and takes > seconds_left):
            return _stop(_used_up(view, number, seconds_left, takes))
    which = count(len(visits), "visit")
    if len(visits) < len(stacks):
        which = "the last visit" if len(visits) == 1 else f"the last {which}"
    return Batch(tuple(visits), False, f"Round {number + 1} of {rounds}: {which}.")


def _stop(decision: str) -> Batch:
    return Batch((), True, decision)


def _rounds_done(view: View, stack: str) -> set[int]:
    """Rounds in which the stack has been visited, whatever came of it."""
    measured = {trial.round for trial in view.trials if trial.stack == stack}
    return measured | {visit.round for visit in view.failed if visit.stack == stack}


def _apart(visits: list[tuple[int, str]], view: View) -> list[tuple[int, str]]:
    """Not the stack that was measured last first. Only a set of stacks that changed between batches can cause it."""
    last = max(view.trials, key=lambda trial: trial.order, default=None)
    if last is not None and len(visits) > 1 and visits[0][1] == last.stack:
        return [visits[1], visits[0], *visits[2:]]
    return visits


def _used_up(view: View, finished: int, seconds_left: float, takes: float | None) -> str:
    budget = "" if view.rule.budget_s is None else f" of {human_time(view.rule.budget_s)}"
    text = f"Stopped: the budget{budget} is used up after {finished} of {count(view.rule.rounds, 'round')}"
    if seconds_left <= 0 or takes is None:
        return f"{text}."
    return f"{text}: what is left of it is {human_time(seconds_left)} and the next round takes {human_time(takes)}."
