"""Which rule decides what to visit, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from strata.analysis.additive import layout
from strata.analysis.objective import PARETO
from strata.design import NextBatch, adaptive, race, rounds
from strata.design.beside import beside
from strata.model import Design, Rule

RULES: Mapping[Design, NextBatch] = {
    "rounds": rounds.next_batch,
    "race": beside(race.next_batch),
    "adaptive": beside(adaptive.next_batch),
}
FEWEST_FOR_MODEL = 24  # stacks: below, a race costs little more and assumes nothing
NO_CERTIFICATE = "Nothing is certified: a race is judged without a model, so it is its own certificate."
STACKS_PER_EFFECT = 2  # a model of nearly as many effects as stacks says nothing about those it has not seen


def settled(rule: Rule, stacks: Sequence[str], factors: Mapping[str, Mapping[str, str]]) -> tuple[Rule, str]:
    """The rule with "auto" resolved, and sentences that say why. A race that "auto" became has nothing to certify."""
    design, why = chosen(rule, stacks, factors)
    if rule.certify and rule.design == "auto" and design == "race":
        return replace(rule, design=design, certify=False), f"{why} {NO_CERTIFICATE}"
    return replace(rule, design=design), why


def chosen(rule: Rule, stacks: Sequence[str], factors: Mapping[str, Mapping[str, str]]) -> tuple[Design, str]:
    """The rule that `rule.design` asks for, "auto" resolved, and a sentence that says why."""
    if rule.design == "auto" and rule.objective.startswith(PARETO):
        return "adaptive", "Design: adaptive, because a front is wanted, and visits go where it is least sure."
    if rule.design != "auto":
        return rule.design, f"Design: {rule.design}, as requested."
    shape = layout(stacks, factors)
    mains = shape.codes.shape[1]
    effects = 1 + sum(int(shape.codes[:, j].max(initial=0)) for j in range(mains))
    if len(stacks) < FEWEST_FOR_MODEL:
        return "race", f"Design: race, because for {len(stacks)} stacks it costs little more and assumes nothing."
    if not mains or len(stacks) < STACKS_PER_EFFECT * effects:
        return "race", (
            f"Design: race, because the {len(stacks)} stacks have too little in common "
            f"({mains} factors, {effects} effects) for one to tell about another."
        )
    return "adaptive", (
        f"Design: adaptive, because {len(stacks)} stacks share the levels of {mains} factors "
        f"({', '.join(shape.names[:mains])}), so that visits of one tell about others."
    )
