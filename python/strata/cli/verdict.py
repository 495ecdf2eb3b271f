"""strata verdict, and what `strata run` says at its end"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from strata.cli import output, page_file
from strata.errors import BadInput
from strata.model import View
from strata.report.model import ReportModel
from strata.report.numbers import number
from strata.store import reader

if TYPE_CHECKING:  # the page is heavy to import, and only what writes it pays
    from strata.published.documented import Risk
    from strata.report.html import Choosing


def verdict(directory: Path, as_json: bool, weights: str | None = None, pareto: str | None = None) -> None:
    if pareto is not None and weights is not None:
        raise BadInput("a front (--pareto) has no weights; ask with --pareto or with --weights, one at a time.")
    if pareto is not None:
        _front(directory, pareto, as_json)
        return
    print_verdict(model_of(directory, series=False, weights=weights), as_json)


def model_of(directory: Path, *, series: bool = True, weights: str | None = None) -> ReportModel:
    """Everything that is shown of a run. `series`: the courses over time too, which only whole reports show.

    `weights`: as the user wrote them. Raises BadInput.
    """
    from strata import report
    from strata.analysis import checks, doubts, instruments, modelled, objective, preconditioned

    view = reader.view(directory, series=series)
    weighed = None if weights is None else _parsed(weights, view)
    # A doubt is of what is ranked: an instrument is never the choice.
    doubted = doubts.warnings(instruments.choosable(view), weighed)
    cautions = checks.gravest_first((*doubted, *preconditioned.warnings(view), *checks.warnings(view)))
    shown = weighed or (objective.weights_of(view) if view.rule.objective else None)
    return report.build(view, modelled.ranking(view, weighed), cautions, shown, _risks(view))


def _risks(view: View) -> dict[str, Sequence[Risk]]:
    """Stack -> its documented risks; stacks that this Strata cannot read have none."""
    from strata.cli import kept
    from strata.judge.risks import documented_risks

    found: dict[str, Sequence[Risk]] = {}
    for text in view.stacks:
        with suppress(BadInput):
            found |= {stack.text: documented_risks(stack) for stack in kept.stacks(view, view.campaign, [text])}
    return found


def _parsed(weights: str, view: View) -> tuple[float, ...]:
    from strata.analysis import objective

    try:
        return objective.parse_weights(weights, view.workloads)
    except BadInput as error:
        raise BadInput(f"--weights: {error}") from error


def _front(directory: Path, metrics: str, as_json: bool) -> None:
    from strata.analysis import objective, pareto, reliability

    view = reader.view(directory)
    try:
        names = objective.parse(f"{objective.PARETO}{metrics}", view.workloads, view.machine_metrics).front
    except BadInput as error:
        raise BadInput(f"--pareto: {error}") from error
    front = pareto.front(view, names)
    if as_json:
        output.json({"version": 1, "campaign": view.campaign, **asdict(front)})
        return
    output.out(front.sentence)
    for member in front.members:
        output.out(f"  {member.probability:5.0%}  {member.stack}  ({_shown(member.figures)})")
    for unjudged in front.unjudged:
        output.out(f"      -  {unjudged.stack}  ({_shown(unjudged.figures)})")
    for said in reliability.failure_sentences(view, front.doubtful):
        output.out(said)
    if front.without:
        output.out(f"Without figures of all of them: {', '.join(front.without)}.")


def _shown(figures: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {number(value, 4)}" for name, value in figures.items())


def print_verdict(model: ReportModel, as_json: bool) -> None:
    from strata.report import terminal, verdict_json

    if as_json:
        output.json(verdict_json(model))
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        output.coloured(terminal.render(model, width=max(width, 60), colour=output.colours(sys.stdout)))


def write_report(model: ReportModel, path: Path, choosing: Choosing | None = None) -> Path:
    """Write the report to `path`, and return that."""
    from strata.report import html

    page_file.write(path, html.render(model, choosing or html.Choosing()))
    return path
