"""`exclude:` rules of a campaign file: which stacks of the matrix are not wanted.

A rule is a mapping of factors to a level or a list of levels (a stack goes when all of them hold), or an expression
(its stacks go). A rule that removes nothing is an error: it is most likely a slip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strata.campaign.document import Document, Path, Plain
from strata.campaign.source import Problems, did_you_mean
from strata.model import Stack
from strata.text import listed


def remaining(
    stacks: Sequence[Stack],
    rules: Sequence[Plain],
    patterns: Mapping[int, Sequence[Stack]],
    document: Document,
    problems: Problems,
) -> list[Stack]:
    """`stacks` without those that a rule removes. `patterns` holds the stacks of each rule that is an expression."""
    levels: dict[str, dict[str, None]] = {}
    for stack in stacks:
        for factor, level in stack.factors.items():
            levels.setdefault(factor, {})[level] = None
    gone: set[int] = set()
    for number, rule in enumerate(rules):
        path: Path = ("exclude", number)
        if number in patterns:
            texts = {stack.text for stack in patterns[number]}
            hit = {index for index, stack in enumerate(stacks) if stack.text in texts}
        else:
            wanted = _wanted(rule, path, levels, document, problems)
            if wanted is None:
                continue
            hit = {
                index
                for index, stack in enumerate(stacks)
                if all(stack.factors.get(factor) in allowed for factor, allowed in wanted.items())
            }
        if not hit:
            problems.add(
                document.value_at(path),
                "this rule removes no stack; compare it with what `strata plan` shows, or remove it",
            )
        gone |= hit
    if stacks and len(gone) == len({*range(len(stacks))}):
        problems.add(document.at(("exclude",)), "these rules leave no stack to run; take one of them out")
    return [stack for index, stack in enumerate(stacks) if index not in gone]


def _wanted(
    rule: Plain, path: Path, levels: Mapping[str, Mapping[str, None]], document: Document, problems: Problems
) -> dict[str, list[str]] | None:
    """Factor -> the levels that the rule is about; None when it is not well-formed."""
    if not isinstance(rule, dict) or not rule:
        problems.add(
            document.value_at(path),
            "a rule is a stack expression, or factors with levels as in {fs: ext4, mode: [none]}",
        )
        return None
    wanted: dict[str, list[str]] = {}
    good = True
    for factor, given in rule.items():
        here = (*path, factor)
        if factor not in levels:
            known = f"the factors are {listed(levels)}" if levels else "no stack here has a factor"
            problems.add(document.at(here), f"there is no factor '{factor}'{did_you_mean(factor, levels)}; {known}")
            good = False
            continue
        wanted[factor] = []
        for number, level in enumerate(given) if isinstance(given, list) else [(None, given)]:
            place = here if number is None else (*here, number)
            if not isinstance(level, str) or level not in levels[factor]:
                shown = level if isinstance(level, str) else "this"
                hint = did_you_mean(level, levels[factor]) if isinstance(level, str) else ""
                problems.add(
                    document.value_at(place),
                    f"'{shown}' is no level of {factor}{hint}; the levels are {listed(levels[factor])}",
                )
                good = False
            else:
                wanted[factor].append(level)
    return wanted if good else None
