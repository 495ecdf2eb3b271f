"""Pages beside the report of a run, by its rules: no script, no request, light and dark.

Every expression of a template passes `_inert`, so nothing that was stored acts in a page.
"""

from __future__ import annotations

import base64
import hashlib
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
from strata.text import visible


@cache
def environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("strata.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_inert,
    )
    made.filters["json_number"] = json.dumps
    style = made.get_template("style.css").render()
    made.globals |= {"style": Markup(style), "policy": Markup(_policy(style))}
    return made


def _inert(value: object) -> object:
    """Return what an expression of a template gives, with control characters and the like made visible.

    Jinja then escapes it, unless it is a drawing or what a macro wrote.
    """
    if isinstance(value, Markup):
        return Markup(visible(str(value)))
    return visible(value) if isinstance(value, str) else value


def _policy(style: str) -> str:
    """No script, no request, no frame; the one style sheet that every page carries."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; form-action 'self'"


def policy() -> str:
    """The content security policy of every page, for a server to send."""
    return str(environment().globals["policy"])


def features(matrix: Matrix) -> str:
    """The feature matrix."""
    means = {feature.name: feature.means for feature in matrix.features}
    page = environment().get_template("features.html.j2").render(m=matrix, means=means)
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
    page = environment().get_template("joined.html.j2").render(m=found, below=below, asked=asked)
    return page.lstrip()


def factors(page: FactorPage) -> str:
    """What the factors of a run do."""
    drawings = {each.chart.id: Markup(charts.intervals(each.chart)) for each in (*page.main, *page.pairs)}
    return environment().get_template("factors.html.j2").render(m=page, drawings=drawings).lstrip()


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
    return environment().get_template("runs.html.j2").render(runs=listed, where=where).lstrip()


def message(text: str) -> str:
    """One sentence, and the way back."""
    return environment().get_template("message.html.j2").render(text=text).lstrip()
