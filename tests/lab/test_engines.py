"""Engines on what only the lab's kernel carries: ZFS, thin pools, images of disks; and on cgroup v2.

A container takes an emulated processor several seconds, so the whole is slow.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from strata.errors import Refused
from strata.lab import cache as caches
from strata.lab import image
from strata.lab.spec import LabSpec
from strata.model import Outcome, View

from .lab_runs import lab_run

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(3600)]

LAB = LabSpec(features=frozenset({"containers", "zfs"}))
STACKS = [
    "disk | zfs | podman(zfs)",
    "disk | zfs | docker(zfs)",
    "disk | lvmthin(zero=off, chunk=512K) | containerd(devmapper, base_size=512M, fs=ext4)",
    "disk | lvmthin(zero=off, chunk=512K) | containerd(devmapper, base_size=1G, fs=xfs)",
    "disk | xfs | containerd(blockfile, base_size=512M)",
    "disk | ext4 | podman",
    "disk | ext4 | docker(fuse-overlayfs)",
]


@cache
def seen() -> View:
    try:
        image.find(LAB, caches.default())
    except Refused as error:
        pytest.skip(str(error))
    load = "container/lifecycle(count=2, files=20, size=1M)"
    return lab_run(Path(mkdtemp(prefix="strata-lab-")) / "run", STACKS, load, "--size", "disk=3G")


@pytest.mark.parametrize("stack", STACKS)
def test_it_is_built_proven_used_and_removed(stack: str) -> None:
    view = seen()
    number = STACKS.index(stack)
    assert not [skipped.reasons for skipped in view.skipped if skipped.stack == view.stacks[number]]
    assert not [failed.reason for failed in view.failed if failed.stack == view.stacks[number]]
    (trial,) = [trial for trial in view.trials if trial.stack == view.stacks[number]]
    assert trial.outcome is Outcome.OK, trial.reason
    assert trial.metrics["start_p50_ms"] > 0
