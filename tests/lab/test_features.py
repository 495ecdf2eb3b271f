"""What only a machine with device mapper, md and ZFS can show of features: what is known of each is what is found."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from .lab_runs import STRATA, built

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(3600)]

KNOWN = {
    "disk | zfs": {
        "older-snapshots": False, "send": True, "cow": True, "checksums": True, "self-healing": False, "quota": True,
        "clone": True, "snapshot": True, "io-limit": False, "block": True, "disk-loss": None, "grow": True,
        "discard": True, "nesting": True,
    },
    "disk | lvmthin | xfs": {
        "older-snapshots": True, "send": False, "cow": False, "checksums": False, "quota": True, "clone": True,
        "snapshot": True, "io-limit": True, "block": True, "discard": True, "ssd-cache": False, "nesting": False,
    },
    "2*disk | md(raid1) | zfs": {"disk-loss": True, "self-healing": False, "checksums": True},
    "2*disk | md(raid1) | xfs": {"disk-loss": True, "self-healing": False, "block": False, "snapshot": False},
    "2*disk | lvmcache | ext4": {"ssd-cache": True, "dedup-on-demand": False},
    "2*disk | zfs(l2arc=1)": {"ssd-cache": True, "disk-loss": None},
}  # fmt: skip


def test_what_is_known_of_volumes_pools_and_arrays_is_found(tmp_path: Path) -> None:
    built("zfs")
    done = subprocess.run(
        [str(STRATA), "features", *KNOWN, "--on", "lab", "--out", str(tmp_path / "out"), "--json"],
        capture_output=True, text=True, timeout=3500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (group,) = told["groups"]
    found = {row["stack"]: {cell["feature"]: cell for cell in row["cells"]} for row in group["rows"]}
    for stack, features in KNOWN.items():
        wrong = {
            name: found[stack][name] for name, holds in features.items() if found[stack][name]["holds"] is not holds
        }
        assert not wrong, (stack, wrong)
        assert all(cell["why"] for cell in found[stack].values())
    # ZFS is said to have no block devices (Incus), and a volume of a pool is one
    disagreed = {(each["stack"], each["feature"], each["by"]) for each in told["disagreements"]}
    assert ("disk | zfs", "block", "Incus 7.3, ZFS") in disagreed
    assert (tmp_path / "out" / "features.html").exists()
