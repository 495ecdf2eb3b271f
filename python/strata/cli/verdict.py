"""strata verdict, and what `strata run` says at its end"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from strata.report.model import ReportModel
from strata.store import reader


def verdict(directory: Path, as_json: bool) -> None:
    print_verdict(model_of(directory, series=False), as_json)


def model_of(directory: Path, *, series: bool = True) -> ReportModel:
    """Everything that is shown of a run. `series`: the courses over time too, which only whole reports show."""
    from strata import report
    from strata.analysis import checks, rank

    view = reader.view(directory, series=series)
    return report.build(view, rank.rank(view), checks.warnings(view))


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
