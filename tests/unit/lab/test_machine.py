"""What a machine's last words mean."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from strata.lab import contents, machine
from strata.lab.qemu import MachineSpec

from .test_qemu import IMAGE


@pytest.mark.parametrize(
    "line",
    [
        "[   12.345678] Kernel panic - not syncing: sysrq triggered crash",
        "[   12.345678] BUG: kernel NULL pointer dereference, address: 0000000000000000",
        "[   12.345678] Oops: Oops: 0002 [#1] PREEMPT SMP NOPTI",
        "strata-lab: the runner has ended",
    ],
)
def test_a_dying_machine_is_known_by_its_console(line: str) -> None:
    found = machine._DYING.search(f"[    1.000000] EXT4-fs (vda): mounted\n{line}\n[   13.0] Call Trace:\n")
    assert found is not None and found[0] == line


@pytest.mark.parametrize(
    "line",
    [
        "[    2.753417] nfit ACPI0012:00: Error found in NVDIMM nmem1 flags: not_armed",
        "[   20.202367] sh (1): drop_caches: 3",
        "strata-lab: ready",
        "[    5.1] BTRFS info (device vda): DEBUG: checksum",
    ],
)
def test_a_machine_that_grumbles_lives(line: str) -> None:
    assert machine._DYING.search(line) is None


@pytest.mark.parametrize("name", ["state", "mailbox", "initrd", "about.json"])
def test_a_saved_state_with_a_changed_byte_is_made_again(tmp_path: Path, name: str) -> None:
    """QEMU would load whatever memory it holds, and its key says what it is."""
    directory = tmp_path / "key"
    directory.mkdir()
    for file in ("state", "mailbox", "initrd"):
        (directory / file).write_bytes(b"as it was saved")
    (directory / "about.json").write_text(json.dumps({"files": contents.digests(directory)}))
    said: list[str] = []
    spec = MachineSpec(IMAGE, tmp_path / "engine")
    machine._drop_changed(directory, spec, said.append)
    assert directory.exists() and said == []
    before = (directory / name).stat()
    (directory / name).write_bytes(b"as it was Saved")
    os.utime(directory / name, ns=(before.st_atime_ns, before.st_mtime_ns))
    machine._drop_changed(directory, spec, said.append)
    assert not directory.exists()
    assert [line.startswith("the saved state of the lab machine is not as it was made") for line in said] == [True]


def test_one_damaged_state_does_not_keep_another_from_being_made(tmp_path: Path) -> None:
    for name in ("mine", "empty", "list"):
        (tmp_path / name).mkdir()
    (tmp_path / "mine" / "about.json").write_text(json.dumps({"kind": "a"}))
    (tmp_path / "empty" / "about.json").write_text("")
    (tmp_path / "list" / "about.json").write_text("[]")
    for about in tmp_path.glob("*/about.json"):
        os.utime(about, (0, 0))
    machine._drop_stale(tmp_path, "a", "mine")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_all_of_a_folder_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power failure must leave the whole of a saved state, or none."""
    part = tmp_path / "key.part"
    (part / "below").mkdir(parents=True)
    for file in ("state", "about.json", "below/more"):
        (part / file).write_bytes(b"x")
    (part / "link").symlink_to("/dev/zero")
    done: list[int | str] = []
    rename = Path.rename

    def renamed(path: Path, target: Path) -> Path:
        done.append("rename")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", lambda file: done.append(os.fstat(file).st_ino))
    monkeypatch.setattr(Path, "rename", renamed)
    contents.put(part, tmp_path / "key")
    named = done.index("rename")
    made = [tmp_path / "key", *(path for path in (tmp_path / "key").rglob("*") if not path.is_symlink())]
    assert set(done[:named]) == {path.stat().st_ino for path in made}
    assert done[named + 1 :] == [tmp_path.stat().st_ino]


def test_a_state_that_could_not_be_resumed_is_read_in_full_before_the_next_time(tmp_path: Path) -> None:
    """Its stamps may be those of the file that was saved, while its bytes are not."""
    (tmp_path / "state").write_bytes(b"as it was saved")
    recorded = contents.digests(tmp_path)
    assert contents.difference(tmp_path, recorded) is None
    stamps = (tmp_path / "stamps.json").read_text()
    (tmp_path / "state").write_bytes(b"as it was Saved")
    status = (tmp_path / "state").stat()
    mine = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
    (tmp_path / "stamps.json").write_text(json.dumps({"state": mine}))
    assert stamps and contents.difference(tmp_path, recorded) is None
    contents.forget(tmp_path)
    assert contents.difference(tmp_path, recorded) == "state was changed"
