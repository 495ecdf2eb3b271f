from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest
from tests.fake_host import FakeHost

from strata.errors import Refused
from strata.lab import bootstrap, contents, image, root
from strata.lab import cache as caches
from strata.lab.spec import LabSpec
from strata.model import Command, Completed

SPEC = LabSpec(13, None, frozenset({"zfs"}))


def lab(cache: Path, name: str, spec: LabSpec = SPEC, built: float = 1000.0) -> Path:
    directory = cache / "labs" / name
    (directory / "boot").mkdir(parents=True)
    files = {
        "root.sqfs": "root",
        "modules.sqfs": "modules",
        "vmlinuz": "kernel",
        "boot/order": "nfit.ko",
        "key": "secret",
    }
    files |= {"host_key.pub": "ssh-ed25519 AAAA strata-lab\n", "packages.json": '{"fio": "3.39-1"}'}
    for file, content in files.items():
        (directory / file).write_text(content)
    manifest = {
        "version": 2,
        "key": spec.key,
        "hash": name,
        "debian": spec.debian,
        "kernel": spec.kernel,
        "features": sorted(spec.features),
        "kernel_version": "6.12.107+deb13-amd64",
        "built_unix_s": built,
        "files": contents.digests(directory),
    }
    (directory / "lab.json").write_text(json.dumps(manifest))
    return directory


def test_a_lab_is_found_by_what_it_is_made_of(tmp_path: Path) -> None:
    directory = lab(tmp_path, "aaaa")
    found = image.find(SPEC, tmp_path)
    assert found.spec == SPEC
    assert found.root == directory / "root.sqfs"
    assert found.host_key == "ssh-ed25519 AAAA"
    assert found.packages == {"fio": "3.39-1"}
    assert found.hash == "aaaa"


def test_without_a_lab_the_command_to_type_is_said(tmp_path: Path) -> None:
    lab(tmp_path, "aaaa", LabSpec(12))
    with pytest.raises(Refused, match=r"is not built; type `strata lab build --debian 13 --with zfs`") as refused:
        image.find(SPEC, tmp_path)
    assert refused.value.exit_code == 4, "no data are in danger"
    with pytest.raises(Refused, match="is not built"):
        image.find(SPEC, tmp_path / "none")


def test_the_newest_of_the_same_kind_is_taken(tmp_path: Path) -> None:
    lab(tmp_path, "aaaa", built=3000.0)
    lab(tmp_path, "bbbb", built=4000.0)
    lab(tmp_path, "cccc", built=2000.0)
    assert image.find(SPEC, tmp_path).hash == "bbbb"
    assert [(listed.name, listed.current) for listed in image.listing(tmp_path)] == [
        ("bbbb", True),
        ("aaaa", False),
        ("cccc", False),
    ]


def test_a_lab_with_more_features_will_do_and_one_with_fewer_not(tmp_path: Path) -> None:
    plain, more = LabSpec(13), LabSpec(13, None, frozenset({"zfs", "qemu"}))
    lab(tmp_path, "plain", plain)
    lab(tmp_path, "other", LabSpec(13, "6.1", more.features))
    with pytest.raises(Refused, match="is not built"):
        image.find(SPEC, tmp_path)
    lab(tmp_path, "more", more)
    assert image.find(SPEC, tmp_path).spec == more
    lab(tmp_path, "exact", built=1.0)
    assert image.find(SPEC, tmp_path).spec == SPEC
    assert image.find(plain, tmp_path).spec == plain


def test_a_kernel_that_is_named_may_be_the_own_one_of_the_release(tmp_path: Path) -> None:
    lab(tmp_path, "own")
    assert image.find(LabSpec(13, "6.12", SPEC.features), tmp_path).hash == "own"
    for other in (LabSpec(13, "6.1", SPEC.features), LabSpec(12, "6.12", SPEC.features)):
        with pytest.raises(Refused, match="is not built"):
            image.find(other, tmp_path)


def test_a_lab_of_other_lists_is_superseded(tmp_path: Path) -> None:
    directory = lab(tmp_path, "aaaa")
    manifest = json.loads((directory / "lab.json").read_text())
    (directory / "lab.json").write_text(json.dumps(manifest | {"key": "another"}))
    with pytest.raises(Refused, match="is not built"):
        image.find(SPEC, tmp_path)
    assert [(listed.state, listed.current) for listed in image.listing(tmp_path)] == [("ready", False)]


