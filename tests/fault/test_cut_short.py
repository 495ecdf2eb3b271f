"""Signals, a mount held busy, a full disk, a second run: what can happen to a campaign in the middle."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from strata.model import Outcome
from strata.store import reader

from .conftest import Foreign, output

pytestmark = [pytest.mark.fault, pytest.mark.timeout(300)]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STRATA = str(Path(sys.executable).with_name("strata"))


def command(directory: Path, *arguments: str) -> list[str]:
    return [STRATA, "run", *arguments, "--out", str(directory), "--size", "disk=512M"]


def strata(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([STRATA, *argv], capture_output=True, text=True, stdin=subprocess.DEVNULL)


def nothing_left(directory: Path) -> bool:
    mounts = Path("/proc/self/mounts").read_text()
    loops = [path.read_text() for path in Path("/sys/block").glob("loop*/loop/backing_file")]
    work = directory / "work"
    return (
        str(directory) not in mounts
        and not any(str(directory) in backing for backing in loops)
        and not (work.exists() and any(work.iterdir()))
    )


def wait_until_mounted(directory: Path, process: subprocess.Popen[str]) -> Path:
    """The mount point of the visit under way."""
    for _ in range(600):
        for line in Path("/proc/self/mounts").read_text().splitlines():
            if str(directory) in line:
                return Path(line.split()[1])
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("no mount appeared")


def wait_until_there(path: Path, process: subprocess.Popen[str]) -> None:
    for _ in range(600):
        if path.exists():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError(f"{path} did not appear")


def command_of(pid: int) -> str:
    """Empty for one that is gone, and for a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except FileNotFoundError:
        return ""


# Also where the tests themselves were started in the background, which ignores SIGINT; and as nohup does.
HEED_SIGNALS = ("env", "--default-signal=INT,TERM,HUP")
IGNORE_HANGUP = ("env", "--default-signal=INT,TERM", "--ignore-signal=HUP")


@contextlib.contextmanager
def started(*argv: str, first: Sequence[str] = HEED_SIGNALS) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        (*first, *argv),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_cleans_up_and_the_same_run_goes_on(tmp_path: Path, number: signal.Signals, foreign: Foreign) -> None:
    directory = tmp_path / "run"
    argv = command(directory, "disk | ext4", "-w", "fio/randrw-75-25(runtime=60s, size=16M)", "--rounds", "1")
    with started(*argv) as process:
        wait_until_mounted(directory, process)
        time.sleep(1)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "continues from here" in stderr
    assert nothing_left(directory)
    assert foreign.intact()
    assert reader.view(directory).visits_done == 0
    # another workload is another campaign: exit 2, and the difference is shown
    other = subprocess.run(command(directory, "disk | ext4", "-w", "null"), capture_output=True, text=True)
    assert other.returncode == 2
    assert "null" in other.stderr and "fio/randrw-75-25" in other.stderr


def test_a_run_under_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    argv = command(directory, "disk | ext4", "-w", "fio/randrw-75-25(runtime=3s, size=16M)", "--rounds", "1")
    with started(*argv, first=IGNORE_HANGUP) as process:
        wait_until_mounted(directory, process)
        process.send_signal(signal.SIGHUP)
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    assert reader.view(directory).visits_done == 1


def test_a_script_that_heeds_no_signal_is_ended_though_a_second_one_comes(tmp_path: Path) -> None:
    directory, script, asked = tmp_path / "run", tmp_path / "stubborn.sh", tmp_path / "asked"
    script.write_text(f"#!/bin/sh\ntrap 'echo >>{asked}' TERM INT\necho >{asked}.ready\nwhile :; do sleep 0.1; done\n")
    with started(*command(directory, "disk | ext4", "-w", f"command:{script}", "--rounds", "1")) as process:
        wait_until_there(Path(f"{asked}.ready"), process)
        process.send_signal(signal.SIGINT)
        wait_until_there(asked, process)
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert nothing_left(directory)


def test_what_a_script_leaves_in_the_background_neither_hangs_nor_outlives_the_visit(tmp_path: Path) -> None:
    directory, script, pids = tmp_path / "run", tmp_path / "daemon.sh", tmp_path / "pids"
    # both hold the target and the streams; the second has left the group and the session too
    script.write_text(
        f"#!/bin/sh\nsleep 1000 & echo $! >>{pids}\nsetsid sh -c 'echo $$ >>{pids}; exec sleep 1000' &\n"
        f"while [ $(wc -l <{pids}) -lt 2 ]; do sleep 0.05; done\n"
    )
    done = strata(*command(directory, "disk | ext4", "-w", f"command:{script}", "--rounds", "1")[1:])
    assert done.returncode == 0, done.stderr
    assert nothing_left(directory)
    assert not [pid for pid in pids.read_text().split() if "sleep" in command_of(int(pid))]


