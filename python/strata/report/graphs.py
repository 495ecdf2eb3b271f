"""What the charts of one workload show: visits as dots, latency percentiles, and figures over time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import median

from strata.model import Metric, TrialResult, WorkloadView
from strata.report.model import Dot, DotChart, DotRow, Line, PercentileChart, SeriesChart, SeriesPanel, Standing
from strata.report.numbers import Scale, number, scale_for, scale_of
from strata.report.tables import estimate_of
from strata.units import count

LEADING_ROWS = 12  # stacks on a chart with a row for each
LEADING_LINES = 8  # stacks on a chart with a line or a panel for each
SERIES_POINTS = 120  # of one line; longer series are shown as means over equal times

_PERCENTILE = re.compile(r"(?P<what>.+)_p(?P<p>\d+(?:[._]\d+)?)(?:_(?:ns|us|ms|s))?")


def dots(
    name: str,
    metric: Metric,
    by_stack: Mapping[str, Sequence[TrialResult]],
    workload: WorkloadView,
    standings: Sequence[Standing],
) -> DotChart | None:
    leading = standings[:LEADING_ROWS]
    values = [t.metrics[metric.name] for s in leading for t in by_stack.get(s.stack, ()) if metric.name in t.metrics]
    if not values:
        return None
    scale = scale_of(metric.name, metric.unit, values)
    rows = []
    for standing in leading:
        estimate = estimate_of(standing, workload, metric)
        dots = tuple(
            Dot(trial.visit, trial.round, trial.metrics[metric.name] / scale.per, bool(trial.flags))
            for trial in by_stack.get(standing.stack, ())
            if metric.name in trial.metrics
        )
        rows.append(DotRow(standing.key, standing.stack, dots, scale.of(estimate.point) if estimate else None))
    low, high = min(values) / scale.per, max(values) / scale.per
    marked = any(dot.flagged for line in rows for dot in line.dots)
    return DotChart(
        id=f"{name}-visits",
        title=f"Every visit: {metric.name}",
        unit=_axis(scale.unit, metric),
        alt=f"{count(len(values), 'visit')} of {count(len(rows), 'stack')} between {number(low)} and {number(high)} "
        f"{scale.unit}; the table below has the estimates.",
        rows=tuple(rows),
        note="One dot a visit; the upright bar is the estimate." + (" Hollow: marked, see Warnings." if marked else ""),
    )


def _axis(unit: str, metric: Metric) -> str:
    hint = {"higher": " (more is better)", "lower": " (less is better)", "neither": ""}[metric.better]
    return unit + hint


def percentile_charts(
    name: str,
    declared: Mapping[str, Metric],
    percentiles: Mapping[str, tuple[str, float] | None],
    workload: WorkloadView,
    standings: Sequence[Standing],
) -> tuple[PercentileChart, ...]:
    groups: dict[str, list[tuple[float, Metric]]] = {}
    for metric, parsed in percentiles.items():
        if parsed is not None:
            groups.setdefault(parsed[0], []).append((parsed[1], declared[metric]))
    found = []
    for index, (what, members) in enumerate(groups.items(), start=1):
        members.sort(key=lambda member: member[0])
        chart = _percentile_chart(f"{name}-latency-{index}", what, members, workload, standings)
        if chart is not None:
            found.append(chart)
    return tuple(found)


def _percentile_chart(
    name: str,
    what: str,
    members: Sequence[tuple[float, Metric]],
    workload: WorkloadView,
    standings: Sequence[Standing],
) -> PercentileChart | None:
    known: list[tuple[Standing, list[tuple[float, float]]]] = []
    for standing in standings[:LEADING_LINES]:
        points = []
        for p, metric in members:
            estimate = estimate_of(standing, workload, metric)
            if estimate is not None and estimate.point is not None:
                points.append((p, estimate.point))
        if len(points) > 1:
            known.append((standing, points))
    if not known or len({metric.unit for _, metric in members}) > 1:
        return None
    scale = scale_for(members[0][1].unit, (median(v for _, v in points) for _, points in known))
    lines = tuple(
        Line(standing.key, standing.stack, tuple((p, value / scale.per) for p, value in points))
        for standing, points in known
    )
    present = {p for line in lines for p, _ in line.points}
    last = max(present)
    worst = max((value for line in lines for p, value in line.points if p == last), default=0.0)
    return PercentileChart(
        id=name,
        title=f"Latency: {what}, {scale.unit}",
        unit=scale.unit,
        alt=f"{count(len(lines), 'stack')}; at p{last:g} up to {number(worst)} {scale.unit}; the table has all.",
        percentiles=tuple(p for p, _ in members if p in present),
        lines=lines,
        note="Logarithmic scale; less is better.",
    )


def percentile(metric: str) -> tuple[str, float] | None:
    """What is measured, and the percentile: "read_lat_p99_ms" -> ("read_lat", 99.0). None: not a percentile.

    p99.9, p99_9 and p999 are all 99.9.
    """
    match = _PERCENTILE.fullmatch(metric)
    if match is None:
        return None
    digits = match["p"].replace("_", ".")
    if "." not in digits and len(digits) > 2 and digits != "100":
        digits = f"{digits[:2]}.{digits[2:]}"
    value = float(digits)
    return (match["what"], value) if value <= 100 else None


def series_charts(
    name: str,
    workload: WorkloadView,
    machine: Mapping[str, Metric],
    by_stack: Mapping[str, Sequence[TrialResult]],
    standings: Sequence[Standing],
) -> tuple[SeriesChart, ...]:
    """The workload's own series (the deciding figure first); where it has none, the bytes at the disks."""
    present = {n for trials in by_stack.values() for trial in trials for n, points in trial.series.items() if points}
    own = [workload.primary.name, *(m for m in workload.metrics if m != workload.primary.name)]
    chosen = [n for n in own if n in present] or [n for n in ("disk.read_bytes", "disk.write_bytes") if n in present]
    found = []
    for index, series in enumerate(chosen[:2], start=1):
        metric = workload.metrics.get(series) or machine.get(series) or Metric(series, "", "neither")
        if series == workload.primary.name:
            metric = workload.primary
        chart = _series_chart(f"{name}-series-{index}", series, metric, by_stack, standings)
        if chart is not None:
            found.append(chart)
    return tuple(found)


