"""The directory of a run: taken once, given back untouched, never somebody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import Refused
from strata.run import lock


def test_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_PAUSE_S", 0.001)
    with lock.locked(tmp_path / "run"):
        assert lock.held(tmp_path / "run")
        with pytest.raises(Refused, match="another strata"), lock.locked(tmp_path / "run"):
            pass
    assert not lock.held(tmp_path / "run")


def test_nothing_stays_when_nothing_came_of_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError), lock.locked(tmp_path / "a" / "run"):
        raise ValueError
    assert not (tmp_path / "a").exists()
    (tmp_path / "empty").mkdir()
    with lock.locked(tmp_path / "empty"):
        pass
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_run_stays(tmp_path: Path) -> None:
    with lock.locked(tmp_path / "run"):
        (tmp_path / "run" / "strata.db").write_text("")
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"strata.db", "lock"}
    with lock.locked(tmp_path / "run"):
        pass


@pytest.mark.parametrize("theirs", ["work/1/thesis.txt", "lock", "report.html"])
def test_somebody_s_directory_is_refused_and_left_as_it_was(tmp_path: Path, theirs: str) -> None:
    path = tmp_path / theirs
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("precious")
    with pytest.raises(Refused, match="--out"), lock.locked(tmp_path):
        pass
    assert path.read_text() == "precious"
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [path]


def test_asking_changes_nothing(tmp_path: Path) -> None:
    assert not lock.held(tmp_path / "none")
    assert not lock.held(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_store_whose_making_was_killed_is_no_foreign_thing(tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    (tmp_path / "strata.db.new").touch()
    with lock.locked(tmp_path):
        pass
    (tmp_path / "samples" / "mine").touch()
    with pytest.raises(Refused), lock.locked(tmp_path):
        pass
