"""kill -9 in the middle of probes on what this machine's kernel need not have: `strata clean` leaves nothing of ours on
a machine that stays, and its settings are as before.

The machine is one of the lab that is kept and reached by ssh. tests/fault/test_probes_cut_short.py does the same on
this one.
"""

from __future__ import annotations

import random
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from .kept_machine import KeptMachine, kept_machine
from .lab_runs import STRATA, built
from .test_killed_on_pools import LEFT

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(7200)]

GIB = 1 << 30
DISKS = ("one", "two")
POINTS = 6

CASES = {
    "lvmthin": ("disk | lvmthin | ext4", ("snapshot", "shrink", "older-snapshots", "quota", "nesting")),
    "lvm on md": ("2*disk | md(raid1) | lvm(snapshots=256M) | ext4", ("snapshot", "disk-loss", "grow", "clone")),
    "zfs": ("2*disk | zfs(l2arc=1)", ("ssd-cache", "shrink", "send", "checksums", "nesting")),
    "zvol": ("disk | zfs | zvol(sparse)", ("older-snapshots", "grow", "block")),
}

BEGUN = "find /var/tmp/strata-* -type d -name probe 2>/dev/null | head -n 1"
SETTINGS = """\
modprobe zfs
cd /sys/module/zfs/parameters && cat zfs_arc_max zfs_arc_min zfs_arc_shrinker_limit
cat /sys/fs/cgroup/cgroup.subtree_control
sed -n 's/^c_m[axin]*  *[0-9]*  *//p' /proc/spl/kstat/zfs/arcstats
find /sys/fs/cgroup -type d -name 'strata-probe-*'"""


@pytest.mark.parametrize("case", CASES)
def test_probes_killed_at_random_points_leave_nothing(case: str, tmp_path: Path) -> None:
    stack, names = CASES[case]
    home = tmp_path / "machine"
    home.mkdir()
    chosen = random.Random(case)
    with kept_machine(built("zfs"), home, dict.fromkeys(DISKS, 2 * GIB)) as there:
        before = there.run(SETTINGS).stdout
        for point in range(POINTS):
            killed_and_cleaned(there, stack, names, tmp_path / f"run{point}", chosen.uniform(0, 6.0 * len(names)))
            assert there.run(SETTINGS).stdout == before


def killed_and_cleaned(there: KeptMachine, stack: str, names: tuple[str, ...], directory: Path, delay_s: float) -> None:
    devices = [f"/dev/disk/by-id/virtio-{name}" for name in DISKS]
    argv = [STRATA, "run", stack, *(word for name in names for word in ("-w", f"feature/{name}")), "--on", "ssh:lab",
            *(word for device in devices for word in ("--device", f"disk={device}", "--wipe", device)), "--yes",
            "--rounds", "1", "--out", directory]  # fmt: skip
    output = directory.with_suffix(".log")
    with output.open("wb") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=there.environment)
    try:
        while process.poll() is None and not there.run(BEGUN).stdout:
            time.sleep(1)
        assert process.poll() is None, output.read_text()[-3000:]
        time.sleep(delay_s)
    finally:
        process.kill()  # whatever it is at by then: some points lie after the end
        process.wait()
    cleaned = subprocess.run((STRATA, "clean", directory), capture_output=True, text=True, env=there.environment)
    assert cleaned.returncode == 0, f"after {delay_s:.1f} s: {cleaned.stdout}{cleaned.stderr}"
    with sqlite3.connect(f"file:{directory / 'strata.db'}?mode=ro", uri=True) as sql:
        (uuid,) = sql.execute("SELECT uuid FROM run").fetchone()
    name = f"strata-{uuid.replace('-', '')[:6]}-"
    for device in devices:
        left = there.run(LEFT, name, f"/var/tmp/strata-{uuid[:8]}", device).stdout
        assert left == "", f"after {delay_s:.1f} s"
