"""Every renderer shows the same model, and nothing that a user or a tool wrote becomes markup."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from types import ModuleType
from typing import Any

import pytest

from strata.model import FailedVisit, Skipped, View
from strata.report import charts, html, jsonform, markdown, terminal
from strata.report.model import Line, PercentileChart, ReportModel

from . import test_features as features_test

Build = Callable[[View], ReportModel]
EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&`|*_[a](http://x)"
VOID = {"meta", "link", "br", "img", "hr", "input"}


class Reader(HTMLParser):
    """Tags and their attributes, tables as (number, text) pairs, and whether every tag is closed where it should be."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.data: list[tuple[str, str]] = []
        self.spans: list[str] = []
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append((tag, dict(attrs)))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        tag, attributes = self._open[-1] if self._open else ("", {})
        if tag == "data":
            self.data.append((str(attributes["value"]), data))
        if tag == "span" and attributes.get("class") == "span":
            self.spans.append(data)
        if tag != "style":
            self.text.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def page(ordinary: ReportModel) -> str:
    return html.render(ordinary)


def table_cells(part: Any) -> Iterator[dict[str, Any]]:
    """Cells of every table of the JSON form."""
    if isinstance(part, dict):
        if "columns" in part and "rows" in part:
            for row in part["rows"]:
                yield from row["cells"]
        for inner in part.values():
            yield from table_cells(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from table_cells(inner)


def test_each_number_of_the_page_is_the_one_in_the_json(ordinary: ReportModel, page: str) -> None:
    told = [cell for cell in table_cells(json.loads(jsonform.render(ordinary))) if cell["value"] is not None]
    seen = Reader(page)
    assert sorted((float(value), text) for value, text in seen.data) == sorted((c["value"], c["text"]) for c in told)
    assert sorted(seen.spans) == sorted(cell["span"] for cell in told if cell["span"])
    assert len(told) > 100


def test_each_number_of_the_page_is_in_the_markdown(ordinary: ReportModel, page: str) -> None:
    text = markdown.render(ordinary)
    for _, number in Reader(page).data:
        assert f"| {number} " in text


def test_the_page_stands_alone(page: str) -> None:
    seen = Reader(page)
    for tag, attributes in seen.tags:
        assert tag not in {"script", "iframe", "img", "object", "embed", "base", "form"}
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in {"href", "src", "srcset", "xlink:href", "action"}:
                assert value is not None and value.startswith(("#", "data:"))
    outside = re.findall(r"https?://[^\s\"'<]+", page)
    assert outside == []
    assert "@import" not in page and "@font-face" not in page and not re.search(r"url\((?!#)", page)


def test_the_page_is_well_formed_for_readers_and_their_tools(page: str) -> None:
    seen = Reader(page)
    assert seen.named("html") == [{"lang": "en"}]
    assert len(seen.named("h1")) == 1
    assert any(meta.get("name") == "viewport" for meta in seen.named("meta"))
    assert all(head.get("scope") in {"row", "col"} for head in seen.named("th"))
    ids = [str(attributes["id"]) for _, attributes in seen.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for link in seen.named("a"):
        assert str(link["href"])[1:] in ids
    for _, attributes in seen.tags:
        for name in ("aria-labelledby", "aria-describedby"):
            assert set(str(attributes.get(name) or "").split()) <= set(ids)
    drawings = seen.named("svg")
    assert len(drawings) == 1 + 2 + 2 + 8
    assert all(drawing["role"] == "img" and "viewbox" in drawing and "width" not in drawing for drawing in drawings)


def test_the_sections_a_reader_looks_for_are_there(page: str, ordinary: ReportModel) -> None:
    text = "".join(Reader(page).text)
    for words in (
        ordinary.verdict.sentence,
        "Latency percentiles",
        "iops over time",
        "What it cost the machine",
        "Building and removing",
        "What failed",
        "What was skipped, and why",
        "load the module f2fs",
        "How it was measured",
        "The machine",
        "The exact commands",
        "mkfs.xfs -q -m uuid=5f0e /dev/loop7",
    ):
        assert words in text
    assert text.index(ordinary.verdict.sentence) < text.index("Ranking")


def evil_view(synthetic: ModuleType) -> View:
    view: View = synthetic.run_of({f"disk | {EVIL}": 4000.0, synthetic.XFS: 4600.0, synthetic.EXT4: 300.0}, rounds=2)
    trials = tuple(replace(trial, notes=(EVIL,), flags=(EVIL,)) for trial in view.trials)
    return replace(
        view,
        campaign=EVIL,
        about=EVIL,
        trials=trials,
        stacks=(*view.stacks, "left out"),
        skipped=(Skipped("left out", (EVIL,)),),
        failed=(FailedVisit(0, synthetic.XFS, 0, EVIL),),
        commands={synthetic.XFS: (EVIL,)},
        versions={EVIL: EVIL},
    )


def test_what_others_wrote_is_inert_in_html(synthetic: ModuleType, model_of: Build) -> None:
    seen = Reader(html.render(model_of(evil_view(synthetic))))
    assert seen.named("script") == [] and seen.named("img") == []
    assert not [name for _, attributes in seen.tags for name in attributes if name.startswith("on")]
    assert "".join(seen.text).count("<script>alert(1)</script>") > 8


def test_what_others_wrote_is_inert_in_markdown(synthetic: ModuleType, model_of: Build) -> None:
    text = markdown.render(model_of(evil_view(synthetic)))
    outside_code = re.sub(r"^(`{3,})sh\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    outside_code = re.sub(r"(?<![`\\])(`+)(?!`).*?(?<!`)\1(?!`)", "", outside_code)
    assert "<script>" not in outside_code and "<img" not in outside_code
    assert not re.search(r"(?<!\\)\]\(http", outside_code)


def test_markdown_tables_keep_their_columns(synthetic: ModuleType, model_of: Build) -> None:
    lines = markdown.render(model_of(evil_view(synthetic))).splitlines()
    tables = [line for line in lines if line.startswith("| ")]
    widths: list[int] = []
    for line in tables:
        bars = len(re.findall(r"(?<!\\)\|", line))
        if set(line) <= set("|-: "):
            assert bars == widths[-1]
        widths.append(bars)
    starts = [i for i, line in enumerate(tables) if set(line) <= set("|-: ")]
    for start, stop in zip(starts, [*(s - 1 for s in starts[1:]), len(tables)], strict=True):
        assert len(set(widths[start:stop])) == 1


def test_what_others_wrote_is_plain_in_the_terminal(synthetic: ModuleType, model_of: Build) -> None:
    text = terminal.render(model_of(evil_view(synthetic)), width=300)
    assert "[a](http://x)" in text


def test_the_terminal_shows_verdict_ranking_and_troubles(ordinary: ReportModel, synthetic: ModuleType) -> None:
    text = terminal.render(ordinary, width=120)
    assert text.startswith("Best: disk | xfs.")
    for row in ordinary.ranking.rows:
        assert row.head in text
        assert all(cell.text in text for cell in row.cells)
    assert "wrong fs type" in text and "load the module f2fs" in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 120


def test_the_terminal_is_coloured_only_when_asked(ordinary: ReportModel) -> None:
    assert "\x1b[" in terminal.render(ordinary, colour=True)


def test_the_terminal_shows_every_workload_in_full(ordinary: ReportModel) -> None:
    assert "read_clat_p99.9" in terminal.render(ordinary, width=200, full=True)
    assert "read_clat_p99.9" not in terminal.render(ordinary, width=200)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_figure_is_cut_off_in_a_narrow_terminal(width: int, ordinary: ReportModel) -> None:
    text = terminal.render(ordinary, width=width, full=True)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    for section in ordinary.workloads:
        for table in (*section.tables, *section.percentile_tables):
            for row in table.rows:
                for cell in row.cells:
                    assert cell.text in text and cell.span in text


def test_what_must_stand_beside_every_figure_of_the_lab_is_at_the_top(synthetic: ModuleType, model_of: Build) -> None:
    model = model_of(synthetic.in_the_lab("virtual"))
    page = "".join(Reader(html.render(model)).text)
    for text in (page, markdown.render(model), terminal.render(model, width=500)):
        plain = text.replace("\\", "")
        top = plain[: plain.index("Ranking")]
        assert synthetic.CAVEAT in top
        assert "Exact: " in top
        assert "Testbed: lab: Debian 13" in top
    assert json.loads(jsonform.render(model))["caveats"] == [synthetic.CAVEAT]


def test_losses_evidence_and_figures_of_layers_are_shown_and_inert(synthetic: ModuleType, model_of: Build) -> None:
    model = model_of(synthetic.in_the_lab())
    page = html.render(model)
    seen = Reader(page)
    assert seen.named("b") == [attributes for attributes in seen.named("b") if "class" in attributes]
    text = "".join(seen.text)
    for words in (synthetic.CONSOLE, "dd: <i>No space</i> left", "dd bs=1M", "What the layers report", "hdd-7200"):
        assert words in text
    plain = markdown.render(model)
    assert f"```text\n{synthetic.CONSOLE}\n```" in plain and "```text\ndd: <i>No space</i> left\n```" in plain
    assert "### What the layers report" in plain and "vdo.saved\\_pct" in plain
    short = terminal.render(model, width=200)
    assert "Lost with their machine" in short and "nothing was heard for 30 s" in short
    assert "vdo.saved_pct" in short and "host.cpu_user_s" not in short


def test_what_helps_to_choose_joins_the_page_and_is_inert(ordinary: ReportModel, page: str) -> None:
    matrix = features_test.found(features_test.tried(features_test.EXT4, "clone", 0.0))
    choosing = html.Choosing(features=matrix, advice=f"Choose: {EVIL}", recipe=f"# {EVIL}", recipe_of=EVIL)
    seen = Reader(html.render(ordinary, choosing))
    assert not seen.named("script")
    links = {tag["href"] for tag in seen.named("a")}
    places = {str(attributes["id"]) for _, attributes in seen.tags if attributes.get("id")}
    assert {"#features", "#advice", "#recipe"} <= links
    assert {link.removeprefix("#") for link in links if link} <= places
    text = "".join(seen.text)
    assert f"Choose: {EVIL}" in text and f"# {EVIL}" in text and "what showed it" in text
    for absent in ('id="features"', 'id="advice"', 'id="recipe"'):
        assert absent not in page


def test_the_best_stack_that_meets_the_requirements_leads_the_page(ordinary: ReportModel, page: str) -> None:
    seen = "".join(Reader(html.render(ordinary, html.Choosing(headline="Best that fits: x.", advice="x"))).text)
    assert seen.index("Best that fits: x.") < seen.index(f"Without the requirements: {ordinary.verdict.sentence}")
    assert "Without the requirements" not in page


def test_json_is_strict(ordinary: ReportModel) -> None:
    def refuse(text: str) -> None:
        raise AssertionError(text)

    told = json.loads(jsonform.render(ordinary), parse_constant=refuse)
    assert told["version"] == 1


@pytest.mark.parametrize("make", ["all_skipped", "one", "one_round"])
def test_every_renderer_copes_with_little(make: str, synthetic: ModuleType, model_of: Build) -> None:
    views = {
        "all_skipped": synthetic.all_skipped,
        "one": lambda: synthetic.run_of({synthetic.EXT4: 4000.0}),
        "one_round": lambda: synthetic.run_of({synthetic.EXT4: 4000.0, synthetic.XFS: 1.0}, rounds=1),
    }
    model = model_of(views[make]())
    Reader(html.render(model))
    assert markdown.render(model) and terminal.render(model, full=True) and jsonform.render(model)


def test_a_hundred_stacks(synthetic: ModuleType, model_of: Build) -> None:
    model = model_of(synthetic.many(100))
    page = html.render(model)
    seen = Reader(page)
    assert len(seen.named("svg")) == 1 + 2 + 2 + 16
    assert model.leading in "".join(seen.text)
    assert len(page) < 3_000_000


def test_labels_keep_both_ends() -> None:
    text = "4*hdd | md(raid10, chunk=512K) | lvmthin(zero=off) | ext4(noatime)"
    short = charts.shorten(text, 21)
    assert len(short) == 21
    assert short == "4*hdd | md…4(noatime)"
    assert charts.shorten("disk | xfs", 21) == "disk | xfs"


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(4.0, 130.0, [5, 10, 20, 50, 100]), (0.01, 1000.0, [0.01, 0.1, 1, 10, 100, 1000])],
)
def test_log_ticks(low: float, high: float, ticks: list[float]) -> None:
    assert charts.log_ticks(low, high) == pytest.approx(ticks)


def test_numbers_at_line_ends_keep_clear_of_each_other() -> None:
    lines = tuple(Line(str(i), f"stack {i}", ((50.0, 1.0 + i / 100), (99.0, 10.0 + i / 100))) for i in range(1, 5))
    drawing = charts.percentiles(PercentileChart("x", "t", "ms", "a", (50.0, 99.0), lines))
    heights = sorted(
        float(y) for y in re.findall(r'<text text-anchor="start" transform="translate\([\d.]+,([-\d.]+)\)"', drawing)
    )
    assert len(heights) == 4 and heights[0] >= 0 and heights[-1] <= 240
    assert all(b - a >= 12 for a, b in itertools.pairwise(heights))


@pytest.mark.parametrize("width", [60, 80])
def test_every_table_fits_the_terminal(
    synthetic: ModuleType, model_of: Callable[[View], ReportModel], width: int
) -> None:
    for view in (synthetic.ordinary(), synthetic.in_the_lab(), synthetic.many(30)):
        for line in terminal.render(model_of(view), width=width, full=True).splitlines():
            assert len(line) <= width, line
