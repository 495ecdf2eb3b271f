"""A race without a model (`analysis.survivors`): interleaved rounds of the stacks that may still be the best."""

from __future__ import annotations

import random
from collections.abc import Sequence

from strata.analysis.survivors import Standing, raced, tried
from strata.design import Batch, stopped, used_up
from strata.model import Rule, View
from strata.units import count, human_time

MOST_ROUNDS = 40


def next_batch(
    view: View,
    runnable: Sequence[str],
    *,
    seconds_left: float | None = None,
    seconds_per_visit: float | None = None,
) -> Batch:
    """What is left of the first round that is not finished, or the next round of all that are left."""
    stacks = list(dict.fromkeys(runnable))
    if not stacks:
        return stopped("Stopped: not one of the stacks can run.")
    done, now = tried(view), raced(view, stacks)
    alive = [stacks[k] for k in now.alive]
    if now.settled or not alive or (now.rounds >= 2 and len(alive) < 2):
        return stopped(_settled(stacks, now, view.rule))
    # The round that was begun last may not be over: then what is left of it comes first.
    begun = 1 + max((max(numbers) for numbers in done.values()), default=-1)
    number = max(begun - 1, 0)
    left = [stack for stack in alive if number not in done.get(stack, set())]
    if not left:
        number, left = begun, alive
    if now.rounds >= MOST_ROUNDS:
        return stopped(
            f"Stopped after {count(now.rounds, 'round')}: {len(alive)} stacks are left, and no end is in sight; "
            "call stacks equal that are further apart (--within)."
        )
    if used_up(len(left), seconds_left, seconds_per_visit):
        budget = "" if view.rule.budget_s is None else f" of {human_time(view.rule.budget_s)}"
        return stopped(
            f"Stopped: the budget{budget} is used up after {count(now.rounds, 'round')}; {len(alive)} stacks are left."
        )
    chance = random.Random(f"strata race {view.seed} {number}")
    order = chance.sample(left, len(left))
    last = max(view.trials, key=lambda trial: trial.order, default=None)
    if last is not None and len(order) > 1 and order[0] == last.stack:
        order = [order[1], order[0], *order[2:]]
    visits = tuple((number, stack) for stack in order)
    return Batch(
        visits, False, f"Round {now.rounds + 1} of the race: {len(alive)} of {count(len(stacks), 'stack')} left."
    )


def _settled(stacks: Sequence[str], now: Standing, rule: Rule) -> str:
    if now.leader is None:
        return "Stopped: no stack gave a figure."
    leads = f"Stopped after {count(now.rounds, 'round')}: {stacks[now.leader]}"
    if not now.compared:
        return f"{leads} is the only one left; nothing was compared."
    left = len(now.alive)
    rest = "it is the only one left" if left < 2 else f"all {left} that are left are within {rule.within:.2g}"
    return f"{leads} leads and {rest}, at a confidence of {rule.confidence:.0%}."
