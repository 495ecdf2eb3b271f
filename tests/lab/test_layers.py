"""Every layer built, read back, measured for a moment, removed and looked for afterwards, each in a machine of its own.

One run per group of stacks: what a test asks is how its stack fared in it. A visit in the lab fails when its removal
leaves anything behind, so a stack that is "ok" here was also leak-checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from strata.lab import cache as caches
from strata.lab import emulator, image
from strata.lab.spec import LabSpec
from strata.model import Outcome, TrialResult, View

from .lab_runs import lab_run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]

LOAD = "fio/randrw-75-25(size=32M, iodepth=4, runtime=1s)"

STACKS = {
    "md": [
        "2*disk | md(raid0, chunk=64K) | ext4",
        "2*disk | md(raid1, bitmap=internal) | xfs",
        "4*disk | md(raid10, chunk=512K) | xfs",
        "3*disk | md(raid5) | degraded(1) | xfs",
        "2*disk | md(raid1) | rebuilding | ext4",
    ],
    "lvm": [
        "2*disk | lvm(striped, snapshots=256M) | snapshot(held=1) | xfs",
        "4*disk | md(raid10, chunk=512K) | lvm | ext4",
        "disk | lvmthin | ext4",
        "disk | lvmthin(zero=off, chunk=512K) | snapshot(held=3) | xfs",
        "hdd + ssd | lvmcache(writethrough, type=vol) | ext4",
        "(2*hdd | md(raid1)) + ssd | lvmcache(writeback) | btrfs | warm(1)",
    ],
    "vdo": ['disk | vdo(compression=off) | xfs(mkfs="-K")'],
    "bcache": ["hdd + ssd | bcache(writeback) | xfs", "hdd + ssd | bcache(writethrough) | ext4"],
    "zfs": [
        "disk | zfs(compression=lz4)",
        "4*disk | zfs(raidz1, slog=1)",
        "2*disk | zfs(mirror=2) | zvol(volblocksize=16K) | ext4",
        "2*disk | zfs(mirror=2, xattr=sa) | degraded(1)",
    ],
    "btrfs": [
        "4*disk | btrfs(raid10, nodatacow)",
        "2*disk | btrfs(raid1) | degraded(1)",
        "disk | btrfs | fill(10%, duplicates=40%) | duperemove | balance",
    ],
    "others": [
        "disk | dm(linear) | f2fs",
        "disk | dm(delay, read=4ms, write=4ms) | ext4",
        "disk | dm(flakey, up=600s, down=1s) | xfs",
        "disk | dm(error, start=1536M, size=1M) | ext4",
        "nullblk(size=1G) | ext4",
        "2*scsi_debug(size=512M, delay=100us) | md(raid1) | ext4",
        "disk | ext4 | age(rounds=2, files=100, size=32M)",
    ],
}
MORE = {
    "more md": [
        "2*disk | md(raid1, assume_clean=off) | ext4",
        "4*disk | md(raid10, layout=far) | ext4",
        "4*disk | md(raid10, layout=offset) | ext4",
        "3*disk | md(raid5) | xfs",
        "4*disk | md(raid6) | ext4",
        "3*disk | md(raid5) | rebuilding | ext4",
        "4*disk | md(raid6) | rebuilding | xfs",
        "4*disk | md(raid10) | rebuilding | xfs",
    ],
    "more lvm": [
        "disk | lvm | xfs",
        "2*disk | lvm(raid1, size=256M) | ext4",
        "hdd + ssd | lvmcache(writeback) | xfs",
        "disk | lvm | lvmthin(metadata=16M, size=4G) | ext4",
        "hdd + ssd | lvmcache(writethrough, policy=cleaner) | ext4",
    ],
    "more vdo": ['disk | vdo | ext4(mkfs="-E nodiscard")', 'disk | vdo(deduplication=off) | xfs(mkfs="-K")'],
    "more bcache": ["hdd + ssd | bcache(writearound) | ext4"],
    "more zfs": [
        "4*disk | zfs(mirror=2, xattr=sa, recordsize=16K)",
        "2*disk + ssd | zfs(mirror=2, l2arc=1)",
        "disk | zfs(dedup=on, prefetch=off)",
        "2*disk | zfs(mirror=2) | snapshot(held=3)",
        "2*disk | zfs(mirror=2, atime=on) | fill(30%) | rebuilding",
        "3*disk | zfs(raidz2, sync=disabled)",
    ],
    "more btrfs": [
        "4*disk | btrfs(raid10)",
        "disk | btrfs | snapshot(held=2)",
        "disk | btrfs(compress=zstd)",
        "disk | btrfs(quotas) | age(rounds=2, files=100, size=32M, snapshots=1)",
        "2*disk | btrfs(raid1) | fill(10%) | rebuilding",
    ],
    "images": [
        "4*disk | md(raid10) | lvmthin | xfs | qcow2(size=512M) | qsd(cache=none, aio=native) | ext4",
        "disk | btrfs | raw(prealloc=falloc) | qsd(cache=unsafe) | ext4",
        "disk | xfs | qcow2(size=512M) | qsd(export=nbd, discard=unmap, detect_zeroes=unmap) | ext4",
    ],
    "more faults": [
        "3*disk | zfs(raidz2) | fill(30%) | rebuilding",
        "3*disk | zfs(raidz1) | degraded(1)",
        "4*disk | btrfs(raid10) | degraded(1)",
        "4*disk | md(raid10) | degraded(2) | ext4",
        "4*disk | md(raid6) | degraded(2) | lvmthin | ext4",
        "2*disk | lvm(raid1, size=256M) | degraded(1) | ext4",
        "2*disk | lvm(raid1, size=512M) | rebuilding | ext4",
        "4*disk | zfs(raidz3, sync=always, arc_max=256M)",
    ],
    "more others": ["disk | dm(delay, read=20ms, write=20ms) | ext4", "disk | xfs | fill(80%)"],
}
SIZES = {"disk": "2G", "hdd": "2G", "ssd": "1G"}


@cache
def seen(group: str) -> View:
    """One run of all stacks of the group."""
    stacks = {**STACKS, **MORE}[group]
    roles = [role for role in SIZES if any(role in stack for stack in stacks)]
    wanted = {**SIZES, **({"disk": "6G"} if "vdo" in group else {})}
    sizes = [part for role in roles for part in ("--size", f"{role}={wanted[role]}")]
    return lab_run(Path(mkdtemp(prefix="strata-lab-")) / "run", stacks, LOAD, *sizes)


@cache
def accelerator() -> str:
    return emulator.accelerator("real", image.find(LabSpec(), caches.default()), "test-layers")


def fared(group: str, number: int) -> TrialResult:
    view = seen(group)
    stack = view.stacks[number]
    assert not [skipped.reasons for skipped in view.skipped if skipped.stack == stack]
    assert not [failed.reason for failed in view.failed if failed.stack == stack]
    (trial,) = [trial for trial in view.trials if trial.stack == stack]
    assert trial.outcome is Outcome.OK, trial.reason
    assert trial.metrics["iops"] > 0
    assert view.facts is not None
    functional = any("emulated" in caveat for caveat in view.facts.caveats)
    assert functional is (accelerator() == "tcg"), "figures without KVM are marked, and only those"
    return trial


def each(groups: Mapping[str, list[str]]) -> list[object]:
    return [pytest.param(g, n, id=stack) for g, stacks in groups.items() for n, stack in enumerate(stacks)]


@pytest.mark.parametrize(("group", "number"), each(STACKS))
def test_a_stack_is_built_proven_measured_and_removed(group: str, number: int) -> None:
    fared(group, number)


@pytest.mark.slow
@pytest.mark.parametrize(("group", "number"), each(MORE))
def test_and_more_of_each_layer(group: str, number: int) -> None:
    fared(group, number)


SAVED = {
    "vdo": ("vdo.logical_bytes", "vdo.physical_bytes"),
    "zfs": ("zfs.logical_bytes", "zfs.physical_bytes"),
    "lvmthin": ("lvmthin.logical_bytes", "lvmthin.physical_bytes"),
}


@pytest.mark.parametrize(("layer", "group", "number"), [("vdo", "vdo", 0), ("zfs", "zfs", 0), ("lvmthin", "lvm", 2)])
def test_what_saves_room_reports_bytes_before_and_after(layer: str, group: str, number: int) -> None:
    trial = fared(group, number)
    for name in SAVED[layer]:
        assert trial.metrics[name] > 0
