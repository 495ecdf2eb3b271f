"""Real guests on this machine: built in, measured in, lost, killed over, and gone afterwards."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from strata.errors import Refused
from strata.lab import cache, image
from strata.lab.spec import LabSpec
from strata.model import Outcome
from strata.store import reader

# Emulated and on a busy machine a guest takes up to a minute to boot.
pytestmark = [pytest.mark.host, pytest.mark.timeout(1200)]

STRATA = str(Path(sys.executable).with_name("strata"))
SIZE = ("--size", "disk=512M", "--rounds", "1")
LOAD = "fio/randrw-75-25(runtime=3s, size=32M)"


@pytest.fixture(autouse=True)
def needs_guests() -> None:
    if os.geteuid() != 0:
        pytest.skip("building stacks needs root")
    try:
        image.find(LabSpec(), cache.default())
    except Refused as refused:
        pytest.skip(f"guests start from the lab's system: {refused}")


def strata(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([STRATA, *argv], capture_output=True, text=True, stdin=subprocess.DEVNULL)


def left(directory: Path) -> list[str]:
    """Whatever of a run still stands: guests by their pid file, mounts, loop devices, files."""
    wanted, found = str(directory), []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace") if entry.name.isdigit() else ""
            if wanted in words and (entry / "comm").read_text().startswith("qemu-system"):
                found.append(f"process {entry.name}")
        except OSError:
            continue
    found += [line for line in Path("/proc/mounts").read_text().splitlines() if wanted in line]
    loops = subprocess.run(
        ["losetup", "--list", "--noheadings", "--output", "BACK-FILE"], capture_output=True, text=True
    )
    found += [line for line in loops.stdout.splitlines() if wanted in line]
    return found + [str(path) for path in (directory / "work").glob("*")]


def test_a_stack_goes_on_inside_the_guest(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = strata("run", "disk | vm(cache=directsync, bus=virtio-scsi) | xfs", "-w", LOAD, *SIZE, "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    (trial,) = reader.view(out).trials
    assert trial.outcome is Outcome.OK, trial.reason
    # inside and outside, and what the guest wrote reached the disk outside
    for name in ("iops", "vm.boot_s", "vm.writes", "guest.cpu_busy_pct", "guest.qemu_cpu_s", "host.cpu_busy_pct"):
        assert trial.metrics[name] > 0, name
    assert trial.metrics["disk.write_bytes"] > 0
    steps = {step.why: step for step in reader.view(out).steps}
    assert steps["mount the xfs file system"].remove_s is not None, "removing it inside is a measurement too"
    assert left(out) == []


@pytest.mark.slow
@pytest.mark.parametrize("inside", ["vm(bus=nvme) | lvmthin | xfs", "vm(bus=sata) | scheduler(bfq) | btrfs"])
def test_the_drivers_of_a_guest_come_when_they_are_asked_for(tmp_path: Path, inside: str) -> None:
    out = tmp_path / "run"
    done = strata("run", f"disk | {inside}", "-w", LOAD, *SIZE, "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    (trial,) = reader.view(out).trials
    assert trial.outcome is Outcome.OK, trial.reason


@pytest.mark.slow
def test_a_limit_holds(tmp_path: Path) -> None:
    out = tmp_path / "run"
    load = "fio/randwrite-4k-qd32(runtime=10s, size=32M)"
    done = strata("run", "disk | vm(write_iops=100) | ext4", "-w", load, *SIZE, "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    (trial,) = reader.view(out).trials
    assert 20 < trial.metrics["iops"] < 125  # a little is saved up before


@pytest.mark.slow
def test_a_limit_holds_for_what_goes_through_the_guest_s_memory_too(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = strata("run", "disk | vm(write_bps=2M) | ext4", "-w", "dd/seqwrite-sync(size=24M)", *SIZE, "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    (trial,) = reader.view(out).trials
    assert 0.5 < trial.metrics["throughput"] < 2.5, "dd ends when all of it is on the disk"


@pytest.mark.slow
def test_every_tenant_works_in_a_guest_of_its_own_at_the_same_time(tmp_path: Path) -> None:
    out = tmp_path / "run"
    loads = ("fio/randrw-75-25@1(runtime=60s, size=32M)", "filebench/varmail@2(runtime=60s, nfiles=2000)")
    wanted = [word for load in loads for word in ("-w", load)]
    stack = "disk | xfs | tenants(2) | raw(size=400M) | vm | ext4"
    done = strata("run", stack, *wanted, "--size", "disk=2G", "--rounds", "1", "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    trials = reader.view(out).trials
    assert len(trials) == 2
    for trial in trials:
        assert trial.outcome is Outcome.OK, trial.reason
        assert trial.metrics["tenants.overlap_pct"] >= 99 and trial.metrics["vm.boot_s"] > 0
    assert left(out) == []


@pytest.mark.slow
def test_a_guest_that_panics_is_tried_again_and_told_of(tmp_path: Path) -> None:
    script = tmp_path / "panic.sh"
    script.write_text("#!/bin/sh\necho c > /proc/sysrq-trigger\nsleep 60\n")
    out = tmp_path / "run"
    done = strata("run", "disk | vm | ext4", "-w", f"command:{script}", *SIZE, "--out", str(out))
    assert done.returncode == 1, done.stdout + done.stderr
    view = reader.view(out)
    assert len(view.losses) == 3 and all("Kernel panic" in loss.console for loss in view.losses)
    (failed,) = view.failed
    assert "the guest was lost 3 times" in failed.reason and "panic" in failed.reason
    assert left(out) == []


@pytest.mark.slow
def test_a_guest_that_hangs_is_tried_again_and_told_of(tmp_path: Path) -> None:
    script = tmp_path / "wait.sh"
    script.write_text("#!/bin/sh\nsleep 600\n")
    out = tmp_path / "run"
    argv = [STRATA, "run", "disk | vm | ext4", "-w", f"command:{script}", *SIZE, "--out", str(out)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    stopped: set[int] = set()
    while process.poll() is None:
        # Stopped where its kernel is up: from then on it says nothing, and nobody ends it but Strata.
        for booted in out.glob("work/*/*/boot_s"):
            with contextlib.suppress(OSError, ValueError):
                pid = int(booted.with_name("pid").read_text())
                if pid not in stopped:
                    stopped.add(pid)
                    os.kill(pid, signal.SIGSTOP)
        time.sleep(0.2)
    said, _ = process.communicate()
    assert process.returncode == 1, said
    assert len(stopped) == len(reader.view(out).losses) == 3
    (failed,) = reader.view(out).failed
    assert "the guest was lost 3 times" in failed.reason
    assert left(out) == []


def test_what_a_killed_run_left_is_cleaned(tmp_path: Path) -> None:
    script = tmp_path / "wait.sh"
    script.write_text("#!/bin/sh\nsleep 600\n")
    out = tmp_path / "run"
    argv = [STRATA, "run", "disk | vm | ext4", "-w", f"command:{script}", *SIZE, "--out", str(out)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    give_up = time.monotonic() + 300
    while not any(name.startswith("process") for name in left(out)):
        assert process.poll() is None and time.monotonic() < give_up
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert any(name.startswith("process") for name in left(out)), "the guest should have lived on"
    cleaned = strata("clean", str(out))
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert left(out) == []


def test_what_a_guest_cannot_do_is_said_in_the_plan(tmp_path: Path) -> None:
    done = strata("plan", "disk | vm(aio=native, cache=unsafe) | scheduler(cfq) | ext4", "-w", LOAD)
    said = " ".join((done.stdout + done.stderr).split())
    assert "QEMU refuses vm(cache=unsafe, aio=native)" in said and "no I/O scheduler 'cfq'" in said
