"""The verdict and the ranking for a terminal."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from strata.report.model import ReportModel, Table
from strata.report.numbers import MISSING

_ARROWS = {"higher": " ↑", "lower": " ↓", "neither": ""}
_KEY, _NAME, _STACK, _GAP = 5, 16, 30, 2  # letters: a stack's number, the least and the most for its text, between


def render(model: ReportModel, *, width: int = 100, colour: bool = False, full: bool = False) -> str:
    """Text `width` columns wide, with ANSI colours if asked. `full`: every workload's table too."""
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=colour,
        no_color=not colour,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    with console.capture() as capture:
        console.print(Group(*_parts(model, width, full)))
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def _parts(m: ReportModel, width: int, full: bool) -> Iterable[RenderableType]:
    tone = "red" if not m.standings else "yellow" if m.verdict.undecided else "green"
    yield Text(m.verdict.sentence, style=f"bold {tone}")
    yield from (Text(caveat, style="bold yellow") for caveat in m.caveats)
    yield from (Text(line) for line in m.verdict.more)
    if m.testbed != "local":
        yield Text(f"Testbed: {m.testbed}.", style="dim")
    yield Text(m.progress, style="dim")
    if m.standings:
        yield _titled("Ranking", *_tables(m.ranking, width))
    if m.unranked:
        yield _titled("Not ranked", *(_item(Text(f"{u.stack}: {' '.join(u.reasons)}")) for u in m.unranked))
    shown = [each for each in m.risks if each.stack in m.verdict.tied]
    if shown:
        lines = [f"{each.stack}: {risk.sentence}" for each in shown for risk in each.risks]
        yield _titled("Documented risks of what may be chosen", *(_item(Text(line)) for line in lines))
    yield from _figures(m, width, full)
    yield from _troubles(m)


def _figures(m: ReportModel, width: int, full: bool) -> Iterable[RenderableType]:
    """Of each workload what the layers report, or everything."""
    for section in m.workloads:
        tables = (*section.tables, *section.percentile_tables, *section.layers) if full else section.layers
        if tables:
            yield _titled(section.text, *(part for table in tables for part in _tables(table, width)))
    if full and m.provisioning is not None:
        yield _titled("Building and removing", *_tables(m.provisioning, width))


def _troubles(m: ReportModel) -> Iterable[RenderableType]:
    for title, texts in (
        ("Warnings", [w.text for w in m.warnings]),
        ("Failed", [f"{f.stack}, {f.what}: {f.reason}" for f in m.failed]),
        ("Lost with their machine", [f"{x.stack}, {x.what}: {x.reason}" for x in m.lost]),
        ("Skipped", [f"{s.stack}: {' '.join(s.reasons)}" for s in m.skipped]),
    ):
        if texts:
            yield _titled(title, *(_item(Text(text)) for text in texts))


def _titled(title: str, *content: RenderableType) -> RenderableType:
    return Group(Text(""), Text(title, style="bold"), *content)


def _item(text: Text) -> RenderableType:
    grid = RichTable.grid(padding=(0, 1))
    grid.add_row("-", text)
    return Padding(grid, (0, 0, 0, 1))


def _tables(table: Table, width: int) -> Iterator[RichTable]:
    """The table, or several of them with fewer columns each where the terminal is too narrow for it."""
    names = max((len(row.head) + len(row.mark) + _GAP for row in table.rows), default=0)
    room = width - _KEY - min(_STACK, max(_NAME, names)) - _GAP
    chosen: list[int] = []
    used = 0
    for place in range(len(table.columns)):
        needed = _width(table, place)
        if chosen and used + needed > room:
            yield _table(table, chosen)
            chosen, used = [], 0
        chosen.append(place)
        used += needed
    yield _table(table, chosen)


def _width(table: Table, place: int) -> int:
    cells = [row.cells[place] for row in table.rows]
    texts = [table.columns[place].unit + _ARROWS["higher"], *table.columns[place].title.split()]
    return max(len(text) for text in (*texts, *(c.text for c in cells), *(c.span for c in cells))) + _GAP


def _table(table: Table, places: Sequence[int]) -> RichTable:
    shown = RichTable(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim", show_edge=False)
    shown.add_column(Text("#"), justify="right", no_wrap=True)
    shown.add_column(Text(table.head), overflow="fold", min_width=_NAME)
    for place in places:
        column = table.columns[place]
        head = Text(f"{column.title}\n{column.unit}{_ARROWS[column.better]}", overflow="fold")
        shown.add_column(head, justify="right" if column.numeric else "left", min_width=_width(table, place) - _GAP)
    # A layer's figures are those of the stacks that have it; of the others there would be only dashes.
    told = [row for row in table.rows if any(row.cells[place].text != MISSING for place in places)]
    for row in told or table.rows:
        name = Text(row.head, style="bold" if row.tied else "")
        if row.mark:
            name.append(f"  {row.mark}", style="not bold green")
        shown.add_row(row.key, name, *(_cell(row.cells[place].text, row.cells[place].span) for place in places))
    return shown


def _cell(text: str, span: str) -> Text:
    cell = Text(text)
    if span:
        cell.append(f"\n{span}", style="dim")
    return cell
