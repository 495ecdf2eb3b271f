"""The pages show what benchmarks/results/ holds, and each file there says where its figures come from."""

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


def test_the_pages_show_the_results_that_are_kept() -> None:
    made = runpy.run_path(str(ROOT / "benchmarks" / "results_pages.py"))
    for path, text in made["pages"]().items():
        assert path.read_text() == text, f"{path.name}: run python benchmarks/results_pages.py"


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.name)
def test_a_result_names_its_command_and_date(path: Path) -> None:
    kept = json.loads(path.read_text())
    assert kept["command"] and kept["date"] and kept["about"]
