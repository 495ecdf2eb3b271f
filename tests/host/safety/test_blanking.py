"""Nothing is blanked or wiped but the device that was looked at, that a visit was given, and that carries nothing."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from strata.hosts.local import LocalHost
from strata.model import Command, Completed, Disk
from strata.run.safety import claims

from .contents import MIB, TEXT, at
from .machine import Device, Machine, output, signatures, strata, untouched
from .test_between import hooked


class Hooked(LocalHost):
    """Calls `before` with the words of each command before it runs it."""

    def __init__(self, before: Callable[[tuple[str, ...]], object]) -> None:
        super().__init__("test-marker")
        self.before = before

    def run(self, command: Command, *, check: bool = True) -> Completed:
        self.before(command.argv)
        return super().run(command, check=check)


def formatted(machine: Machine) -> Path:
    file = machine.image(16)
    output("mkfs.ext4", "-q", str(file))
    return file


def attach_another(device: Device, file: Path) -> None:
    output("losetup", "--detach", device.node)
    output("losetup", device.node, str(file))


def used(machine: Machine, *devices: Device) -> list[Disk]:
    """As a run holds them after its visits."""
    return [replace(disk, device=device.name) for device in devices for disk in machine.claim(device.name)]


def test_a_file_system_made_while_another_device_was_blanked_stays(machine: Machine) -> None:
    first, second = machine.device(16), machine.device(16)
    disks = used(machine, first, second)

    def before(argv: tuple[str, ...]) -> None:
        if "blank" in argv and first.node in argv:
            output("mkfs.ext4", "-q", second.node)

    claims.blank(Hooked(before), disks)
    assert signatures(second.node) == ["ext4"]


def test_a_file_system_made_after_the_last_look_stays(machine: Machine) -> None:
    device = machine.device(16)
    disks = used(machine, device)

    def before(argv: tuple[str, ...]) -> None:
        if "blank" in argv:
            output("mkfs.ext4", "-q", device.node)

    reasons = claims.blank(Hooked(before), disks)
    assert signatures(device.node) == ["ext4"]
    assert len(reasons) == 1
    assert f"{device.node} carries ext4 and nothing was written to it" in reasons[0]


def test_nor_is_a_partition_that_no_table_names(machine: Machine) -> None:
    device = machine.device(16)
    disks = used(machine, device)
    made: list[str] = []

    def before(argv: tuple[str, ...]) -> None:
        if "blank" in argv:
            made.append(machine.forgotten_partition(device, 8))
            output("mkfs.ext4", "-q", made[0])

    claims.blank(Hooked(before), disks)
    assert signatures(made[0]) == ["ext4"]


@pytest.mark.parametrize("signed", [True, False])
def test_another_device_that_got_the_node_after_the_last_look_is_not_blanked(machine: Machine, signed: bool) -> None:
    device, file = machine.device(16), formatted(machine)
    if not signed:
        at((0, b"\0" * (16 * MIB)), (0, TEXT))(file)
    disks, before_it = used(machine, device), file.read_bytes()
    moved: list[str] = []

    def before(argv: tuple[str, ...]) -> None:
        if "blank" in argv and not moved:
            attach_another(device, file)
            moved.append(device.node)

    reasons = claims.blank(Hooked(before), disks)
    assert moved
    assert file.read_bytes() == before_it
    assert f"{device.node} is not the device that was looked at and nothing was written to it" in reasons[0]


def test_nor_wiped(machine: Machine, tmp_path: Path) -> None:
    device, file = machine.device(64), formatted(machine)
    output("mkfs.ext4", "-q", device.node)
    before = file.read_bytes()
    hook = (
        "import os\n"
        "def before(line):\n"
        "    if (line.startswith('wipefs --all') or ' blank ' in line) and not os.path.exists('moved'):\n"
        f"        assert os.system('losetup --detach {device.node} && losetup {device.node} {file}') == 0\n"
        "        open('moved', 'w').close()\n"
    )
    given = ("--device", f"disk={device.name}", "--wipe", device.name, "--yes", "--out", "run")
    done = hooked(hook, "run", "disk | ext4", "-w", "null", "--rounds", "1", *given, cwd=tmp_path)
    assert (tmp_path / "moved").exists()
    assert file.read_bytes() == before
    assert done.returncode != 0, done
    assert "is not the device that was looked at" in done.stderr


def test_a_partition_is_known_by_its_start_too(machine: Machine) -> None:
    device = machine.device(40)
    output("addpart", device.node, "1", "2048", "32768")
    machine.later(lambda: subprocess.run(("delpart", device.node, "1"), capture_output=True, check=False))
    link = machine.link(f"{device.node}p1")
    (disk,) = machine.claim(link)
    number = Path(disk.device or "").stat().st_rdev
    for _ in range(100):  # the kernel gives the number free a moment after the partition went
        output("delpart", device.node, "1")
        time.sleep(0.1)
        output("addpart", device.node, "1", "34816", "32768")
        if Path(disk.device or "").stat().st_rdev == number:
            break
    else:
        pytest.fail("the second partition never got the number of the first")
    held = replace(disk, device=str(link))
    with pytest.raises(claims.Refused, match="is not the device any more that this run began to use"):
        claims.claim(machine.host, [held], ())
    (other,) = machine.claim(link)
    assert other.identity != disk.identity


def test_a_device_that_no_visit_was_given_is_not_blanked(machine: Machine, tmp_path: Path) -> None:
    first, second = machine.device(64), machine.device(64)
    # Its owner puts it there when all devices were looked at, and libblkid knows no signature of it.
    hook = (
        "def before(line):\n"
        "    if line.startswith('mkfs.ext4'):\n"
        f"        with open({second.node!r}, 'wb') as device: device.write({TEXT!r})\n"
    )
    given = [word for device in (first, second) for word in ("--device", f"disk={device.name}")]
    argv = ("run", "disk | ext4", "-w", "null", "--rounds", "1", *given, "--yes", "--out", "run")
    done = hooked(hook, *argv, cwd=tmp_path)
    assert done.returncode == 0, done
    assert second.file.read_bytes().startswith(TEXT)
    machine.claim(first.name)


def test_a_run_with_nothing_to_do_wipes_nothing(machine: Machine, tmp_path: Path) -> None:
    device = machine.device(64)
    output("mkfs.ext4", "-q", device.node)
    given = ("--device", f"disk={device.name}", "--wipe", device.name, "--yes", "--out", "run")
    argv = ("run", "disk | ext4", "-w", "null", "--rounds", "1", *given)
    assert strata(*argv, cwd=tmp_path).returncode == 0
    output("mkfs.ext4", "-q", device.node)
    with untouched(device):
        done = strata(*argv, cwd=tmp_path)
    assert done.returncode == 0, done
