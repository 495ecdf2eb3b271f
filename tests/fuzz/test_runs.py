"""Some mutants in the default suite; `make test-full` makes 10,000 in processes that may die (tests/fuzz/runs.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import runs


@pytest.fixture
def place(tmp_path: Path) -> runs.Place:
    return runs.Place(tmp_path)


def test_a_run_that_nobody_changed_is_answered_by_every_command(
    place: runs.Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the mutants would show nothing."""
    monkeypatch.setattr(runs.mutations, "mutate", lambda *_: [])
    answered: set[str] = set()
    for number in range(8):
        mutant = runs.fuzz(place, number, 1, pages=0.25)
        assert mutant.faults == [], mutant
        answered |= {name for name, outcome in mutant.outcomes.items() if outcome == "answered"}
    assert answered >= {"status", "verdict", "report", "compare", "recipe", "features", "serve", "clean"}


@pytest.mark.parametrize("part", range(4))
def test_no_mutant_ends_a_command_but_by_its_own_errors(place: runs.Place, part: int) -> None:
    for number in range(part * 20, part * 20 + 20):
        mutant = runs.fuzz(place, number, 2, pages=0.02)
        assert mutant.faults == [], f"python -m tests.fuzz.runs --seed 2 --only {number}: {mutant}"