def _series_chart(
    name: str,
    series: str,
    metric: Metric,
    by_stack: Mapping[str, Sequence[TrialResult]],
    standings: Sequence[Standing],
) -> SeriesChart | None:
    raw = [
        (standing, [(trial.visit, trial.series.get(series, ())) for trial in by_stack.get(standing.stack, ())])
        for standing in standings[:LEADING_LINES]
    ]
    values = [value for _, visits in raw for _, points in visits for _, value in points]
    if not any(values):
        return None
    longest = max(at for _, visits in raw for _, points in visits for at, _ in points)
    scale = scale_of(metric.name, metric.unit, values)
    width_s = max(1.0, -(-longest // SERIES_POINTS))
    panels = tuple(
        SeriesPanel(
            standing.key,
            standing.stack,
            tuple(
                Line(str(visit), f"visit {visit}", _thinned(points, width_s, scale))
                for visit, points in visits
                if points
            ),
        )
        for standing, visits in raw
        if any(points for _, points in visits)
    )
    unit = f"{scale.unit} in each second" if metric.unit == "bytes" else scale.unit
    every = "second by second" if width_s == 1 else f"means over {width_s:g} s"
    largest = max(value for panel in panels for line in panel.lines for _, value in line.points)
    return SeriesChart(
        id=name,
        title=f"{series} over time, {unit}",
        unit=unit,
        alt=f"{series} over {number(longest)} s, up to {number(largest)} {unit}.",
        panels=panels,
        longest_s=longest,
        largest=largest,
        note=f"{every.capitalize()}; each line is one visit, and all panels have the same axes.",
    )


def _thinned(points: Sequence[tuple[float, float]], width_s: float, scale: Scale) -> tuple[tuple[float, float], ...]:
    """Means over stretches of `width_s`, so that a day-long trial still fits a page."""
    if width_s <= 1:
        return tuple((at, value / scale.per) for at, value in points)
    stretches: dict[int, list[float]] = {}
    for at, value in points:
        stretches.setdefault(int(at // width_s), []).append(value)
    return tuple((slot * width_s, sum(v) / len(v) / scale.per) for slot, v in sorted(stretches.items()))
