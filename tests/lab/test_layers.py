"""Every layer built, read back, measured for a moment, removed and looked for afterwards, each in a machine of its own.

One run per group of stacks: what a test asks is how its stack fared in it. A visit in the lab fails when its removal
leaves anything behind, so a stack that is "ok" here was also leak-checked.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from strata.model import Outcome, View

from .lab_runs import lab_run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]

LOAD = "fio/randrw-75-25(size=32M, iodepth=4, runtime=2s)"

STACKS = {
    "md": [
        "2*disk | md(raid0, chunk=64K) | ext4",
        "2*disk | md(raid1, bitmap=internal) | xfs",
        "2*disk | md(raid1, assume_clean=off) | ext4",
        "4*disk | md(raid10, chunk=512K) | xfs",
        "4*disk | md(raid10, layout=far) | ext4",
        "4*disk | md(raid10, layout=offset) | ext4",
        "3*disk | md(raid5) | xfs",
        "4*disk | md(raid6) | ext4",
        "3*disk | md(raid5) | degraded(1) | xfs",
        "2*disk | md(raid1) | rebuilding | ext4",
    ],
    "lvm": [
        "disk | lvm | xfs",
        "2*disk | lvm(striped) | ext4",
        "disk | lvm | snapshot(held=1) | ext4",
        "4*disk | md(raid10, chunk=512K) | lvm | ext4",
        "disk | lvmthin | ext4",
        "disk | lvmthin(zero=off, chunk=512K) | xfs",
        "disk | lvmthin(zero=off) | snapshot(held=3) | xfs",
        "hdd + ssd | lvmcache(writeback) | xfs",
        "hdd + ssd | lvmcache(writethrough, type=vol) | ext4",
        "(2*hdd | md(raid1)) + ssd | lvmcache(writeback) | btrfs | warm(1)",
        "disk | vdo | ext4",
        "disk | vdo(compression=off) | xfs",
    ],
    "bcache": [
        "hdd + ssd | bcache(writeback) | xfs",
        "hdd + ssd | bcache(writethrough) | ext4",
        "hdd + ssd | bcache(writearound) | ext4",
    ],
    "zfs": [
        "disk | zfs(compression=lz4)",
        "4*disk | zfs(mirror=2, xattr=sa, recordsize=16K)",
        "3*disk | zfs(raidz1)",
        "3*disk | zfs(mirror=2, slog=1)",
        "2*disk + ssd | zfs(mirror=2, l2arc=1)",
        "disk | zfs(dedup=on, prefetch=off)",
        "2*disk | zfs(mirror=2) | zvol(volblocksize=16K) | ext4",
        "2*disk | zfs(mirror=2) | degraded(1)",
        "2*disk | zfs(mirror=2) | snapshot(held=3)",
    ],
    "btrfs": [
        "4*disk | btrfs(raid10)",
        "4*disk | btrfs(raid10, nodatacow)",
        "2*disk | btrfs(raid1) | degraded(1)",
        "disk | btrfs | snapshot(held=2)",
        "disk | btrfs | fill(20%, duplicates=40%) | duperemove",
        "disk | btrfs | fill(20%) | balance",
        "disk | btrfs(compress=zstd)",
    ],
    "truth": [
        "disk | dm(delay, read=20ms, write=20ms) | ext4",
        "disk | dm(linear) | xfs",
        "nullblk(size=1G) | ext4",
        "disk | f2fs",
        "disk | xfs | fill(30%)",
        "disk | ext4 | age(rounds=2)",
    ],
}


SIZES = {"disk": "6G", "hdd": "2G", "ssd": "1G"}


@cache
def seen(group: str) -> View:
    """One run of all stacks of the group."""
    roles = [role for role in SIZES if any(role in stack for stack in STACKS[group])]
    sizes = [part for role in roles for part in ("--size", f"{role}={SIZES[role]}")]
    return lab_run(Path(mkdtemp(prefix="strata-lab-")) / "run", STACKS[group], LOAD, *sizes)


@pytest.mark.parametrize(("group", "number"), [(g, n) for g, stacks in STACKS.items() for n in range(len(stacks))],
                         ids=[stack for stacks in STACKS.values() for stack in stacks])  # fmt: skip
def test_a_stack_is_built_proven_measured_and_removed(group: str, number: int) -> None:
    view = seen(group)
    stack = view.stacks[number]
    assert not [skipped.reasons for skipped in view.skipped if skipped.stack == stack]
    assert not [failed.reason for failed in view.failed if failed.stack == stack]
    (trial,) = [trial for trial in view.trials if trial.stack == stack]
    assert trial.outcome is Outcome.OK, trial.reason
    assert trial.metrics["iops"] > 0
    assert any("emulated" in caveat or "KVM" in caveat for caveat in view.facts.caveats) or Path("/dev/kvm").exists()


SAVINGS = {
    "disk | vdo | ext4": ("vdo.logical_bytes", "vdo.physical_bytes"),
    "disk | lvmthin | ext4": ("lvmthin.logical_bytes", "lvmthin.physical_bytes"),
    "disk | zfs(compression=lz4)": ("zfs.logical_bytes", "zfs.physical_bytes"),
}


@pytest.mark.parametrize("expression", SAVINGS)
def test_what_saves_room_reports_bytes_before_and_after(expression: str) -> None:
    group = next(group for group, stacks in STACKS.items() if expression in stacks)
    view = seen(group)
    (trial,) = [t for t in view.trials if t.stack == view.stacks[STACKS[group].index(expression)]]
    for name in SAVINGS[expression]:
        assert trial.metrics[name] > 0
