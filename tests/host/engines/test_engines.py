"""Every engine and driver that this kernel carries: built, its driver proven, containers through their life, gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from strata.model import Outcome

from .engine_runs import left_over, run, strata

pytestmark = [pytest.mark.host, pytest.mark.timeout(600)]

LOAD = "container/lifecycle(count=3, parallel=2, files=20, size=1M)"

STACKS = [
    "disk | ext4 | podman(overlay)",
    "disk | xfs | podman(vfs)",
    "disk | btrfs | podman(btrfs)",
    "disk | ext4 | docker(overlay2)",
    "disk | ext4 | docker(fuse-overlayfs)",
    "disk | xfs | docker(vfs)",
    "disk | btrfs | docker(btrfs)",
    "disk | xfs | containerd(overlayfs)",
    "disk | ext4 | containerd(native)",
    "disk | btrfs | containerd(btrfs)",
]


def needs(stack: str) -> None:
    program = {"podman": "podman", "docker": "dockerd", "containerd": "ctr"}[
        stack.split("|")[-1].strip().partition("(")[0]
    ]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed; scripts/os-packages.sh test installs it")


@pytest.mark.parametrize("stack", STACKS)
def test_it_is_built_proven_used_and_removed(stack: str, tmp_path: Path) -> None:
    needs(stack)
    view = run(tmp_path / "run", [stack], LOAD)
    assert not view.skipped and not view.failed, (view.skipped, view.failed)
    (trial,) = view.trials
    assert trial.outcome is Outcome.OK, trial.reason
    for name in ("create", "start", "stop", "remove"):
        assert 0 < trial.metrics[f"{name}_p50_ms"] <= trial.metrics[f"{name}_max_ms"]
    assert left_over(tmp_path / "run") == []


def test_a_driver_on_the_wrong_file_system_is_a_reason() -> None:
    done = strata("plan", "disk | ext4 | podman(btrfs)", "-w", LOAD)
    assert "needs btrfs below it, and that is ext4" in done.stdout + done.stderr
