"""Machines and disks that break in the middle of a visit."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from strata.model import Outcome
from strata.store import reader

from .lab_runs import lab_run, machines_of, start_lab_run

pytestmark = [pytest.mark.lab, pytest.mark.fault, pytest.mark.timeout(900)]

SEEN_S = 30
LOAD = "fio/randwrite-4k-qd32(iodepth=4, size=32M, runtime=20s)"


def wait_until_it_measures(directory: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            with sqlite3.connect(f"file:{directory / 'strata.db'}?mode=ro", uri=True) as sql:
                if sql.execute("SELECT 1 FROM journal WHERE why LIKE 'mount%'").fetchone():
                    time.sleep(5)
                    return
        except sqlite3.OperationalError:
            pass
        time.sleep(0.1)
    raise AssertionError("the visit did not come to its measurement")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hung"])
def test_a_machine_that_dies_in_a_visit_is_seen_recorded_and_tried_again(
    tmp_path: Path, number: signal.Signals
) -> None:
    directory = tmp_path / "run"
    running = start_lab_run(directory, "disk | ext4", LOAD)
    wait_until_it_measures(directory)
    (qemu,) = machines_of(directory)
    os.kill(qemu, number)
    broke = time.monotonic()
    while not (losses := _lost(directory)):
        assert time.monotonic() - broke < SEEN_S, "nobody saw it"
        time.sleep(0.2)
    output, _ = running.communicate(timeout=300)
    assert running.returncode == 0, output
    assert len(losses) == 1
    view = reader.view(directory)
    (trial,) = view.trials
    assert trial.outcome is Outcome.OK, trial.reason
    assert machines_of(directory) == []
    assert not (directory / "work").exists() or not list((directory / "work").iterdir())


def test_a_machine_that_panics_in_a_visit_is_tried_three_times_and_told_of(tmp_path: Path) -> None:
    script = tmp_path / "panic.sh"
    script.write_text("#!/bin/sh\nsleep 2\necho c >/proc/sysrq-trigger\nsleep 60\n")
    script.chmod(0o755)
    view = lab_run(tmp_path / "run", ["disk | ext4"], f"command:{script}")
    losses = _lost(tmp_path / "run")
    assert len(losses) == 3
    assert all("Kernel panic" in console and "died" in reason for reason, console in losses)
    (failed,) = view.failed
    assert "lost" in failed.reason


# The device-mapper device of the stack stops to answer, and a program reads it.
HANG = """#!/bin/sh
device=$(dmsetup ls --target linear | cut -f 1)
[ -n "$device" ] || exit 0
dmsetup suspend --nolockfs "$device"
dd if="/dev/mapper/$device" of=/dev/null iflag=direct bs=4096 count=1 &
sleep 1
"""


@pytest.mark.slow
def test_a_process_that_cannot_be_killed_fails_its_visit_and_the_run_goes_on(tmp_path: Path) -> None:
    script = tmp_path / "hang.sh"
    script.write_text(HANG)
    script.chmod(0o755)
    stacks = ["disk | dm(linear)", "disk | ext4"]
    view = lab_run(tmp_path / "run", stacks, f"command:{script}")
    (failed,) = view.failed
    assert failed.stack == "disk | dm(linear)"
    assert re.search(r"dd \(process \d+\) was killed and still lives", failed.reason), failed.reason
    assert "strata clean" not in failed.reason
    (trial,) = view.trials
    assert (trial.stack, trial.outcome) == ("disk | ext4", Outcome.OK), trial.reason
    assert machines_of(tmp_path / "run") == [] and reader.status(tmp_path / "run").visits_done == 2


def _lost(directory: Path) -> list[tuple[str, str]]:
    with sqlite3.connect(f"file:{directory / 'strata.db'}?mode=ro", uri=True) as sql:
        return sql.execute("SELECT reason, console FROM lost").fetchall()


def test_a_disk_that_starts_to_fail_fails_the_trial_with_its_layer_named(tmp_path: Path) -> None:
    view = lab_run(
        tmp_path / "run",
        ["disk | dm(flakey, up=20s, down=600s) | ext4", "disk | ext4"],
        "fio/randwrite-4k-qd32(iodepth=4, size=32M, runtime=30s)",
    )
    broken, sound = (next(t for t in view.trials if t.stack == stack) for stack in view.stacks)
    assert broken.outcome is Outcome.FAILED
    assert "of the layer dm" in (broken.reason or "") and "/dev/" in (broken.reason or ""), broken.reason
    assert sound.outcome is Outcome.OK, sound.reason  # the campaign went on


def test_a_bad_sector_fails_the_trial_with_its_layer_and_its_device_named(tmp_path: Path) -> None:
    view = lab_run(
        tmp_path / "run",
        ["disk | dm(error, start=256M, size=512M)", "disk"],
        "fio/randread-4k-qd32(iodepth=4, size=1G, runtime=5s)",
    )
    broken, sound = (next(t for t in view.trials if t.stack == stack) for stack in view.stacks)
    assert broken.outcome is Outcome.FAILED
    assert "of the layer dm" in (broken.reason or "") and "/dev/" in (broken.reason or ""), broken.reason
    assert sound.outcome is Outcome.OK, sound.reason


@pytest.mark.parametrize("mirror", ["md(raid1) | ext4", "zfs(mirror=2)"])
def test_a_mirror_survives_a_disk_that_fails_and_says_so(tmp_path: Path, mirror: str) -> None:
    view = lab_run(
        tmp_path / "run",
        [f"disk + (disk | dm(flakey, up=20s, down=600s)) | {mirror}"],
        "fio/randwrite-4k-qd32(iodepth=4, size=32M, runtime=30s)",
    )
    (trial,) = view.trials
    assert trial.outcome is Outcome.INVALID, trial.reason  # it went on to its end, but on what was not asked for
    said = rf"{mirror.partition('(')[0]}: the \w+.* is degraded, it lost (/dev/)?(dm-\d|mapper/)"
    assert re.search(said, trial.reason or ""), trial.reason
    assert trial.metrics["iops"] > 0
