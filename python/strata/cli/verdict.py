"""strata verdict, and what `strata run` says at its end"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from strata.report.model import ReportModel
from strata.store import reader


def verdict(directory: Path, as_json: bool) -> None:
    print_verdict(directory, as_json)


def model_of(directory: Path) -> ReportModel:
    """Everything that is shown of a run."""
    from strata import report
    from strata.analysis import checks, rank

    view = reader.view(directory, series=True)
    return report.build(view, rank.rank(view), checks.warnings(view))


def print_verdict(directory: Path, as_json: bool) -> bool:
    """Returns whether a visit or trial failed."""
    from strata.report import terminal, verdict_json

    model = model_of(directory)
    plain = verdict_json(model)
    if as_json:
        print(json.dumps(plain, indent=2))
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        sys.stdout.write(terminal.render(model, width=max(width, 60), colour=sys.stdout.isatty()))
    return bool(plain["failed"])


def write_report(directory: Path, to: Path | None = None) -> Path:
    from strata.report import html

    path = to or directory / "report.html"
    partial = path.with_name(path.name + ".new")
    partial.write_text(html.render(model_of(directory)), encoding="utf-8")
    partial.rename(path)
    return path
