"""A real server and a real sysbench in a directory that PostgreSQL's user cannot reach by itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from strata.gate import PART
from strata.model import Kind, Target
from strata.workloads import find

from .workload_bench import call, run

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become PostgreSQL's user"),
    pytest.mark.skipif(
        shutil.which("sysbench") is None or not list(Path("/usr/lib/postgresql").glob("*/bin/initdb")),
        reason="sysbench or the PostgreSQL server is not installed; apt-get install postgresql sysbench",
    ),
]
SMALL = {"rows": 2000, "threads": 2, "wal": 32 << 20, "shared_buffers": 16 << 20}


@pytest.fixture
def closed(tmp_path: Path) -> Target:
    """A target below a directory that only root may enter."""
    tmp_path.chmod(0o700)
    (tmp_path / "target").mkdir()
    return Target(Kind.DIRECTORY, str(tmp_path / "target"), None)


def servers_in(directory: str) -> list[str]:
    done = subprocess.run(["pgrep", "-af", "postgres.*-D /mnt"], capture_output=True, text=True)
    return [line for line in done.stdout.splitlines() if directory in line]


def test_transactions_are_counted_and_the_server_is_gone_afterwards(closed: Target, tmp_path: Path) -> None:
    measured = run(call("postgres/oltp-complex", runtime=4.0, **SMALL), closed, tmp_path / "scratch")
    assert measured.metrics["tps"] > 0 and measured.metrics["latency_p95_ms"] > 0
    assert len(measured.series["tps"]) >= 2  # of 4 s: the end may come before the last is told
    assert not (Path(closed.path) / "data" / "postmaster.pid").exists() and servers_in(closed.path) == []


def at_its_gate(closed: Target, directory: Path, runtime_s: float) -> subprocess.Popen[bytes]:
    """A load that has started and waits; what it says goes to `said`."""
    spec = call("postgres/oltp-complex", runtime=runtime_s, **SMALL)
    plan = find(spec).plan(spec, closed, str(directory), 1)
    for command in plan.prepare:
        subprocess.run(command.argv, check=True, capture_output=True)
    with (directory / "said").open("wb") as out:
        argv = ["sh", "-c", PART, "sh", str(directory / "gate"), "yes", *plan.measure.argv]
        process = subprocess.Popen(argv, stdout=out)
    while not (directory / "gate" / "ready").exists():
        assert process.poll() is None
        time.sleep(0.05)
    return process


def test_a_load_that_is_told_to_end_does_not_run_to_its_end(closed: Target, tmp_path: Path) -> None:
    process = at_its_gate(closed, tmp_path, 3600.0)
    (tmp_path / "gate" / "go").write_text("0\n")
    while not (tmp_path / "gate" / "began").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.terminate()
    assert process.wait(timeout=120) == 143
    assert not (Path(closed.path) / "data" / "postmaster.pid").exists() and servers_in(closed.path) == []


def test_transactions_begin_when_the_gate_lets_them(closed: Target, tmp_path: Path) -> None:
    process = at_its_gate(closed, tmp_path, 2.0)
    gate, said = tmp_path / "gate", tmp_path / "said"
    assert b"Threads started!" not in said.read_bytes()
    at_ms = round(time.time() * 1000) + 200
    (gate / "go").write_text(f"{at_ms}\n")
    assert process.wait() == 0
    assert "transactions:" in said.read_text()
    assert int((gate / "ended").read_text()) >= at_ms + 2000, "it ran for two seconds"
    assert servers_in(closed.path) == []


def test_a_load_is_timed(closed: Target, tmp_path: Path) -> None:
    measured = run(call("postgres/prepare", **SMALL), closed, tmp_path / "scratch")
    assert 0 < measured.metrics["duration_s"] < 60
    assert (Path(closed.path) / "data" / "PG_VERSION").exists()
