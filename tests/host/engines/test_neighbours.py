"""Limits of I/O on containers, by the engine's own option or by the control group, measured for real."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from strata.model import Outcome

from .engine_runs import left_over, run

pytestmark = [pytest.mark.host, pytest.mark.timeout(600)]

V1 = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device")


def needs(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed; scripts/os-packages.sh test installs it")
    controllers = Path("/sys/fs/cgroup/cgroup.controllers")
    if not V1.exists() and not (controllers.exists() and "io" in controllers.read_text().split()):
        pytest.skip("this kernel limits no I/O by control groups")


@pytest.mark.parametrize(
    ("stack", "program"),
    [
        ("disk | ext4 | podman", "podman"),
        ("disk | btrfs | docker(btrfs)", "dockerd"),
        ("disk | ext4 | containerd", "ctr"),
        ("disk | ext4 | lxd", "lxd"),
        ("disk | xfs | incus", "incus"),
        ("disk | ext4 | lxc", "lxc-start"),
    ],
)
def test_a_limit_is_held_past_the_page_cache(stack: str, program: str, tmp_path: Path) -> None:
    needs(program)
    small = "file=4M, runtime=3s, files=20, size=1M"
    view = run(tmp_path / "run", [stack], f"container/neighbours(2, bps=1M, {small})")
    assert not view.skipped and not view.failed, (view.skipped, view.failed)
    (trial,) = view.trials
    assert trial.outcome is Outcome.OK, trial.reason
    figures = trial.metrics
    assert figures["direct_limit_held"] == 1 and 0.5 < figures["direct_limit_ratio"] < 1.1
    if V1.exists():
        # What started the study of 2016: the kernel writes back for nobody, so a limit does not slow a writer.
        assert figures["buffered_limit_ratio"] > 3 and figures["buffered_limit_held"] == 0
    assert left_over(tmp_path / "run") == []


def test_a_limit_on_reads_from_a_subvolume(tmp_path: Path) -> None:
    needs("podman")
    load = "container/neighbours(2, pattern=randread, io=direct, iops=50, file=4M, runtime=3s, files=20, size=1M)"
    view = run(tmp_path / "run", ["disk | btrfs | podman(btrfs)"], load)
    (trial,) = view.trials
    assert trial.outcome is Outcome.OK, trial.reason
    assert 0.5 < trial.metrics["direct_limit_ratio"] < 1.1


@pytest.mark.parametrize(
    ("stack", "program"),
    [
        ("disk | ext4 | docker | container({})", "dockerd"),
        ("disk | ext4 | podman | container({})", "podman"),
        ("disk | ext4 | containerd | container(volume, {})", "ctr"),
    ],
)
def test_a_container_as_a_place_of_workloads_is_limited(stack: str, program: str, tmp_path: Path) -> None:
    needs(program)
    load = "fio/randwrite-4k-qd32(bs=64K, size=8M, runtime=4s)"
    view = run(tmp_path / "run", [stack.format("write_bps=2M")], load, size="disk=2G")
    assert not view.skipped and not view.failed, (view.skipped, view.failed)
    (trial,) = view.trials
    assert trial.outcome is Outcome.OK, trial.reason
    assert 1 < trial.metrics["bandwidth"] < 2.2 and "limit" not in trial.flags
    assert left_over(tmp_path / "run") == []
