"""Charts as SVG text to stand inside a page: no script, no font, no address, sized by the page.

Colours are written as `currentColor` or as the palette below, which the page's style sheet maps to what reads
on its background; so one drawing serves light, dark and paper.

The library that draws ends the whole process at a character that XML cannot hold. So every text goes to it cleaned, and
every number finite and within what a drawing can show (`_drawable`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape
from typing import Any

from strata.report.model import DotChart, IntervalChart, PercentileChart, SeriesChart, SeriesPanel
from strata.report.numbers import number
from strata.text import one_line, visible

WIDTH = 400  # of a drawing, in its own units; text is 12 of them
PANEL_WIDTH = 290  # of one of several small ones
ROW = 36
_PERCENTILE_HEIGHT = 240
_APART = 15.0  # from one number at a line's end to the next; the axis takes a part of the height
LABEL_LETTERS = 46
_LONGEST = 200  # letters of any text in a drawing
_LARGEST = 1e100
# Names for the style sheet rather than colours to like: `.chart [fill="#0072b2"]` becomes var(--series-1).
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a68c9", "#8c8c8c")
ACCENT, MUTED = PALETTE[0], PALETTE[7]
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])


def intervals(chart: IntervalChart) -> str:
    """Each stack's point and interval; filled and coloured when tied with the best."""
    import altair as alt

    rows = [
        {
            "row": mark.key,
            "label": _label(mark.key, mark.label),
            "point": mark.point,
            "low": mark.low,
            "high": mark.high,
            "colour": ACCENT if mark.tied else MUTED,
            "fill": ACCENT if mark.tied else "transparent",
        }
        for mark in chart.marks
        if mark.point is not None
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(y=_rows(alt))
    x = alt.X("point:Q", title=chart.unit, scale=alt.Scale(zero=False, nice=True))
    colour = alt.Color("colour:N", scale=None)
    layers: list[Any] = []
    if chart.reference is not None:
        layers.append(
            alt.Chart(alt.Data(values=[{"at": chart.reference}]))
            .mark_rule(color="currentColor", strokeDash=[3, 3], opacity=0.6)
            .encode(x="at:Q")
        )
    layers += [
        _labels(base),
        base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=chart.unit), x2="high:Q", color=colour),
        base.mark_point(size=60, filled=False, strokeWidth=2, opacity=1).encode(
            x=x, color=colour, fill=alt.Fill("fill:N", scale=None)
        ),
    ]
    return _svg(alt.layer(*layers).properties(height=_height(len(rows))), chart.id, chart.title, chart.alt)


def dots(chart: DotChart) -> str:
    """Each visit a dot on its stack's row; hollow when flagged; the estimate as an upright bar."""
    import altair as alt

    heads = [{"row": row.key, "label": _label(row.key, row.label), "middle": row.middle} for row in chart.rows]
    points = [
        {"row": row.key, "value": dot.value, "fill": "transparent" if dot.flagged else ACCENT}
        for row in chart.rows
        for dot in row.dots
    ]
    base = alt.Chart(alt.Data(values=heads)).encode(y=_rows(alt))
    scale = alt.Scale(zero=False, nice=True)
    layers: list[Any] = [
        _labels(base),
        alt.Chart(alt.Data(values=points))
        .mark_point(size=44, color=ACCENT, opacity=0.75, strokeWidth=1.5)
        .encode(y=_rows(alt), x=alt.X("value:Q", title=chart.unit, scale=scale), fill=alt.Fill("fill:N", scale=None)),
    ]
    middles = [head for head in heads if head["middle"] is not None]
    if middles:
        layers.append(
            alt.Chart(alt.Data(values=middles))
            .mark_tick(color="currentColor", thickness=2, size=16)
            .encode(y=_rows(alt), x=alt.X("middle:Q", scale=scale))
        )
    return _svg(alt.layer(*layers).properties(height=_height(len(heads))), chart.id, chart.title, chart.alt)


