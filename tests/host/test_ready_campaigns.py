"""Every campaign of the folder that is for this machine runs here from first to last, under its quick profile.

Those for the lab are in tests/lab.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "campaigns"
CAMPAIGNS = [path for path in sorted(FOLDER.glob("*.yaml")) if "\ntestbed:" not in path.read_text()]

pytestmark = [pytest.mark.host, pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("path", CAMPAIGNS, ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("building stacks needs root")
    strata = str(Path(sys.executable).with_name("strata"))
    plan = json.loads(
        subprocess.run([strata, "plan", path, "--profile", "quick", "--json"], check=True, capture_output=True).stdout
    )
    argv = [strata, "run", str(path), "--profile", "quick", "--budget", "1h", "--out", str(tmp_path / "run"), "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {row["stack"] for row in found["ranking"]} == set(plan["runnable"])
    assert {skip["stack"] for skip in found["skipped"]} == {skip["stack"] for skip in plan["skipped"]}
    for row in found["ranking"]:
        assert set(row["metrics"]) >= {workload["workload"] for workload in plan["workloads"]}
    assert (tmp_path / "run" / "report.html").exists()
