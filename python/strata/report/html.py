"""The report as one HTML file: no script, no request, light and dark, wide and narrow, and on paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from strata.report import charts, pages
from strata.report.matrix import Matrix
from strata.report.model import ReportModel


@dataclass(frozen=True, slots=True)
class Choosing:
    """What helps to choose and to build, beside the figures; each as a terminal shows it."""

    features: Matrix | None = None
    headline: str = ""  # of the advice; it leads the page where there is one
    advice: str = ""
    recipe: str = ""
    recipe_of: str = ""  # the stack


def render(model: ReportModel, choosing: Choosing = Choosing()) -> str:
    """The whole page as text, to be written as UTF-8."""
    drawings, legends = _drawings(model)
    means = {} if choosing.features is None else {each.name: each.means for each in choosing.features.features}
    page = (
        pages.environment()
        .get_template("report.html.j2")
        .render(m=model, choosing=choosing, means=means, drawings=drawings, legends=legends)
    )
    return page.lstrip()


def _drawings(model: ReportModel) -> tuple[dict[str, Any], dict[str, list[tuple[str, str, int]]]]:
    """id of a chart -> its drawing (a tuple of them for small multiples), and id -> (key, label, colour class)."""
    drawings: dict[str, Any] = {}
    legends: dict[str, list[tuple[str, str, int]]] = {}
    if model.ranking_chart is not None:
        drawings[model.ranking_chart.id] = Markup(charts.intervals(model.ranking_chart))
    for section in model.workloads:
        if section.dots is not None:
            drawings[section.dots.id] = Markup(charts.dots(section.dots))
        for chart in section.percentiles:
            drawings[chart.id] = Markup(charts.percentiles(chart))
            legends[chart.id] = [
                (line.key, line.label, index % len(charts.PALETTE) + 1) for index, line in enumerate(chart.lines)
            ]
        for series in section.series:
            drawings[series.id] = tuple(Markup(drawing) for drawing in charts.series(series))
    return drawings, legends
