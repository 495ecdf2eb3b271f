"""What layers say when something completes: a pool without room, a cache with data that is nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.model import Outcome

from .lab_runs import lab_run

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_thin_pool_that_fills_up_fails_the_trial_and_says_so(tmp_path: Path) -> None:
    view = lab_run(
        tmp_path / "run", ["disk | lvmthin(size=3G) | ext4"], "dd/seqwrite-sync(size=1500M)", "--size", "disk=1G"
    )
    (trial,) = view.trials
    assert trial.outcome is Outcome.FAILED
    assert "lvmthin: the pool" in (trial.reason or "") and "is full" in (trial.reason or ""), trial.reason


def test_what_is_dirty_in_a_cache_is_written_out_by_the_tear_down_and_timed(tmp_path: Path) -> None:
    """On the virtual clock, where the time of a step is the disks': no byte reaches the hdd faster than its cable."""
    view = lab_run(
        tmp_path / "run",
        ["hdd + ssd | lvmcache(writeback, chunk=64K) | ext4", "hdd + ssd | lvmcache(writethrough, chunk=64K) | ext4"],
        "fio/randwrite-4k-qd32(size=256M, runtime=2s)",
        *("--clock", "virtual", "--size", "hdd=1G", "--size", "ssd=512M"),
        *("--disk", "hdd=hdd-7200", "--disk", "ssd=ssd-sata"),
    )
    back, through = (next(trial for trial in view.trials if trial.stack == stack) for stack in view.stacks)
    dirty_bytes = back.metrics["lvmcache.dirty_bytes"]
    assert dirty_bytes > 100 << 20
    assert through.metrics["lvmcache.dirty_bytes"] == 0
    # The cache writes out by itself while nothing else is asked of the disks, so what is dirty at the end of the trial
    # goes while the file system is unmounted as well as when the cache is removed.
    took = {stack: sum(step.remove_s or 0 for step in view.steps if step.stack == stack) for stack in view.stacks}
    flushed, had_nothing = (took[stack] for stack in view.stacks)
    assert flushed - had_nothing > dirty_bytes / 550e6, (dirty_bytes, flushed, had_nothing)
    (uncached,) = [step for step in view.steps if step.stack == view.stacks[0] and step.why.startswith("put the cache")]
    assert uncached.remove_s is not None and "write out what is dirty" in uncached.why


@pytest.mark.parametrize(
    ("layer", "stack"),
    [
        ("vdo", 'disk | vdo(compression=off) | ext4(mkfs="-E nodiscard") | fill(40%, duplicates=50%)'),
        ("zfs", "disk | zfs(dedup=on) | fill(40%, duplicates=50%)"),
    ],
)
def test_half_of_what_is_there_twice_is_saved(tmp_path: Path, layer: str, stack: str) -> None:
    """A known answer: of data of which half repeats what is there already, half takes room; the load adds little."""
    size = {"vdo": "6G", "zfs": "1G"}[layer]
    view = lab_run(tmp_path / "run", [stack], "fio/randread-4k-qd32(size=4M, runtime=1s)", "--size", f"disk={size}")
    (trial,) = view.trials
    assert trial.outcome is Outcome.OK, trial.reason
    ratio = trial.metrics[f"{layer}.logical_bytes"] / trial.metrics[f"{layer}.physical_bytes"]
    assert ratio == pytest.approx(2.0, rel=0.1), trial.metrics


@pytest.mark.parametrize("stack", ["lvm(size=256M) | ext4", "lvmthin | ext4", "btrfs", "zfs", "zfs | zvol | ext4"])
def test_every_write_to_the_data_of_a_load_is_one_against_a_held_snapshot(tmp_path: Path, stack: str) -> None:
    """What was written over stays in the snapshots, whatever takes them; without one nothing stays."""
    stacks = [f"disk | {stack} | snapshot(held={held})" for held in (0, 2)]
    load = "fio/randwrite-4k-qd32(size=32M, runtime=2s)"
    view = lab_run(tmp_path / "run", stacks, load, "--size", "disk=1G")
    assert [trial.outcome for trial in view.trials] == [Outcome.OK] * 2, [trial.reason for trial in view.trials]
    without, two = (next(trial.metrics for trial in view.trials if trial.stack == each) for each in view.stacks)
    assert (without["snapshot.held"], two["snapshot.held"]) == (0, 2)
    assert without["snapshot.shared_bytes"] == 0 and two["snapshot.shared_bytes"] >= 32 << 20
    assert two["snapshot.kept_bytes"] > without["snapshot.kept_bytes"]
