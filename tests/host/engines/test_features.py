"""What is known of engines' storage drivers is what the probes find."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from .engine_runs import STRATA, left_over

pytestmark = [pytest.mark.host, pytest.mark.timeout(600)]

KNOWN = {
    "disk | ext4 | docker(vfs)": {"shared-images": False, "rootless": False, "base-size": None},
    "disk | btrfs(quotas) | docker(btrfs, base_size=256M)": {"shared-images": True, "base-size": True},
    "disk | ext4 | containerd": {"shared-images": True},
}


def test_what_is_known_of_drivers_is_found(tmp_path: Path) -> None:
    for program in ("dockerd", "containerd"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed; scripts/os-packages.sh test installs it")
    out = tmp_path / "out"
    argv = [str(STRATA), "features", *KNOWN, "--size", "disk=2G", "--out", str(out), "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=500)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    told = json.loads(done.stdout)
    (group,) = told["groups"]
    assert group["title"] == "Container engines"
    found = {row["stack"]: {cell["feature"]: cell for cell in row["cells"]} for row in group["rows"]}
    for stack, features in KNOWN.items():
        assert {name: found[stack][name]["holds"] for name in features} == features, found[stack]
    assert found["disk | ext4 | containerd"]["shared-images"]["figures"]["instance_s"] > 0
    assert left_over(out / "engine") == []
