"""What each factor of a campaign does, and what two do together beyond that: main effects and interactions. Pure.

Every round that visited all stacks gives one estimate of each effect: least squares of the logarithms of the scores on
the levels, larger is better. Rounds are the replicates, so what is alike in a whole round (a slow hour) is in none of
them, and intervals are Student's t over rounds. Effects of a factor sum to nothing over its levels; an interaction is
the mean of what the sum of main effects leaves over in a cell. With stacks missing from the product the main effects
are those of the additive fit, and cells that no stack has are left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strata.analysis.cells import Array, score_table, unlog, usable
from strata.analysis.estimate import Estimate, estimate
from strata.model import View

METHOD = "ratio of geometric means over rounds, Student t interval on the log scale"


@dataclass(frozen=True, slots=True)
class Effect:
    """How many times as good stacks with these levels are, beside the mean of all (or beside both levels alone)."""

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
    """Of the factors with several levels among the stacks that have figures; nothing where there is none."""
    measured = {trial.stack for trial in usable(view)}
    stacks = [stack for stack in view.stacks if stack in measured and view.factors.get(stack)]
    names = [
        name
        for name in dict.fromkeys(name for stack in stacks for name in view.factors[stack])
        if len({view.factors[stack].get(name) for stack in stacks}) > 1
    ]
    whole = [stack for stack in stacks if all(name in view.factors[stack] for name in names)]
    left_out = [f"{stack} has not every factor." for stack in stacks if stack not in whole]
    table = score_table(view, whole) if whole and names else np.empty((0, 0))
    table = table[:, ~np.isnan(table).any(axis=0)]
    if not names or not table.shape[1]:
        if names and whole:
            left_out.append("No round has a figure of every stack yet.")
        return Factorial((), (), 0, len(whole), tuple(left_out))
    levels = {name: list(dict.fromkeys(view.factors[stack][name] for stack in whole)) for name in names}
    of = {name: np.array([levels[name].index(view.factors[stack][name]) for stack in whole]) for name in names}
    fitted, rest = _main(table, levels, of)
    confidence = view.rule.confidence
    main = [
        Term(
            (name,),
            tuple(
                Effect((level,), _ratio(fitted[name][index], confidence), int((of[name] == index).sum()))
                for index, level in enumerate(levels[name])
            ),
        )
        for name in names
    ]
    pairs = [
        Term((one, other), tuple(_together(rest, levels, of, one, other, confidence)))
        for one, other in itertools.combinations(names, 2)
    ]
    return Factorial(tuple(main), tuple(pairs), table.shape[1], len(whole), tuple(left_out))


def _main(
    table: Array, levels: Mapping[str, Sequence[str]], of: Mapping[str, np.ndarray]
) -> tuple[dict[str, Array], Array]:
    """Factor -> levels x rounds, and what is left of the table."""
    columns = [np.ones((table.shape[0], 1))]
    columns += [np.eye(len(levels[name]))[of[name]] for name in levels]
    design = np.hstack(columns)
    solved = np.linalg.lstsq(design, table, rcond=None)[0]
    found, at = {}, 1
    for name in levels:
        block = solved[at : at + len(levels[name])]
        found[name] = block - block.mean(axis=0)
        at += len(levels[name])
    return found, np.asarray(table - design @ solved)


def _together(
    rest: Array,
    levels: Mapping[str, Sequence[str]],
    of: Mapping[str, np.ndarray],
    one: str,
    other: str,
    confidence: float,
) -> list[Effect]:
    found = []
    for first, second in itertools.product(range(len(levels[one])), range(len(levels[other]))):
        here = (of[one] == first) & (of[other] == second)
        if here.any():
            ratio = _ratio(rest[here].mean(axis=0), confidence)
            found.append(Effect((levels[one][first], levels[other][second]), ratio, int(here.sum())))
    return found


def _ratio(logs: Array, confidence: float) -> Estimate:
    plain = estimate([float(each) for each in logs], confidence, log=False)
    low, high = (None if end is None else unlog(end) for end in (plain.low, plain.high))
    return Estimate(unlog(plain.point), low, high, plain.n, METHOD)
