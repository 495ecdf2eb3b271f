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
