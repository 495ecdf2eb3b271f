"""The verdict of a campaign whose visits were chosen by what was seen: by the additive model, or by a race.

The ranking of `rank` counts on rounds that visit every stack alike, and on their number being fixed beforehand. Where
neither holds, these take its place, in the same form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from strata.analysis import basis, certified, instruments
from strata.analysis.additive import MAIN, Ints, Posterior
from strata.analysis.belief import FEWEST_VISITS, WIDENING, Belief, visits_to_go
from strata.analysis.cells import unlog
from strata.analysis.compare import Decision
from strata.analysis.estimate import Estimate, Metrics, estimates
from strata.analysis.evidence import CERTIFYING, Evidence, belief_of, evidence
from strata.analysis.objective import objective_of
from strata.analysis.pareto import Front, front
from strata.analysis.rank import Ranking, Row, Unranked, rank
from strata.analysis.reliability import failure_sentences, in_doubt
from strata.analysis.scale import scale_sentences, without_ratio
from strata.analysis.survivors import Standing, raced, tried
from strata.analysis.verdict import ALONE, probability
from strata.model import View
from strata.text import some_of
from strata.units import count, format_percent, human_number, percent

BY_MODEL = "additive model of the factors, 95 % of its posterior, widened for what is estimated"
BY_RACE = "paired within rounds, an interval that holds however often one looks"


def ranking(view: View, weights: Sequence[float] | None = None, *, metrics: Metrics = "all") -> Ranking:
    """By the rule that chose the visits. `weights`: of the workloads; None: as the run's objective says.

    A stack that holds an instrument is compared with and never chosen.

    Where the objective is a front and no weights are given, the front comes first, and nobody is called best.
    """
    names = objective_of(view).front
    chosen_from = instruments.choosable(view)
    found = _ranked(chosen_from, weights, metrics)
    if view.testbed.clock == "real" and view.facts is not None and view.facts.emulated:
        return instruments.compared(basis.functional(found), view, metrics)
    found = basis.checked(found, chosen_from, weights, lambda kept, left: _ranked(kept, left, "primary"))
    if weights is None and names:
        found = _behind(found, front(chosen_from, names), view)
    return instruments.compared(found, view, metrics)


def _behind(found: Ranking, seen: Front, view: View) -> Ranking:
    said = [seen.sentence]
    if seen.members:
        said.append("; ".join(f"{member.stack}: {member.probability:.2f}" for member in seen.members) + ".")
    if seen.without:
        said.append(f"Without figures of all of them: {some_of(seen.without)}.")
    said += failure_sentences(view, seen.doubtful)
    if found.sure is not None and found.leader is not None:
        said.append(
            f"By the primary metrics alone {found.leader} leads, P(within "
            f"{format_percent(view.rule.within, ' %')} of the best) {probability(found.sure)}."
        )
    return replace(found, best=None, undecided=False, rounds_needed=None, sentences=tuple(said))


def _ranked(view: View, weights: Sequence[float] | None, metrics: Metrics) -> Ranking:
    if view.rule.design == "adaptive":
        found = evidence(view, weights=weights)
        if found.visited and found.eligible.size:
            return by_model(view, found, weights, metrics)
    if view.rule.design == "race":
        return by_race(view, weights, metrics)
    return rank(view, weights, metrics=metrics)


# ---------------------------------------------------------------- by the model


def by_model(view: View, found: Evidence, weights: Sequence[float] | None, metrics: Metrics = "all") -> Ranking:
    posterior = found.posterior()
    belief = belief_of(found, posterior, view.rule.within, view.seed)
    visits = posterior.visits
    figures = estimates(view, metrics)
    # The figures of a stack that fails say nothing of how often it works, so it has no place among the others.
    seen = [int(k) for k in np.flatnonzero(visits) if found.stacks[k] not in found.failing]
    seen.sort(key=lambda k: (k != belief.chosen, -belief.level[k]))
    middle = float(belief.level[seen].mean())
    tied = {int(k) for k in belief.tied}
    none = without_ratio(view, weights)
    leader = found.stacks[belief.chosen]
    rows = tuple(
        Row(
            stack=found.stacks[k],
            score=unlog(float(belief.level[k]) - middle),
            ratio=None
            if k != belief.chosen and not none.isdisjoint({found.stacks[k], leader})
            else _ratio(float(belief.gap[k]), float(belief.half[k]), int(visits[k]), BY_MODEL),
            decision="leader" if k == belief.chosen else _decision(belief, k, k in tied, view.rule.within),
            tied=k in tied,
            visits=int(visits[k]),
            metrics=figures.get(found.stacks[k], {}),
            against_leader={},
            best=float(belief.best[k]),
        )
        for k in seen
    )
    rest = [k for k in range(len(found.stacks)) if k not in set(seen)]
    unranked = tuple(
        Unranked(found.stacks[k], _prediction(found, belief, k), figures.get(found.stacks[k], {}))
        for k in sorted(rest, key=lambda k: -belief.level[k])
    )
    # As the rule itself stops: a first look at a stack may flatter it.
    settled = belief.sure >= view.rule.confidence and bool(visits[belief.chosen] >= FEWEST_VISITS)
    fresh = certified.blocks(view, weights) if view.rule.certify else ()
    block = certified.of(fresh, leader)
    settled = settled and not (block is not None and block.speaks_against(leader))
    return Ranking(
        rows=rows,
        unranked=unranked,
        leader=leader,
        best=leader if settled else None,
        tied=tuple(found.stacks[k] for k in belief.tied),
        undecided=not settled,
        rounds_needed=None,
        sentences=_said(view, found, belief, visits, fresh, settled, weights),
        method=_method(posterior, view),
        sure=belief.sure,
    )


def _decision(belief: Belief, k: int, tied: bool, within: float) -> Decision:
    margin = -math.log1p(-within)
    if not tied:
        return "worse"
    return "equivalent" if abs(belief.gap[k]) + belief.half[k] <= margin else "undecided"


def _ratio(gap: float, half: float, n: int, method: str) -> Estimate:
    if not math.isfinite(half):
        return Estimate(unlog(gap), None, None, n, method)
    return Estimate(unlog(gap), unlog(gap - half), unlog(gap + half), n, method)


def _prediction(found: Evidence, belief: Belief, k: int) -> str:
    stack = found.stacks[k]
    if stack in found.failing:
        return f"Its reliability is in doubt: {found.failing[stack]}."
    built = f"It {found.vain[stack]}. Predicted" if stack in found.vain else "Never built: predicted"
    if k == belief.chosen:
        return f"{built}, not measured, by stacks that share its parts. P(best) = {human_number(belief.best[k], 2)}."
    low, high = (-math.expm1(float(belief.gap[k]) + sign * float(belief.half[k])) for sign in (1, -1))
    way = f"{percent(low)} to {percent(high)} below" if low >= 0 else f"{percent(-low)} above to {percent(high)} below"
    return (
        f"{built}, not measured, at {way} {found.stacks[belief.chosen]}, from stacks that share its "
        f"parts. P(best) = {human_number(belief.best[k], 2)}."
    )


def _said(
    view: View,
    found: Evidence,
    belief: Belief,
    visits: Ints,
    fresh: Sequence[certified.Block],
    settled: bool,
    weights: Sequence[float] | None,
) -> tuple[str, ...]:
    lead, rule = found.stacks[belief.chosen], view.rule
    chance = f"P(within {format_percent(rule.within, ' %')} of the best) {probability(belief.sure)}"
    group = [found.named(int(k)) for k in belief.tied]
    named = found.named(belief.chosen)
    alone = settled and found.eligible.size < 2
    said = [
        f"Best: {lead}. {ALONE if alone else chance + '.'}" if settled else f"Not settled: {named} leads. {chance}."
    ]
    if len(group) > 1:
        said.append(f"Tied with best: {some_of(group)}." if settled else f"May be the best: {some_of(group)}.")
    never = [
        k for k in range(len(found.stacks)) if visits[k] == 0 and found.stacks[k] not in {*found.failing, *found.vain}
    ]
    if never:
        together = float(belief.best[never].sum())
        were = "was" if len(never) == 1 else "were"
        said.append(
            f"{len(never)} of {count(len(found.stacks), 'stack')} {were} never built. "
            "Stacks that share their parts were, and by them the chance that one of these is the best "
            f"is {human_number(together, 2)}. This takes it that parts act alone and in pairs, plus something of a "
            "stack's own."
        )
    had = int(visits[belief.chosen])
    if belief.sure >= rule.confidence and had < FEWEST_VISITS:
        said.append(
            f"That is as sure as was asked for, but the stack chosen has had {had} of the {FEWEST_VISITS} visits that "
            "make its figure more than luck: run it again, and it goes on."
        )
    elif belief.sure < rule.confidence:
        to_go = visits_to_go(belief, visits, -math.log1p(-rule.within), rule.confidence)
        much = "many more visits" if to_go is None else f"about {to_go} more visits"
        said.append(f"{rule.confidence:.2f} was asked for; {much} would be needed: run it again, with time enough.")
    said += [*failure_sentences(view, found.failing, weights), *scale_sentences(view, weights)]
    if rule.certify:
        said.append(_certified(fresh, lead, [found.stacks[k] for k in belief.tied]))
    return tuple(said)


def _certified(fresh: Sequence[certified.Block], lead: str, tied: Sequence[str]) -> str:
    """`tied`: with the one that leads, by the model."""
    block = certified.of(fresh, lead)
    if block is None and fresh:
        return (
            f"Not certified: {lead} was in none of the fresh rounds, the last of which compared "
            f"{some_of(fresh[-1].stacks)}. Run it again, with these weights as its --objective if they are others: "
            "stacks that lead then get fresh rounds."
        )
    if block is None or not block.complete:
        return "Not certified yet: the shortlist has had no fresh rounds."
    rounds = count(block.complete, "fresh round")
    if lead in block.failing:
        return f"Not certified: {lead} failed again and again in {rounds}. Find the cause before you choose it."
    if len(block.raced) < 2:
        return (
            f"Not certified: of the shortlist ({some_of(block.stacks)}) all others failed in {rounds}, so that nothing "
            f"was compared with {lead}."
        )
    if block.speaks_against(lead):
        return (
            f"Not certified: {rounds} of the shortlist, judged without the model, put {block.leader} before {lead}. "
            f"Take {block.leader}: these visits were chosen for nothing that they showed."
        )
    if not (block.compared and block.now.settled):
        return f"Not certified yet: after {rounds} of the shortlist {some_of(block.alive)} are left."
    outside = [stack for stack in tied if stack not in block.stacks]
    rest = f" Of the {len(tied)} that tie {len(outside)} had none: for those the model alone speaks." if outside else ""
    rest += f" Not compared, because they failed: {some_of(block.failing)}." if block.failing else ""
    return (
        f"Certified within the shortlist ({some_of(block.raced)}): {rounds}, judged without the model, "
        f"leave {some_of(block.alive)}.{rest}"
    )


def _method(posterior: Posterior, view: View) -> str:
    shape = posterior.layout
    mains = [name for name, kind in zip(shape.names, shape.kinds, strict=True) if kind.name == MAIN.name]
    factors = f"of {some_of(mains)} and their pairs" if mains else "without factors"
    own = float(posterior.spreads[-1])
    return (
        f"Additive model {factors}, of the score of each visit with all its workloads, on logarithms, with drift and "
        f"robust noise; a stack's own part has a spread of {percent(own)}. The posterior is taken to be "
        f"{WIDENING:.2f} times as wide as computed, which simulated campaigns say is needed. Intervals hold at 95 % "
        f"one by one. Promise: the best is at most "
        f"{format_percent(view.rule.within, ' %')} above the stack named, with the probability stated."
    )


# ---------------------------------------------------------------- by the race


def by_race(view: View, weights: Sequence[float] | None = None, metrics: Metrics = "all") -> Ranking:
    plain = rank(view, weights, metrics=metrics)
    rule = view.rule
    # Who cannot run any more is out of the race; who has no figure yet is in it, and nobody has won before its visits.
    halted = {skip.stack for skip in view.halted}
    ranked = [row.stack for row in plain.rows if row.stack not in halted]
    doubtful = in_doubt(view, range(CERTIFYING), weights)
    stacks = ranked + [loser.stack for loser in plain.unranked if loser.stack not in halted | doubtful.keys()]
    if not ranked:
        return plain
    now = raced(view, stacks, weights)
    # Before a round has met all, the best score leads.
    leader = 0 if now.leader is None else now.leader
    place = {stack: k for k, stack in enumerate(stacks)}
    none = without_ratio(view, weights)
    rows = []
    for row in plain.rows:
        k = place.get(row.stack)
        gap, half = (math.nan, math.inf) if k is None else (float(now.gap[k]), float(now.half[k]))
        known = math.isfinite(gap) and none.isdisjoint({row.stack, stacks[leader]})
        rows.append(
            Row(
                stack=row.stack,
                score=row.score,
                ratio=_ratio(0.0 if k == leader else gap, 0.0 if k == leader else half, row.visits, BY_RACE)
                if known or k == leader
                else None,
                decision="leader" if k == leader else "undecided" if k is None else _race_decision(now, k, rule.within),
                tied=k in now.alive,
                visits=row.visits,
                metrics=row.metrics,
                against_leader={},
            )
        )
    rows.sort(key=lambda row: (row.decision != "leader", not row.tied, -row.score))
    alive = [stacks[k] for k in now.alive]
    return Ranking(
        rows=tuple(rows),
        unranked=plain.unranked,
        leader=stacks[leader],
        best=stacks[leader] if now.settled else None,
        tied=tuple(alive),
        undecided=not now.settled,
        rounds_needed=None,
        sentences=(
            *_race_said(view, stacks[leader], alive, now, len(stacks), bool(doubtful)),
            *failure_sentences(view, doubtful, weights),
            *scale_sentences(view, weights),
        ),
        method=(
            "Race: differences to the leader within rounds, readings far from a stack's others pulled in, intervals "
            f"that hold however often one looks, together at {format_percent(rule.confidence, ' %')}. With 4 stacks "
            "or more their spreads steady each other, which is an approximation."
        ),
    )


def _race_decision(now: Standing, k: int, within: float) -> Decision:
    if k not in now.alive:
        return "worse"
    gap, half = float(now.gap[k]), float(now.half[k])
    return "equivalent" if math.isfinite(gap) and gap + half < -math.log1p(-within) else "undecided"


def _race_said(
    view: View, leader: str, alive: Sequence[str], now: Standing, stacks: int, doubtful: bool
) -> tuple[str, ...]:
    others = [stack for stack in alive if stack != leader]
    sure = format_percent(view.rule.confidence, " %")
    if now.settled:
        if not now.compared:
            return (f"Best: {leader}. {ALONE}",)
        which = "none of the stacks not set aside" if doubtful else "no stack"
        better = f"{which} is more than {format_percent(view.rule.within, ' %')} better"
        said = [f"Best: {leader}. At {sure}, {better}."]
        if others:
            said.append(f"Tied with best: {some_of([leader, *others])}.")
        return tuple(said)
    if not now.rounds:
        built = tried(view)
        never = [stack for stack in alive if stack not in built]
        waiting = f" {len(never)} of {stacks} stacks were never built: {some_of(never)}." if never else ""
        return (
            f"Not settled: no round of the race has met all {stacks} stacks yet.{waiting}",
            "Run it again, with time enough, to go on.",
        )
    return (
        f"Not settled: {leader} leads after {now.rounds} rounds, and {len(others)} more may be as good.",
        f"Left in the race: {some_of([leader, *others])}. Run it again, with time enough, to go on.",
    )