def test_the_same_campaign_goes_on_and_more_rounds_may_be_asked_for(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    assert strata(*command(directory, "disk | {ext4, xfs}", "-w", "null", "--rounds", "3")[1:]).returncode == 0
    first = [(trial.visit, trial.started_at) for trial in reader.view(directory).trials]
    again = strata(*command(directory, "disk | {ext4, xfs}", "-w", "null", "--rounds", "4")[1:])
    assert again.returncode == 0, again.stderr
    after = reader.view(directory)
    assert any(event.kind == "extended" for event in after.events)
    assert "rounds raised from 3 to 4" in " ".join(again.stdout.split())
    assert [(trial.visit, trial.started_at) for trial in after.trials][:6] == first
    assert sorted((trial.round, trial.stack) for trial in after.trials) == [
        (round_, stack) for round_ in range(4) for stack in ("disk | ext4", "disk | xfs")
    ]


def test_a_second_run_on_the_directory_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    argv = command(directory, "disk | ext4", "-w", "fio/randrw-75-25(runtime=60s, size=16M)", "--rounds", "1")
    with started(*argv) as process:
        wait_until_mounted(directory, process)
        second = subprocess.run(argv, capture_output=True, text=True)
        assert second.returncode == 3
        assert "another strata" in second.stderr
        assert strata("status", str(directory)).stdout.count("running now") == 1
        assert strata("clean", str(directory)).returncode == 3
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert nothing_left(directory)


def test_a_busy_mount_puts_the_run_in_quarantine_until_it_is_free(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    argv = command(directory, "disk | ext4", "-w", "fio/randrw-75-25(runtime=3s, size=16M)", "--rounds", "2")
    with started(*argv) as process:
        mount = wait_until_mounted(directory, process)
        holder = subprocess.Popen(["sleep", "300"], cwd=mount)
        try:
            _, stderr = process.communicate(timeout=120)
            assert process.returncode == 1
            assert "could not remove" in stderr and "busy" in stderr
            assert "strata clean" in stderr
            # what carries the mount was left alone
            assert os.path.ismount(mount)
            refused = subprocess.run(argv, capture_output=True, text=True)
            assert refused.returncode == 3
            assert "strata clean" in refused.stderr
            assert "uarantine" in strata("status", str(directory)).stdout
            assert strata("clean", str(directory)).returncode == 1
            assert holder.poll() is None, "a process that is not ours was ended"
        finally:
            holder.kill()
            holder.wait()
    assert strata("clean", str(directory)).returncode == 0
    assert nothing_left(directory)
    again = subprocess.run(argv, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    view = reader.view(directory)
    assert view.visits_done == view.visits_planned == 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 700 MiB for the run directory."""
    image, mount = tmp_path / "small.img", tmp_path / "small"
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(700 << 20)
    output("mkfs.ext4", "-q", "-m", "0", str(image))
    output("mount", "-o", "loop", str(image), str(mount))
    try:
        yield mount
    finally:
        output("umount", str(mount))


def test_a_target_that_runs_full_fails_the_trial_and_the_campaign_goes_on(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    # 480 MiB fit into a device of 512 MiB, but not beside the metadata of its file system
    done = strata(
        *command(
            directory, "disk | ext4", "-w", "fio/randrw-75-25(runtime=1s, size=500M)", "-w", "null", "--rounds", "2"
        )[1:]
    )
    assert done.returncode == 1
    view = reader.view(directory)
    assert view.visits_done == 2
    failed = [trial for trial in view.trials if trial.outcome is Outcome.FAILED]
    assert len(failed) == 2 and all("space" in (trial.reason or "") for trial in failed)
    assert sum(trial.outcome is Outcome.OK for trial in view.trials) == 2
    assert nothing_left(directory)


def test_the_run_directory_s_own_disk_runs_full(small_disk: Path) -> None:
    directory = small_disk / "run"
    argv = command(directory, "disk | ext4", "-w", "fio/randrw-75-25(runtime=4s, size=300M)", "--rounds", "1")
    with started(*argv) as process:
        wait_until_mounted(directory, process)
        # somebody else takes the room that the plan had counted on, to the last byte
        with contextlib.suppress(OSError), (small_disk / "hog").open("wb", buffering=0) as hog:
            while True:
                hog.write(b"x" * (1 << 20))
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 1, stderr
    assert nothing_left(directory), stderr
    view = reader.view(directory)
    assert view.failed or any(trial.outcome is Outcome.FAILED for trial in view.trials)
    assert view.visits_done == 1


def test_kill_on_a_full_disk_can_be_cleaned(small_disk: Path) -> None:
    directory = small_disk / "run"
    argv = command(directory, "disk | ext4", "-w", "fio/randrw-75-25(runtime=60s, size=16M)", "--rounds", "1")
    with started(*argv) as process:
        wait_until_mounted(directory, process)
        time.sleep(1)
        with contextlib.suppress(OSError), (small_disk / "hog").open("wb", buffering=0) as hog:
            while True:
                hog.write(b"x" * (1 << 16))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    done = strata("clean", str(directory))
    assert done.returncode == 0, done.stderr
    assert nothing_left(directory)
