"""A claimed device that can discard starts every visit with nothing on it, whatever is built there."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from strata.errors import Refused
from strata.model import Disk, Stack
from strata.run.safety import claims
from strata.run.sites.site import LastingSites
from strata.store import reader

from .contents import TEXT, at
from .machine import MIB, Device, Machine, output, signatures, strata, untouched
from .test_blanking import Hooked, attach_another


def full(machine: Machine, mib: int) -> Device:
    """What somebody wrote over, all but its last MiB: its file is sparse."""
    device = machine.device(mib, "--direct-io=on")
    with Path(device.node).open("r+b") as disk:
        disk.writelines(os.urandom(MIB) for _ in range(mib - 1))
        disk.flush()
        os.fsync(disk.fileno())
    assert (mib - 1) * MIB <= stored(device) < mib * MIB
    return device


def measured(device: Device, cwd: Path) -> None:
    """By a run with one visit of a stack that discards nothing itself."""
    if int(output("lsblk", "--bytes", "--nodeps", "--noheadings", "--output", "DISC-MAX", device.node)) == 0:
        pytest.skip("loop devices here cannot discard: the file system of the temporary directory punches no holes")
    given = ("--device", f"disk={device.name}", "--wipe", device.name, "--yes", "--rounds", "1", "--out", "run")
    done = strata("run", 'disk | ext4(mkfs="-E nodiscard")', "-w", "null", *given, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr


def stored(device: Device) -> int:
    return device.file.stat().st_blocks * 512


def notes(directory: Path) -> list[str]:
    return [event.text for event in reader.view(directory / "run").events if event.kind == "undiscarded"]


def test_a_stack_that_discards_nothing_starts_on_an_empty_device_too(machine: Machine, tmp_path: Path) -> None:
    device = full(machine, 160)
    measured(device, tmp_path)
    assert stored(device) < 80 * MIB, "--wipe alone writes 64 MiB of zeros at most and leaves the rest"
    assert notes(tmp_path) == []


def test_blocks_that_the_owner_of_a_file_allocated_stay(machine: Machine, tmp_path: Path) -> None:
    file = machine.image(160)
    output("fallocate", "--length", "160MiB", str(file))
    device = Device(file, machine.attach(file, "--direct-io=on"))
    measured(device, tmp_path)
    assert stored(device) >= 160 * MIB
    (note,) = notes(tmp_path)
    assert note.startswith(f"{device.name} is a loop device whose file is allocated in full, so it is not discarded")


def test_so_do_those_of_a_partition_of_it(machine: Machine) -> None:
    file = machine.image(16)
    output("fallocate", "--length", "16MiB", str(file))
    device = Device(file, machine.attach(file))
    part = machine.forgotten_partition(device, 8)
    sparse = machine.device(16)
    assert [claims.is_preallocated(machine.host, node) for node in (device.node, part, sparse.node)] == [
        True,
        True,
        False,
    ]


def claimed(machine: Machine, device: Device) -> tuple[Disk, str]:
    """As the run holds it, and its node."""
    (usable,) = machine.claim(device.name, wipe=[device.name])
    return replace(usable, device=device.name), str(usable.device)


def test_a_device_that_somebody_has_open_is_not_discarded(machine: Machine) -> None:
    device = full(machine, 32)
    disk, node = claimed(machine, device)

    def before(argv: tuple[str, ...]) -> None:
        if argv[0] == "blkdiscard" or "--discard" in argv:
            holder = os.open(device.node, os.O_RDWR | os.O_EXCL)
            machine.later(lambda: os.close(holder))

    with untouched(device), pytest.raises(Refused, match="Device or resource busy"):
        claims.discard(Hooked(before), disk, node)


def test_a_file_system_made_while_another_device_was_discarded_stays(machine: Machine, tmp_path: Path) -> None:
    first, second = machine.device(16), machine.device(16)
    disks = [claimed(machine, device)[0] for device in (first, second)]

    def before(argv: tuple[str, ...]) -> None:
        if first.node in argv and (argv[0] == "blkdiscard" or "--discard" in argv):
            output("mkfs.ext4", "-q", second.node)

    site = LastingSites(Hooked(before), "1" * 32, str(tmp_path / "work")).site(
        Stack("", None, {}),  # type: ignore[arg-type]
        disks,
        1,
        1,
    )
    with pytest.raises(Refused, match="ext4"), site:
        pass
    assert signatures(second.node) == ["ext4"]


def test_a_file_system_made_after_the_last_look_stays(machine: Machine) -> None:
    device = machine.device(16)
    disk, node = claimed(machine, device)

    def before(argv: tuple[str, ...]) -> None:
        if argv[0] == "blkdiscard" or "--discard" in argv:
            output("mkfs.ext4", "-q", device.node)

    with pytest.raises(Refused, match=f"{device.node} carries ext4 and nothing was written to it"):
        claims.discard(Hooked(before), disk, node)
    assert signatures(device.node) == ["ext4"]


def test_another_device_that_got_the_node_after_the_last_look_is_not_discarded(machine: Machine) -> None:
    device, file = machine.device(16), machine.image(16)
    at((0, TEXT))(file)
    disk, node = claimed(machine, device)
    before_it = file.read_bytes()

    def before(argv: tuple[str, ...]) -> None:
        if argv[0] == "blkdiscard" or "--discard" in argv:
            attach_another(device, file)

    with pytest.raises(Refused, match=f"{device.node} is not the device that was looked at"):
        claims.discard(Hooked(before), disk, node)
    assert file.read_bytes() == before_it
