"""What `strata features --out` refuses before it starts or writes anything."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from strata.cli import features
from strata.cli import run as running
from strata.cli.written import Where
from strata.errors import Refused


@pytest.fixture(autouse=True)
def _no_run_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(asked: running.Asked) -> NoReturn:
        raise AssertionError(f"a run began in {asked.out}")

    monkeypatch.setattr(running, "carry_out", begin)


def tried(out: Path) -> str:
    with pytest.raises(Refused) as caught:
        features.features(["disk | ext4"], False, out, [], Where(), False)
    return str(caught.value)


def test_the_root_directory_is_refused() -> None:
    """With `carry_out` replaced: not even without the check does anything write there."""
    before = sorted(Path("/").iterdir())
    assert tried(Path("/")).startswith(("/ holds other things", "/ belongs to user 0"))
    assert sorted(Path("/").iterdir()) == before


def test_somebody_s_directory_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    for name in ("features.html", "notes"):
        (thesis / name).write_text("mine")
    assert "holds other things" in tried(thesis)
    assert {path.name: path.read_text() for path in thesis.iterdir()} == {"features.html": "mine", "notes": "mine"}


def test_a_link_is_refused_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    for name, target in (("link", "real"), ("dangling", "nowhere")):
        (tmp_path / name).symlink_to(target)
        assert f"is a symbolic link to {target}" in tried(tmp_path / name)
    assert not any((tmp_path / "real").iterdir()) and not (tmp_path / "nowhere").exists()