def test_a_half_built_lab_is_never_run(tmp_path: Path) -> None:
    building = caches.building(tmp_path, SPEC.key)
    lab(tmp_path, building.name)  # complete to the eye, not renamed
    with pytest.raises(Refused, match=r"is half built; type `strata lab build --debian 13 --with zfs`"):
        image.find(SPEC, tmp_path)
    assert [listed.state for listed in image.listing(tmp_path)] == ["half built"]
    with (tmp_path / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(Refused, match="is being built now; wait for it"):
            image.find(SPEC, tmp_path)
        assert [listed.state for listed in image.listing(tmp_path)] == ["being built"]


@pytest.mark.parametrize("damage", ["gone", "short", "manifest", "newer"])
def test_a_damaged_lab_is_never_run(tmp_path: Path, damage: str) -> None:
    directory = lab(tmp_path, "aaaa")
    if damage == "gone":
        (directory / "modules.sqfs").unlink()
    elif damage == "short":
        (directory / "root.sqfs").write_text("roo")
    elif damage == "manifest":
        (directory / "lab.json").write_text("{")
    else:
        manifest = json.loads((directory / "lab.json").read_text())
        (directory / "lab.json").write_text(json.dumps(manifest | {"version": 3}))
    said = {"gone": "modules.sqfs cannot be read", "short": "root.sqfs was changed in .* type `strata lab remove aaaa`"}
    with pytest.raises(Refused, match=said.get(damage, "is not built; type")):
        image.find(SPEC, tmp_path)
    assert [listed.state for listed in image.listing(tmp_path)] == ["damaged"]


def change_a_byte(file: Path) -> None:
    """Of the same length, with the time of its last write set back."""
    before = file.stat()
    with file.open("r+b") as there:
        first = there.read(1)
        there.seek(0)
        there.write(bytes([first[0] ^ 1]))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


@pytest.mark.parametrize("name", ["root.sqfs", "vmlinuz", "boot/order", "key"])
def test_a_lab_with_a_changed_byte_is_never_run(tmp_path: Path, name: str) -> None:
    directory = lab(tmp_path, "aaaa")
    image.check(image.find(SPEC, tmp_path))
    change_a_byte(directory / name)
    with pytest.raises(Refused, match=f"is damaged: {name} was changed in .* since it was built"):
        image.find(SPEC, tmp_path)
    assert [listed.state for listed in image.listing(tmp_path)] == ["damaged"]


def test_a_module_added_to_a_lab_is_noticed(tmp_path: Path) -> None:
    directory = lab(tmp_path, "aaaa")
    (directory / "boot" / "rootkit.ko").write_text("more")
    with pytest.raises(Refused, match=r"boot/rootkit\.ko was added"):
        image.find(SPEC, tmp_path)


def test_a_byte_changed_below_the_file_system_is_noticed_where_figures_are_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that went bad leaves no stamp: stamps are compared for a start, all bytes before an identity is stated."""
    directory = lab(tmp_path, "aaaa")
    found = image.find(SPEC, tmp_path)
    stamp = contents._stamp(directory / "root.sqfs")
    change_a_byte(directory / "root.sqfs")
    real = contents._stamp
    monkeypatch.setattr(contents, "_stamp", lambda path: stamp if path.name == "root.sqfs" else real(path))
    monkeypatch.setattr(contents, "_read", {})  # as in a process that starts
    assert image.find(SPEC, tmp_path) == found
    with pytest.raises(
        Refused, match=r"the lab aaaa was changed: root\.sqfs .* `strata lab remove aaaa`, then `strata"
    ):
        image.check(found)


def test_files_are_read_again_only_when_their_stamps_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = lab(tmp_path, "aaaa")
    found = image.find(SPEC, tmp_path)
    image.check(found)

    def digest(path: Path) -> str:
        raise AssertionError(f"{path} is read again")

    monkeypatch.setattr(contents, "_digest", digest)
    image.check(image.find(SPEC, tmp_path))
    monkeypatch.undo()
    os.utime(directory / "root.sqfs")
    image.check(image.find(SPEC, tmp_path))


def test_removing_takes_the_one_that_was_named(tmp_path: Path) -> None:
    lab(tmp_path, "aaaa")
    (lab(tmp_path, "abbb") / "states").mkdir()
    (tmp_path / "zfs" / "kept").mkdir(parents=True)
    for name, said in (("a", "several labs"), ("x", "no lab"), ("", "no lab")):
        with pytest.raises(Refused, match=f"{said} .* `strata lab status` shows them"):
            image.remove([name], tmp_path, FakeHost())
    assert image.remove(["ab"], tmp_path, FakeHost()) == ["abbb"]
    assert [path.name for path in caches.labs(tmp_path)] == ["aaaa"]
    assert (tmp_path / "zfs" / "kept").exists()


def test_removing_all_leaves_nothing(tmp_path: Path) -> None:
    lab(tmp_path, "aaaa")
    caches.building(tmp_path, SPEC.key).mkdir()
    for kept in ("zfs/modules", "apt/trixie"):
        (tmp_path / kept).mkdir(parents=True)
    assert image.remove(None, tmp_path, FakeHost()) == ["aaaa", f"building-{SPEC.key}"]
    assert [path.name for path in tmp_path.iterdir() if path.name != "labs"] == ["lock"]
    assert image.listing(tmp_path) == []


def test_a_lab_in_use_is_not_removed_and_neither_is_another_named_with_it(tmp_path: Path) -> None:
    lab(tmp_path, "aaaa")
    directory = lab(tmp_path, "bbbb")
    user = os.open(directory, os.O_RDONLY)
    fcntl.flock(user, fcntl.LOCK_SH)
    for names in (["aaaa", "bbbb"], None):
        with pytest.raises(Refused, match="bbbb is in use by another strata, and nothing was removed"):
            image.remove(names, tmp_path, FakeHost())
    assert [path.name for path in caches.labs(tmp_path)] == ["aaaa", "bbbb"]
    os.close(user)
    assert image.remove(["aaaa", "bbbb"], tmp_path, FakeHost()) == ["aaaa", "bbbb"]


def test_what_was_found_stays_for_as_long_as_its_user(tmp_path: Path) -> None:
    directory = lab(tmp_path, "aaaa")
    image.find(SPEC, tmp_path)
    image.find(SPEC, tmp_path)  # several may use it
    with pytest.raises(Refused, match="is in use"), caches.unused([directory]):
        pass
    removing = os.open(lab(tmp_path, "bbbb"), os.O_RDONLY)
    fcntl.flock(removing, fcntl.LOCK_EX)
    with pytest.raises(Refused, match="is being removed now"):
        caches.use(tmp_path / "labs" / "bbbb")
    os.close(removing)


def test_removing_what_was_being_built_ends_what_still_builds_it(tmp_path: Path) -> None:
    caches.building(tmp_path, SPEC.key).mkdir(parents=True)
    ended = []

    class Host(FakeHost):
        def end_strays(self, marker: str) -> list[str]:
            ended.append(marker)
            return []

    image.remove(["building"], tmp_path, Host())
    assert ended == [image.marker(SPEC)]


def test_two_builds_at_once_are_refused(tmp_path: Path) -> None:
    with caches.locked(tmp_path), pytest.raises(Refused, match="another strata builds or removes a lab"):
        image.remove(None, tmp_path, FakeHost())
    with caches.locked(tmp_path):
        assert caches.held(tmp_path)
    assert not caches.held(tmp_path)


def test_too_little_room_is_refused_with_figures(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"takes 4096\.0 PiB .* has .*iB free; .*`strata lab status`.*with TMPDIR"):
        caches.check_room(tmp_path, 1 << 62, "TMPDIR")
    caches.check_room(tmp_path, 1, "TMPDIR")


def test_missing_programs_are_named_by_their_packages(tmp_path: Path) -> None:
    host = FakeHost(respond=lambda command: "/usr/bin/apt-get\n/usr/bin/dpkg-deb\n/usr/bin/unshare\n/usr/sbin/depmod\n")
    with pytest.raises(Refused, match="install mmdebstrap openssh-client squashfs-tools") as caught:
        image.build(SPEC, tmp_path, host, lambda line: None)
    assert "kmod" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_user_without_namespaces_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    class Host(FakeHost):
        def run(self, command: Command, *, check: bool = True) -> Completed:
            return Completed(command.argv, 1, "", "E: newuidmap is not there\n", 0.0)

    monkeypatch.setattr("strata.lab.private.reason_against", lambda path: None)
    with pytest.raises(Refused, match=r"newuidmap is not there.*install uidmap .* or do all .* as root"):
        bootstrap.check(bootstrap.rights(tmp_path / "building-key"), Host())


def test_versions_are_those_of_what_is_installed() -> None:
    status = """\
Package: fio
Status: install ok installed
Version: 3.39-1

Package: gone
Status: deinstall ok config-files
Version: 1

Package: adduser
Status: install ok installed
Description: add
 users
Version: 3.152
"""
    assert root.installed(status) == {"adduser": "3.152", "fio": "3.39-1"}
