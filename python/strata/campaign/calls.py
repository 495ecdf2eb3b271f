"""Argument lists with alternatives: every combination in written order, each distinct one resolved once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from strata.campaign.arguments import Given, Resolved, format_value, param_of, parse_value, resolve
from strata.campaign.factors import Site, common_param
from strata.campaign.source import At, Problems
from strata.campaign.tree import Arg, ArgChoice, Choice, Lit, Pair, Ref, shown
from strata.model import Param, ParamType

MAX_COMBINATIONS = 100_000

Levels = tuple[tuple[str, str], ...]  # (factor, level)
Bound = tuple[tuple[str, int], ...]  # (named factor, which of its levels this combination has)


class TooMany(Exception):
    """More combinations than anybody could run; `at` is where the product passed the limit."""

    def __init__(self, at: At) -> None:
        super().__init__(at)
        self.at = at


class Variant(NamedTuple):
    resolved: Resolved | None  # None: there was a problem, which is kept
    levels: Levels
    bound: Bound  # what this adds to the factors already bound


class _Args(NamedTuple):
    given: tuple[Given, ...]
    levels: Levels
    bound: Bound
    good: bool


def branches_of(choice: Choice | ArgChoice, bound: Bound) -> Iterable[int]:
    """The alternatives open here: only one, when the factor has its level already."""
    if choice.factor is not None:
        for factor, level in bound:
            if factor == choice.factor:
                return (level,)
    return range(len(choice.branches))


@dataclass(slots=True)
class Calls:
    problems: Problems
    names: Mapping[Site, str]
    _variants: dict[object, list[Variant]] = field(default_factory=dict)
    _resolved: dict[object, Resolved] = field(default_factory=dict)
    _factors: dict[tuple[Arg, ...], frozenset[str]] = field(default_factory=dict)

    def variants(
        self, owner: str, params: Sequence[Param], args: tuple[Arg, ...], at: At, bound: Bound
    ) -> list[Variant]:
        if args not in self._factors:
            self._factors[args] = frozenset(_factors_in(args))
        mine = tuple(pair for pair in bound if pair[0] in self._factors[args])
        key = (owner, at, args, mine)
        if key not in self._variants:
            found = self._product(args, params, mine, at)
            self._variants[key] = [
                Variant(self._resolve(owner, params, one, at), one.levels, one.bound) for one in found
            ]
        return self._variants[key]

    def _resolve(self, owner: str, params: Sequence[Param], args: _Args, at: At) -> Resolved | None:
        if not args.good:
            return None
        key = (owner, tuple((arg.name, arg.text, arg.quoted) for arg in args.given))
        if key not in self._resolved:
            resolved = resolve(owner, params, args.given, at, self.problems)
            if resolved is None:  # not remembered: the same mistake elsewhere is another problem
                return None
            self._resolved[key] = resolved
        return self._resolved[key]

    def _product(self, args: tuple[Arg, ...], params: Sequence[Param], bound: Bound, at: At) -> list[_Args]:
        found = [_Args((), (), (), True)]
        for arg in args:
            grown: list[_Args] = []
            for first in found:
                for then in self._single(arg, params, bound + first.bound, None):
                    grown.append(
                        _Args(
                            first.given + then.given,
                            first.levels + then.levels,
                            first.bound + then.bound,
                            first.good and then.good,
                        )
                    )
                if len(grown) > MAX_COMBINATIONS:
                    raise TooMany(at)
            found = grown
        return found

    def _single(self, arg: Arg, params: Sequence[Param], bound: Bound, pair: Pair | None) -> list[_Args]:
        """Every way to read one argument; `pair` is the name=... it is the value of."""
        match arg:
            case Lit():
                name, at = (pair.name, pair.at) if pair else (None, arg.at)
                return [_Args((Given(name, arg.text, arg.quoted, at, arg.at),), (), (), True)]
            case Pair():
                return self._single(arg.value, params, bound, arg)
            case Ref():
                return [_Args((), (), (), False)]
            case ArgChoice():
                return self._choice(arg, params, bound, pair)

    def _choice(self, site: ArgChoice, params: Sequence[Param], bound: Bound, pair: Pair | None) -> list[_Args]:
        about = common_param(site, params, pair.name if pair else None)
        found: list[_Args] = []
        for number in branches_of(site, bound):
            branch = site.branches[number]
            if site.factor is not None:
                known = any(factor == site.factor for factor, _ in bound)
                mine: Bound = () if known else ((site.factor, number),)
                levels: Levels = () if known else ((site.factor, site.labels[number]),)
            else:
                mine, levels = (), ((self.names[site], _level(branch, params, about, pair)),)
            for one in self._single(branch, params, bound + mine, pair):
                found.append(_Args(one.given, levels + one.levels, mine + one.bound, one.good))
        return found


def _level(branch: Arg, params: Sequence[Param], about: Param | None, pair: Pair | None) -> str:
    """The canonical value when all alternatives are values of one parameter, else the argument as written."""
    value = branch.value if isinstance(branch, Pair) else branch
    if not isinstance(value, Lit):
        return shown(branch)
    name = branch.name if isinstance(branch, Pair) else pair.name if pair else None
    param = about or param_of(params, name, value.text, value.quoted)
    if param is None:
        return shown(branch)
    if name is None and param.type is ParamType.FLAG:
        return "on" if about else param.name
    try:
        text = format_value(param, parse_value(param, value.text))
    except ValueError:
        return shown(branch)
    return text if about or name is None else f"{name}={text}"


def _factors_in(args: Iterable[Arg]) -> Iterable[str]:
    for arg in args:
        value = arg.value if isinstance(arg, Pair) else arg
        if isinstance(value, ArgChoice):
            if value.factor is not None:
                yield value.factor
            yield from _factors_in(value.branches)
