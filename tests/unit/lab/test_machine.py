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
