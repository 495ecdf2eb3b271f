"""A runner behind the standard streams of a process, and what becomes of both when one of them is gone.

What every host must do is in test_local_host.py, for this one too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strata.errors import CommandFailed, HostLost
from strata.hosts import messages, stdio
from strata.hosts.local import LocalHost, engine_path
from strata.hosts.served import ServedHost
from strata.hosts.stdio import StdioChannel
from strata.model import Command

pytestmark = pytest.mark.host


def explained(code: int | None, said: str) -> str:
    return f"ended with {code}: {said}"


Open = Callable[..., StdioChannel]


@pytest.fixture
def opened() -> Iterator[Open]:
    """Opens channels to processes; ends them afterwards."""
    channels = []

    def open_one(*argv: str, **options: float) -> StdioChannel:
        channels.append(StdioChannel(argv, os.environ, explained, **options))  # type: ignore[arg-type]
        return channels[-1]

    yield open_one
    for channel in channels:
        channel.close()


@pytest.fixture
def channel(opened: Open) -> StdioChannel:
    return opened(engine_path(), "serve", "--stdio")


@pytest.fixture
def host(channel: StdioChannel) -> ServedHost:
    return ServedHost(channel, "test-served", engine_path())


def within(seconds: float, so: Callable[[], bool]) -> bool:
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        if so():
            return True
        time.sleep(0.02)
    return so()


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def pid_of(channel: StdioChannel) -> int:
    return messages.read_hello(channel.call(messages.hello(), 5, None)).pid


def test_it_says_who_it_is(channel: StdioChannel) -> None:
    first = messages.read_hello(channel.call(messages.hello(), 5, None))
    second = messages.read_hello(channel.call(messages.hello(), 5, None))
    assert first.engine == engine_path()
    assert first.pid == second.pid != os.getpid()
    assert 0 < first.monotonic_ns < second.monotonic_ns


def test_bytes_of_every_kind_come_through(channel: StdioChannel, tmp_path: Path) -> None:
    every = bytes(range(256)) * 3
    name = os.fsencode(tmp_path) + b"/\xff\n x"
    script = Command(("sh", "-c", 'cat; printf "%s" "$1" >&2', "sh", os.fsdecode(b"\xfe\n'")))
    request = messages.encode([*messages.decode(messages.run(script, {})), every])
    answer = messages.decode(channel.call(request, 10, None))
    assert answer[0] == b"ended" and answer[3:] == [every, b"\xfe\n'"]
    assert messages.decode(channel.call(messages.encode([b"write", name, every]), 10, None)) == [b"done"]
    assert messages.decode(channel.call(messages.encode([b"read", name]), 10, None)) == [b"content", every]


def test_hundreds_of_megabytes_go_both_ways(host: ServedHost) -> None:
    size = 200 << 20
    assert host.run(Command(("head", "-c", str(size), "/dev/zero"))).stdout.count("\0") == size
    assert host.run(Command(("wc", "-c"), stdin="x" * size)).stdout.strip() == str(size)


def test_who_says_too_much_is_stopped_and_that_is_said(host: ServedHost) -> None:
    with pytest.raises(CommandFailed, match="more than 512 MiB"):
        host.run(Command(("sh", "-c", "exec yes 2>&1")), check=False)
    assert host.run(Command(("echo", "on"))).stdout == "on\n"


def test_the_engine_is_found_by_name_and_is_the_one_that_serves(host: ServedHost) -> None:
    assert host.run(Command(("sh", "-c", "command -v strata-engine"))).stdout.strip() == engine_path()
    assert host.run(Command(("strata-engine", "--version"))).stdout.startswith("strata-engine ")


def test_durations_are_the_machines_own(host: ServedHost) -> None:
    assert host.run(Command(("sleep", "0.2"))).duration_s >= 0.2
    assert host.facts(["sh"], "/").tools == {"sh": "present"}


def test_what_a_login_shell_says_first_is_passed_over(opened: Open) -> None:
    noisy = opened("sh", "-c", f"echo Welcome; printf 'no end of line'; exec {engine_path()} serve --stdio")
    assert pid_of(noisy)


def test_a_controller_that_is_killed_takes_what_runs_with_it(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"""
import os, sys
from strata.hosts.local import engine_path
from strata.hosts.served import ServedHost
from strata.hosts.stdio import StdioChannel
from strata.model import Command
channel = StdioChannel((engine_path(), "serve", "--stdio"), os.environ, lambda code, said: said)
host = ServedHost(channel, "test-killed", "")
host.run(Command(("sh", "-c", "echo $PPID $$ >{pids}.new; mv {pids}.new {pids}; sleep 1000; true")))
"""
    controller = subprocess.Popen([sys.executable, "-c", script])
    try:
        assert within(30, pids.exists)
        controller.kill()
        runner, command = map(int, pids.read_text().split())
        assert within(20, lambda: ended(runner) and ended(command))
    finally:
        controller.kill()
        controller.wait()
        LocalHost("test").end_strays("test-killed")


def test_a_channel_that_is_closed_leaves_no_process(opened: Open) -> None:
    channel = opened(engine_path(), "serve", "--stdio")
    pid = pid_of(channel)
    channel.close()
    assert ended(pid)
    channel.close()
    with pytest.raises(HostLost, match="closed"):
        channel.call(messages.hello(), 1, None)


def test_a_runner_that_is_killed_is_a_lost_host_at_once_and_ever_after(channel: StdioChannel) -> None:
    host = ServedHost(channel, "test-lost", "")
    pid = pid_of(channel)
    for _ in range(2):
        with pytest.raises(HostLost, match="ended with -9"):
            host.run(Command(("kill", "-9", str(pid))), check=False)


def test_a_runner_that_says_nothing_is_lost(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "_SILENCE_S", 0.3)
    channel = opened(engine_path(), "serve", "--stdio")
    pid = pid_of(channel)
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(HostLost, match="said nothing"):
        channel.call(messages.hello(), 100, None)
    assert ended(pid)


def test_a_command_longer_than_the_silence_is_none_while_the_heart_beats(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More than one beat (5 s), so that it is the second that saves it.
    monkeypatch.setattr(stdio, "_SILENCE_S", 9.0)
    host = ServedHost(opened(engine_path(), "serve", "--stdio"), "test-beat", "")
    assert host.run(Command(("sleep", "11"))).exit_code == 0


def test_a_runner_that_lives_and_does_not_answer_is_lost(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "_WAY_S", 0.1)
    beat = r"printf 'H\0\0\0\0\0\0\0\0'"
    channel = opened("sh", "-c", f"echo '{stdio.GREETING.decode()}'; while :; do {beat}; sleep 0.05; done")
    with pytest.raises(HostLost, match="does not answer"):
        channel.call(messages.hello(), 0.1, None)


def test_what_does_not_speak_our_language_is_lost(opened: Open) -> None:
    channel = opened("sh", "-c", f"echo '{stdio.GREETING.decode()}'; echo 'HTTP/1.1 400'; exec sleep 1000")
    with pytest.raises(HostLost, match="not what a runner says"):
        channel.call(messages.hello(), 5, None)


def test_what_never_greets_is_lost_with_what_it_said(opened: Open) -> None:
    with pytest.raises(HostLost, match="ended with 3: no such machine"):
        opened("sh", "-c", "echo no such machine >&2; exit 3")
    with pytest.raises(HostLost, match=r"did not start within 0 s\nwait"):
        opened("sh", "-c", "echo wait >&2; exec sleep 1000", open_s=0.4)
    with pytest.raises(HostLost, match="cannot be started"):
        opened("no-such-program")


def test_no_descriptor_is_left_open(opened: Open) -> None:
    def descriptors() -> set[str]:
        return {path.name for path in Path("/proc/self/fd").iterdir() if path.exists()}

    before = descriptors()
    opened(engine_path(), "serve", "--stdio").close()
    with contextlib.suppress(HostLost):
        opened("false")
    assert descriptors() == before
