"""Writes the parts of the pages that come from benchmarks/results/: docs/results.md, and tables of other pages.

    python benchmarks/results_pages.py                writes the pages

Every file there names the command that made it, the date and the machine. tests/unit/house/test_results_pages.py holds
the pages to the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
FEATURES = ROOT / "docs" / "concepts" / "features.md"
LONG_RUNS = ROOT / "docs" / "results.md"
TABLES = ("sensitivity", "deciding")  # files of tables, each for one page
_MARKED = re.compile(r"( *)(<!-- table: ([a-z0-9-]+) -->\n).*?( *<!-- end -->)", re.DOTALL)
_HEAD = """\
# Results of long runs

`make test-full` takes longer than one session, so its parts were run one by one. This page shows the last result of
each benchmark and of the long tests. `benchmarks/results/long-runs.json` has these records and those of single tests.

The page is written by `python benchmarks/results_pages.py` from that file.
"""


def pages() -> Mapping[Path, str]:
    """Return the text of each page as the kept results give it. Raises KeyError for a table that no result gives."""
    made = {FEATURES: filled(FEATURES, feature_tables(_read("features"))), LONG_RUNS: long_runs(_read("long-runs"))}
    for name in TABLES:
        results = _read(name)
        page = ROOT / results["page"]
        made[page] = filled(page, {title: table(kept) for title, kept in results["tables"].items()})
    return made


def filled(page: Path, tables: Mapping[str, str]) -> str:
    """Return the page with each marked table replaced, as far indented as its marker."""

    def replaced(found: re.Match[str]) -> str:
        lines = tables[found[3]].splitlines(keepends=True)
        return f"{found[1]}{found[2]}{''.join(found[1] + line for line in lines)}{found[4]}"

    return _MARKED.sub(replaced, page.read_text())


def table(kept: Mapping[str, Any]) -> str:
    """Return one table of Markdown."""
    columns = kept["columns"]
    head = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in kept["rows"])


def feature_tables(results: Mapping[str, Any]) -> dict[str, str]:
    """Return the answers of each kind of stack as a block of text, by the name of its table."""
    tables = {}
    for group in results["groups"]:
        marks = [f"{group['marks']}{number}" for number in range(1, len(group["stacks"]) + 1)]
        widest = max(map(len, group["answers"]))
        lines = [f"{group['kind']} ({group['machine']})", " " * (widest + 2) + "".join(f"{mark:>5}" for mark in marks)]
        for feature, answers in group["answers"].items():
            lines.append(f"  {feature:<{widest}}" + "".join(f"{answer:>5}" for answer in answers))
        lines += [f"  {mark:>4}  {stack}" for mark, stack in zip(marks, group["stacks"], strict=True)]
        name = f"features-{group['kind'].lower().replace(' ', '-')}"
        tables[name] = "```text\n" + "\n".join(lines) + "\n```\n"
    return tables


def long_runs(results: Mapping[str, Any]) -> str:
    """Return the page of the records that are shown, one section for each set of conditions."""
    sections: dict[str, list[Mapping[str, Any]]] = {}
    for record in results["records"]:
        if record["shown"]:
            sections.setdefault(record["conditions"], []).append(record)
    text = f"{_HEAD}\nRecorded {results['date']}. {results['about']}\n"
    for conditions, records in sections.items():
        text += f"\n{conditions}:\n\n| what | command | result |\n|---|---|---|\n"
        for record in records:
            cells = (record[key].replace("|", "\\|") for key in ("what", "command", "result"))
            text += f"| {' | '.join(cells)} |\n"
    return text


def _read(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text())


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
