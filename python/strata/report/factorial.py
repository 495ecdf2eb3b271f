"""What each factor does, drawn: a chart of its levels, and one of every two factors together."""

from __future__ import annotations

from dataclasses import dataclass

from strata.analysis.factorial import Effect, Factorial, Term
from strata.report.model import Cell, Column, IntervalChart, IntervalMark, Row, Table
from strata.report.numbers import number
from strata.units import count

_FEWEST = 2  # rounds for an interval


@dataclass(frozen=True, slots=True)
class Drawn:
    chart: IntervalChart
    table: Table


@dataclass(frozen=True, slots=True)
class FactorPage:
    name: str
    about: str
    main: tuple[Drawn, ...]
    pairs: tuple[Drawn, ...]
    notes: tuple[str, ...]


def build(name: str, found: Factorial) -> FactorPage:
    about = (
        (
            f"From {count(found.rounds, 'round')} that visited all {count(found.stacks, 'stack')}. "
            if found.rounds
            else "There is no round yet that visited all stacks of a factor. "
        )
        + "A factor is compared among stacks that are alike in all others. Above 1 is better than the mean of the "
        "levels; the score weighs the workloads as the verdict does."
    )
    notes = list(found.left_out)
    if not found.main:
        notes.append("There is no factor with several levels to compare; write alternatives in braces, or `factors:`.")
    elif found.rounds < _FEWEST:
        notes.append("One round shows no spread, so there are no intervals; more rounds give them.")
    return FactorPage(
        name,
        about,
        tuple(_drawn(f"m{index}", term) for index, term in enumerate(found.main, 1)),
        tuple(_drawn(f"p{index}", term) for index, term in enumerate(found.pairs, 1)),
        tuple(notes),
    )


def _drawn(name: str, term: Term) -> Drawn:
    together = len(term.factors) > 1
    title = " and ".join(term.factors) + (": beyond what each does alone" if together else "")
    effects = sorted(term.effects, key=lambda effect: -effect.ratio.point)
    marks = tuple(
        IntervalMark(
            str(index),
            " + ".join(effect.levels),
            effect.ratio.point,
            effect.ratio.low,
            effect.ratio.high,
            _span(effect),
            effect.shown,
        )
        for index, effect in enumerate(effects, 1)
    )
    chart = IntervalChart(
        f"{name}-chart", title, "× the mean", f"{count(len(marks), 'level')}; the table has the figures.", marks,
        reference=1.0, note="Filled: the interval is all on one side of 1.",
    )  # fmt: skip
    rows = tuple(
        Row(
            " + ".join(effect.levels),
            (
                Cell(
                    number(effect.ratio.point), effect.ratio.point, effect.ratio.low, effect.ratio.high, _span(effect)
                ),
                Cell(str(effect.stacks), effect.stacks),
            ),
            str(index),
        )
        for index, effect in enumerate(effects, 1)
    )
    columns = (Column("Ratio", "×", better="higher"), Column("Stacks"))
    return Drawn(chart, Table(name, title + ".", "Level", columns, rows))


def _span(effect: Effect) -> str:
    low, high = effect.ratio.low, effect.ratio.high
    return "" if low is None or high is None else f"{number(low)} to {number(high)}"
