"""A throttled device is measured as what it is, through the whole path: command line, visit, engine, store, verdict."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.host, pytest.mark.timeout(300)]

BLKIO = Path("/sys/fs/cgroup/blkio")
LIMIT = 200


@pytest.fixture
def throttled() -> Iterator[Path]:
    """A cgroup in which every loop device does at most LIMIT reads and LIMIT writes a second."""
    if os.geteuid() != 0:
        pytest.skip("throttling and loop devices need root")
    if not (BLKIO / "cgroup.procs").exists():
        pytest.skip("no cgroup v1 blkio controller at /sys/fs/cgroup/blkio: nothing to throttle with here")
    group = BLKIO / f"strata-test-{os.getpid()}"
    group.mkdir()
    try:
        if not (group / "blkio.throttle.read_iops_device").exists():
            pytest.skip("this kernel has no blkio throttle")
        # the next free device must exist before it can be limited
        subprocess.run(["losetup", "--find"], check=True, capture_output=True)
        for device in Path("/sys/block").glob("loop*"):
            for direction in ("read", "write"):
                rule = f"{(device / 'dev').read_text().strip()} {LIMIT}"
                (group / f"blkio.throttle.{direction}_iops_device").write_text(rule)
        yield group
    finally:
        with contextlib.suppress(OSError):
            group.rmdir()


def verdict(group: Path, directory: Path, workload: str) -> dict[str, dict[str, float]]:
    """The figures of the one stack of a run inside the cgroup."""
    argv = [
        *("sh", "-c", 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"', "sh", str(group)),
        *(str(Path(sys.executable).with_name("strata")), "run", "disk | ext4", "-w", workload),
        *("--rounds", "1", "--size", "disk=1G", "--out", str(directory), "--json"),
    ]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["ranking"]
    (metrics,) = row["metrics"].values()
    return {name: metric["point"] for name, metric in metrics.items()}


def test_reads_of_a_device_of_200_iops(throttled: Path, tmp_path: Path) -> None:
    found = verdict(throttled, tmp_path / "run", "fio/randread-4k-qd32(runtime=15s, size=32M)")
    assert found["iops"] == pytest.approx(LIMIT, rel=0.02)
    # Little's law: 32 in flight at 200 a second take 160 ms
    assert found["read_lat_mean_ms"] == pytest.approx(1000 * 32 / LIMIT, rel=0.05)


def test_writes_of_a_device_of_200_iops(throttled: Path, tmp_path: Path) -> None:
    found = verdict(throttled, tmp_path / "run", "fio/randwrite-4k-qd32(runtime=15s, size=32M)")
    assert 0.5 * LIMIT < found["iops"] <= 1.02 * LIMIT
