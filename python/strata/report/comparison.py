"""A comparison of two runs, or of a run and a published study, as text for a terminal. No statistics here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strata.analysis.between import Cell, Comparison, Table, Turn
from strata.analysis.compare import Decision
from strata.analysis.estimate import Estimate
from strata.analysis.studies import ClaimResult, Held, under
from strata.report.numbers import number, scale_of, with_interval
from strata.units import count, format_percent

_CHANGES = {
    "turned": "the other way round now",
    "no longer shown": "a difference in the first run only",
    "newly shown": "a difference in the second run only",
}
_DECISIONS: Mapping[Decision, str] = {
    "better": "better",
    "worse": "worse",
    "equivalent": "unchanged",
    "undecided": "undecided",
}
_NAMED = 3  # changes that the first sentence names; the tables have all
_AGREEMENTS = {
    "same": "the same way here",
    "turned": "THE OTHER WAY ROUND here",
    "not shown here": "not shown here",
    "as good here": "as good as each other here",
    "no direction there": "a difference here, and a tie as published",
}

_TOGETHER = "  All intervals hold together at the confidence of the run (Bonferroni)."


def of_runs(found: Comparison, first: str, second: str, *, everything: bool) -> str:
    """`first`, `second`: what the runs are called. `everything`: also the metrics that do not decide."""
    lines = [
        _summary(found, second),
        "",
        f"{second} against {first}, {count(len(found.stacks), 'common stack')}.",
        f"Ratios above 1: better in {second}. Each interval holds by itself at {found.confidence:.0%} confidence.",
    ]
    for table in found.tables:
        if table.decides or everything:
            lines += ["", *_table(table, first, second)]
    for places in found.places:
        moved = [f"  {was} -> {now}  {stack}" for stack, was, now in places.rows if stack in places.shown]
        title = "Places under" if moved else "No change of place is shown under"
        lines += ["", f"{title} {places.workload}{':' if moved else '.'}", *moved]
    lines += ["", *_turns(found.turns, first, second)]
    return "\n".join([*lines, *(f"Note: {note}" for note in found.notes)]) + "\n"


def _summary(found: Comparison, second: str) -> str:
    """Return one sentence: which figures that decide changed, which did not, and of which the runs show neither."""
    figures = [(table, cell) for table in found.tables if table.decides for cell in table.cells]
    if not figures:
        return "No figure that decides can be compared; the notes below say why."
    parts = [
        _changed([(table, cell) for table, cell in figures if cell.change == change], _DECISIONS[change])
        for change in ("better", "worse")
    ]
    same, undecided = (sum(cell.change == change for _, cell in figures) for change in ("equivalent", "undecided"))
    margin = format_percent(found.within, " %")
    parts += [f"{same} unchanged (within {margin})"] if same else []
    parts += [f"{undecided} undecided (too few visits, or too wide an interval)"] if undecided else []
    told = "; ".join(part for part in parts if part)
    return f"In {second}, of {count(len(figures), 'figure')} that decide{'s' if len(figures) == 1 else ''}: {told}."


def _changed(figures: Sequence[tuple[Table, Cell]], how: str) -> str:
    if not figures:
        return ""
    named = ", ".join(f"{cell.stack} under {table.workload}" for table, cell in figures[:_NAMED])
    others = f" and {count(len(figures) - _NAMED, 'other')}" if len(figures) > _NAMED else ""
    return f"{len(figures)} {how} ({named}{others})"


def of_study(found: Sequence[Held], title: str, source: str, left_out: Sequence[str]) -> str:
    """Every published ratio beside the same here."""
    lines = [
        title,
        f"  from {source}",
        "  Only ratios between its stacks are used: how many times as good the first is.",
        _TOGETHER,
    ]
    for workload in dict.fromkeys(each.workload for each in found):
        for metric in dict.fromkeys(each.metric for each in found if each.workload == workload):
            rows = [each for each in found if (each.workload, each.metric) == (workload, metric)]
            lines += ["", f"{workload}, {metric}, each against {rows[0].other}"]
            for row in rows:
                both = f"published {number(row.published):>7}   here {_ratio(row.here):24}"
                lines.append(f"  {both}  {_AGREEMENTS[row.agreement]}: {row.stack}")
    return "\n".join([*lines, *(f"Left out: {sentence}" for sentence in left_out)]) + "\n"


def of_findings(found: Sequence[ClaimResult], title: str, source: str, left_out: Sequence[str]) -> str:
    """Every finding with the pairs of stacks that try it here."""
    lines = [
        title,
        f"  from {source}",
        "  It printed no figures: each of its findings is tried on pairs of stacks here.",
        _TOGETHER,
    ]
    for claimed in dict.fromkeys(each.claimed for each in found):
        rows = [each for each in found if each.claimed == claimed]
        said = f", {claimed.ratio}" if claimed.ratio else ""
        lines += ["", f"{claimed.better} before {claimed.worse} under {under(claimed)} (published{said}):"]
        lines += [f"  {_ratio(row.here):24} {_AGREEMENTS[row.agreement]}: {row.stack} to {row.other}" for row in rows]
    return "\n".join([*lines, "", *(f"Left out: {sentence}" for sentence in left_out)]) + "\n"


def _table(table: Table, first: str, second: str) -> list[str]:
    scale = scale_of(
        table.metric.name, table.metric.unit, [value for cell in table.cells for value in (cell.first, cell.second)]
    )
    title = f"{table.workload}, {table.metric.name} ({scale.unit}, {table.metric.better} is better)"
    rows = [
        (
            number(scale.of(cell.first)),
            number(scale.of(cell.second)),
            _ratio(cell.ratio),
            _DECISIONS[cell.change],
            cell.stack,
        )
        for cell in table.cells
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return [
        title,
        *(
            f"  {was:>{widths[0]}} -> {now:>{widths[1]}}  {ratio:{widths[2]}}  {change:{widths[3]}}  {stack}"
            for was, now, ratio, change, stack in rows
        ),
    ]


def _turns(turns: Sequence[Turn], first: str, second: str) -> list[str]:
    if not turns:
        return ["No two stacks changed their order as far as either run shows it."]
    lines = ["What changed its order:"]
    for turn in sorted(turns, key=lambda each: each.change != "turned"):
        lines += [
            f"  {turn.stack} against {turn.other} under {turn.workload}: {_CHANGES[turn.change]}",
            f"    {first}: {_ratio(turn.first)}   {second}: {_ratio(turn.second)}",
        ]
    return lines


def _ratio(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{number(estimate.point)} x (one visit: no interval)"
    point, span = with_interval(estimate.point, estimate.low, estimate.high)
    return f"{point} x ({span})"
