"""^C while a machine of the lab is booted for the first time, which takes a minute where it is emulated."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from strata.lab import cache as caches
from strata.lab import image
from strata.lab.spec import LabSpec

from .lab_runs import STRATA

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(600)]

# So much memory as no other machine of the lab has: its state is not there yet.
CAMPAIGN = """\
name: odd
testbed:
  lab: {debian: 13, memory: 1111M}
disks:
  disk: {size: 1G}
stacks: ["disk | ext4"]
workloads: ["null"]
"""


def test_the_first_boot_is_ended_by_a_signal_and_leaves_nothing(tmp_path: Path) -> None:
    states = image.find(LabSpec(), caches.default()).directory / "states"
    before = set(states.glob("*.part"))
    campaign = tmp_path / "odd.yaml"
    campaign.write_text(CAMPAIGN)
    argv = [STRATA, "run", str(campaign), "--out", str(tmp_path / "run")]
    running = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
    )
    assert running.stdout is not None
    for line in running.stdout:
        if "booting the lab machine once" in line:
            break
    time.sleep(2)
    began = time.monotonic()
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate(timeout=300)
    assert running.returncode == 130, said
    assert time.monotonic() - began < 15
    assert "interrupted by SIGINT" in said and "Traceback" not in said
    assert set(states.glob("*.part")) <= before


def emulators() -> set[int]:
    """Of machines that are looked at for a plan."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if b"STRATA_RUN=plan" in (path / "environ").read_bytes() and b"qemu" in (path / "cmdline").read_bytes():
                found.add(int(path.name))
        except OSError:  # ended meanwhile
            continue
    return found


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
def test_a_plan_that_is_ended_leaves_no_machine(tmp_path: Path, which: signal.Signals) -> None:
    before = emulators()
    argv = [STRATA, "plan", "--on", "lab", "disk | ext4"]
    running = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, cwd=tmp_path
    )
    while not emulators() - before:
        assert running.poll() is None, "the plan ended before its machine was seen"
        time.sleep(0.02)
    running.send_signal(which)
    said, _ = running.communicate(timeout=120)
    assert running.returncode == 130 and said.endswith("interrupted; nothing was built.\n"), said
    assert emulators() == before
