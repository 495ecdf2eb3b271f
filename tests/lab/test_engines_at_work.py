"""Engines in the lab beyond the life of a container or two: ten at once, base sizes, and limits of I/O, which a kernel
with control groups of version 2 alone keeps otherwise than one with version 1.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.model import Outcome, TrialResult

from .lab_runs import built, lab_run
from .test_engines import POOL

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(3600)]

SMALL = "files=20, size=1M"


def trial_of(directory: Path, stack: str, load: str) -> TrialResult:
    built("containers", *(["zfs"] if "| zfs" in stack else []))
    view = lab_run(directory, [stack], load, "--size", "disk=3G")
    assert not view.skipped and not view.failed, (view.skipped, view.failed)
    (trial,) = view.trials
    assert trial.outcome is Outcome.OK, trial.reason
    return trial


@pytest.mark.parametrize(
    "stack", ["disk | ext4 | podman", "disk | xfs | docker", f"{POOL} | containerd(devmapper, base_size=512M)"]
)
def test_ten_at_once(stack: str, tmp_path: Path) -> None:
    trial = trial_of(tmp_path / "run", stack, f"container/lifecycle(count=10, parallel=2, {SMALL})")
    assert trial.metrics["start_max_ms"] > 0


@pytest.mark.parametrize(
    "stack",
    [
        f"{POOL} | containerd(devmapper, base_size=256M)",
        "disk | ext4 | containerd(blockfile, base_size=256M)",
        "disk | zfs | docker(zfs, base_size=256M)",
        "disk | xfs(pquota) | docker(base_size=256M)",
        "disk | xfs(pquota) | podman(base_size=256M)",
        f"{POOL} | incus(lvm, base_size=256M)",
        "disk | zfs | incus(zfs, base_size=256M)",
    ],
)
def test_a_base_size_holds(stack: str, tmp_path: Path) -> None:
    trial = trial_of(tmp_path / "run", stack, f"container/outgrow(400M, {SMALL})")
    assert trial.metrics["base_size_honoured"] == 1
    assert trial.metrics["storage_path_honoured"] == 1


@pytest.mark.parametrize("stack", ["disk | ext4 | podman", "disk | ext4 | lxd", f"{POOL} | incus(lvm, base_size=1G)"])
def test_a_limit_on_buffered_writes_means_something_with_control_groups_of_version_2(
    stack: str, tmp_path: Path
) -> None:
    load = f"container/neighbours(2, bps=1M, file=4M, runtime=10s, {SMALL})"
    figures = trial_of(tmp_path / "run", stack, load).metrics
    assert figures["direct_limit_held"] == 1 and 0.5 < figures["direct_limit_ratio"] < 1.1
    # What the disk took until all was on it.
    assert figures["buffered_disk_limit_ratio"] < 1.5


@pytest.mark.parametrize(
    "stack",
    [
        *(f"disk | zfs | {engine}(zfs)" for engine in ("podman", "docker", "incus", "lxd")),
        *(f"{POOL} | {engine}(lvm, base_size=1G)" for engine in ("incus", "lxd")),
        f"{POOL} | containerd(devmapper, base_size=512M)",
    ],
)
def test_one_container_takes_as_much_as_each_of_ten(stack: str, tmp_path: Path) -> None:
    one, ten = (
        trial_of(tmp_path / str(count), stack, f"container/density({count}, files=20, size=4M)").metrics
        for count in (1, 10)
    )
    bytes_one, bytes_ten = one["bytes_per_container"], ten["bytes_per_container"]
    assert abs(bytes_one - bytes_ten) <= max(0.05 * bytes_ten, 32 << 10), (bytes_one, bytes_ten)
