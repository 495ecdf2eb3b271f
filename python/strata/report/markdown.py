"""The report as GitHub-flavoured Markdown: everything but the drawings, whose figures are in the tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from strata.report.model import Cell, Column, Fact, ReportModel, Table, WorkloadSection
from strata.text import visible

_SPECIAL = re.compile(r"([\\`*_\[\]|~#])")
_WWW = re.compile(r"\b(www)\.", re.IGNORECASE)


def render(model: ReportModel) -> str:
    return visible("\n\n".join(block for block in _blocks(model) if block)) + "\n"


def _blocks(m: ReportModel) -> Iterator[str]:
    yield f"# {_text(m.campaign)}"
    yield _text(m.about)
    yield f"**{_text(m.verdict.sentence)}**"
    yield from (f"**{_text(caveat)}**" for caveat in m.caveats)
    yield from (_text(line) for line in m.verdict.more)
    if m.testbed != "local":
        yield _text(f"Testbed: {m.testbed}.")
    yield _text(m.progress)
    if m.standings:
        yield from ("## Ranking", _table(m.ranking))
    yield _list(f"Not ranked: {_code(left.stack)}: {_text(' '.join(left.reasons))}" for left in m.unranked)
    if m.risks:
        yield "## Documented risks"
        yield _list(f"{_code(each.stack)}: {_text(risk.sentence)}" for each in m.risks for risk in each.risks)
    for section in m.workloads:
        yield from _workload(section)
    if m.provisioning is not None:
        yield from ("## Building and removing", _table(m.provisioning))
    if m.steps is not None:
        yield _table(m.steps)
    yield from _troubles(m)
    yield from ("## How it was measured", _facts(m.method))
    yield from ("### What the words mean", _facts((*m.glossary, *m.machine_figures)))
    if m.events:
        yield from ("### What happened during the run", _facts(m.events))
    yield from ("## The machine", _facts((*m.machine, *m.versions)))
    if m.commands:
        yield "## The exact commands"
    for stack in m.commands:
        yield from (_code(stack.stack), _fenced(stack.commands))
    yield f"---\n\n{_text(m.footer)}"


def _workload(section: WorkloadSection) -> Iterator[str]:
    yield from (f"## {_text(section.text)}", _text(section.about), _facts(section.figures))
    yield from map(_table, section.tables)
    for title, group in (
        ("Latency percentiles", section.percentile_tables),
        ("What the layers report", section.layers),
        ("What it cost the machine", section.machine),
    ):
        if group:
            yield f"### {title}"
            yield from map(_table, group)


def _troubles(m: ReportModel) -> Iterator[str]:
    if m.warnings or m.flags or m.notes:
        yield "## Warnings"
        yield _list(_text(w.text) for w in m.warnings)
        yield _list(f"**{_text(f.name)}** ({f.count}): {_text(f.about)}{_stacks(f.stacks)}" for f in m.flags)
        yield _list(f"Visit {n.visit}, {_code(n.stack)}, {_text(n.workload)}: {_text(n.text)}" for n in m.notes)
    if m.failed:
        yield "## What failed"
        yield _list(f"{_code(f.stack)} – {_text(f.what)}: {_text(f.reason)}" for f in m.failed)
        for failure in m.failed:
            for said in failure.evidence:
                ended = f"{_code(said.command)} ended with {said.exit_code}"
                yield f"{_code(failure.stack)}, {_text(failure.what)}: {ended}"
                yield _fenced(said.text.splitlines() or ["(nothing)"], "text")
    if m.lost:
        yield from ("## What was lost with its machine", "None of these attempts counts.")
        for lost in m.lost:
            yield f"{_code(lost.stack)} – {_text(lost.what)}: {_text(lost.reason)}"
            if lost.console:
                yield _fenced(lost.console.splitlines(), "text")
    if m.skipped:
        yield "## What was skipped, and why"
        yield _list(f"{_code(s.stack)}: {_text(' '.join(s.reasons))}" for s in m.skipped)


def _table(table: Table) -> str:
    head = [_text(table.head), *(_heading(column) for column in table.columns)]
    rule = ["---", *("---:" if column.numeric else "---" for column in table.columns)]
    lines = [head, rule]
    for row in table.rows:
        name = f"{row.key} {_code(row.head, table=True)}".strip() + (f" ({_text(row.mark)})" if row.mark else "")
        lines.append([name, *(_cell(cell) for cell in row.cells)])
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{_text(f'{table.title} {table.note}'.strip())}\n\n{body}"


def _heading(column: Column) -> str:
    arrow = {"higher": "↑", "lower": "↓", "neither": ""}[column.better]
    unit = f" ({column.unit})" if column.unit else ""
    return f"{_text(column.title)}{_text(unit)} {arrow}".strip()


def _cell(cell: Cell) -> str:
    return f"{_text(cell.text)} ({_text(cell.span)})" if cell.span else _text(cell.text)


def _facts(facts: Iterable[Fact]) -> str:
    return _list(f"**{_text(fact.name)}**: {_text(fact.text)}" for fact in facts)


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _stacks(stacks: Iterable[str]) -> str:
    text = ", ".join(_code(stack) for stack in stacks)
    return f" ({text})" if text else ""


def _text(text: str) -> str:
    """Inert: no markup and no HTML comes out of what users and tools wrote; one line."""
    plain = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # A bare address would become a link without any sign of markup.
    return _WWW.sub(r"\1\\.", _SPECIAL.sub(r"\\\1", plain).replace("://", ":\\//"))


def _code(text: str, table: bool = False) -> str:
    """A code span; inside a table a bar would end the cell, even in code."""
    line = " ".join(text.split())
    fence = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line.replace('|', chr(92) + '|') if table else line}{pad}{fence}"


def _fenced(lines: Iterable[str], language: str = "sh") -> str:
    body = "\n".join(lines)
    fence = "`" * max(3, _longest_run(body) + 1)
    return f"{fence}{language}\n{body}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)
