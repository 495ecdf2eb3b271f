"""A trial on a modelled disk starts as if it were the first: the cache of the disk is empty, and udev is at rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.model import Outcome
from strata.store import samples

from .lab_runs import lab_run

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(1800)]

# Without a size nothing is laid out before the trial: what the trial before left in the disk's cache would stay there.
READ = "[job]\nrw=read\nbs=1m\ndirect=1\nioengine=psync\noffset=1g\n"
WRITE = "[job]\nrw=randwrite\nbs=4k\ndirect=1\nioengine=psync\n"


def test_a_read_after_a_trial_that_wrote_is_as_fast_as_before_it(tmp_path: Path) -> None:
    loads = []
    for name, content in (("before", READ), ("write", WRITE), ("after", READ)):
        (tmp_path / f"{name}.fio").write_text(content)
        loads.append(f"fio:{tmp_path}/{name}.fio(runtime=5s)")
    more = [word for load in loads[1:] for word in ("-w", load)]
    view = lab_run(tmp_path / "run", ["hdd"], loads[0], *more, "--clock", "virtual", "--size", "hdd=2160M")
    assert [trial.outcome for trial in view.trials] == [Outcome.OK] * 3
    before, write, after = (trial.metrics for trial in view.trials)
    assert after["bandwidth"] == pytest.approx(before["bandwidth"], rel=0.02)
    assert write["disk.writes"] > 1000
    assert after["host.flush_s"] > write["host.flush_s"] + 0.2, "what the writes left in the disk's cache was written"
    # udev reads the device when fio has closed it, before its jobs begin and after they have ended.
    names = ("machine.device.d0.reads", "machine.device.d0.writes")
    _, series = samples.read(tmp_path / "run", 2, names)
    reads, writes = ([value for _, value in points] for points in (series[name] for name in names))
    first = next(number for number, count in enumerate(writes) if count > writes[0])
    last = writes.index(writes[-1])
    assert last - first > 30 and len(set(reads[first:last])) == 1, "none while the job wrote"


def test_what_the_arc_served_is_marked_and_a_cold_read_in_order_is_not(tmp_path: Path) -> None:
    """The first reads the same small file over and over, the second each byte of a large one once. Since ZFS 2.3 a load
    with direct=1 goes past the ARC."""
    warm = "fio/randread-4k-qd32(size=64M, runtime=4s, direct=off)"
    cold = "fio/seqread-1m(size=256M, runtime=1s, direct=off)"
    view = lab_run(tmp_path / "run", ["disk | zfs"], warm, "-w", cold, "--size", "disk=1G")
    first, second = view.trials
    assert first.outcome is Outcome.OK and second.outcome is Outcome.OK, (first.reason, second.reason)
    assert first.metrics["host.arc_served_pct"] > 50 and "cache" in first.flags, (first.metrics, first.notes)
    assert second.metrics.get("host.arc_served_pct", 0) < 50 and "cache" not in second.flags, second.notes
    for trial in (first, second):
        assert trial.metrics["host.start_arc_bytes"] <= 32 << 20
        assert trial.metrics["host.start_dirty_bytes"] < 1 << 20
