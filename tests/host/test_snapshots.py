"""Snapshots that are taken while a workload runs, on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from strata.model import Outcome
from strata.store import reader

pytestmark = [
    pytest.mark.host,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="building stacks needs root"),
]

STRATA = str(Path(sys.executable).with_name("strata"))
LOAD = "fio/randrw-75-25(runtime=4s, size=32M)"


@pytest.mark.parametrize("tenants", ["", " | tenants(2)"])
def test_they_are_taken_one_by_one_as_it_is_measured_and_go_with_the_visit(tmp_path: Path, tenants: str) -> None:
    out = tmp_path / "run"
    stack = f"disk | btrfs | snapshot(held=3, every=1s){tenants}"
    argv = [STRATA, "run", stack, "-w", LOAD, "--size", "disk=1G", "--rounds", "1", "--out", str(out)]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    view = reader.view(out)
    (trial,) = view.trials
    assert trial.outcome is Outcome.OK, trial.reason
    assert trial.metrics["snapshot.held"] == 3
    assert not any(step.why.startswith("take snapshot") for step in view.steps), "none was there before"
    assert not list((out / "work").glob("*"))


def test_a_short_load_ends_before_all_are_taken(tmp_path: Path) -> None:
    out = tmp_path / "run"
    argv = [
        STRATA,
        "run",
        "disk | btrfs | snapshot(held=50, every=600s)",
        "-w",
        LOAD,
        "-w",
        "null",
        "--size",
        "disk=1G",
    ]
    done = subprocess.run([*argv, "--rounds", "1", "--out", str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    # One as each of them begins, and nobody waits ten minutes for the next.
    assert {trial.workload: trial.metrics["snapshot.held"] for trial in reader.view(out).trials} == {LOAD: 1, "null": 2}


@pytest.mark.parametrize("stack", ["disk | btrfs", "disk | xfs | qcow2(size=128M) | qsd | ext4"])
def test_held_snapshots_have_the_data_of_each_load(tmp_path: Path, stack: str) -> None:
    """Taken before these were prepared, they would share nothing, and what is written over would not be kept."""
    out = tmp_path / "run"
    other = "fio/randwrite-4k-qd32(runtime=2s, size=16M)"
    argv = [STRATA, "run", f"{stack} | snapshot(held=2)", "-w", LOAD, "-w", other, "--size", "disk=512M"]
    done = subprocess.run([*argv, "--rounds", "1", "--out", str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    trials = {trial.workload: trial for trial in reader.view(out).trials}
    assert len(trials) == 2 and {trial.outcome for trial in trials.values()} == {Outcome.OK}
    first, second = trials[LOAD].metrics, trials[other].metrics
    assert first["snapshot.held"] == second["snapshot.held"] == 2
    assert first["snapshot.shared_bytes"] >= 32 << 20 and second["snapshot.shared_bytes"] >= 16 << 20
    assert first["snapshot.kept_bytes"] > 0
    assert ("qcow2" in stack) or second["snapshot.kept_bytes"] > 0
    assert not list((out / "work").glob("*"))
