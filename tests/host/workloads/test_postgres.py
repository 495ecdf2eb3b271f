"""A real server and a real sysbench in a directory that PostgreSQL's user cannot reach by itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from strata.model import Kind, Target

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


def test_a_load_is_timed(closed: Target, tmp_path: Path) -> None:
    measured = run(call("postgres/prepare", **SMALL), closed, tmp_path / "scratch")
    assert 0 < measured.metrics["duration_s"] < 60
    assert (Path(closed.path) / "data" / "PG_VERSION").exists()
