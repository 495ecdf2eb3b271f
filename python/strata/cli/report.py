"""strata report"""

from __future__ import annotations

import sys
from pathlib import Path

from strata.cli import verdict


def report(directory: Path, as_json: bool, as_markdown: bool, out: Path | None) -> None:
    from strata.report import jsonform, markdown

    if as_json or as_markdown:
        text = (jsonform if as_json else markdown).render(verdict.model_of(directory))
        if out:
            out.write_text(text, encoding="utf-8")
        else:
            sys.stdout.write(text)
        return
    print(verdict.write_report(verdict.model_of(directory), out or directory / "report.html"))
