"""Guests beside the lab machine: their disks are in it, on stacks that only the lab has; they run on this machine."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from strata.model import Outcome
from strata.store import reader

from .lab_runs import STRATA, built, lab_run, machines_of, start_lab_run

# Five emulated machines boot at once in the rows with four tenants.
pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]

SIZES = {"hdd": "1G", "ssd": "512M"}
LOAD = "fio/randrw-75-25(runtime=30s, size=32M)"
LOADS = (
    "fio/randrw-75-25@1(runtime=30s, size=32M)",
    "filebench/varmail@2(runtime=30s, nfiles=500)",
    # filebench gives each of its threads 10 MiB: fifty would not fit into a guest of 512 MiB.
    "filebench/fileserver@3(runtime=30s, nfiles=300, nthreads=8)",
    "fio/randwrite-4k-qd32@4(runtime=30s, size=32M)",
)
ROWS = {
    "md": "4*hdd | md(raid10) | xfs | tenants(4) | qcow2(size=256M) | vm | ext4",
    "thin": "4*hdd | md(raid10) | lvmthin(zero=off) | tenants(4) | vm | ext4",
    "zvol": "2*hdd | zfs(mirror=2) | tenants(4) | zvol(size=200M) | vm | ext4",
    "lvmcache": "hdd + ssd | lvmcache(writeback) | xfs | tenants(4) | raw(size=200M) | vm(cache=writeback) | ext4",
}


def sizes(stack: str) -> list[str]:
    return [word for role, size in SIZES.items() if role in stack for word in ("--size", f"{role}={size}")]


def nothing_left(directory: Path) -> bool:
    return machines_of(directory) == [] and not list((directory / "work").glob("*"))


def test_a_guest_beside_the_lab_is_measured_on_both_machines(tmp_path: Path) -> None:
    built("qemu")
    stack = "2*hdd | md(raid1) | vm(cache=directsync) | ext4"
    view = lab_run(tmp_path, [stack], "fio/randrw-75-25(runtime=5s, size=32M)", *sizes(stack))
    assert view.stacks == ("2*hdd | md(raid1) | vm(cache=directsync, beside) | ext4",)
    (trial,) = view.trials
    assert trial.outcome is Outcome.OK, trial.reason
    for name in ("iops", "vm.boot_s", "vm.writes", "guest.qemu_cpu_s", "guest.cpu_busy_pct", "host.cpu_busy_pct"):
        assert trial.metrics[name] > 0, name
    # Every write is flushed where the disk is, though nobody in the guest asked for it.
    assert trial.metrics["md.write_bytes"] > 0 and trial.metrics["disk.flushes"] > 0
    removed = {step.why: step.remove_s for step in view.steps}
    assert removed["start the guest"] is not None and removed["export the disk of the guest"] is not None
    assert view.facts is not None and any("beside the lab" in caveat for caveat in view.facts.caveats)
    assert nothing_left(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_four_tenants_work_at_the_same_time_in_guests_beside_the_lab(tmp_path: Path, row: str) -> None:
    built("qemu", *(["zfs"] if row == "zvol" else []))
    loads = [LOAD] if row == "thin" else list(LOADS)
    more = [word for load in loads[1:] for word in ("-w", load)]
    view = lab_run(tmp_path, [ROWS[row]], loads[0], *more, *sizes(ROWS[row]))
    assert not view.skipped and not view.failed
    assert len(view.trials) == len(loads)
    for trial in view.trials:
        assert trial.outcome is Outcome.OK, trial.reason
        assert trial.metrics["tenants.overlap_pct"] >= 99
        assert trial.metrics["vm.boot_s"] > 0 and trial.metrics["guest.qemu_cpu_s"] > 0
    assert nothing_left(tmp_path)


@pytest.mark.slow
def test_postgres_in_a_guest_beside_the_lab(tmp_path: Path) -> None:
    built("qemu")
    built("postgres")
    stack = "4*hdd | md(raid10) | vm(memory=1G) | ext4"
    load = "postgres/oltp-complex(runtime=20s, rows=10000, tables=1)"
    (trial,) = lab_run(tmp_path, [stack], load, *sizes(stack)).trials
    assert trial.outcome is Outcome.OK, trial.reason
    assert trial.metrics["tps"] > 0 and nothing_left(tmp_path)


def test_what_a_killed_run_left_beside_the_lab_is_cleaned(tmp_path: Path) -> None:
    built("qemu")
    script = tmp_path / "wait.sh"
    script.write_text("#!/bin/sh\nsleep 600\n")
    directory = tmp_path / "run"
    running = start_lab_run(directory, "2*hdd | md(raid1) | vm | ext4", f"command:{script}", "--size", "hdd=512M")
    give_up = time.monotonic() + 600
    while not list((directory / "work").glob("*/guest*/port")):
        assert running.poll() is None and time.monotonic() < give_up
        time.sleep(0.2)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    assert len(machines_of(directory)) == 2, "the lab machine and the guest should have lived on"
    cleaned = subprocess.run([STRATA, "clean", str(directory)], capture_output=True, text=True)
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert nothing_left(directory)


@pytest.mark.slow
def test_a_guest_beside_the_lab_that_panics_is_tried_again_and_told_of(tmp_path: Path) -> None:
    built("qemu")
    script = tmp_path / "panic.sh"
    script.write_text("#!/bin/sh\necho c > /proc/sysrq-trigger\nsleep 60\n")
    directory = tmp_path / "run"
    view = lab_run(directory, ["disk | vm | ext4"], f"command:{script}", "--size", "disk=512M")
    assert len(view.losses) == 3 and all("Kernel panic" in loss.console for loss in view.losses)
    (failed,) = view.failed
    assert "the guest was lost 3 times" in failed.reason
    assert nothing_left(directory)


@pytest.mark.parametrize(
    ("stack", "options", "words"),
    [
        ("disk | vm | ext4", ("--clock", "virtual"), "The virtual clock counts the instructions of one machine"),
        ("disk | vm(aio=native, cache=unsafe) | ext4", (), "QEMU refuses"),
        ("disk | xfs | tenants(4) | raw(size=64M) | vm(memory=64G) | ext4", (), "the lab machine take"),
    ],
)
def test_what_cannot_be_is_said_in_the_plan(stack: str, options: tuple[str, ...], words: str) -> None:
    built("qemu")
    done = subprocess.run(
        [STRATA, "plan", stack, "--on", "lab", *options, "-w", "null"], capture_output=True, text=True
    )
    assert words in " ".join((done.stdout + done.stderr).split())


def test_a_campaign_whose_guests_do_not_fit_does_not_begin(tmp_path: Path) -> None:
    built("qemu")
    argv = [STRATA, "run", "disk | vm(memory=1T) | ext4", "--on", "lab", "-w", "null", "--out", str(tmp_path / "run")]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode != 0 and "the lab machine take" in " ".join((done.stdout + done.stderr).split())
    assert machines_of(tmp_path / "run") == []


@pytest.mark.slow
def test_the_store_keeps_the_way_to_the_disk(tmp_path: Path) -> None:
    """What was typed is kept with every stack, the half beside the lab too."""
    built("qemu")
    lab_run(tmp_path, ["disk | vm | ext4"], "null", "--size", "disk=512M")
    (commands,) = reader.view(tmp_path).commands.values()
    assert any("qemu-storage-daemon" in line for line in commands)
    assert any("driver=nbd" in line for line in commands)
