"""Columns of figures and the tables made of them. Estimates come from the analysis; here they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from statistics import median

from strata.model import Metric, StepTime, View, WorkloadView
from strata.report.model import Cell, Column, Estimate, Row, Standing, Table
from strata.report.numbers import MISSING, Scale, number, places_for, places_together, scale_for, scale_of

COLUMNS = 5  # of figures in one table: what fits a sheet of paper


def estimate_cells(estimates: Sequence[Estimate | None], scale: Scale) -> list[Cell]:
    """A column of points with their intervals, written alike."""
    return _cells([None if e is None else (e.point, e.low, e.high) for e in estimates], scale)


def range_cells(values: Iterable[Sequence[float]], scale: Scale) -> list[Cell]:
    """A column of medians of visits, each with the least and the most."""
    return _cells(
        [
            None if not several else (median(several), *((min(several), max(several)) if several[1:] else (None, None)))
            for several in values
        ],
        scale,
    )


def _cells(entries: Sequence[tuple[float | None, float | None, float | None] | None], scale: Scale) -> list[Cell]:
    scaled = [
        None if entry is None or entry[0] is None else (entry[0] / scale.per, scale.of(entry[1]), scale.of(entry[2]))
        for entry in entries
    ]
    together = places_together(entry for entry in scaled if entry is not None)
    return [
        Cell(MISSING) if entry is None else _cell(*entry, places_for(*entry) if together is None else together)
        for entry in scaled
    ]


def _cell(point: float, low: float | None, high: float | None, places: int) -> Cell:
    span = ""
    if low is not None and high is not None:
        span = f"{number(low, places=places)} to {number(high, places=places)}"
    return Cell(number(point, places=places), point, low, high, span)


def row(standing: Standing, cells: Iterable[Cell]) -> Row:
    return Row(standing.stack, tuple(cells), standing.key)


def estimates(
    name: str, title: str, metrics: Sequence[Metric], workload: WorkloadView, standings: Sequence[Standing]
) -> Table:
    """A column for each metric."""
    columns, cells = [], []
    for metric in metrics:
        known = [estimate_of(standing, workload, metric) for standing in standings]
        scale = scale_of(metric.name, metric.unit, (estimate.point for estimate in known if estimate))
        columns.append(Column(metric.name, scale.unit, metric.about, better=metric.better))
        cells.append(estimate_cells(known, scale))
    rows = tuple(row(standing, (column[place] for column in cells)) for place, standing in enumerate(standings))
    return Table(name, title, "Stack", tuple(columns), rows)


def with_ratios(table: Table, workload: WorkloadView, standings: Sequence[Standing]) -> Table:
    """`table` with a first column that compares each stack with the leader of the ranking under this workload alone."""
    column = Column("Ratio", "× leader", f"by {workload.primary.name} alone; above 1 is better", better="higher")
    itself = Estimate(1.0, None, None, "ratio", "higher", 0)
    ratios = estimate_cells(
        [
            itself if standing.decision == "leader" else standing.against_leader.get(workload.text)
            for standing in standings
        ],
        Scale("×"),
    )
    rows = zip(table.rows, ratios, strict=True)
    return replace(
        table,
        columns=(column, *table.columns),
        rows=tuple(replace(line, cells=(ratio, *line.cells)) for line, ratio in rows),
    )


def estimate_of(standing: Standing, workload: WorkloadView, metric: Metric) -> Estimate | None:
    return standing.metrics.get(workload.text, {}).get(metric.name)


def provisioning(view: View, standings: Sequence[Standing]) -> Table | None:
    """Time to build and to remove a whole stack: the sum of its steps in each visit, then the median of the visits."""
    if not view.steps:
        return None
    built = _by_visit(view.steps, lambda step: step.create_s)
    removed = _by_visit(view.steps, lambda step: step.remove_s)
    scales = [scale_for("s", (v for visits in times.values() for v in visits.values())) for times in (built, removed)]
    known = {standing.stack: standing for standing in standings}
    stacks = [*known, *(stack for stack in dict.fromkeys(step.stack for step in view.steps) if stack not in known)]
    cells = zip(
        *(
            range_cells([list(times.get(stack, {}).values()) for stack in stacks], scale)
            for times, scale in zip((built, removed), scales, strict=True)
        ),
        strict=True,
    )
    rows = [
        row(known[stack], pair) if stack in known else Row(stack, pair)
        for stack, pair in zip(stacks, cells, strict=True)
    ]
    return Table(
        id="provisioning-times",
        title="Median of the visits, with the least and the most.",
        head="Stack",
        columns=(
            Column("Build", scales[0].unit, "all steps that build the stack", better="lower"),
            Column("Remove", scales[1].unit, "all steps that remove it", better="lower"),
        ),
        rows=tuple(rows),
    )


def _by_visit(steps: Iterable[StepTime], time_of: Callable[[StepTime], float | None]) -> dict[str, dict[int, float]]:
    """Stack -> visit -> seconds; a visit with a step whose time is unknown is left out rather than counted short."""
    sums: dict[str, dict[int, float | None]] = {}
    for step in steps:
        visits = sums.setdefault(step.stack, {})
        so_far, more = visits.get(step.visit, 0.0), time_of(step)
        visits[step.visit] = None if so_far is None or more is None else so_far + more
    return {
        stack: {visit: total for visit, total in visits.items() if total is not None} for stack, visits in sums.items()
    }


def steps(view: View, standings: Sequence[Standing]) -> Table | None:
    """Each step of each stack."""
    if not view.steps:
        return None
    groups: dict[tuple[str, str, str], list[StepTime]] = {}
    for step in view.steps:
        groups.setdefault((step.stack, step.layer, step.why), []).append(step)
    keys = {standing.stack: standing.key for standing in standings}
    place = {standing.stack: index for index, standing in enumerate(standings)}
    ordered = sorted(groups.items(), key=lambda item: place.get(item[0][0], len(place)))
    built = [[s.create_s for s in group if s.create_s is not None] for _, group in ordered]
    removed = [[s.remove_s for s in group if s.remove_s is not None] for _, group in ordered]
    scales = [scale_for("s", (v for times in column for v in times)) for column in (built, removed)]
    rows = tuple(
        Row(stack, (Cell(layer), Cell(why), *pair), keys.get(stack, ""))
        for ((stack, layer, why), _), *pair in zip(
            ordered, range_cells(built, scales[0]), range_cells(removed, scales[1]), strict=True
        )
    )
    return Table(
        id="step-times",
        title="Median of the visits, with the least and the most.",
        head="Stack",
        columns=(
            Column("Layer", numeric=False),
            Column("Step", numeric=False),
            Column("Build", scales[0].unit, better="lower"),
            Column("Remove", scales[1].unit, better="lower"),
        ),
        rows=rows,
    )
