"""The kernel holds a limit, and where it does not the trial says so."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from strata.hosts.local import LocalHost
from strata.model import Outcome, TrialResult
from strata.store import reader, samples

pytestmark = [
    pytest.mark.host,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="building stacks needs root"),
]

CGROUPS = Path("/sys/fs/cgroup")
STRATA = str(Path(sys.executable).with_name("strata"))


@pytest.fixture(scope="module")
def version() -> str:
    found = LocalHost("test").facts([], "/").io_control
    if not found:
        pytest.skip("this kernel limits no I/O")
    return found


def measured(out: Path, stack: str, load: str) -> TrialResult:
    argv = [STRATA, "run", stack, "-w", load, "--size", "disk=512M", "--rounds", "1", "--out", str(out)]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    view = reader.view(out)
    (trial,) = view.trials
    assert trial.outcome is Outcome.OK, trial.reason
    groups = re.findall(r"strata-[0-9a-f]{6}-1-\d+", str(view.commands))
    assert groups and not [group for group in groups for at in ("", "*/") if list(CGROUPS.glob(at + group))]
    assert not list((out / "work").glob("*"))
    return trial


def test_direct_io_is_held_for_every_tenant(tmp_path: Path, version: str) -> None:
    stack = "disk | ext4 | tenants(2) | limit(write_iops=100)"
    trial = measured(tmp_path / "run", stack, "fio/randwrite-4k-qd32(runtime=4s, size=16M)")
    for tenant in (1, 2):
        assert 20 < trial.metrics[f"tenant{tenant}.iops"] < 125
    assert "limit" not in trial.flags


def test_buffered_writes_are_held_or_the_trial_says_that_they_were_not(tmp_path: Path, version: str) -> None:
    script = tmp_path / "buffered.sh"
    # Written out by the kernel, not by the one who wrote: sync(1) without a file asks for that, here from outside.
    script.write_text(
        "#!/bin/sh\nfor n in 1 2 3 4 5 6; do dd if=/dev/zero of=f$n bs=1M count=8 2>/dev/null; sleep 0.2; done\n"
        "(echo $$ > /sys/fs/cgroup/blkio/cgroup.procs || echo $$ > /sys/fs/cgroup/cgroup.procs) 2>/dev/null; sync\n"
    )
    trial = measured(tmp_path / "run", "disk | ext4 | limit(write_bps=1M)", f"command:{script}")
    held = "limit" not in trial.flags
    assert held == (version == "2"), trial.notes
    if not held:
        assert any("limit not held" in note and "1.0 MiB" in note for note in trial.notes)


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed; apt-get install fio")
def test_the_rate_of_a_limited_stack_is_that_of_the_measured_run_alone_after_rehearsals(
    tmp_path: Path, version: str
) -> None:
    """fio appends to its logs: with those of two rehearsals the series and the figure were three times the limit."""
    load = "fio/randread-4k-qd32(runtime=2s, size=16M)"
    trial = measured(tmp_path / "run", "disk | ext4 | limit(read_iops=3000) | warm(2)", load)
    assert 2000 < trial.metrics["iops"] < 3100, trial.metrics["iops"]
    _, series = samples.read(tmp_path / "run", 1, ["iops"])
    assert series["iops"] and all(value < 3300 for _, value in series["iops"]), series["iops"]
    assert "limit" not in trial.flags
