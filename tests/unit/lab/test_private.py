"""What others could change is not used: where a lab is unpacked, where labs are kept."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from tests.fake_host import FakeHost

from strata.errors import Refused
from strata.lab import bootstrap, private
from strata.lab import cache as caches
from strata.lab.bootstrap import Site
from strata.lab.scratch import scratch
from strata.lab.sources import Mirror

OTHER = 4242


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder as /tmp is."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def site(tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Of an ordinary user, who is whoever runs the tests."""
    building = tmp_path / "labs" / "building-key"
    building.mkdir(parents=True)
    user = os.geteuid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: user or OTHER)
        rights = bootstrap.rights(building)
    assert not rights.root
    return Site(FakeHost(), Mirror("http://mirror"), rights, building / "scratch", print)


def unpacked_in(site: Site) -> list[Path]:
    """Where mmdebstrap was told to unpack, call by call."""
    assert isinstance(site.host, FakeHost)
    words = [word for command in site.host.commands for word in command.argv if word.startswith("TMPDIR=")]
    return [Path(word.removeprefix("TMPDIR=")) for word in words]


def test_a_lab_is_not_unpacked_where_somebody_else_waits_for_it(
    site: Site, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = shared / f"strata-lab-{os.getuid()}-building-key"  # what this user's build was to use once
    waiting.mkdir(mode=0o777)
    made: list[tuple[Path, int, int]] = []
    real = Path.chmod

    def chmod(path: Path, mode: int) -> None:
        real(path, mode)
        made.append((path, path.stat().st_mode & 0o7777, path.stat().st_uid))

    monkeypatch.setattr(Path, "chmod", chmod)
    for _ in range(2):
        bootstrap.make(site, "trixie", ["fio"], [], None)
    one, other = unpacked_in(site)
    assert one != other and waiting not in (one, other)
    assert made == [(one, 0o711, os.geteuid()), (other, 0o711, os.geteuid())]
    assert {one.parent, other.parent} == {shared} and len(one.name) >= len("strata-lab-") + 32


def test_a_name_that_is_taken_is_not_used(site: Site, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda count: "known")
    (shared / "strata-lab-known").mkdir()
    with pytest.raises(FileExistsError):
        bootstrap.make(site, "trixie", ["fio"], [], None)
    assert unpacked_in(site) == []


@pytest.mark.parametrize("theirs", [False, True], ids=["ours", "theirs"])
def test_what_a_killed_build_left_is_removed_if_it_is_ours(
    site: Site, shared: Path, monkeypatch: pytest.MonkeyPatch, theirs: bool
) -> None:
    left = shared / "strata-lab-left"
    left.mkdir()
    site.rights.note.write_text(str(left))
    assert isinstance(site.host, FakeHost)
    host = FakeHost(respond=lambda command: left.rmdir() or "" if command.argv[0] == "rm" else "")
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1 if theirs else user)
    bootstrap.clear(site.rights, host)
    assert left.exists() == theirs
    assert any(command.argv[0] == "rm" for command in host.commands) != theirs
    assert not site.rights.note.exists()


def test_a_link_in_place_of_what_was_unpacked_is_not_followed(site: Site, shared: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (shared / "strata-lab-left").symlink_to(tmp_path / "precious")
    site.rights.note.write_text(str(shared / "strata-lab-left"))
    bootstrap.clear(site.rights, site.host)
    assert (tmp_path / "precious").exists()
    assert isinstance(site.host, FakeHost) and not site.host.commands


def test_a_temporary_folder_that_others_could_change_is_refused(site: Site, shared: Path) -> None:
    shared.chmod(0o777)
    with pytest.raises(Refused, match=r"unpacked below .*/tmp, and others can write to .*mode is 0777.*with TMPDIR"):
        bootstrap.check(site.rights, site.host)


# ---------------------------------------------------------------- the cache


def cache_at(base: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(base))
    return base / "strata" / "lab"


def test_a_cache_of_ones_own_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = cache_at(tmp_path / "new", monkeypatch)
    assert caches.default() == cache
    with caches.locked(cache):
        assert cache.stat().st_mode & 0o777 == 0o700
    assert caches.default() == cache


def test_a_cache_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = cache_at(tmp_path, monkeypatch)
    cache.mkdir(parents=True)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + OTHER)
    with pytest.raises(Refused, match=r"labs are kept in .*strata/lab, and .* belongs to .*with XDG_CACHE_HOME"):
        caches.default()
    with pytest.raises(Refused, match="belongs to"), caches.locked(cache):
        pass


@pytest.mark.parametrize("which", ["lab", "strata", "base"])
def test_a_cache_that_others_can_write_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    cache = cache_at(tmp_path / "base", monkeypatch)
    cache.mkdir(parents=True)
    {"lab": cache, "strata": cache.parent, "base": cache.parent.parent}[which].chmod(0o777)
    with pytest.raises(Refused, match=rf"others can write to .*{which} \(its mode is 0777\)"):
        caches.default()


def test_a_cache_is_refused_by_where_a_link_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "open")
    cache_at(tmp_path / "link", monkeypatch)
    with pytest.raises(Refused, match=r"others can write to .*/open "):
        caches.default()


def test_a_sticky_folder_above_is_no_reason(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    (tmp_path / "shared" / "mine").mkdir()
    assert private.reason_against(tmp_path / "shared" / "mine") is None
    assert private.reason_against(tmp_path / "shared") is not None
    (tmp_path / "file").touch()
    assert "Not a directory" in str(private.reason_against(tmp_path / "file" / "below"))


# ---------------------------------------------------------------- folders for as long as a block lasts


def test_what_a_killed_process_left_is_removed_and_what_lives_or_is_not_ours_stays(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = shared / "strata-verify-left"
    (left / "run").mkdir(parents=True)
    (left / "run" / "strata.db").write_text("much")
    (shared / "strata-verify-file").touch()
    precious = tmp_path / "precious"
    precious.mkdir()
    (shared / "strata-verify-link").symlink_to(precious)
    with scratch("verify") as lives, scratch("verify") as other:
        assert lives.is_dir() and lives != other, "one that is in use stays"
        assert lives.stat().st_mode & 0o777 == 0o700
        assert not left.exists()
    assert precious.exists()
    assert sorted(path.name for path in shared.iterdir()) == ["strata-verify-file", "strata-verify-link"]
    left.mkdir()
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + OTHER)
    with scratch("verify"):
        assert left.exists(), "another user's stays"
