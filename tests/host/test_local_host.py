"""Commands on this machine: what they leave behind, and how they end."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from strata.errors import CommandFailed, CommandTimedOut, VisitFailed
from strata.hosts.local import LocalHost
from strata.model import Command

pytestmark = pytest.mark.host


@pytest.fixture
def host() -> LocalHost:
    return LocalHost(f"test-{os.getpid()}-{time.time_ns()}")


def alive(pid: int) -> bool:
    """A zombie is dead: whoever adopts orphans here may be slow to bury it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_what_a_command_said(host: LocalHost) -> None:
    done = host.run(Command(("sh", "-c", "cat; echo err >&2; exit 3"), stdin="in"), check=False)
    assert (done.exit_code, done.stdout, done.stderr) == (3, "in", "err\n")


def test_a_failed_command_carries_everything(host: LocalHost) -> None:
    with pytest.raises(CommandFailed) as caught:
        host.run(Command(("sh", "-c", "echo out; echo why >&2; exit 4")))
    assert (caught.value.status, caught.value.stdout, caught.value.stderr) == (4, "out\n", "why\n")
    assert "why" in str(caught.value)
    with pytest.raises(CommandFailed, match="could not be started"):
        host.run(Command(("no-such-program",)))


def test_a_command_that_hangs_is_ended_with_all_its_children(host: LocalHost, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"sleep 100 & echo $! >{pid}; wait"
    with pytest.raises(CommandTimedOut, match="did not end within"):
        host.run(Command(("sh", "-c", script), timeout_s=0.5))
    assert not alive(int(pid.read_text()))


def test_strays_are_known_by_their_mark_and_nobody_else_is_ended(host: LocalHost) -> None:
    marker = host._environment["STRATA_RUN"]
    mine = subprocess.Popen(["sh", "-c", "sleep 100; true"], env={**os.environ, "STRATA_RUN": marker})
    other = subprocess.Popen(["sleep", "100"], env={**os.environ, "STRATA_RUN": marker + "x"})
    try:
        ended = []
        for _ in range(50):  # the shell may not have started its child yet
            ended += host.end_strays(marker)
            if mine.poll() is not None:
                break
        assert any("sh" in name for name in ended)
        assert mine.wait(timeout=10) == -9
        assert other.poll() is None
        assert host.end_strays(marker) == []
    finally:
        mine.kill()
        other.kill()
        mine.wait()
        other.wait()


def test_files(host: LocalHost, tmp_path: Path) -> None:
    host.write(str(tmp_path / "x"), "text")
    assert host.read(str(tmp_path / "x")) == "text"
    assert host.read(str(tmp_path / "none")) is None
    with pytest.raises(VisitFailed, match="cannot write"):
        host.write(str(tmp_path / "no" / "x"), "text")
