"""A container that outgrows its base size: some drivers refuse it, some do not notice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from strata.model import Outcome

from .engine_runs import left_over, run, strata

pytestmark = [pytest.mark.host, pytest.mark.timeout(600)]

LOAD = "container/outgrow(400M, files=20, size=1M)"


@pytest.mark.parametrize(
    ("stack", "program", "honoured"),
    [
        ("disk | btrfs(quotas) | docker(btrfs, base_size=256M)", "dockerd", 1),
        ("disk | btrfs(quotas) | lxd(btrfs, base_size=256M)", "lxd", 1),
        # ext4 without project quotas: LXD says nothing and lets it grow.
        ("disk | ext4 | lxd(dir, base_size=256M)", "lxd", 0),
        ("disk | ext4 | podman", "podman", None),
    ],
)
def test_whether_the_base_size_holds(stack: str, program: str, honoured: int | None, tmp_path: Path) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed; scripts/os-packages.sh test installs it")
    view = run(tmp_path / "run", [stack], LOAD)
    assert not view.skipped and not view.failed, (view.skipped, view.failed)
    (trial,) = view.trials
    assert trial.outcome is Outcome.OK, trial.reason
    assert trial.metrics.get("base_size_honoured") == honoured
    assert trial.metrics["storage_path_honoured"] == 1
    assert left_over(tmp_path / "run") == []


@pytest.mark.parametrize(
    ("stack", "why"),
    [
        ("disk | ext4 | podman(base_size=1G)", "by the quotas of xfs alone, and below it is ext4"),
        ("disk | btrfs | podman(btrfs, base_size=1G)", "refuses the option"),
        ("disk | ext4 | docker(fuse-overlayfs, base_size=1G)", "refuses the option"),
    ],
)
def test_a_driver_that_takes_no_size_says_so(stack: str, why: str) -> None:
    done = strata("plan", stack, "-w", LOAD)
    assert why in " ".join((done.stdout + done.stderr).split())