def percentiles(chart: PercentileChart) -> str:
    """A straight-edged line for each stack over the percentiles, on a logarithmic scale, its number at its end."""
    import altair as alt

    order = [f"p{p:g}" for p in chart.percentiles]
    points = [
        {"p": f"p{p:g}", "value": value, "key": line.key, "colour": PALETTE[i % len(PALETTE)], "dash": i % len(_DASHES)}
        for i, line in enumerate(chart.lines)
        for p, value in line.points
        if _on_logarithmic_scale(value)
    ]
    if not points:
        return ""
    values = [value for line in chart.lines for _, value in line.points if _on_logarithmic_scale(value)]
    low, high = min(values) / 1.15, max(values) * 1.15
    x = alt.X("p:N", sort=order, title=None, axis=alt.Axis(labelAngle=0, grid=False), scale=alt.Scale(padding=0.35))
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    y = alt.Y("value:Q", title=None, scale=scale, axis=alt.Axis(values=log_ticks(low, high)))
    base = alt.Chart(alt.Data(values=points)).encode(x=x, y=y, color=alt.Color("colour:N", scale=None))
    layers = [
        base.mark_line(strokeWidth=2, interpolate="linear").encode(
            detail="key:N",
            strokeDash=alt.StrokeDash(
                "dash:O", scale=alt.Scale(domain=list(range(len(_DASHES))), range=list(_DASHES)), legend=None
            ),
        ),
        base.mark_point(size=30, filled=True, opacity=1),
        alt.Chart(alt.Data(values=_ends(points, low, high)))
        .mark_text(align="left", dx=8, fontSize=12, fontWeight="bold")
        .encode(x=x, y=alt.Y("at:Q", scale=scale), text="key:N", color=alt.Color("colour:N", scale=None)),
    ]
    return _svg(alt.layer(*layers).properties(height=_PERCENTILE_HEIGHT), chart.id, chart.title, chart.alt)


def _on_logarithmic_scale(value: float) -> bool:
    return 1 / _LARGEST < value < _LARGEST


