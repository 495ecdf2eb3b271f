"""The campaigns for the lab run there from first to last, under their quick profiles."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from strata.model import Outcome
from strata.store import reader

from .lab_runs import STRATA, built

FOLDER = Path(__file__).parents[2] / "campaigns"
# A hundred stacks take too long for a test; benchmarks/exact_cost.py runs some of them.
CAMPAIGNS = [
    path for path in sorted(FOLDER.glob("*.yaml")) if "\ntestbed:" in path.read_text() and path.stem != "hundred-stacks"
]
# Of the lab machine, and of what its guests start from.
LABS = {"kvm-storage": (("qemu", "zfs"), ("install", "postgres")), "vm-cache-modes": (("qemu",),)}

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("path", CAMPAIGNS, ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path) -> None:
    for features in LABS.get(path.stem, ()):
        built(*features)
    argv = [STRATA, "plan", str(path), "--profile", "quick", "--json"]
    plan = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
    assert plan["skipped"] == [], "the lab can build all of them"
    argv = [STRATA, "run", str(path), "--profile", "quick", "--out", str(tmp_path / "run")]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    view = reader.view(tmp_path / "run")
    trials = len(plan["stacks"]) * len(plan["workloads"])
    assert [(trial.outcome, trial.reason) for trial in view.trials] == [(Outcome.OK, None)] * trials
    assert {trial.stack for trial in view.trials} == set(plan["stacks"])
    assert not view.failed
    assert {disk.model for disk in view.disks} <= {"hdd-7200", "serial-8ms", "ssd-sata"}
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.timeout(7200)
def test_the_backends_of_lxd_that_only_the_lab_carries(tmp_path: Path) -> None:
    built("containers", "zfs")
    argv = [STRATA, "run", str(FOLDER / "lxd-backends.yaml"), "--profile", "quick", "--on", "lab"]
    done = subprocess.run([*argv, "--out", str(tmp_path / "run")], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    view = reader.view(tmp_path / "run")
    # XFS has had no nobarrier since Linux 4.19
    assert len(view.stacks) == 14 and len(view.skipped) == 1 and not view.failed
    assert [(trial.outcome, trial.reason) for trial in view.trials] == [(Outcome.OK, None)] * 26
