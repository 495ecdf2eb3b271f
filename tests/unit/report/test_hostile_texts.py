"""Every text of a run is hostile at once: nothing of it acts in a report of any form."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from html.parser import HTMLParser
from types import ModuleType
from typing import Any

import pytest

from strata.model import View
from strata.report import charts, html, joined, jsonform, markdown, pages, terminal
from strata.report.model import IntervalChart, IntervalMark, ReportModel
from strata.text import visible, visible_but_coloured

HOSTILE = (
    "\x1b]52;c;aGk=\x07\x1b[2J\x9b2J\x00\x08\x7f\u202e\u2066\u200e\u2028\ufeff\U000e0041\ufffe\ud800\r"
    "<script>alert(1)</script><!--]]>\"'&|`*_[red][link=x]{{7*7}}{% raw %}${HOME}$(id) www.evil.example http://x"
    ' {"signal":"1"} :bomb:'
)
# What the analysis compares with: a run with other words in these places cannot be read.
WORDS = {
    "higher", "lower", "neither", "rounds", "race", "adaptive", "auto", "local", "lab", "ssh", "real", "virtual",
    "volatile", "protected", "none",
}  # fmt: skip


def poisoned(data: Any) -> Any:
    """The same with HOSTILE at the end of every text; names that were the same still are."""
    if isinstance(data, str):
        return data if isinstance(data, Enum) or data in WORDS or not data else data + HOSTILE
    if isinstance(data, Mapping):
        return {poisoned(key): poisoned(value) for key, value in data.items()}
    if isinstance(data, tuple | list | frozenset | set):
        return type(data)(poisoned(each) for each in data)
    if is_dataclass(data) and not isinstance(data, type):
        return replace(data, **{field.name: poisoned(getattr(data, field.name)) for field in fields(data)})
    return data


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links |= {str(value) for name, value in attrs if name in {"href", "src", "xlink:href", "action"}}


def check_page(page: str, plain: str) -> None:
    """`plain`: the same page of texts that are not hostile, whose tags are all there may be."""
    assert visible(page) == page
    hostile, harmless = Tags(page), Tags(plain)
    assert hostile.tags <= harmless.tags and hostile.attributes <= harmless.attributes
    assert "script" not in hostile.tags and "style" not in hostile.attributes
    assert not [link for link in hostile.links if not link.startswith(("#", "data:,", "/"))]
    assert "\\x1b]52;c;aGk=\\x07" in page and "\\u202e" in page, "what was there can be read"


@pytest.fixture(scope="module")
def views(synthetic: ModuleType) -> tuple[View, View]:
    view = synthetic.in_the_lab()
    return view, poisoned(view)


@pytest.fixture(scope="module")
def model(views: tuple[View, View], model_of: Callable[[View], ReportModel]) -> ReportModel:
    return model_of(views[1])


def test_no_text_of_the_model_holds_what_acts_or_hides(model: ReportModel) -> None:
    found: list[str] = []

    def walk(data: Any) -> None:
        if isinstance(data, str):
            found.append(data)
        elif isinstance(data, Mapping):
            walk((*data, *data.values()))
        elif isinstance(data, tuple | list):
            for each in data:
                walk(each)
        elif is_dataclass(data):
            walk([getattr(data, field.name) for field in fields(data)])

    walk(model)
    assert sum("<script>" in text for text in found) > 100
    assert [text for text in found if visible(text) != text] == []


def test_the_page(views: tuple[View, View], model: ReportModel, model_of: Callable[[View], ReportModel]) -> None:
    """The library that draws would end this very process at a control character in a name."""
    check_page(html.render(model), html.render(model_of(views[0])))


def test_the_text_forms(model: ReportModel) -> None:
    told = markdown.render(model)
    assert visible(told) == told
    assert "www\\.evil" in told and "www.evil" not in prose(told) and "http://x" not in prose(told)
    assert visible(jsonform.render(model)) == jsonform.render(model)
    assert json.loads(jsonform.render(model))["campaign"].startswith("file systems")
    plain = terminal.render(model, width=120)
    assert visible(plain) == plain and "[red][link=x]" in plain.replace("\n", "") and "💣" not in plain
    coloured = terminal.render(model, width=120, colour=True)
    assert visible_but_coloured(coloured) == coloured


def prose(markdown_text: str) -> str:
    """Without code, where an address is no link."""
    text = re.sub(r"^(`{3,})[a-z]*\n.*?^\1$", "", markdown_text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"(?<![`\\])(`+)(?!`).*?(?<!`)\1(?!`)", "", text)


def test_pages_of_a_server() -> None:
    def listed(text: str) -> list[pages.Listed]:
        return [pages.Listed("k" + text, "c" + text, "ended", 1, 1, "s" + text, True)]

    check_page(pages.runs(listed(HOSTILE.replace("\ud800", "")), "runs" + HOSTILE), pages.runs(listed(""), "runs"))
    check_page(pages.message("no " + HOSTILE), pages.message("no"))


def test_pages_of_several_runs(views: tuple[View, View]) -> None:
    plain, hostile = (joined.build({name: view, f"{name} 2": view}, {}) for name, view in zip("ab", views, strict=True))
    check_page(pages.joined(hostile, HOSTILE), pages.joined(plain, "text"))
    asked = pages.Filter((HOSTILE,), HOSTILE, {HOSTILE: [HOSTILE]}, {HOSTILE: HOSTILE})
    page = pages.joined(hostile, HOSTILE, asked)
    assert visible(page) == page and "script" not in Tags(page).tags


def test_a_drawing_takes_every_character_and_number() -> None:
    """A sample of the characters that ended the process, and of the numbers that no scale can hold."""
    signs = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0), 0xAD, 0xFDD0, 0xFFFE, 0xFFFF, 0x1FFFE)))
    for point, text in (
        (1.0, signs),
        (1.0, "\ud800"),
        (5e-324, ""),
        (1e308, ""),
        (float("inf"), ""),
        (float("nan"), ""),
    ):
        mark = IntervalMark(f"1{text}", text, point, -point, point, text, True)
        drawing = charts.intervals(IntervalChart(f"a{text}", text, text, text, (mark, mark), point))
        assert visible(drawing) == drawing and drawing.startswith("<svg")
