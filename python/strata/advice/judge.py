"""What one stack has of what is required: each requirement met or not, why, and how that is known. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from strata.advice.requirements import Requirements
from strata.advice.tried import Tried
from strata.judge.risks import documented_risks
from strata.layers import survivable
from strata.model import Kind, LayerDriver, Stack
from strata.probes import probes
from strata.probes._probe import MEMORY
from strata.published.documented import Claim, Documents, Risk
from strata.units import human_size

Basis = Literal["tried", "documented", "plan", "arithmetic", "not known"]
"""How something is known: it was done; documents say it; the plan of the stack shows it; it was counted from these. Or
it is not: nobody tried it, and documents are silent."""

_TB = 10**12
_ANY_ROLE = "disk"


@dataclass(frozen=True, slots=True)
class Answer:
    """One requirement of one stack."""

    requirement: str
    met: bool
    why: str  # a sentence
    basis: Basis


@dataclass(frozen=True, slots=True)
class Judged:
    stack: str
    answers: tuple[Answer, ...]
    risks: tuple[Risk, ...]

    @property
    def unmet(self) -> tuple[Answer, ...]:
        return tuple(answer for answer in self.answers if not answer.met)


def judge(
    stack: Stack,
    wanted: Requirements,
    drivers: Mapping[str, LayerDriver],
    known: Documents,
    tried: Mapping[str, Tried] | None = None,
) -> Judged:
    """The answers are in the order of the requirements, the same for every stack. `tried`: features of this stack."""
    answers = [_feature(stack, group, drivers, known, tried or {}) for group in wanted.needs]
    if wanted.max_memory_bytes is not None:
        answers.append(_memory(stack, wanted, wanted.max_memory_bytes, known, tried or {}))
    if wanted.survive:
        answers.append(_survival(stack, wanted.survive, drivers, tried or {}))
    noted = documented_risks(stack, known)
    if wanted.no_writeback_risk:
        answers.append(_writeback(noted))
    if wanted.disks is not None:
        answers.append(_at_hand(stack, wanted.disks))
    return Judged(stack.text, tuple(answers), noted)


def features(stack: Stack, known: Documents, tried: Mapping[str, Tried] | None = None) -> dict[str, Basis]:
    """All that it was seen to do, and what nobody has tried that a layer of it is documented to do as it is written."""
    found: dict[str, Basis] = {}
    for feature in known.features:
        if tried is not None and feature in tried:
            if tried[feature].holds:
                found[feature] = "tried"
        elif _claims(stack, feature, known)[0]:
            found[feature] = "documented"
    return found


def claimed(stack: Stack, known: Documents) -> dict[str, tuple[bool, str]]:
    """Feature -> whether documents say that the stack, as it is written, has it, and which; silence is left out."""
    found = {}
    for feature in known.features:
        yes, otherwise, no = _claims(stack, feature, known)
        if yes:
            found[feature] = (True, f"{yes[0].layer}: {yes[0].source}")
        elif otherwise or no:
            says_no = (no or otherwise)[0]
            found[feature] = (False, f"{says_no.layer}: {says_no.source}")
    return found


def ends_in(stack: Stack, drivers: Mapping[str, LayerDriver]) -> Kind | None:
    """What its top gives, conditions of the measurement apart."""
    node = stack.top
    while (kind := drivers[node.call.name].info.provides) is None and node.inputs:
        node = node.inputs[0]
    return kind


def _claims(stack: Stack, feature: str, known: Documents) -> tuple[list[Claim], list[Claim], list[Claim]]:
    """Those that say yes of the stack as it is written, yes of it written otherwise, and no."""
    yes: list[Claim] = []
    otherwise: list[Claim] = []
    no: list[Claim] = []
    for node in stack.top.walk():
        for claim in known.claims:
            if claim.layer == node.call.name and claim.feature == feature and not (claim.on_top and node != stack.top):
                met = claim.terms.met(node.call)
                if claim.holds:
                    (yes if met else otherwise).append(claim)
                elif met:
                    no.append(claim)
    denied = {claim.layer for claim in no if claim.terms.when or claim.terms.unless}
    return [claim for claim in yes if claim.layer not in denied], otherwise, no


def _feature(
    stack: Stack,
    group: tuple[str, ...],
    drivers: Mapping[str, LayerDriver],
    known: Documents,
    tried: Mapping[str, Tried],
) -> Answer:
    requirement = " or ".join(group)
    for feature in group:
        if feature in tried and tried[feature].holds:
            return Answer(requirement, True, f"{feature}: {tried[feature].why}", "tried")
    if all(feature in tried for feature in group):
        reasons = [f"no {feature}: {tried[feature].why}" for feature in group]
        return Answer(requirement, False, "; ".join(reasons), "tried")
    for feature in group:
        if feature in tried:
            continue  # and is not so, whatever documents say
        yes, _, _ = _claims(stack, feature, known)
        if yes:
            return Answer(requirement, True, f"{feature}: {yes[0].layer} ({yes[0].source})", "documented")
    if "disk-loss" in group and "disk-loss" not in tried and (lost := survivable(stack.top, drivers)):
        return Answer(requirement, True, f"disk-loss: any {lost} of its disks can be lost", "plan")
    return _lacking(stack, group, drivers, known, tried)


def _lacking(
    stack: Stack,
    group: tuple[str, ...],
    drivers: Mapping[str, LayerDriver],
    known: Documents,
    tried: Mapping[str, Tried],
) -> Answer:
    """Why it has none of these, or is not known to have one."""
    reasons: list[str] = []
    known_by: list[Basis] = []
    for feature in group:
        _, otherwise, no = _claims(stack, feature, known)
        basis: Basis = "documented"
        if feature in tried:
            reason, basis = f"no {feature}: {tried[feature].why}", "tried"
        elif feature == "disk-loss":
            reason, basis = "no disk-loss: there is a disk whose loss takes data with it", "plan"
        elif otherwise:
            reason = f"{feature}: {otherwise[0].layer} only with {otherwise[0].terms.text} ({otherwise[0].source})"
        elif no:
            reason = f"no {feature}: {', '.join(dict.fromkeys(claim.layer for claim in no))} ({no[0].source})"
        else:
            kind = ends_in(stack, drivers)
            asked = "`strata features` tries" if kind in probes()[feature].accepts else f"no probe asks a {kind} for it"
            reason = f"nobody tried {feature} here, and no document of its layers speaks of it: {asked}"
            basis = "not known"
        reasons.append(reason)
        known_by.append(basis)
    # one of them that nobody knows of may be had
    all_of_it = "not known" if "not known" in known_by else known_by[0]
    return Answer(" or ".join(group), False, "; ".join(reasons), all_of_it)


def _memory(
    stack: Stack, wanted: Requirements, most_bytes: int, known: Documents, tried: Mapping[str, Tried]
) -> Answer:
    requirement = f"at most {human_size(most_bytes)} of memory"
    held = {name: each.figures[MEMORY.name] for name, each in tried.items() if MEMORY.name in each.figures}
    for name, memory_bytes in held.items():
        if memory_bytes > most_bytes:
            why = f"it held {human_size(round(memory_bytes))} for what the probe wrote: {tried[name].why}"
            return Answer(requirement, False, why, "tried")
    rules = [
        (rule, node.call)
        for node in stack.top.walk()
        for rule in known.memory
        if rule.layer == node.call.name and rule.terms.met(node.call)
    ]
    besides = "".join(dict.fromkeys(f"; not counted: {rule.besides}" for rule, _ in rules if rule.besides))
    counted = [(rule, call) for rule, call in rules if not rule.besides]
    if not counted:
        why = f"no layer of it is documented to need memory that grows{besides}"
        return Answer(requirement, True, why, "documented")
    sources = "; ".join(rule.source for rule, _ in counted)
    if wanted.capacity_bytes is None and any(rule.per_tb_bytes for rule, _ in counted):
        why = f"it grows with the disks ({sources}): say how large they are (capacity)"
        return Answer(requirement, False, why, "not known")
    needed = sum(
        rule.fixed_bytes
        + rule.per_tb_bytes * (wanted.capacity_bytes or 0) // _TB
        + (int(call[rule.argument] or 0) if rule.argument else 0)
        for rule, call in counted
    )
    room = f" for {human_size(wanted.capacity_bytes)}" if wanted.capacity_bytes is not None else ""
    why = f"about {human_size(needed)}{room} ({sources}){besides}"
    return Answer(requirement, needed <= most_bytes, why, "arithmetic")


def _survival(stack: Stack, disks: int, drivers: Mapping[str, LayerDriver], tried: Mapping[str, Tried]) -> Answer:
    requirement = f"survives the loss of {disks} {'disk' if disks == 1 else 'disks'}"
    lost = survivable(stack.top, drivers)
    why = "there is a disk whose loss takes data with it" if lost == 0 else f"any {lost} of its disks can be lost"
    one = tried.get("disk-loss")  # which takes one disk away
    if one is not None and (not one.holds or (disks == 1 and lost > 0)):
        return Answer(requirement, one.holds, one.why, "tried")
    return Answer(requirement, lost >= disks, why, "plan")


def _writeback(risks: tuple[Risk, ...]) -> Answer:
    against = [risk for risk in risks if risk.loses]
    why = "; ".join(f"{risk.layer}: {risk.text} ({risk.source})" for risk in against)
    return Answer(
        "nothing that was flushed can be lost", not against, why or "no layer is documented to lose it", "documented"
    )


def _at_hand(stack: Stack, disks: Mapping[str, int]) -> Answer:
    needed = dict(stack.disks())
    # a `disk` is any: where none is at hand by that name, others that the stack does not name stand for it
    free = sum(count for role, count in disks.items() if role not in needed)
    short = [
        f"{count} {role}"
        for role, count in needed.items()
        if count > disks.get(role, 0) + (free if role == _ANY_ROLE else 0)
    ]
    why = f"it takes {' and '.join(short)}" if short else "they are at hand"
    return Answer(
        f"stands on {' and '.join(f'{count} {role}' for role, count in disks.items())}", not short, why, "plan"
    )
