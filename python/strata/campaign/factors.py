"""Factors: named ones put in the place of `$name`, and names for the alternatives that have none.

A factor that is used in several places takes the same level in all of them. Alternatives without a name are called
after what they vary: the parameter ("cache"), or the place in the chain ("layer 2", counted from 1 at the disks).
Where that would give two factors one name, the owner is put before it ("vm cache"), then a number after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from strata.campaign.arguments import param_of
from strata.campaign.source import Problems, Source, did_you_mean
from strata.campaign.syntax import parse_arg, parse_chain, parse_value
from strata.campaign.tree import Arg, ArgChoice, Chain, Choice, Lit, Named, Pair, Ref, Sum, Times, Tree
from strata.errors import BadInput
from strata.model import Param
from strata.text import listed

T = TypeVar("T")
Site = Choice | ArgChoice
ParamsOf = Callable[[str], Sequence[Param]]  # parameters of a layer or workload; () when it is not known


# ---------------------------------------------------------------- named


@dataclass(slots=True)
class Linker:
    """Replaces every `$name` by its alternatives, read as what the place asks for: a chain, an argument or a value.

    One that cannot be replaced stays, and its problem is kept; the expander takes it as unusable.
    """

    factors: Mapping[str, Sequence[Source]]
    problems: Problems
    refusal: str | None = None  # why no factor may stand in these trees
    used: set[str] = field(default_factory=set)
    gaps: bool = False  # something could not be read, so `used` may lack a factor

    def tree(self, tree: Tree) -> Tree:
        match tree:
            case Named():
                return replace(tree, args=self.args(tree.args)) if tree.args else tree
            case Ref():
                branches = self.levels(tree, lambda level: parse_chain(level, "a layer name"))
                if branches is None:
                    return tree
                return Choice(tree.at, branches, self.args(tree.args), tree.name, self.labels(tree))
            case Choice():
                return replace(tree, branches=tuple(map(self.tree, tree.branches)), args=self.args(tree.args))
            case Times():
                return replace(tree, of=self.tree(tree.of))
            case Sum():
                return replace(tree, terms=tuple(map(self.tree, tree.terms)))
            case Chain():
                return replace(tree, parts=tuple(map(self.tree, tree.parts)))

    def args(self, args: tuple[Arg, ...]) -> tuple[Arg, ...]:
        return tuple(self.arg(arg) for arg in args)

    def arg(self, arg: Arg) -> Arg:
        match arg:
            case Pair():
                return replace(arg, value=self.value(arg.value))
            case Lit():
                return arg
            case ArgChoice():
                return replace(arg, branches=self.args(arg.branches))
            case Ref():
                branches = self.levels(arg, parse_arg)
                return ArgChoice(arg.at, branches, arg.name, self.labels(arg)) if branches is not None else arg

    def value(self, value: Lit | ArgChoice | Ref) -> Lit | ArgChoice | Ref:
        if isinstance(value, Ref):
            branches = self.levels(value, parse_value)
            return ArgChoice(value.at, branches, value.name, self.labels(value)) if branches is not None else value
        if isinstance(value, ArgChoice):
            return replace(value, branches=tuple(b if isinstance(b, Pair) else self.value(b) for b in value.branches))
        return value

    def labels(self, ref: Ref) -> tuple[str, ...]:
        return tuple(label(level) for level in self.factors[ref.name])

    def levels(self, ref: Ref, parse: Callable[[Source], T]) -> tuple[T, ...] | None:
        if not ref.name:
            self.gaps = True
            return None
        self.used.add(ref.name)
        if self.refusal is not None:
            self.problems.add(ref.at, self.refusal)
            return None
        if ref.name not in self.factors:
            known = f"the factors are {listed(self.factors)}"
            if not self.factors:
                known = "list its levels under factors: in a campaign file"
            hint = did_you_mean(ref.name, self.factors)
            self.problems.add(ref.at, f"there is no factor '{ref.name}'{hint}; {known}")
            return None
        found: list[T] = []
        for level in self.factors[ref.name]:
            inner = level.text.find("$")
            if inner >= 0 and '"' not in level.text:
                message = "a level cannot use another factor; write its alternatives out with { }"
                self.problems.extend([level.problem(inner, message)])
                continue
            try:
                found.append(parse(level))
            except BadInput as error:
                self.problems.extend(error.problems)
        return tuple(found) if len(found) == len(self.factors[ref.name]) else None


def label(level: Source) -> str:
    return " ".join(level.text.split())


# ---------------------------------------------------------------- unnamed


@dataclass(frozen=True, slots=True)
class _Proposal:
    site: Site
    name: str
    owner: str  # "" when the name says it already


def name_sites(trees: Iterable[Tree], params_of: ParamsOf) -> dict[Site, str]:
    """A name for every choice in `trees` that is not a named factor; the same in every expression of a campaign."""
    proposals: list[list[_Proposal]] = []
    named: set[str] = set()
    for tree in trees:
        walk = _Walk(params_of, [], named)
        walk.tree(tree, ())
        proposals.append(walk.found)
    owners: dict[str, set[str]] = {}
    for proposal in (p for found in proposals for p in found):
        owners.setdefault(proposal.name, set()).add(proposal.owner)
    names: dict[Site, str] = {}
    for found in proposals:
        seen: Counter[str] = Counter()
        for proposal in found:
            name = proposal.name
            if proposal.owner and (len(owners[name]) > 1 or name in named):
                name = f"{proposal.owner} {name}"
            seen[name] += 1
            names[proposal.site] = name if seen[name] == 1 else f"{name} {seen[name]}"
    return names


@dataclass(slots=True)
class _Walk:
    params_of: ParamsOf
    found: list[_Proposal]
    named: set[str]

    def tree(self, tree: Tree, path: tuple[int, ...]) -> None:
        place = "layer " + ".".join(map(str, path or (1,)))
        match tree:
            case Named():
                self.args(tree.args, self.params_of(tree.name), tree.name)
            case Choice():
                self.site(tree, place, "")
                for number, branch in enumerate(tree.branches, 1):
                    self.tree(branch, path if isinstance(branch, Named) else (*(path or (1,)), number))
                first = next((b for b in tree.branches if isinstance(b, Named)), None)
                self.args(tree.args, self.params_of(first.name) if first else (), place)
            case Times():
                self.tree(tree.of, path)
            case Sum():
                for number, term in enumerate(tree.terms, 1):
                    self.tree(term, (*(path or (1,)), number))
            case Chain():
                for number, part in enumerate(tree.parts, 1):
                    self.tree(part, (*path, number))
            case Ref():
                pass

    def site(self, site: Site, name: str, owner: str) -> None:
        if site.factor is None:
            self.found.append(_Proposal(site, name, owner))
        else:
            self.named.add(site.factor)

    def args(self, args: tuple[Arg, ...], params: Sequence[Param], owner: str) -> None:
        for arg in args:
            value = arg.value if isinstance(arg, Pair) else arg
            if isinstance(value, ArgChoice):
                about = common_param(value, params, arg.name if isinstance(arg, Pair) else None)
                self.site(value, about.name if about else f"{owner} argument", owner if about else "")
                self.args(value.branches, params, owner)


def common_param(site: ArgChoice, params: Sequence[Param], name: str | None) -> Param | None:
    """The parameter that all alternatives are for, if it is one; `name` is what stands before "="."""
    found = {_param(branch, params, name) for branch in site.branches}
    return found.pop() if len(found) == 1 else None


def _param(arg: Arg, params: Sequence[Param], name: str | None) -> Param | None:
    match arg:
        case Lit():
            return param_of(params, name, arg.text, arg.quoted)
        case Pair():
            return param_of(params, arg.name, "", False)
        case ArgChoice():
            return common_param(arg, params, name)
        case Ref():
            return None
