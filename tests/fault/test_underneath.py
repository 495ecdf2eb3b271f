"""A measured program that stops for good, and a stack that is removed underneath it.

The script that is measured does it itself, as root, to what its own run made and to nothing else.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from strata.model import Outcome, View
from strata.store import reader

from .conftest import output

pytestmark = [pytest.mark.fault, pytest.mark.timeout(300)]

STRATA = str(Path(sys.executable).with_name("strata"))

# What the script's target lies on; then it leaves that.
FIND = """\
mount=$(findmnt -n -o TARGET --target "$STRATA_TARGET"); device=$(findmnt -n -o SOURCE --target "$STRATA_TARGET")
cd /; exec >/dev/null 2>&1
"""


def visit(tmp_path: Path, body: str) -> tuple[subprocess.CompletedProcess[str], View]:
    """One visit of a stack, on which a script of `body` is measured for at most 4 s."""
    script = tmp_path / "load.sh"
    script.write_text(f"#!/bin/sh\n{body}\n")
    argv = ["run", "disk | ext4", "-w", f"command:{script}(timeout=4s)", "--rounds", "1", "--size", "disk=300M"]
    done = subprocess.run(
        [STRATA, *argv, "--out", str(tmp_path / "run")], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    return done, reader.view(tmp_path / "run")


def left(directory: Path) -> list[str]:
    mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(directory) in line]
    loops = [path.read_text() for path in Path("/sys/block").glob("loop*/loop/backing_file")]
    return mounts + [each for each in loops if str(directory) in each] + list(map(str, (directory / "work").iterdir()))


FIO = 'fio --name=x --filename="$STRATA_TARGET/f" --size=8M --rw=randwrite --time_based --runtime=60 --output=/dev/null'


@pytest.mark.parametrize(
    "body",
    [
        f"{FIO} & sleep 1; kill -STOP $!; wait",
        pytest.param("kill -STOP $$", marks=pytest.mark.slow),
        pytest.param("kill -STOP $PPID; sleep 1000", marks=pytest.mark.slow),
    ],
    ids=["fio", "the script", "strata-engine"],
)
def test_a_program_that_is_stopped_for_good_is_ended_at_the_limit(tmp_path: Path, body: str) -> None:
    """SIGSTOP: it heeds no SIGTERM any more."""
    done, view = visit(tmp_path, f"echo $$ >{tmp_path}/pid\n{body}")
    assert done.returncode == 1
    (trial,) = view.trials
    assert trial.outcome is Outcome.FAILED
    assert re.search(r"did not end within (its limit of 4 s|\d+ s) and was stopped", trial.reason or ""), trial.reason
    assert left(tmp_path / "run") == []
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()
    assert not [p for p in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path / "run").encode() in p.read_bytes()]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('umount -l "$mount"', "The file system is not mounted"),
        ('umount "$mount" || umount -l "$mount"; losetup -d "$device"', "is backed by None instead of"),
        pytest.param('rm "$(cat /sys/block/${device#/dev/}/loop/backing_file)"', "(deleted)", marks=pytest.mark.slow),
    ],
    ids=["the mount", "the loop device", "the file"],
)
def test_what_is_taken_away_underneath_is_named_and_the_rest_is_removed(tmp_path: Path, body: str, reason: str) -> None:
    done, view = visit(tmp_path, f"{FIND}{body}\nexit 0")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert [trial.outcome for trial in view.trials] != [Outcome.OK], "a figure of a stack that was not there"
    ((_, why),) = [(failed.stack, failed.reason) for failed in view.failed]
    assert "the stack changed during the trial" in why and reason in why
    assert left(tmp_path / "run") == []


def loops_of(image: Path) -> list[str]:
    return output("losetup", "--noheadings", "--output", "NAME", "--associated", str(image)).split()


def test_a_loop_device_that_carries_another_file_now_is_left_to_it(tmp_path: Path) -> None:
    """The kernel gives the number of a detached loop device to the next who asks."""
    foreign = tmp_path / "foreign.img"
    with foreign.open("wb") as file:
        file.truncate(64 << 20)
    output("mkfs.ext4", "-q", str(foreign))
    content = foreign.read_bytes()
    body = f'umount "$mount"; losetup -d "$device"; losetup "$device" {foreign}\nexit 0'
    try:
        done, view = visit(tmp_path, FIND + body)
        assert done.returncode == 1
        assert f"is backed by {foreign} instead of" in view.failed[0].reason
        assert output("losetup", "--noheadings", "--output", "NAME", "--associated", str(foreign)).startswith(
            "/dev/loop"
        )
        assert foreign.read_bytes() == content
        assert left(tmp_path / "run") == []
    finally:
        for loop in loops_of(foreign):
            output("losetup", "--detach", loop)


def test_a_mount_of_somebody_else_over_ours_stays_and_is_named(tmp_path: Path) -> None:
    done, _ = visit(tmp_path, FIND + 'mount -t tmpfs strata-foreign "$mount"\nexit 0')
    mount = next(line for line in left(tmp_path / "run") if line.startswith("strata-foreign")).split()[1]
    try:
        assert done.returncode == 1
        assert "strata-foreign" in done.stderr and "could not remove what this visit built" in done.stderr
        assert subprocess.run([STRATA, "clean", tmp_path / "run"], capture_output=True).returncode == 1
        assert "strata-foreign" in Path("/proc/self/mounts").read_text()
    finally:
        output("umount", mount)
    assert subprocess.run([STRATA, "clean", tmp_path / "run"], capture_output=True).returncode == 0
    assert left(tmp_path / "run") == []
