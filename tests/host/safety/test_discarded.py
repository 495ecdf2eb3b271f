"""A claimed device that can discard starts every visit with nothing on it, whatever is built there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from strata.errors import Refused
from strata.model import Disk
from strata.run import claims

from .machine import MIB, Device, Machine, output, strata


def full(machine: Machine, mib: int) -> Device:
    """What somebody wrote over from end to end."""
    device = machine.device(mib, "--direct-io=on")
    with Path(device.node).open("r+b") as disk:
        disk.writelines(os.urandom(MIB) for _ in range(mib))
        disk.flush()
        os.fsync(disk.fileno())
    assert stored(device) >= mib * MIB
    return device


def stored(device: Device) -> int:
    return device.file.stat().st_blocks * 512


def test_a_stack_that_discards_nothing_starts_on_an_empty_device_too(machine: Machine, tmp_path: Path) -> None:
    device = full(machine, 160)
    if int(output("lsblk", "--bytes", "--nodeps", "--noheadings", "--output", "DISC-MAX", device.node)) == 0:
        pytest.skip("loop devices here cannot discard: the file system of the temporary directory punches no holes")
    done = strata(
        *(
            "run",
            'disk | ext4(mkfs="-E nodiscard")',
            "-w",
            "null",
            "--device",
            f"disk={device.name}",
            "--wipe",
            device.name,
            "--yes",
        ),
        *("--rounds", "1", "--out", "run"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert stored(device) < 80 * MIB, "--wipe alone writes 64 MiB of zeros at most and leaves the rest"


def test_a_device_that_somebody_has_open_is_not_discarded(machine: Machine) -> None:
    device = full(machine, 32)
    (usable,) = claims.claim(machine.host, [Disk("disk", 0, device.name)], wipe=(device.name,))
    holder = os.open(device.node, os.O_RDWR | os.O_EXCL)
    before = device.digest()
    try:
        with pytest.raises(Refused, match="blkdiscard failed"):
            claims.discard(machine.host, usable)
    finally:
        os.close(holder)
    assert device.digest() == before
