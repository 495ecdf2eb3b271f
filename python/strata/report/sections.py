"""A section of the report for each workload."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from strata.model import Metric, Outcome, TrialResult, View, WorkloadView
from strata.report import graphs, tables
from strata.report.model import Fact, Standing, Table, WorkloadSection

# What is counted at the block devices of a layer; all else of that name is said by the layer itself.
_AT_DEVICES = frozenset({"reads", "writes", "read_bytes", "write_bytes", "flushes", "busy_pct", "in_flight_mean"})
_NEIGHBOURS = "neighbours."  # what tenants cost each other
_PARTS = {"host": "Host", "psi": "Time spent waiting (pressure)", "disk": "Disks"}


def workload_sections(view: View, standings: Sequence[Standing]) -> tuple[WorkloadSection, ...]:
    return tuple(
        _workload(f"workload-{index}", workload, view, standings)
        for index, workload in enumerate(view.workloads, start=1)
    )


def _workload(name: str, workload: WorkloadView, view: View, standings: Sequence[Standing]) -> WorkloadSection:
    trials = [trial for trial in view.trials if trial.workload == workload.text and trial.outcome is Outcome.OK]
    by_stack: dict[str, list[TrialResult]] = {}
    for trial in trials:
        by_stack.setdefault(trial.stack, []).append(trial)
    primary = workload.primary
    declared = {primary.name: primary, **workload.metrics}
    percentiles = {metric: graphs.percentile(metric) for metric in declared if graphs.percentile(metric)}
    measured = {metric for trial in trials for metric in trial.metrics}
    recorded = [metric for metric in view.machine_metrics.values() if metric.name in measured]
    plain = [declared[m] for m in declared if m not in percentiles and (m in measured or m == primary.name)]
    of_neighbours = [metric for metric in plain if metric.name.startswith(_NEIGHBOURS)]
    plain = [metric for metric in plain if metric not in of_neighbours]
    first, *rest = _tables(f"{name}-metrics", {"Estimates": plain}, workload, standings)
    rest += _tables(f"{name}-neighbours", {"What the neighbours cost": of_neighbours}, workload, standings)
    return WorkloadSection(
        id=name,
        text=workload.text,
        about=f"What decides: {primary.name}{f', {primary.about}' if primary.about else ''}.",
        figures=tuple(Fact(m.name, m.about) for m in declared.values() if m.about and m.name in measured),
        tables=(tables.with_ratios(first, workload, standings), *rest),
        dots=graphs.dots(name, primary, by_stack, workload, standings),
        percentiles=graphs.percentile_charts(name, declared, percentiles, workload, standings),
        percentile_tables=_tables(
            f"{name}-percentiles",
            _grouped((declared[m], parsed[0]) for m, parsed in percentiles.items() if parsed and m in measured),
            workload,
            standings,
        ),
        series=graphs.series_charts(name, workload, view.machine_metrics, by_stack, standings),
        layers=_tables(
            f"{name}-layers",
            _grouped((m, _part(m.name)) for m in recorded if _of_layer(m.name)),
            workload,
            standings,
        ),
        machine=_tables(
            f"{name}-machine",
            _grouped((m, _part(m.name)) for m in recorded if not _of_layer(m.name)),
            workload,
            standings,
        ),
    )


def _of_layer(metric: str) -> bool:
    """Whether a layer says it of itself, as in "vdo.physical_bytes"."""
    part, _, name = metric.partition(".")
    return part not in _PARTS and name not in _AT_DEVICES


def _part(metric: str) -> str:
    """The part of the machine that a figure is of: "host.cpu_user_s" is of the host."""
    part = metric.partition(".")[0]
    return _PARTS.get(part, f"Layer {part}")


def _grouped(metrics: Iterable[tuple[Metric, str]]) -> dict[str, list[Metric]]:
    groups: dict[str, list[Metric]] = {}
    for metric, group in metrics:
        groups.setdefault(group, []).append(metric)
    return groups


def _parts(metrics: Sequence[Metric]) -> Iterator[Sequence[Metric]]:
    """As few as are narrow enough, and equally wide."""
    if metrics:
        size = math.ceil(len(metrics) / math.ceil(len(metrics) / tables.COLUMNS))
        for start in range(0, len(metrics), size):
            yield metrics[start : start + size]


def _tables(
    name: str,
    groups: Mapping[str, Sequence[Metric]],
    workload: WorkloadView,
    standings: Sequence[Standing],
) -> tuple[Table, ...]:
    """A table for each group, or several where a group is too wide to be read on paper."""
    parts = [(group, part) for group, metrics in groups.items() for part in _parts(metrics)]
    return tuple(
        tables.estimates(f"{name}-{index}", f"{group}, with intervals", metrics, workload, standings)
        for index, (group, metrics) in enumerate(parts, start=1)
    )
