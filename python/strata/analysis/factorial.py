"""What each factor of a campaign does, and what two do together beyond that: main effects and interactions. Pure.

A factor is compared among stacks that are alike in every other factor (a block); stacks that have no counterpart say
nothing of it, so a campaign need not be one product. Every round that visited all stacks gives one estimate of each
effect: least squares of the logarithms of the scores, larger is better, on the levels and the blocks (a two-way layout;
in a whole product these are the usual main effects). Rounds are the replicates, so what is alike in a whole round (a
slow hour) is in none of them, and intervals are Student's t over rounds. Effects of a factor sum to nothing over its
levels; an interaction is the mean of what the sum of the two effects leaves over in a cell, among stacks alike in all
but the two.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strata.analysis.cells import Array, unlog, usable
from strata.analysis.estimate import Estimate, estimate
from strata.analysis.scale import score_table
from strata.model import View

METHOD = "ratio of geometric means over rounds, Student t interval on the log scale"


Block = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Fit:
    levels: Mapping[str, Sequence[str]]  # of each factor
    of: Mapping[str, np.ndarray]  # factor -> the number of its level, stack by stack
    solved: Array  # levels x rounds, those of one factor after those of the other
    rest: Array  # stacks x rounds: what the fit leaves over


@dataclass(frozen=True, slots=True)
class Effect:
    """How many times as good stacks with these levels are: beside the mean of the levels, or beside both alone."""

    levels: tuple[str, ...]  # one for a main effect, two for an interaction
    ratio: Estimate
    stacks: int

    @property
    def shown(self) -> bool:
        """Whether the interval is all above or all below 1."""
        low, high = self.ratio.low, self.ratio.high
        return low is not None and high is not None and (low > 1.0 or high < 1.0)


@dataclass(frozen=True, slots=True)
class Term:
    factors: tuple[str, ...]  # one, or two
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class Factorial:
    main: tuple[Term, ...]
    pairs: tuple[Term, ...]
    rounds: int  # that visited every stack
    stacks: int
    left_out: tuple[str, ...]  # sentences


def effects(view: View) -> Factorial:
    """Of the factors with several levels among stacks that have figures; nothing where there is none."""
    measured = {trial.stack for trial in usable(view)}
    stacks = [stack for stack in view.stacks if stack in measured and view.factors.get(stack)]
    names = [
        name
        for name in dict.fromkeys(name for stack in stacks for name in view.factors[stack])
        if len({view.factors[stack][name] for stack in stacks if name in view.factors[stack]}) > 1
    ]
    table = score_table(view, stacks) if stacks and names else np.empty((0, 0))
    table = table[:, ~np.isnan(table).any(axis=0)]
    if not names or not table.shape[1]:
        return Factorial((), (), 0, len(stacks), ("No round has a figure of every stack yet.",) if names else ())
    rows = dict(zip(stacks, table, strict=True))
    alone = {name: _compared(view, stacks, (name,)) for name in names}
    main = [_main(view, rows, name, among) for name, among in alone.items() if among]
    pairs = [
        _together(view, rows, pair, among)
        for pair in itertools.combinations(names, 2)
        if (among := _compared(view, stacks, pair))
    ]
    left_out = tuple(f"{name}: no two stacks differ in it alone." for name, among in alone.items() if not among)
    return Factorial(tuple(main), tuple(pairs), table.shape[1], len(stacks), left_out)


def _compared(view: View, stacks: Sequence[str], names: Sequence[str]) -> dict[str, Block]:
    """Stack -> its block: the levels of all other factors. Blocks in which each of `names` has several levels."""
    blocks: dict[Block, list[str]] = {}
    for stack in stacks:
        levels = view.factors[stack]
        if all(name in levels for name in names):
            rest = frozenset((name, level) for name, level in levels.items() if name not in names)
            blocks.setdefault(rest, []).append(stack)
    return {
        stack: block
        for block, alike in blocks.items()
        if all(len({view.factors[stack][name] for stack in alike}) > 1 for name in names)
        for stack in alike
    }


def _fit(view: View, rows: Mapping[str, Array], names: Sequence[str], among: Mapping[str, Block]) -> Fit:
    """Least squares on the blocks and the levels of `names`, round by round."""
    blocks = list(dict.fromkeys(among.values()))
    levels = {name: list(dict.fromkeys(view.factors[stack][name] for stack in among)) for name in names}
    of = {name: np.array([levels[name].index(view.factors[stack][name]) for stack in among]) for name in names}
    columns = [np.eye(len(blocks))[[blocks.index(block) for block in among.values()]]]
    columns += [np.eye(len(levels[name]))[of[name]] for name in names]
    design, table = np.hstack(columns), np.array([rows[stack] for stack in among])
    solved = np.linalg.lstsq(design, table, rcond=None)[0]
    return Fit(levels, of, solved[len(blocks) :], np.asarray(table - design @ solved))


def _main(view: View, rows: Mapping[str, Array], name: str, among: Mapping[str, Block]) -> Term:
    fit = _fit(view, rows, (name,), among)
    centred = fit.solved - fit.solved.mean(axis=0)
    found = (
        Effect((level,), _ratio(centred[index], view.rule.confidence), int((fit.of[name] == index).sum()))
        for index, level in enumerate(fit.levels[name])
    )
    return Term((name,), tuple(found))


def _together(view: View, rows: Mapping[str, Array], pair: tuple[str, str], among: Mapping[str, Block]) -> Term:
    fit = _fit(view, rows, pair, among)
    one, other = pair
    found = []
    for first, second in itertools.product(range(len(fit.levels[one])), range(len(fit.levels[other]))):
        here = (fit.of[one] == first) & (fit.of[other] == second)
        if here.any():
            ratio = _ratio(fit.rest[here].mean(axis=0), view.rule.confidence)
            found.append(Effect((fit.levels[one][first], fit.levels[other][second]), ratio, int(here.sum())))
    return Term(pair, tuple(found))


def _ratio(logs: Array, confidence: float) -> Estimate:
    plain = estimate([float(each) for each in logs], confidence, log=False)
    low, high = (None if end is None else unlog(end) for end in (plain.low, plain.high))
    return Estimate(unlog(plain.point), low, high, plain.n, METHOD)
