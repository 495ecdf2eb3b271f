"""The verdict in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from strata.analysis.estimate import Estimate
from strata.model import View, WorkloadView
from strata.text import some_of
from strata.units import count, format_percent, human_number, human_time, percent

_SPEED_UNITS = frozenset({"iops", "s", "ms", "us", "ns", "min", "h", "tps", "qps"})
ALONE = "It is the only one left; nothing was compared."  # the others are set aside
FEWEST_VISITS = 3  # of each stack, before anything is said of which is better: the spread of two is a guess


@dataclass(frozen=True, slots=True)
class Facts:
    """What the sentences are about. Rows: (stack, ratio of its score to the leader's, decision, visits), best first."""

    rows: tuple[tuple[str, Estimate | None, str, int], ...]
    unranked: tuple[tuple[str, str], ...]
    best: str | None
    rounds: int  # most visits that a ranked stack has
    rounds_needed: int | None
    without_ratio: frozenset[str]  # stacks with a figure of 0 or less
    set_aside: int  # stacks whose reliability is in doubt


def sentences(view: View, facts: Facts) -> tuple[str, ...]:
    """The headline first; then what to know and what to do next."""
    said = [_headline(view, facts)]
    if view.visits_done < view.visits_planned:
        more = "" if view.rule.budget_s is None else " with a larger --budget"
        said.append(
            f"So far {view.visits_done} of {view.visits_planned} visits are done: run it again{more} to do the rest."
        )
    elif facts.best is None and len(facts.rows) > 1:
        said.append(_what_to_do(view, facts))
    if facts.unranked and facts.rows:
        names = some_of([stack for stack, _ in facts.unranked])
        said.append(f"Not ranked: {names}. {facts.unranked[0][1] if len(facts.unranked) == 1 else ''}".strip())
    return tuple(said)


def _headline(view: View, facts: Facts) -> str:
    if not facts.rows:
        return "No verdict: no stack has a figure under every workload yet."
    leader, *others = facts.rows
    if not others:
        if facts.best is None:
            return f"Not settled: only {leader[0]} has been measured so far."
        alone = ALONE if facts.set_aside else "It is the only stack with figures; nothing was compared."
        return f"Best: {leader[0]}. {alone}"
    if facts.rounds < FEWEST_VISITS:
        return (
            f"Not settled: fewer than {FEWEST_VISITS} visits of each stack decide nothing. {leader[0]} has the best "
            f"score so far{_seen(view, facts)}."
        )
    open_ones = [row[0] for row in others if row[2] in ("undecided", "better")]
    equals = [row[0] for row in others if row[2] == "equivalent"]
    margin = format_percent(view.rule.within, " %")
    if open_ones:
        return f"Not settled: {leader[0]} leads, but {some_of(open_ones)} may be as good or better{_seen(view, facts)}."
    if equals:
        worse = len(others) - len(equals)
        rest = f"; the other {worse} are worse" if worse > 1 else "; the other one is worse" if worse else ""
        return (
            f"{some_of([leader[0], *equals])} tie within {margin}{rest}{_seen(view, facts)}. "
            f"{leader[0]} has the best score, but choose among them by what else matters to you."
        )
    ratio = others[0][1]
    lead = f" It is {_lead(view, ratio)} the next, {others[0][0]}," if ratio is not None else " Measured"
    return f"Best: {leader[0]}.{lead}{_seen(view, facts)}."


def _seen(view: View, facts: Facts) -> str:
    """ " over 2 workloads, 5 visits each"."""
    load = of_loads(view)
    visits = sorted({row[3] for row in facts.rows})
    if len(visits) > 1:
        return f" {load}, {visits[0]} to {visits[-1]} visits each"
    return f" {load}, {count(visits[0], 'visit')} each"


def of_loads(view: View) -> str:
    """ "over 2 workloads", or "under NAME" where there is one."""
    loads = len(view.workloads)
    return f"under {view.workloads[0].text}" if loads == 1 else f"over {loads} workloads"


def _lead(view: View, ratio: Estimate) -> str:
    """How far the leader is ahead of a stack, from the ratio of that stack to the leader."""
    word = "faster" if all(_is_speed(workload) for workload in view.workloads) else "better"
    point = 1 / ratio.point
    low, high = (None, None) if ratio.low is None or ratio.high is None else (1 / ratio.high, 1 / ratio.low)
    if point >= 2:
        ends = [human_number(end, 2) for end in (low, high) if end is not None]
        span = f" ({' to '.join(ends)} times)" if ends else ""
        return f"{human_number(point, 2)} times{span} as {'fast' if word == 'faster' else 'good'} as"
    span = f" ({percent(low - 1, sign='')} to {percent(high - 1)})" if low is not None and high is not None else ""
    return f"{percent(point - 1)}{span} {word} than"


def _is_speed(workload: WorkloadView) -> bool:
    unit = workload.primary.unit.lower()
    return unit in _SPEED_UNITS or unit.endswith("/s")


def _what_to_do(view: View, facts: Facts) -> str:
    repeats = view.testbed.repeats
    if facts.rounds < FEWEST_VISITS:
        return f"Run it again with --{repeats} 5 (at least {FEWEST_VISITS}){_costs(view, 5 - facts.rounds)}."
    # More rounds of this kind would not keep the stated confidence, for their number would follow from what was seen.
    race = "run it again with --design race, whose stated confidence holds however often you look"
    if facts.rounds_needed is not None:
        more = facts.rounds_needed - facts.rounds
        return (
            f"At the present spread it takes about {facts.rounds_needed} {repeats} in all, or more"
            f"{_costs(view, more)}: {race}."
        )
    if facts.without_ratio.isdisjoint(row[0] for row in facts.rows) and any(
        row[1] is None or row[1].low is None for row in facts.rows
    ):
        return f"Some stacks have fewer than two {repeats} in common with the leader: see what failed, then {race}."
    return (
        f"At the present spread even 100 {repeats} would not settle it: look at the warnings for what makes the visits "
        f"differ, or call stacks equal that are further apart than {format_percent(view.rule.within, ' %')} "
        "(`within` in the campaign file)."
    )


def _costs(view: View, rounds: int) -> str:
    """ ", about 12 min more", where the run shows how long its rounds take."""
    first: dict[int, float] = {}
    for trial in view.trials:
        first[trial.visit] = min(trial.started_at, first.get(trial.visit, trial.started_at))
    gaps = [later - earlier for earlier, later in pairwise(sorted(first.values()))]
    stacks = len({trial.stack for trial in view.trials})
    # On the virtual clock a visit's length in real time is not what its trials say.
    if view.testbed.clock == "virtual" or not gaps or median(gaps) <= 0 or rounds < 1:
        return ""
    return f", about {human_time(median(gaps) * stacks * rounds)} more"


def of_flagged(flagged: int, trials: int, flags: Sequence[str]) -> str:
    """Return "20 of 40 trials (cache, unsteady)"."""
    return f"{flagged} of {trials} trials ({', '.join(flags)})"


def probability(chance: float) -> str:
    """With its sign, for `P(...)`. Rounded down, so that what falls short of a limit does not look as if it met it."""
    return "> 0.99" if chance > 0.995 else f"= {math.floor(chance * 100 + 1e-9) / 100:.2f}"
