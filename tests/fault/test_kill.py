"""kill -9 of the process group at one point after another, over build, measure and tear-down."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from strata.model import Outcome
from strata.store import reader

from .conftest import Foreign

pytestmark = [pytest.mark.fault, pytest.mark.timeout(900)]

STACK = "disk | scheduler(none) | partition | ext4"
NOTHING = {"loops": [], "mounts": [], "files": [], "processes": []}


def start(directory: Path, first: int, step: int, expression: str, *workloads: str) -> subprocess.Popen[str]:
    script = Path(__file__).with_name("sweep.py")
    argv = [sys.executable, str(script), str(directory), str(first), str(step), "900", expression, "--", *workloads]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(directory: Path, process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    stdout, stderr = process.communicate()
    log = Path(f"{directory}.log")
    assert process.returncode == 0, stderr + (log.read_text() if log.exists() else "")
    return [json.loads(line) for line in stdout.splitlines()]


def check(directory: Path, lines: list[dict[str, Any]], workloads: int) -> int:
    """Returns how many points were killed at."""
    killed = [line for line in lines if line["status"] == -9]
    for line in lines:
        assert line.get("left", NOTHING) == NOTHING, f"left behind after a kill {line['where']}: {line['left']}"
    assert lines[-1]["status"] == 0, Path(f"{directory}.log").read_text()
    assert "left" in lines[-1]
    view = reader.view(directory)
    assert view.visits_done == view.visits_planned == 1
    assert not view.failed
    # every visit once: no trial lost, none counted twice
    assert [trial.outcome for trial in view.trials] == [Outcome.OK] * workloads
    assert len({trial.workload for trial in view.trials}) == workloads
    return len(killed)


def test_every_point_of_a_visit(tmp_path: Path, foreign: Foreign) -> None:
    # odd and even points side by side, to halve the time
    halves = {
        tmp_path / f"run{first}": start(tmp_path / f"run{first}", first, 2, STACK, "null", "dd/seqwrite-sync(size=8M)")
        for first in (1, 2)
    }
    lines = []
    killed = 0
    for directory, process in halves.items():
        half = finish(directory, process)
        killed += check(directory, half, workloads=2)
        lines += half
    assert foreign.intact()
    where = [line["where"] for line in lines]
    # the points lie in all phases and on all sides of a command and of a durable change
    for part in (
        "before mkdir",
        "before mkfs.ext4",
        "during mount",
        "after mount",
        "before store.journal",
        "after store.settle",
    ):
        assert any(point.startswith(part) for point in where), f"no kill {part}; points: {sorted(set(where))}"
    assert any("strata-trial" in point for point in where)  # measuring
    assert any(point.startswith("during sh") for point in where)  # undoing
    assert killed >= 200, f"only {killed} points"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nbdfuse") is None, reason="needs nbdfuse: scripts/os-packages.sh run installs it")
def test_daemons_that_outlive_their_step_are_ended_too(tmp_path: Path, foreign: Foreign) -> None:
    directory = tmp_path / "run"
    stack = "disk | ext4 | qcow2(size=64M) | qsd(cache=none) | ext4"
    lines = finish(directory, start(directory, 10, 9, stack, "dd/seqwrite-sync(size=8M)"))
    killed = check(directory, lines, workloads=1)
    assert foreign.intact()
    assert any("qcow2" in line["where"] or "setsid" in line["where"] or "device" in line["where"] for line in lines)
    assert killed >= 15, f"only {killed} points"


def test_while_a_workload_runs_and_with_other_layers(tmp_path: Path, foreign: Foreign) -> None:
    directory = tmp_path / "run"
    load = "fio/randrw-75-25(runtime=1s, size=8M)"
    lines = finish(directory, start(directory, 20, 13, "2*disk | scheduler(none) | btrfs(raid1)", load))
    killed = check(directory, lines, workloads=1)
    assert foreign.intact()
    assert killed >= 10
