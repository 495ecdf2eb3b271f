"""strata lab shell: as a script's, as a person's at a terminal, and what is left of it."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

from .lab_runs import STRATA

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(600)]


def machines() -> set[int]:
    """The machines of shells that run now, anybody's."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            environment = (entry / "environ").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if b"STRATA_RUN=lab-shell" in environment and (entry / "exe").readlink().name.startswith("qemu-system"):
                found.add(int(entry.name))
        except OSError:
            continue
    return found


def test_a_script_on_its_input_runs_in_a_machine_with_the_disks_asked_for() -> None:
    before = machines()
    done = subprocess.run(
        [STRATA, "lab", "shell", "--disk", "hdd=1G:hdd-7200", "--disk", "ssd=64M"],
        input="blockdev --getsize64 /dev/disk/by-id/*hdd0* /dev/disk/by-id/*ssd1*\nid -u\nexit 7\n",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 7, done.stderr
    assert done.stdout.split() == [str(1 << 30), str(64 << 20), "0"], done.stderr
    assert "hdd-7200" in done.stderr
    assert machines() <= before


def test_a_person_at_a_terminal_has_one_there_too() -> None:
    controller, terminal = pty.openpty()
    shell = subprocess.Popen([STRATA, "lab", "shell"], stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    os.write(controller, b"tty && exit 5\n")
    said = b""
    try:
        while part := os.read(controller, 4096):
            said += part
    except OSError:  # the other end is closed
        pass
    os.close(controller)
    assert shell.wait() == 5, said
    assert b"/dev/pts/" in said, said


def test_a_size_that_is_none_is_told_before_a_machine_starts() -> None:
    done = subprocess.run([STRATA, "lab", "shell", "--disk", "ssd=big"], capture_output=True, text=True, input="")
    assert done.returncode == 2, done
    assert "ssd=2G" in done.stderr
    assert "Traceback" not in done.stderr
