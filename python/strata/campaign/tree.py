"""What an expression says, before anybody knows which words are layers.

Nodes compare by identity: the same text in two places is two places.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from strata.campaign.source import At


@dataclass(frozen=True, slots=True, eq=False)
class Lit:
    """A value, or an argument without a name. A quoted one is never a flag."""

    at: At
    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """`name=value`"""

    at: At
    name: str
    value: Lit | ArgChoice | Ref


@dataclass(frozen=True, slots=True, eq=False)
class ArgChoice:
    """Alternatives among arguments or among values."""

    at: At
    branches: tuple[Arg, ...]
    factor: str | None = None  # it came from `$factor`; `labels` holds the levels as they were written
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Ref:
    """`$name`, in any place where alternatives may stand.

    With an empty name: something that could not be read. Its problem is kept, and what is around it is still checked.
    """

    at: At
    name: str
    args: tuple[Arg, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """A disk role, a layer or a workload."""

    at: At
    name: str
    args: tuple[Arg, ...] = ()
    path: str | None = None  # of family:"a quoted path"; a path without quotes is still in `name`
    variant: str | None = None  # only after a quoted path


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Alternatives among layers or chains; `args` are given to each of them."""

    at: At
    branches: tuple[Tree, ...]
    args: tuple[Arg, ...] = ()
    factor: str | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    at: At
    count: int
    of: Tree


@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    at: At
    terms: tuple[Tree, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    at: At
    parts: tuple[Tree, ...]


Arg = Lit | Pair | ArgChoice | Ref
Tree = Named | Times | Sum | Chain | Choice | Ref

_NEEDS_QUOTES = re.compile(r"""[\s|+*,(){}="']|^\$|^$""")
_ESCAPED = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))


def chained(at: At, parts: Sequence[Tree]) -> Tree:
    """One chain of `parts`; a part that is itself a chain adds its own, for brackets there change nothing."""
    flat = [one for part in parts for one in (part.parts if isinstance(part, Chain) else [part])]
    return flat[0] if len(flat) == 1 else Chain(at, tuple(flat))


def quote(text: str, *, always: bool = False) -> str:
    """`text` as a bare word or, where it has to be, in quotation marks."""
    if not always and not _NEEDS_QUOTES.search(text):
        return text
    for plain, escaped in _ESCAPED:
        text = text.replace(plain, escaped)
    return f'"{text}"'


def shown(tree: Tree | Arg) -> str:
    """The text of a tree with even white space; names the level of a factor that is more than one layer."""
    match tree:
        case Lit():
            return quote(tree.text, always=tree.quoted)
        case Pair():
            return f"{tree.name}={shown(tree.value)}"
        case Ref():
            return f"${tree.name}{_shown_args(tree.args)}"
        case Named():
            path = "" if tree.path is None else quote(tree.path, always=True)
            variant = f"@{tree.variant}" if tree.variant else ""
            return f"{tree.name}{path}{variant}{_shown_args(tree.args)}"
        case ArgChoice():
            return f"${tree.factor}" if tree.factor else "{" + ", ".join(map(shown, tree.branches)) + "}"
        case Choice():
            among = f"${tree.factor}" if tree.factor else "{" + ", ".join(map(shown, tree.branches)) + "}"
            return among + _shown_args(tree.args)
        case Times():
            return f"{tree.count}*{_grouped(tree.of, Chain, Sum, Times)}"
        case Sum():
            return " + ".join(_grouped(term, Chain, Sum) for term in tree.terms)
        case Chain():
            return " | ".join(_grouped(part, Chain) for part in tree.parts)


def least_combinations(tree: Tree | Arg) -> int:
    """How many combinations a tree multiplies to at least: named factors count as if they had their level already.

    Cheap where multiplying is not, so that a matrix nobody could run is refused before it fills the memory.
    """
    match tree:
        case Named() | Ref():
            return _product(tree.args)
        case Choice() | ArgChoice():
            counts = list(map(least_combinations, tree.branches))
            among = sum(counts) if tree.factor is None else min(counts, default=0)
            return among * _product(tree.args) if isinstance(tree, Choice) else among
        case Times():
            return least_combinations(tree.of)
        case Sum():
            return _product(tree.terms)
        case Chain():
            return _product(tree.parts)
        case Pair():
            return least_combinations(tree.value)
        case Lit():
            return 1


def _product(trees: Iterable[Tree | Arg]) -> int:
    return math.prod(map(least_combinations, trees))


def _shown_args(args: tuple[Arg, ...]) -> str:
    return f"({', '.join(map(shown, args))})" if args else ""


def _grouped(tree: Tree, *loose: type) -> str:
    return f"({shown(tree)})" if isinstance(tree, loose) else shown(tree)
