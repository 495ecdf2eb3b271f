"""Stack expressions, from text to checked stacks.

A stack is written from the disks up: `4*hdd | md(raid10) | {ext4, xfs}`. At the start of a chain stand disk roles
(any word that is no layer) and sources such as `existing(PATH)`; every leaf is a disk of its own. A layer that takes
several inputs joins all that is below it, any other is put on each of them; a stack ends in one thing. `syntax` has
the grammar, `arguments` how arguments are read, `factors` how alternatives are named and `$name` is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from strata.campaign.calls import MAX_COMBINATIONS, Calls
from strata.campaign.expand import Expander
from strata.campaign.factors import Linker, name_sites
from strata.campaign.source import At, Problems, Source
from strata.campaign.syntax import parse_chain
from strata.campaign.tree import Ref, Tree, least_combinations
from strata.errors import BadInput
from strata.model import Catalogue, Stack


def parse_stacks(
    text: str,
    layers: Catalogue,
    *,
    where: str | None = None,
    factors: Mapping[str, Sequence[str]] | None = None,
) -> list[Stack]:
    """The stacks of one expression: the product of its alternatives in written order, the first varying slowest.

    Equal stacks collapse to the first. `factors` holds the levels that `$name` stands for; a factor used twice
    takes the same level in both places. Raises BadInput with every problem.
    """
    problems = Problems()
    sources = level_sources(factors or {})
    tree = Linker(sources, problems).tree(read_tree(Source(text, where), problems))
    stacks = expand([tree], layers, problems)
    problems.raise_if_any()
    return distinct(stacks[0])


def level_sources(factors: Mapping[str, Sequence[str]]) -> dict[str, list[Source]]:
    return {name: [Source(level, f"factor {name}") for level in levels] for name, levels in factors.items()}


def read_tree(source: Source, problems: Problems) -> Tree:
    """A gap when the grammar is broken; the problem is kept."""
    try:
        return parse_chain(source)
    except BadInput as error:
        problems.extend(error.problems)
        return Ref(At(source, 0), "")


def expand(trees: Sequence[Tree], layers: Catalogue, problems: Problems) -> list[list[Stack]]:
    """The stacks of each tree, with duplicates. Factors are named alike, and nodes are shared, across all of them."""
    names = name_sites(trees, lambda name: layers[name].params if name in layers else ())
    expander = Expander(layers, Calls(problems, names), problems)
    if len(trees) > 1 and (last := _beyond(trees)) is not None:
        problems.add(
            last.at,
            f"with this expression the matrix has more than {MAX_COMBINATIONS} stacks; take alternatives out, or split "
            "the campaign",
        )
        return [[] for _ in trees]
    return [list(expander.stacks(tree)) for tree in trees]


def _beyond(trees: Sequence[Tree]) -> Tree | None:
    """The expression with which all together pass the limit, though none does alone; None: they keep it."""
    counts = [least_combinations(tree) for tree in trees]
    if max(counts) > MAX_COMBINATIONS:
        return None  # said where it stands
    together = accumulate(counts)
    return next((tree for tree, count in zip(trees, together, strict=True) if count > MAX_COMBINATIONS), None)


def distinct(stacks: Iterable[Stack]) -> list[Stack]:
    first: dict[str, Stack] = {}
    for stack in stacks:
        first.setdefault(stack.text, stack)
    return list(first.values())
