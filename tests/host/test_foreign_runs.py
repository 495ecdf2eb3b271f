"""Run directories of strangers: what they say is never carried out, and can be read all the same."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from strata.cli import written
from strata.model import Call, Command, Disk, Metric, Node, Rule, Stack
from strata.store import schema
from strata.store.writer import Store

pytestmark = [pytest.mark.host, pytest.mark.timeout(300)]

STRATA = str(Path(sys.executable).with_name("strata"))
STACK = "disk | ext4"
RUN = ("run", STACK, "-w", "null", "--rounds", "1", "--size", "disk=64M", "--out")


def strata(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [STRATA, *argv],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
        check=False,
    )


def killed(directory: Path, undo: tuple[str, ...]) -> str:
    """A run as RUN makes it, which was killed after a step whose undo is `undo`; its id."""
    campaign = written.campaign([STACK], ["null"], ["disk=64M"])
    store = Store.create(
        directory,
        name="n",
        about="",
        source="",
        fingerprint="f",
        description={**campaign.describe(), "devices": []},
        seed=1,
        version="0",
        now=1.0,
    )
    metric = Metric("duration_s", "s", "lower")
    disk = Node(Call("disk", "disk", {"role": "disk"}))
    store.add_plan([Stack(STACK, disk)], [(Call("null", "null", {}), metric, (metric,))], (), (Disk("disk", 64 << 20),))
    store.set_rule(Rule(rounds=1), 1.0)
    store.add_visits([(0, STACK)], 1.0)
    store.journal(store.begin(1, 1.0), "layer", "make it", Command(("true",)), Command(undo), 1.0)
    uuid = store.identity().uuid
    store.close()
    return uuid


def alter(directory: Path, statement: str, *values: object) -> None:
    """As somebody who knows SQL; the triggers that keep rows from being changed are put back."""
    with closing(sqlite3.connect(directory / "strata.db", isolation_level=None)) as sql:
        for _, name, _, _ in (row for row in schema.definitions() if row[0] == "trigger"):
            sql.execute(f"DROP TRIGGER {name}")
        sql.execute(statement, values)
        for _, _, _, text in (row for row in schema.definitions() if row[0] == "trigger"):
            sql.execute(str(text))


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that only a command of the stranger's makes."""
    return tmp_path / "marker"


@pytest.fixture
def foreign(tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run of another machine, unpacked here as root does: every file belongs to root."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("STATE_DIRECTORY", str(tmp_path / "state-elsewhere"))
        killed(tmp_path / "foreign", ("touch", str(marker)))
    return tmp_path / "foreign"


@pytest.fixture
def own(tmp_path: Path, marker: Path) -> Path:
    killed(tmp_path / "own", ("touch", str(marker)))
    return tmp_path / "own"


@pytest.mark.parametrize("argv", [("clean",), RUN], ids=["clean", "run"])
def test_an_undo_of_a_stranger_is_not_run(foreign: Path, marker: Path, argv: tuple[str, ...]) -> None:
    before = sorted(path.name for path in foreign.iterdir())
    done = strata(*argv, str(foreign))
    assert not marker.exists(), "a command of the stranger's journal ran"
    assert done.returncode == 3, done
    assert "was not made by this user on this machine" in done.stderr and "strata report" in done.stderr
    assert sorted(path.name for path in foreign.iterdir() if path.name != "lock") == before


def test_an_undo_of_our_own_is_run(own: Path, marker: Path) -> None:
    done = strata("clean", str(own))
    assert done.returncode == 0, done
    assert marker.exists()


@pytest.mark.parametrize("argv", [("clean",), RUN], ids=["clean", "run"])
def test_an_undo_that_somebody_else_put_into_our_run_is_not_run(own: Path, marker: Path, argv: tuple[str, ...]) -> None:
    alter(own, "UPDATE journal SET undo_argv = ?", json.dumps(["touch", str(marker)]))
    alter(own, "INSERT INTO journal SELECT signature, 9, attempt, layer, why, do_argv, undo_argv, 1, at FROM journal")
    done = strata(*argv, str(own))
    assert not marker.exists()
    assert done.returncode == 3, done
    assert "row 9 of the table journal has no valid signature" in done.stderr


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[str]]:
    """A process of another run."""
    process = subprocess.Popen(["sleep", "600"], env={**os.environ, "STRATA_RUN": "e" * 32}, text=True)
    yield process
    process.kill()
    process.wait()


def test_an_altered_id_ends_no_process(own: Path, bystander: subprocess.Popen[str]) -> None:
    alter(own, "UPDATE run SET uuid = ?", "e" * 32)
    done = strata("clean", str(own))
    assert bystander.poll() is None, "a process of another run was ended"
    assert done.returncode == 3, done


def test_an_altered_testbed_is_not_connected_to(own: Path, tmp_path: Path) -> None:
    """ssh itself is replaced, to see whether anybody starts it."""
    connected = tmp_path / "connected"
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {connected}\nexit 255\n")
    program.chmod(0o755)
    with closing(sqlite3.connect(own / "strata.db")) as sql:
        (text,) = sql.execute("SELECT description FROM run").fetchone()
    alter(own, "UPDATE run SET description = ?", json.dumps({**json.loads(text), "testbed": "ssh:stranger"}))
    done = strata("clean", str(own), PATH=f"{program.parent}:{os.environ['PATH']}")
    assert not connected.exists() and "stranger" not in done.stderr, done
    assert done.returncode == 3, done


def test_what_is_refused_can_still_be_read(foreign: Path) -> None:
    done = strata("status", str(foreign), "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["left_behind"] == 1, done


def test_a_lock_that_is_a_pipe_makes_nobody_wait(foreign: Path) -> None:
    os.mkfifo(foreign / "lock")
    assert strata("status", str(foreign)).returncode == 0
    assert strata("clean", str(foreign)).returncode in (2, 3)