def _ends(points: Sequence[dict[str, Any]], low: float, high: float) -> list[dict[str, Any]]:
    """The last point of each line, with a height `at` for its number that keeps clear of the others' numbers."""
    last = {point["key"]: point for point in points}
    ends = sorted(last.values(), key=lambda point: float(point["value"]))
    unit = math.log(high / low) / _PERCENTILE_HEIGHT  # on the logarithmic scale, one unit of the drawing
    heights = [math.log(float(end["value"]) / low) / unit for end in ends]
    for i in range(1, len(heights)):
        heights[i] = max(heights[i], heights[i - 1] + _APART)
    ceiling = float(_PERCENTILE_HEIGHT - 4)
    for i in reversed(range(len(heights))):
        heights[i] = min(heights[i], ceiling)
        ceiling = heights[i] - _APART
    return [{**end, "at": low * math.exp(height * unit)} for end, height in zip(ends, heights, strict=True)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten inside the range; only the powers when those are many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    fine = [m * 10.0**p for p in powers for m in (1, 2, 5)]
    inside = [tick for tick in fine if low <= tick <= high]
    return inside if len(inside) <= 7 else [tick for tick in inside if f"{tick:e}".startswith("1.")]


def series(chart: SeriesChart) -> tuple[str, ...]:
    """One drawing for each stack, all with the same axes, each visit a thin line."""
    return tuple(_panel(chart, panel, f"{chart.id}-{panel.key}") for panel in chart.panels)


def _panel(chart: SeriesChart, panel: SeriesPanel, name: str) -> str:
    import altair as alt

    points = [{"visit": line.key, "s": at, "value": value} for line in panel.lines for at, value in line.points]
    drawing = (
        alt.Chart(alt.Data(values=points))
        .mark_line(strokeWidth=1.4, opacity=0.65, interpolate="linear", color=ACCENT)
        .encode(
            x=alt.X("s:Q", title="seconds", scale=alt.Scale(domain=[0, chart.longest_s or 1], nice=False)),
            y=alt.Y("value:Q", title=None, scale=alt.Scale(domain=[0, chart.largest or 1]), axis=alt.Axis(tickCount=4)),
            detail="visit:N",
        )
        .properties(height=120)
    )
    return _svg(drawing, name, f"{panel.key} {panel.label}: {chart.title}", _panel_alt(chart, panel), PANEL_WIDTH)


def _panel_alt(chart: SeriesChart, panel: SeriesPanel) -> str:
    values = [value for line in panel.lines for _, value in line.points]
    if not values:
        return chart.alt
    return f"Between {number(min(values))} and {number(max(values))} {chart.unit}, {len(panel.lines)} visits overlaid."


def shorten(text: str, letters: int = LABEL_LETTERS) -> str:
    """Both ends of `text`: stacks differ at their end as often as at their start."""
    if len(text) <= letters:
        return text
    tail = (letters - 1) // 2
    return f"{text[: letters - 1 - tail]}…{text[-tail:]}"


def _label(key: str, text: str) -> str:
    return f"{key}  {shorten(text)}"


def _rows(alt: Any) -> Any:
    return alt.Y("row:N", sort=None, axis=None, scale=alt.Scale(padding=0))


def _labels(base: Any) -> Any:
    return base.mark_text(align="left", baseline="middle", dy=-13, fontSize=12, color="currentColor").encode(
        x=_alt_value(2), text="label:N"
    )


def _alt_value(value: float) -> Any:
    import altair as alt

    return alt.value(value)


def _height(rows: int) -> int:
    return max(1, rows) * ROW + 40


_CONFIG: dict[str, Any] = {
    "aria": False,
    "background": None,
    "padding": {"left": 10, "right": 8, "top": 4, "bottom": 4},
    "font": "sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "domainColor": "currentColor",
        "domainOpacity": 0.5,
        "tickColor": "currentColor",
        "tickOpacity": 0.5,
        "gridColor": "currentColor",
        "gridOpacity": 0.16,
        "labelFlush": False,
    },
    "axisX": {"tickCount": 5},
}


def _svg(drawing: Any, name: str, title: str, text: str, width: int = WIDTH) -> str:
    import vl_convert

    spec = _drawable(drawing.properties(width=width).to_dict(validate=False))
    spec["config"] = _CONFIG
    spec["autosize"] = {"type": "fit", "contains": "padding"}
    try:
        svg = vl_convert.vegalite_to_svg(spec)
    except ValueError:  # numbers that no scale can hold together
        return '<p class="quiet">This chart cannot be drawn; its figures are in the table.</p>'
    return _inline(svg, name, one_line(title), visible(text))


def _drawable(spec: Any) -> Any:
    """The specification of a drawing with every text on one printable line, and no number that has no place in it."""
    if isinstance(spec, str):
        return one_line(spec)[:_LONGEST]
    if isinstance(spec, dict):
        return {key: _drawable(value) for key, value in spec.items()}
    if isinstance(spec, list):
        return [_drawable(each) for each in spec]
    if isinstance(spec, float) and not abs(spec) < _LARGEST:
        return None
    return 0.0 if isinstance(spec, float) and abs(spec) < 1 / _LARGEST else spec


def _inline(svg: str, name: str, title: str, text: str) -> str:
    """Make a stand-alone drawing fit to stand beside others in one page: sized by it, named, ids its own."""
    name = escape(one_line(name))
    inner = re.search(r"<svg[^>]*viewBox=\"([^\"]+)\"[^>]*>(.*)</svg>", svg, re.DOTALL)
    if inner is None:
        raise ValueError("the chart library gave something that is not an SVG drawing")
    body = re.sub(r'\bid="([^"]+)"', lambda match: f'id="{name}-{match[1]}"', inner[2])
    body = re.sub(r"url\(#([^)]+)\)", lambda match: f"url(#{name}-{match[1]})", body)
    return (
        f'<svg class="chart" viewBox="{inner[1]}" role="img" aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(text)}</desc>{body}</svg>'
    )
