"""Every engine and driver that Debian 12 or 13 can carry, in the lab: built, its driver proven from the engine and from
the mount table, containers through their life, removed. What cannot run there says why.

A container takes an emulated processor several seconds, so the whole is slow.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from strata.model import Outcome, View

from .lab_runs import STRATA, built, lab_run

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(7200)]

LOAD = "container/lifecycle(count=2, parallel=2, files=20, size=1M)"
POOL = "disk | lvmthin(zero=off, chunk=512K)"
STACKS = {
    "directories": [
        "disk | ext4 | podman",
        "disk | xfs | podman(vfs)",
        "disk | xfs | docker(overlay2)",
        "disk | ext4 | docker(fuse-overlayfs)",
        "disk | ext4 | docker(vfs)",
        "disk | ext4 | containerd(overlayfs)",
        "disk | xfs | containerd(native)",
        "disk | xfs | containerd(blockfile, base_size=512M)",
        "disk | ext4 | lxc(dir)",
        "disk | ext4 | incus(dir)",
        "disk | xfs | lxd(dir)",
    ],
    "btrfs": [f"disk | btrfs | {engine}(btrfs)" for engine in ("podman", "docker", "containerd", "incus", "lxd")],
    "zfs": [
        *(f"2*disk | zfs(mirror=2) | {engine}(zfs)" for engine in ("podman", "docker", "incus")),
        "disk | zfs | lxd(zfs)",
    ],
    "thin pools": [
        f"{POOL} | containerd(devmapper, base_size=512M, fs=ext4)",
        f"{POOL} | containerd(devmapper, base_size=1G, fs=xfs)",
        f"{POOL} | incus(lvm, base_size=1G, fs=ext4)",
        f"{POOL} | incus(lvm, base_size=1G, fs=xfs)",
        f"{POOL} | lxd(lvm, base_size=1G, fs=ext4)",
        f"{POOL} | lxd(lvm, base_size=1G, fs=xfs)",
    ],
    "Debian 12": [
        "disk | ext4 | docker(devicemapper, base_size=1G)",
        f"{POOL} | docker(devicemapper, base_size=1G, fs=ext4)",
        f"{POOL} | docker(devicemapper, base_size=1G, fs=xfs)",
        "disk | ext4 | docker(overlay)",
    ],
}
REFUSED = {
    "disk | ext4 | docker(devicemapper)": "Docker dropped devicemapper in version 25",
    "disk | ext4 | docker(overlay)": "in version 24",
    "disk | ext4 | docker(aufs)": "aufs was never part of Linux",
    "disk | ext4 | containerd(erofs)": "is older than 2.1",
    "disk | ext4 | podman(zfs)": "needs zfs below it",
    "disk | ext4 | incus(lvm)": "put it right on lvmthin",
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], View]:
    """The run of a group, carried out when it is first asked for; one that fails is not carried out again."""
    runs: dict[str, View | AssertionError] = {}

    def run(group: str) -> View:
        debian = 12 if group == "Debian 12" else 13
        built("containers", *(["zfs"] if group == "zfs" else []), debian=debian)
        directory = tmp_path_factory.mktemp("engines") / "run"
        return lab_run(directory, STACKS[group], LOAD, "--size", "disk=3G", "--debian", str(debian))

    def view(group: str) -> View:
        if group not in runs:
            try:
                runs[group] = run(group)
            except AssertionError as error:
                runs[group] = error
        found = runs[group]
        if isinstance(found, AssertionError):
            raise found
        return found

    return view


@pytest.mark.parametrize(("group", "stack"), [(group, stack) for group in STACKS for stack in STACKS[group]])
def test_it_is_built_proven_used_and_removed(group: str, stack: str, seen: Callable[[str], View]) -> None:
    view = seen(group)
    number = STACKS[group].index(stack)
    assert not [skipped.reasons for skipped in view.skipped if skipped.stack == view.stacks[number]]
    assert not [failed.reason for failed in view.failed if failed.stack == view.stacks[number]]
    (trial,) = [trial for trial in view.trials if trial.stack == view.stacks[number]]
    assert trial.outcome is Outcome.OK, trial.reason
    assert trial.metrics["start_p50_ms"] > 0


def test_what_no_debian_can_run_says_why() -> None:
    built("containers")
    done = subprocess.run([STRATA, "plan", *REFUSED, "-w", LOAD, "--on", "lab"], capture_output=True, text=True)
    said = done.stdout + done.stderr
    for reason in REFUSED.values():
        assert reason in said, said
