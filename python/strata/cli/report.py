"""strata report"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from strata.cli import verdict
from strata.errors import BadInput


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


def joined_report(directories: Sequence[Path], as_json: bool, as_markdown: bool, out: Path | None) -> None:
    """The same stacks in several runs: of several machines, kernels, years."""
    from strata.report import joined, pages
    from strata.store import reader

    if as_markdown:
        raise BadInput("several runs side by side are a page, text or --json; give one run with --markdown.")
    names = [str(directory) for directory in directories]
    if len(set(names)) < len(names):
        raise BadInput("the same run is given twice; give each once.")
    views = {name: reader.view(directory) for name, directory in zip(names, directories, strict=True)}
    said = {
        name: verdict.model_of(directory, series=False).verdict.sentence
        for name, directory in zip(names, directories, strict=True)
    }
    found = joined.build(views, said)
    if as_json:
        text = json.dumps(asdict(found), ensure_ascii=False, allow_nan=False, indent=1) + "\n"
        if out:
            out.write_text(text, encoding="utf-8")
        else:
            sys.stdout.write(text)
        return
    sys.stdout.write(joined.render(found))
    page = out or Path("joined.html")
    page.write_text(pages.joined(found), encoding="utf-8")
    print(f"\nThe page: {page}")
