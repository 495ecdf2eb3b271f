"""The key that signs runs: made once, whole, and only for its user."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from strata.errors import Refused
from strata.store import key


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "state"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def refused(state: Path) -> str:
    with pytest.raises(Refused) as caught:
        key.of_this_machine(state)
    return str(caught.value)


def test_it_is_made_once_and_closed_to_others_whatever_the_umask(state: Path) -> None:
    before = os.umask(0)
    try:
        made = key.of_this_machine(state)
    finally:
        os.umask(before)
    assert len(made) == 32 and len(set(made)) > 8
    assert (mode(state), mode(state / "key")) == (0o700, 0o600)
    assert key.of_this_machine(state) == made
    assert [path.name for path in state.iterdir()] == ["key"]


def test_all_who_make_it_at_the_same_time_get_the_same(state: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: key.of_this_machine(state), range(64)))
    assert len(keys) == 1
    assert [path.name for path in state.iterdir()] == ["key"]


@pytest.mark.parametrize("point", ["write", "fsync", "link", "unlink"])
def test_whoever_is_killed_while_making_it_leaves_a_whole_key_or_none(
    state: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*arguments: object, **options: object) -> None:
        raise Killed

    with monkeypatch.context() as dying:
        dying.setattr(os, point, die)
        dying.setattr(os, "unlink", die)  # what is killed tidies nothing up
        with pytest.raises(Killed):
            key.of_this_machine(state)
    made = key.of_this_machine(state)
    assert len(made) == 32
    assert key.of_this_machine(state) == made


def test_a_key_that_others_could_know_or_replace_is_refused(state: Path) -> None:
    key.of_this_machine(state)
    (state / "key").chmod(0o640)
    assert f"chmod go-rwx {state / 'key'}" in refused(state)
    (state / "key").chmod(0o600)
    state.chmod(0o770)
    assert f"chmod go-w {state}" in refused(state)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
@pytest.mark.parametrize("name", ["", "key"])
def test_a_key_of_another_user_is_refused(state: Path, name: str) -> None:
    key.of_this_machine(state)
    os.chown(state / name, 4242, 4242)
    assert "belongs to user 4242" in refused(state)


def test_what_is_no_key_is_refused(state: Path, tmp_path: Path) -> None:
    state.mkdir(parents=True)
    real = tmp_path / "real"
    real.write_bytes(bytes(32))
    real.chmod(0o600)
    (state / "key").symlink_to(real)
    assert "cannot be used" in refused(state)
    (state / "key").unlink()
    (state / "key").write_bytes(b"short")
    assert "a key is a file of 32 bytes" in refused(state)
    (state / "key").unlink()
    os.mkfifo(state / "key")
    assert "a key is a file of 32 bytes" in refused(state)


def test_a_link_in_the_place_of_its_directory_is_refused(state: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    state.parent.mkdir()
    state.symlink_to(tmp_path / "real")
    assert "STATE_DIRECTORY" in refused(state)
    assert list((tmp_path / "real").iterdir()) == []


def test_where_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", "/stated:/second")
    assert key.state_directory() == Path("/stated")
    monkeypatch.delenv("STATE_DIRECTORY")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert key.state_directory() == Path("/var/lib/strata")
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    monkeypatch.setenv("HOME", "/home/tester")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert key.state_directory() == Path("/home/tester/.local/state/strata")
    monkeypatch.setenv("XDG_STATE_HOME", "/elsewhere")
    assert key.state_directory() == Path("/elsewhere/strata")
