"""Long-lived processes of ours: their log, their mark, their end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.errors import CommandFailed
from strata.hosts.local import LocalHost
from strata.hosts.process import Started, attended

pytestmark = pytest.mark.host

MARKER = f"test-process-{os.getpid()}-{time.time_ns()}"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "log"
    assert LocalHost(MARKER).end_strays(MARKER) == []


def started(script: str, log: Path, **options: object) -> Started:
    return Started(("sh", "-c", script), marker=MARKER, log=log, **options)  # type: ignore[arg-type]


def until(log: Path, word: str) -> None:
    give_up = time.monotonic() + 30
    while word not in (log.read_text() if log.exists() else ""):
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_it_lives_until_it_is_ended_and_what_it_said_is_kept(log: Path) -> None:
    process = started("echo out; echo err >&2; exec sleep 100", log)
    until(log, "err")
    assert process.alive()
    assert process.exit_code is None
    process.end()
    process.end()
    assert not process.alive()
    assert process.exit_code == -signal.SIGTERM
    assert process.said() == "out\nerr\n"


def test_its_end_by_itself_is_seen(log: Path) -> None:
    process = started("exit 3", log)
    assert process.wait(30)
    assert not process.alive()
    process.end()
    assert process.exit_code == 3


def test_what_is_thrown_away_is_killed_with_all_that_it_started(log: Path) -> None:
    process = started("trap '' TERM; sleep 100 & echo up; wait; wait", log)
    until(log, "up")
    process.kill()
    assert process.exit_code == -signal.SIGKILL


def test_children_of_a_process_that_ended_go_with_it(log: Path) -> None:
    process = started("sleep 100 & exit 0", log)
    assert process.wait(30)
    process.end()
    # The kernel has until the fixture looks to end what was killed; on a busy machine that takes a moment.
    with contextlib.suppress(ProcessLookupError):
        for _ in range(600):
            os.killpg(process.pid, 0)
            time.sleep(0.05)


def test_it_is_marked_and_out_of_reach_of_the_keyboard(log: Path) -> None:
    process = started('echo "$STRATA_RUN $OTHER"; exec sleep 100', log, environment={"OTHER": "thing"})
    until(log, "thing")
    assert process.said() == f"{MARKER} thing\n"
    assert os.getsid(process.pid) == process.pid
    assert LocalHost("another").end_strays(MARKER) == [f"sleep (process {process.pid})"]
    assert process.wait(30)
    process.end()


def test_it_inherits_what_it_is_given_and_nothing_else(log: Path) -> None:
    kept, closed = os.memfd_create("kept", 0), os.memfd_create("closed", 0)
    os.set_inheritable(closed, True)
    os.write(kept, b"inherited")
    process = started(f"cat /proc/self/fd/{kept}; [ -e /proc/self/fd/{closed} ] || echo ' alone'", log, keep=(kept,))
    assert process.wait(30)
    process.end()
    assert process.said() == "inherited alone\n"
    os.close(kept)
    os.close(closed)


def test_what_cannot_be_started_says_so(log: Path) -> None:
    with pytest.raises(CommandFailed, match="no-such-program"):
        Started(("no-such-program",), marker=MARKER, log=log)
    with pytest.raises(CommandFailed, match="no-such-program"):
        attended(("no-such-program",), marker=MARKER)


def test_a_program_for_a_person_gives_its_exit_code_and_is_marked() -> None:
    assert attended(("sh", "-c", f'[ "$STRATA_RUN" = {MARKER} ] && exit 7'), marker=MARKER) == 7
