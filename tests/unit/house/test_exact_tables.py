"""The tables of the page of the exact lab are those that its figures give."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_page_shows_the_figures_that_are_kept() -> None:
    made = runpy.run_path(str(ROOT / "benchmarks" / "exact_tables.py"))
    page = (ROOT / "docs" / "concepts" / "exact.md").read_text()
    assert page.count("<!-- table: ") == len(made["TABLES"])
    assert made["filled"](page) == page
