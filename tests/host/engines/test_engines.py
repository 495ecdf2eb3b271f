"""Every engine and driver that this kernel carries: built, its driver proven, containers through their life, gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.users_machine import UsersMachine

from strata.model import Outcome

from .engine_runs import left_over, run, strata

pytestmark = [pytest.mark.host, pytest.mark.timeout(600)]

LOAD = "container/lifecycle(count=3, parallel=2, files=20, size=1M)"

STACKS = [
    "disk | ext4 | podman(overlay)",
    "disk | xfs | podman(vfs)",
    "disk | btrfs | podman(btrfs)",
    "disk | ext4 | docker(overlay2)",
    "disk | ext4 | docker(overlay)",
    "disk | ext4 | docker(fuse-overlayfs)",
    "disk | xfs | docker(vfs)",
    "disk | btrfs | docker(btrfs)",
    "disk | xfs | containerd(overlayfs)",
    "disk | ext4 | containerd(native)",
    "disk | btrfs | containerd(btrfs)",
    "disk | ext4 | lxd(dir)",
    "disk | btrfs | lxd(btrfs)",
    "disk | ext4 | lxc",
    "disk | xfs | incus(dir)",
    "disk | btrfs | incus(btrfs)",
]


def needs(stack: str) -> None:
    programs = {"podman": "podman", "docker": "dockerd", "containerd": "ctr", "lxd": "lxd", "incus": "incus",
                "lxc": "lxc-start"}  # fmt: skip
    program = programs[stack.split("|")[-1].strip().partition("(")[0]]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed; scripts/os-packages.sh test installs it")


@pytest.mark.parametrize("stack", STACKS)
def test_it_is_built_proven_used_and_removed(stack: str, users_machine: UsersMachine, tmp_path: Path) -> None:
    """On a machine with bridges, routes and rules of the user's, which is afterwards as it was."""
    needs(stack)
    view = run(tmp_path / "run", [stack], LOAD, machine=users_machine)
    assert not view.skipped and not view.failed, (view.skipped, view.failed)
    (trial,) = view.trials
    assert trial.outcome is Outcome.OK, trial.reason
    for name in ("create", "start", "stop", "remove"):
        assert 0 < trial.metrics[f"{name}_p50_ms"] <= trial.metrics[f"{name}_max_ms"]
    assert left_over(tmp_path / "run") == []


def test_a_driver_on_the_wrong_file_system_is_a_reason() -> None:
    done = strata("plan", "disk | ext4 | podman(btrfs)", "-w", LOAD)
    assert "needs btrfs below it, and that is ext4" in done.stdout + done.stderr


@pytest.mark.parametrize("engine", ["podman", "docker", "containerd", "lxc", "lxd", "incus"])
def test_workloads_of_directories_run_inside(engine: str, tmp_path: Path) -> None:
    stacks = [f"disk | ext4 | {engine} | container({on})" for on in ("root", "volume")]
    needs(f"disk | ext4 | {engine}")
    view = run(
        tmp_path / "run", stacks, "fio/randrw-75-25(size=8M, runtime=1s)", "filebench/varmail(nfiles=1000, runtime=1s)"
    )
    assert not view.skipped and not view.failed, (view.skipped, view.failed)
    assert [trial.outcome for trial in view.trials] == [Outcome.OK] * 4, [trial.reason for trial in view.trials]
    assert left_over(tmp_path / "run") == []


@pytest.mark.parametrize("engine", ["podman", "docker", "containerd", "lxd"])
def test_what_a_workload_left_in_a_container_is_ended(engine: str, tmp_path: Path) -> None:
    """The script is stopped outside; without more it would go on inside, beside what is measured next."""
    stack = f"disk | ext4 | {engine} | container"
    needs(f"disk | ext4 | {engine}")
    script = tmp_path / "stays"
    script.write_text("#!/bin/sh\ntrap '' TERM HUP INT\nsleep 98765 & sleep 98765\n")
    script.chmod(0o755)
    view = run(tmp_path / "run", [stack], f"command:{script}(timeout=3s)", "fio/randrw-75-25(size=8M, runtime=1s)")
    stopped, measured = sorted(view.trials, key=lambda trial: trial.workload)
    assert stopped.outcome is Outcome.FAILED and measured.outcome is Outcome.OK, (stopped.reason, measured.reason)
    if engine != "podman":  # which ends all that its exec started, when that is ended
        assert any("sleep (in the container)" in note for note in stopped.notes), stopped.notes
    assert left_over(tmp_path / "run") == []


@pytest.mark.parametrize("stack", ["disk | ext4 | podman", "disk | ext4 | docker", "disk | ext4 | containerd"])
def test_images_are_built_layers_written_and_room_counted(
    stack: str, users_machine: UsersMachine, tmp_path: Path
) -> None:
    needs(stack)
    if "containerd" in stack and shutil.which("buildah") is None:
        pytest.skip("buildah is not installed; scripts/os-packages.sh test installs it")
    small = "files=20, size=1M"
    loads = [f"container/build(builds=2, large=1M, {small})", f"container/write(1, large=4M, small=20, {small})",
             f"container/density(2, {small})"]  # fmt: skip
    view = run(tmp_path / "run", [stack], *loads, machine=users_machine)
    assert not view.skipped and not view.failed, (view.skipped, view.failed)
    assert [trial.outcome for trial in view.trials] == [Outcome.OK] * 3, [trial.reason for trial in view.trials]
    write = next(trial.metrics for trial in view.trials if trial.workload.startswith("container/write"))
    assert write["copy_up_p50_ms"] > 0 and write["small_files_per_s"] > 0
    assert left_over(tmp_path / "run") == []


@pytest.mark.slow
@pytest.mark.parametrize("stack", STACKS)
def test_one_container_takes_as_much_as_each_of_ten(stack: str, tmp_path: Path) -> None:
    needs(stack)
    loads = [f"container/density({count}, files=50, size=8M)" for count in (1, 10)]
    view = run(tmp_path / "run", [stack], *loads)
    assert [trial.outcome for trial in view.trials] == [Outcome.OK] * 2, [trial.reason for trial in view.trials]
    one, ten = (trial.metrics["bytes_per_container"] for trial in view.trials)
    # What is more: databases of engines grow in steps of pages, and XFS makes inodes 64 at a time.
    assert abs(one - ten) <= max(0.05 * ten, 32 << 10), (one, ten)


@pytest.mark.parametrize("stack", ["disk | btrfs | lxd(btrfs)", "disk | ext4 | incus(dir)"])
def test_instances(stack: str, users_machine: UsersMachine, tmp_path: Path) -> None:
    needs(stack)
    names = ("copy", "snapshot", "restore", "publish", "export", "import")
    loads = (f"instance/{name}(2, files=20, size=1M)" for name in names)
    view = run(tmp_path / "run", [stack], *loads, machine=users_machine)
    assert not view.skipped and not view.failed, (view.skipped, view.failed)
    assert [trial.outcome for trial in view.trials] == [Outcome.OK] * 6, [trial.reason for trial in view.trials]
    assert left_over(tmp_path / "run") == []


def test_lxc_copies_and_goes_back(tmp_path: Path) -> None:
    needs("disk | ext4 | lxc")
    names = ("copy", "snapshot", "restore")
    view = run(tmp_path / "run", ["disk | ext4 | lxc"], *(f"instance/{name}(2, files=20, size=1M)" for name in names))
    assert [trial.outcome for trial in view.trials] == [Outcome.OK] * 3, [trial.reason for trial in view.trials]
    assert left_over(tmp_path / "run") == []
