"""Known answers in the lab: what is slowed down on purpose is measured as slow as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.model import Outcome

from .lab_runs import lab_run

LIMITED = """\
name: slow
about: a disk of 300 operations a second
write_cache: volatile
limits: {read_iops: 300, write_iops: 300, read_bytes_per_s: 100000000, write_bytes_per_s: 100000000}
"""

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]


def test_a_delay_of_20_ms_is_measured_as_such(tmp_path: Path) -> None:
    view = lab_run(
        tmp_path / "run",
        ["disk | dm(delay, read=20ms, write=20ms)", "disk | dm(delay, read=20ms, write=20ms) | ext4"],
        "fio/randread-4k-qd32(iodepth=1, size=64M, runtime=10s)",
    )
    assert len(view.trials) == 2
    for trial in view.trials:
        assert trial.outcome is Outcome.OK, trial.reason
        assert trial.metrics["read_lat_p50_ms"] == pytest.approx(20.0, rel=0.10)


def test_a_limit_of_300_operations_a_second_is_measured_as_such(tmp_path: Path) -> None:
    model = tmp_path / "slow.yaml"
    model.write_text(LIMITED)
    view = lab_run(
        tmp_path / "run",
        ["disk"],
        "fio/randread-4k-qd32(iodepth=4, size=256M, runtime=15s)",
        "--disk",
        f"disk={model}",
    )
    (trial,) = view.trials
    assert trial.outcome is Outcome.OK, trial.reason
    assert trial.metrics["iops"] == pytest.approx(300.0, rel=0.03)
    (disk,) = view.disks
    assert disk.model is not None and "slow" in disk.model


@pytest.mark.parametrize("above", ["", " | xfs"])
def test_null_blk_is_the_ceiling(tmp_path: Path, above: str) -> None:
    """Of the bare machine, and of a stack: what a file system costs is left when the disk costs nothing."""
    view = lab_run(
        tmp_path / "run",
        [f"nullblk(size=1G){above}", f"disk{above}"],
        "fio/randread-4k-qd32(iodepth=16, size=256M, runtime=5s)",
        "--size",
        "disk=1G",
    )
    iops = {trial.stack: trial.metrics["iops"] for trial in view.trials}
    assert max(iops, key=lambda stack: iops[stack]) == f"nullblk{above}", iops
