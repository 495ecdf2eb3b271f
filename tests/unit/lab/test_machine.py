"""What a machine's last words mean."""

from __future__ import annotations

import pytest

from strata.lab import machine


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
