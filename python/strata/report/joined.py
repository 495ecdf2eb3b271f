"""Several runs in one report: stacks in rows, runs in columns, under every workload. No statistics here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from strata.analysis import between
from strata.analysis.cells import figures, usable
from strata.analysis.estimate import Estimate as Analysed
from strata.analysis.estimate import estimates
from strata.errors import BadInput
from strata.model import Metric, View, WorkloadView
from strata.report import machine
from strata.report.model import Cell, Column, Estimate, Row, Table
from strata.report.numbers import MISSING, Scale, number, scale_of
from strata.report.tables import estimate_cells
from strata.units import count


@dataclass(frozen=True, slots=True)
class Run:
    """A column."""

    key: str  # "A"
    name: str  # as requested
    campaign: str
    sentence: str  # its own verdict
    machine: str
    testbed: str
    progress: str
    caveats: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Joined:
    runs: tuple[Run, ...]
    tables: tuple[Table, ...]  # one for each workload: figures, then ratios to the first run that has the stack
    notes: tuple[str, ...]
    version: int = 1


def levels(views: Mapping[str, View]) -> dict[str, list[str]]:
    """The factors of the runs with their levels, of which there is a choice: those with several."""
    found: dict[str, dict[str, None]] = {}
    for view in views.values():
        for of_stack in view.factors.values():
            for name, level in of_stack.items():
                found.setdefault(name, {})[level] = None
    return {name: list(each) for name, each in found.items() if len(each) > 1}


def build(
    views: Mapping[str, View],
    sentences: Mapping[str, str],
    *,
    part: str = "",
    only: Mapping[str, str] = MappingProxyType({}),
) -> Joined:
    """`views`: by what the runs are called, in the order of the columns; `sentences`: their own verdicts.

    `part`: only stacks that have this in their texts; `only`: with these levels of these factors. Raises BadInput when
    nothing is left to show.
    """
    stacks = list(
        dict.fromkeys(
            stack
            for view in views.values()
            for stack in view.stacks
            if part in stack and only.items() <= view.factors.get(stack, {}).items()
        )
    )
    if not stacks:
        asked = [*([f"'{part}' in its text"] if part else []), *(f"{name} {level}" for name, level in only.items())]
        raise BadInput(f"no stack of these runs has {' and '.join(asked)}; the whole is shown without it.")
    known = {name: estimates(view, "primary") for name, view in views.items()}
    loads = _workloads(views)
    tables = [_table(f"w{index}", load, views, known, stacks) for index, load in enumerate(loads.values(), 1)]
    keys = dict(zip(views, _keys(len(views)), strict=True))
    return Joined(
        tuple(_run(keys[name], name, view, sentences.get(name, "")) for name, view in views.items()),
        tuple(table for table in tables if table.rows),
        tuple(_notes(views, keys)),
    )


def _keys(count: int) -> list[str]:
    return [chr(ord("A") + index) if index < 26 else f"A{index}" for index in range(count)]


def _run(key: str, name: str, view: View, sentence: str) -> Run:
    facts = view.facts
    return Run(
        key,
        name,
        view.campaign,
        sentence,
        "an unknown machine" if facts is None else facts.described,
        machine.testbed(view),
        f"{view.visits_done} of {count(view.visits_planned, 'visit')}",
        () if facts is None else facts.caveats,
    )


def _workloads(views: Mapping[str, View]) -> dict[tuple[str, str], WorkloadView]:
    """Of all runs, by text and by the metric that decides."""
    found: dict[tuple[str, str], WorkloadView] = {}
    for view in views.values():
        for load in view.workloads:
            found.setdefault((load.text, load.primary.name), load)
    return found


def _table(
    name: str,
    load: WorkloadView,
    views: Mapping[str, View],
    known: Mapping[str, Mapping[str, Mapping[str, Mapping[str, Analysed]]]],
    stacks: Sequence[str],
) -> Table:
    metric = load.primary
    found = {
        run: {
            stack: each for stack in stacks
            if (each := known[run].get(stack, {}).get(load.text, {}).get(metric.name)) is not None
        }
        for run in views
    }  # fmt: skip
    rows = [stack for stack in stacks if any(stack in column for column in found.values())]
    scale = scale_of(metric.name, metric.unit, [each.point for column in found.values() for each in column.values()])
    columns, cells = [], []
    for key, (run, of_stack) in zip(_keys(len(views)), found.items(), strict=True):
        columns.append(Column(key, scale.unit, run, better=metric.better))
        cells.append(estimate_cells([_shown(of_stack.get(stack), metric) for stack in rows], scale))
    for key, (run, ratios) in list(zip(_keys(len(views)), _ratios(load, views).items(), strict=True))[1:]:
        columns.append(Column(f"{key} / A", "× as good", f"{run} against the first run", better="higher"))
        cells.append(estimate_cells([ratios.get(stack) for stack in rows], Scale("×")))
    return Table(
        name,
        f"{load.text}, {metric.name}.",
        "Stack",
        tuple(columns),
        tuple(Row(stack, tuple(column[place] for column in cells)) for place, stack in enumerate(rows)),
    )


def _shown(found: Analysed | None, metric: Metric) -> Estimate | None:
    return None if found is None else Estimate(found.point, found.low, found.high, metric.unit, metric.better, found.n)


def _ratios(load: WorkloadView, views: Mapping[str, View]) -> dict[str, dict[str, Estimate]]:
    """How many times as good each stack is as in the first run."""
    levels = {
        name: between.levels_of(
            figures([t for t in usable(view) if t.workload == load.text], load.primary.name).visits, load.primary
        )
        for name, view in views.items()
    }
    first = next(iter(levels.values()))
    confidence = next(iter(views.values())).rule.confidence
    return {
        name: {
            stack: Estimate(ratio.point, ratio.low, ratio.high, "ratio", "higher", ratio.n)
            for stack, level in of_stack.items()
            if stack in first
            for ratio in [between.ratio_of(level, first[stack], confidence)]
        }
        for name, of_stack in levels.items()
    }


def _notes(views: Mapping[str, View], keys: Mapping[str, str]) -> list[str]:
    """What is not in all of them, and why a column has a gap."""
    notes = []
    every = list(dict.fromkeys(stack for view in views.values() for stack in view.stacks))
    for name, view in views.items():
        missing = [stack for stack in every if stack not in view.stacks]
        if missing:
            notes.append(f"{keys[name]} ({name}) has not: {', '.join(missing)}.")
        for skip in (*view.skipped, *view.halted):
            notes.append(f"{keys[name]} could not run {skip.stack}: {' '.join(skip.reasons)}")
    return notes


def render(joined: Joined) -> str:
    """As text for a terminal."""
    lines = []
    for run in joined.runs:
        lines += [f"{run.key}  {run.name}: {run.campaign}, {run.progress}", f"   {run.machine}; {run.testbed}"]
        lines += [f"   {caveat}" for caveat in run.caveats]
        lines += [f"   {run.sentence}"] if run.sentence else []
    for table in joined.tables:
        heads = [f"{column.title} ({column.unit})" if column.unit else column.title for column in table.columns]
        texts = [[_text(cell) for cell in row.cells] for row in table.rows]
        widths = [max(len(head), *(len(row[place]) for row in texts)) for place, head in enumerate(heads)]
        lines += ["", table.title, "  " + "  ".join(head.rjust(w) for head, w in zip(heads, widths, strict=True))]
        lines += [
            "  " + "  ".join(text.rjust(w) for text, w in zip(row, widths, strict=True)) + f"  {head.head}"
            for row, head in zip(texts, table.rows, strict=True)
        ]
    return "\n".join([*lines, "", *joined.notes]) + "\n"


def _text(cell: Cell) -> str:
    if cell.value is None:
        return MISSING
    return f"{cell.text or number(cell.value)} ({cell.span})" if cell.span else cell.text
