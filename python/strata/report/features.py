"""The feature matrix as tables for a terminal, and as JSON."""

from __future__ import annotations

from dataclasses import asdict

from strata import text as texts
from strata.report.matrix import Dispute, Group, Matrix

_SHOWN = {True: "yes", False: "no", None: "?"}
_FEW = 6  # stacks of which every cell's reason is printed too; of more, HTML and JSON have them


def render(matrix: Matrix) -> str:
    lines: list[str] = []
    for group in matrix.groups:
        lines += [*_table(group), ""]
    stacks = sum(len(group.rows) for group in matrix.groups)
    if stacks <= _FEW:
        for group in matrix.groups:
            lines += _reasons(group)
    if matrix.disagreements:
        lines.append("Where documents and what happened disagree:")
        lines += [line for each in matrix.disputes for line in _dispute(each)]
    lines.append(
        f"In {matrix.agreements} other cells they agree. A ? was not tried, or showed nothing"
        + ("; the page and --json say why." if stacks > _FEW else ".")
    )
    return "\n".join(lines) + "\n"


def as_json(matrix: Matrix) -> str:
    """The whole of it. A feature that was not tried is null."""
    return texts.as_json(asdict(matrix), indent=1) + "\n"


def _table(group: Group) -> list[str]:
    """Features down, stacks across by their keys, which stand below."""
    built = [row for row in group.rows if row.cells]
    lines = [f"{group.title} ({group.where})" if group.where else group.title]
    lines += [f"  {caveat}" for caveat in group.caveats]
    widest = max((len(name) for name in group.features), default=0)
    if built:
        lines.append("  " + " " * widest + "".join(f"{row.key:>5}" for row in built))
    for number, name in enumerate(group.features):
        if built:
            cells = "".join(f"{_SHOWN[row.cells[number].holds]:>5}" for row in built)
            lines.append(f"  {name:<{widest}}{cells}")
    for row in group.rows:
        lines.append(f"  {row.key:>4}  {row.stack}")
        lines += [f"        not built: {reason}" for reason in row.without]
    return lines


def _reasons(group: Group) -> list[str]:
    lines: list[str] = []
    widest = max((len(name) for name in group.features), default=0)
    for row in group.rows:
        lines.append(row.stack)
        lines += [f"  {_SHOWN[cell.holds]:4}{cell.feature:<{widest}}  {cell.why}" for cell in row.cells]
        lines += [f"  {reason}" for reason in row.without]
        lines += [f"  risk: {risk.text} ({risk.source}). To lessen it: {risk.remedy}." for risk in row.risks]
        lines.append("")
    return lines


def _dispute(each: Dispute) -> list[str]:
    lines = [f"  {each.feature}: {_SHOWN[each.found]}"]
    lines += [f"    {', '.join(stacks)}: {why}" for stacks, why in each.seen]
    return [*lines, *(f"    but {by} says {says} [{source}]" for by, says, source in each.documents)]
