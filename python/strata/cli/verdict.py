"""strata verdict, and what `strata run` says at its end"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

from strata.errors import BadInput
from strata.model import View
from strata.report.model import ReportModel
from strata.store import reader


def verdict(directory: Path, as_json: bool, weights: str | None = None, pareto: str | None = None) -> None:
    if pareto is not None:
        _front(directory, pareto, as_json)
        return
    print_verdict(model_of(directory, series=False, weights=weights), as_json)


def model_of(directory: Path, *, series: bool = True, weights: str | None = None) -> ReportModel:
    """Everything that is shown of a run. `series`: the courses over time too, which only whole reports show.

    `weights`: as the user wrote them. Raises BadInput.
    """
    from strata import report
    from strata.analysis import checks, doubts, modelled, preconditioned

    view = reader.view(directory, series=series)
    weighed = None if weights is None else parse_weights(weights, view)
    cautions = (*doubts.warnings(view), *preconditioned.warnings(view), *checks.warnings(view))
    return report.build(view, modelled.ranking(view, weighed), cautions, weighed)


def parse_weights(text: str, view: View) -> tuple[float, ...]:
    """From `WORKLOAD=N,...`, in the order of the view; a workload that is not named has 0. Raises BadInput.

    A workload goes by its whole text, or by any part of it that no other has.
    """
    found = dict.fromkeys((workload.text for workload in view.workloads), 0.0)
    for part in _split(text):
        name, separator, number = part.rpartition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = -1.0
        if not separator or not 0 <= weight < float("inf"):
            raise BadInput(f"--weights takes WORKLOAD=NUMBER,..., as oltp=2,backup=1; '{part}' is not that.")
        exact = [known for known in found if known == name]
        match = exact or [known for known in found if name in known]
        if len(match) != 1:
            raise BadInput(
                f"--weights: '{name}' is {'no workload' if not match else 'several workloads'} of this run; "
                f"they are {', '.join(found)}."
            )
        found[match[0]] = weight
    if not any(found.values()):
        raise BadInput("--weights: all of them are 0; give one workload more.")
    return tuple(found.values())


def _split(text: str) -> list[str]:
    """At commas that are not inside brackets: workloads have arguments."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


def _front(directory: Path, metrics: str, as_json: bool) -> None:
    from strata.analysis import pareto

    view = reader.view(directory)
    front = pareto.front(view, [name.strip() for name in metrics.split(",")])
    if as_json:
        print(json.dumps({"version": 1, "campaign": view.campaign, **asdict(front)}, indent=2))
        return
    print(front.sentence)
    for member in front.members:
        figures = ", ".join(f"{name} {value:.4g}" for name, value in member.figures.items())
        print(f"  {member.probability:5.0%}  {member.stack}  ({figures})")
    if front.without:
        print(f"Without figures of all of them: {', '.join(front.without)}.")


def print_verdict(model: ReportModel, as_json: bool) -> None:
    from strata.report import terminal, verdict_json

    if as_json:
        print(json.dumps(verdict_json(model), indent=2))
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        sys.stdout.write(terminal.render(model, width=max(width, 60), colour=sys.stdout.isatty()))
    sys.stdout.flush()


def write_report(model: ReportModel, path: Path) -> Path:
    """Whole or not at all; returns `path`."""
    from strata.report import html

    partial = path.with_name(path.name + ".new")
    partial.write_text(html.render(model), encoding="utf-8")
    partial.rename(path)
    return path
