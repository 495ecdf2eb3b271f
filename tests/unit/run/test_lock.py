"""The directory of a run: taken once, given back untouched, never somebody else's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from strata.errors import Refused
from strata.run.safety import lock
from strata.store import ownership


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


# ------------------------------------------------------------ places where another user could interfere

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


def refused(directory: Path) -> str:
    """Why the directory is not taken; nothing is made in it."""
    parent = directory.parent
    before = sorted(parent.rglob("*")) if parent != Path("/") else sorted(parent.iterdir())
    with pytest.raises(Refused) as caught, lock.locked(directory):
        pass
    assert before == (sorted(parent.rglob("*")) if parent != Path("/") else sorted(parent.iterdir()))
    return str(caught.value)


def test_the_root_directory_is_refused() -> None:
    assert "holds other things" in refused(Path("/"))


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    for name, target in (("link", "real"), ("dangling", "nowhere"), ("circle", "circle")):
        (tmp_path / name).symlink_to(target)
        assert f"is a symbolic link to {target}; give that directory itself" in refused(tmp_path / name)


def test_links_in_a_circle_above_it_are_an_error_of_the_path(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(OSError, match="symbolic links"), lock.locked(tmp_path / "circle" / "run"):
        pass


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    assert "is a file and not a directory" in refused(tmp_path / "file")


@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o775])
def test_a_directory_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(mode)
    assert f"chmod go-w {tmp_path / 'shared'}" in refused(tmp_path / "shared")


def test_a_new_directory_is_closed_to_the_group_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        with lock.locked(tmp_path / "run"):
            (tmp_path / "run" / "strata.db").touch(mode=0o644)
        with lock.locked(tmp_path / "run"):
            pass
    finally:
        os.umask(before)


def test_below_a_directory_that_every_user_can_write_without_the_sticky_bit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    assert "is writable by every user (mode 0777)" in refused(tmp_path / "shared" / "run")
    (tmp_path / "shared").chmod(0o1777)
    with lock.locked(tmp_path / "shared" / "run"):
        pass


@NEEDS_ROOT
def test_a_directory_of_another_user_is_refused_and_so_is_a_new_one_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 4242, 4242)
    assert "belongs to user 4242" in refused(theirs)
    assert "could replace the directory" in refused(theirs / "new")
    (tmp_path / "link").symlink_to(theirs)
    assert "could replace the directory" in refused(tmp_path / "link" / "new")
    monkeypatch.setenv("SUDO_UID", "4242")  # it is they who run Strata
    with lock.locked(theirs / "new"):
        pass


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "strata.db").touch()
    (run / "lock").symlink_to(tmp_path / "planted")
    assert "is a symbolic link" in refused(run)
    assert not lock.held(run)


def test_a_lock_that_is_a_pipe_makes_nobody_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    assert not lock.held(tmp_path)


@NEEDS_ROOT
def test_below_a_directory_that_a_group_can_write_is_refused(tmp_path: Path) -> None:
    """Its members can rename the directory of a run while root works in it."""
    (tmp_path / "grp").mkdir()
    os.chown(tmp_path / "grp", 0, 100)
    (tmp_path / "grp").chmod(0o775)
    assert "is writable by a group (mode 0775)" in refused(tmp_path / "grp" / "run")
    os.chown(tmp_path / "grp", 0, 0)
    (tmp_path / "grp").chmod(0o775)
    with lock.locked(tmp_path / "grp" / "run"):
        pass


@NEEDS_ROOT
def test_below_a_directory_of_nobody_is_refused_but_in_a_user_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nob").mkdir()
    os.chown(tmp_path / "nob", 65534, 65534)
    assert "belongs to user 65534" in refused(tmp_path / "nob" / "run")
    (tmp_path / "map").write_text("         0       1000          1\n")
    monkeypatch.setattr(ownership, "_UID_MAP", tmp_path / "map")
    with lock.locked(tmp_path / "nob" / "run"):
        pass


# ------------------------------------------------------------ a directory of several runs and one page

RUNS, PAGE = ["directory", "block"], "page.html"


def test_a_group_of_runs_may_be_new_or_empty_or_hold_runs_and_their_page(tmp_path: Path) -> None:
    group = tmp_path / "group"
    lock.check_group(group, RUNS, PAGE)
    assert not group.exists()
    with lock.locked(group / "directory"):
        lock.check_group(group, RUNS, PAGE)
        (group / "directory" / "strata.db").touch(mode=0o644)
    (group / PAGE).write_text("the page")
    (group / f".{PAGE}.1234").write_text("of a process that was killed")
    lock.check_group(group, RUNS, PAGE)


def test_the_root_directory_is_no_group_of_runs() -> None:
    before = sorted(Path("/").iterdir())
    with pytest.raises(Refused, match=r"^/ (holds other things|belongs to user 0)"):
        lock.check_group(Path("/"), RUNS, PAGE)
    assert before == sorted(Path("/").iterdir())


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ("notes", r"group holds other things \(notes\)"),
        (PAGE, r"group holds other things \(page.html\)"),
        ("strata.db", r"group holds other things \(strata.db\)"),
        ("block/thesis.txt", r"group/block holds other things"),
        ("block", r"group/block is a file"),
    ],
)
def test_a_group_that_holds_other_things_is_refused(tmp_path: Path, theirs: str, said: str) -> None:
    path = tmp_path / "group" / theirs
    path.parent.mkdir(parents=True)
    path.write_text("precious")
    with pytest.raises(Refused, match=said):
        lock.check_group(tmp_path / "group", RUNS, PAGE)
    assert path.read_text() == "precious"


def test_a_group_that_others_could_change_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(Refused, match="is a symbolic link to real"):
        lock.check_group(tmp_path / "link", RUNS, PAGE)
    (tmp_path / "real" / "block").symlink_to(tmp_path)
    with pytest.raises(Refused, match="is a symbolic link to"):
        lock.check_group(tmp_path / "real", RUNS, PAGE)
    (tmp_path / "real").chmod(0o777)
    with pytest.raises(Refused, match="writable by other users"):
        lock.check_group(tmp_path / "real", RUNS, PAGE)
    with pytest.raises(Refused, match="writable by every user"):
        lock.check_group(tmp_path / "real" / "new", RUNS, PAGE)


def test_directories_above_a_new_run_are_closed_to_the_group_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        with lock.locked(tmp_path / "group" / "block"):
            lock.check_group(tmp_path / "group", RUNS, PAGE)
    finally:
        os.umask(before)
