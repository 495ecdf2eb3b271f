"""Tenants on this machine without guests: apart from each other, at the same time, and gone afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from strata.model import Outcome
from strata.store import reader

pytestmark = [
    pytest.mark.host,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="building stacks needs root"),
]

STRATA = str(Path(sys.executable).with_name("strata"))


def run(out: Path, stack: str, *loads: str, rounds: int = 1) -> subprocess.CompletedProcess[str]:
    wanted = [word for load in loads for word in ("-w", load)]
    argv = [STRATA, "run", stack, *wanted, "--size", "disk=512M", "--rounds", str(rounds), "--out", str(out)]
    return subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def test_everybody_s_load_is_added_up(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = run(out, "disk | ext4 | tenants(3)", "fio/randrw-75-25(runtime=5s, size=16M)")
    assert done.returncode == 0, done.stdout + done.stderr
    (trial,) = reader.view(out).trials
    assert trial.outcome is Outcome.OK, trial.reason
    assert trial.metrics["tenants.overlap_pct"] >= 99
    each = [trial.metrics[f"tenant{tenant}.iops"] for tenant in (1, 2, 3)]
    assert min(each) > 0 and trial.metrics["iops"] == pytest.approx(sum(each))
    assert trial.metrics["disk.write_bytes"] > 0 and trial.metrics["host.cpu_busy_pct"] > 0
    longest = [trial.metrics[f"tenant{tenant}.read_lat_max_ms"] for tenant in (1, 2, 3)]
    assert trial.metrics["read_lat_max_ms"] == max(longest)
    assert trial.metrics["worst_tenant.read_lat_p99_ms"] >= trial.metrics["tenant1.read_lat_p99_ms"]
    assert "read_lat_p99_ms" not in trial.metrics, "there is no percentile of percentiles"
    verified = subprocess.run([STRATA, "verify", str(out), "--figures"], capture_output=True, text=True)
    assert verified.returncode == 0 and "figures of 1 trial are the same" in verified.stdout, verified.stdout
    assert not list((out / "work").glob("*"))


def test_loads_with_a_tenant_run_together_and_have_results_of_their_own(tmp_path: Path) -> None:
    out = tmp_path / "run"
    loads = ("fio/randrw-75-25@1(runtime=5s, size=16M)", "filebench/varmail@2(runtime=5s, nfiles=2000)")
    done = run(out, "disk | ext4 | tenants(3)", *loads)
    assert done.returncode == 0, done.stdout + done.stderr
    trials = {trial.workload: trial for trial in reader.view(out).trials}
    assert set(trials) == set(loads)
    assert {trial.outcome for trial in trials.values()} == {Outcome.OK}
    assert len({trial.metrics["tenants.overlap_pct"] for trial in trials.values()}) == 1


def test_a_tenant_named_again_begins_the_next_trial(tmp_path: Path) -> None:
    out = tmp_path / "run"
    loads = (
        "dd/seqwrite-sync@1(size=1M)",
        "fio/randrw-75-25@1(runtime=6s, size=16M)",
        "fio/randrw-75-25@2(runtime=6s, size=16M)",
    )
    done = run(out, "disk | ext4 | tenants(2)", *loads)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    trials = {trial.workload: trial for trial in reader.view(out).trials}
    assert set(trials) == set(loads)
    assert trials[loads[0]].outcome is Outcome.OK
    assert trials[loads[0]].metrics["tenants.overlap_pct"] == 100


def test_what_neighbours_cost_is_measured_where_it_is_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "run"
    # Each may have half of the device at most, and has less while the other works: the limit is of both together. It is
    # so low that a busy machine comes up to it too.
    stack = "disk | ext4 | limit(write_iops=100) | tenants(2, neighbours=alone)"
    done = run(out, stack, "fio/randwrite-4k-qd32(runtime=6s, size=16M)", rounds=2)
    assert done.returncode == 0, done.stdout + done.stderr
    trials = reader.view(out).trials
    assert len(trials) == 2  # alone before the trial of all, and after it
    for trial in trials:
        assert trial.outcome is Outcome.OK, trial.reason
        for tenant in (1, 2):
            assert trial.metrics[f"neighbours.tenant{tenant}.slowdown"] == pytest.approx(2, rel=0.35)
            assert trial.metrics[f"neighbours.tenant{tenant}.alone_iops"] == pytest.approx(100, rel=0.2)
        assert 0.9 < trial.metrics["neighbours.fairness"] <= 1
    assert "What the neighbours cost" in (out / "report.html").read_text()
    assert not list((out / "work").glob("*"))


def test_one_that_fails_fails_all_with_its_reason(tmp_path: Path) -> None:
    script = tmp_path / "fail.sh"
    script.write_text("#!/bin/sh\necho out of luck >&2\nexit 3\n")
    out = tmp_path / "run"
    done = run(out, "disk | ext4 | tenants(2)", "fio/randrw-75-25@1(runtime=6s, size=16M)", f"command:{script}@2")
    assert done.returncode == 1, done.stdout + done.stderr
    trials = reader.view(out).trials
    assert len(trials) == 2
    for trial in trials:
        assert trial.outcome is Outcome.FAILED and "tenant 2" in (trial.reason or "")
        assert "out of luck" in (trial.reason or "")
    assert not list((out / "work").glob("*"))


@pytest.mark.parametrize(
    ("stack", "loads", "words"),
    [
        ("disk | ext4 | tenants(2)", ["null@3"], "not among the 2"),
        ("disk | ext4", ["null@1"], "add tenants"),
        ("disk | tenants(2) | ext4", ["null"], "put lvm or lvmthin on it"),
        ("disk | vm | ext4 | tenants(2)", ["null"], "put tenants below vm"),
    ],
)
def test_what_cannot_be_is_said_in_the_plan(stack: str, loads: list[str], words: str) -> None:
    wanted = [word for load in loads for word in ("-w", load)]
    done = subprocess.run([STRATA, "plan", stack, *wanted], capture_output=True, text=True)
    assert words in " ".join((done.stdout + done.stderr).split())
