"""The same through the real command: exit code 3 (2 for what was written wrongly), and nothing touched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .machine import Machine, output, strata, untouched
from .test_use import State, further_member_of_a_mounted_btrfs, mounted_partition, opened, under_a_loop_device


def test_a_device_in_use_is_refused(machine: Machine, tmp_path: Path) -> None:
    states: list[Callable[[Machine], State]] = [
        mounted_partition,
        opened,
        under_a_loop_device,
        further_member_of_a_mounted_btrfs,
    ]
    made = [state(machine) for state in states]
    given = [part for device, _ in made for part in ("--device", f"disk={device.name}", "--wipe", device.name)]
    with untouched(*(device for device, _ in made)):
        done = strata("run", "disk | ext4", "-w", "null", *given, "--yes", "--out", "run", cwd=tmp_path)
    assert done.returncode == 3, done
    for _, told in made:
        assert told in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "run").exists()


def test_a_device_that_carries_something_is_refused(machine: Machine, tmp_path: Path) -> None:
    device = machine.device()
    output("mkfs.ext4", "-q", device.node)
    with untouched(device):
        done = strata("run", "disk | ext4", "-w", "null", "--device", f"disk={device.name}", "--yes", cwd=tmp_path)
    assert done.returncode == 3, done
    assert f"{device.name} carries a signature of ext4; if nothing on it is needed" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_an_unstable_name_is_refused(machine: Machine, tmp_path: Path) -> None:
    device = machine.device()
    for command in (("run", "--yes"), ("plan",)):
        with untouched(device):
            done = strata(*command, "disk | ext4", "-w", "null", "--device", f"disk={device.node}", cwd=tmp_path)
        assert done.returncode == 3, done
        assert f"name it by its stable id: {device.file}" in done.stderr


def test_without_yes_nobody_is_there_to_agree(machine: Machine, tmp_path: Path) -> None:
    device = machine.device(64)
    with untouched(device):
        done = strata("run", "disk | ext4", "-w", "null", "--device", f"disk={device.name}", cwd=tmp_path)
    assert done.returncode == 3, done
    assert (
        f"everything on these devices would be overwritten:\n  {device.name} (disk, 64.0 MiB)\nadd --yes" in done.stderr
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--wipe", "/dev/disk/by-id/other"), "names a device that no --device gives"),
        (("--device", "spare=/dev/disk/by-id/other"), ""),
        (("--device", "nothing"), "--device takes ROLE=STABLE-ID"),
    ],
)
def test_what_was_written_wrongly_is_said(machine: Machine, tmp_path: Path, given: tuple[str, ...], told: str) -> None:
    device = machine.device(64)
    with untouched(device):
        done = strata(
            *("run", "disk | ext4", "-w", "null", "--device", f"disk={device.name}", *given, "--yes"), cwd=tmp_path
        )
    assert done.returncode in (2, 3), done
    assert told in done.stderr
    assert not (tmp_path / "runs").exists()
