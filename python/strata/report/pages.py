"""Pages beside the report of a run, by its rules: no script, no request, light and dark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import jinja2
from markupsafe import Markup

from strata.report import charts
from strata.report.factorial import FactorPage
from strata.report.joined import Joined
from strata.report.matrix import Matrix


@cache
def environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("strata.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["json_number"] = json.dumps
    return made


def style() -> Markup:
    return Markup(environment().get_template("style.css").render())


def features(matrix: Matrix) -> str:
    """The feature matrix."""
    means = {feature.name: feature.means for feature in matrix.features}
    page = environment().get_template("features.html.j2").render(m=matrix, style=style(), means=means)
    return page.lstrip()


@dataclass(frozen=True, slots=True)
class Filter:
    """What a page of several runs can be asked for, and what it was."""

    runs: tuple[str, ...]
    part: str
    levels: Mapping[str, Sequence[str]]
    only: Mapping[str, str]


def joined(found: Joined, below: str = "", asked: Filter | None = None) -> str:
    """Several runs. `below`: text for under the tables, as a terminal shows it. `asked`: where a server answers."""
    page = environment().get_template("joined.html.j2").render(m=found, style=style(), below=below, asked=asked)
    return page.lstrip()


def factors(page: FactorPage) -> str:
    """What the factors of a run do."""
    drawings = {each.chart.id: Markup(charts.intervals(each.chart)) for each in (*page.main, *page.pairs)}
    return environment().get_template("factors.html.j2").render(m=page, style=style(), drawings=drawings).lstrip()


@dataclass(frozen=True, slots=True)
class Listed:
    """A run in a list of them."""

    key: str  # by which a link names it
    campaign: str
    state: str
    done: int
    planned: int
    said: str
    features: bool  # there is a page of features beside it

    @property
    def name(self) -> str:
        return self.key


def runs(listed: Sequence[Listed], where: str) -> str:
    return environment().get_template("runs.html.j2").render(runs=listed, where=where, style=style()).lstrip()


def message(text: str) -> str:
    """One sentence, and the way back."""
    return environment().get_template("message.html.j2").render(text=text, style=style()).lstrip()
