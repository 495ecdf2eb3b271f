"""The campaigns for the lab run there from first to last: one round, little data, a few seconds of each pattern."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from strata.model import Outcome

from .lab_runs import STRATA, lab_run

FOLDER = Path(__file__).parents[2] / "campaigns"
SHORT = {
    "kvm-storage": "fio/randrw-75-25(runtime=3s, size=64M)",
    "ssd-cache": "fio/randread-4k-qd32(runtime=3s, size=64M)",
    "vm-cache-modes": "fio/randwrite-4k-qd32(runtime=2s, size=64M)",
}

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(3600)]


def test_no_campaign_for_the_lab_is_left_out() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml") if "\ntestbed:" in path.read_text()} == set(SHORT)


@pytest.mark.parametrize("name", SHORT)
def test_it_runs(name: str, tmp_path: Path) -> None:
    path = str(FOLDER / f"{name}.yaml")
    if name == "vm-cache-modes":
        subprocess.run([STRATA, "lab", "build", "--with", "qemu"], check=True)
    argv = [STRATA, "plan", path, "-w", SHORT[name], "--json"]
    plan = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
    assert plan["skipped"] == [], "the lab can build all of them"
    view = lab_run(tmp_path / "run", [path], SHORT[name])
    assert [(trial.outcome, trial.reason) for trial in view.trials] == [(Outcome.OK, None)] * len(plan["stacks"])
    assert {trial.stack for trial in view.trials} == set(plan["stacks"])
    assert not view.failed
    assert {disk.model for disk in view.disks} <= {"hdd-7200", "ssd-sata"}
    assert (tmp_path / "run" / "report.html").exists()
