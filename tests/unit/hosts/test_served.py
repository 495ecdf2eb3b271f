"""A host behind a channel: what it asks, and what the answers mean."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import CommandFailed, CommandTimedOut, HostLost, Interrupted, UndoFailed, VisitFailed
from strata.hosts import messages
from strata.hosts.served import ServedHost
from strata.model import Command

Asked = list[tuple[list[bytes], float, int | None]]


class Memory:
    """Answers every request with what `respond` makes of its fields."""

    def __init__(self, respond: Callable[[list[bytes]], list[bytes]]) -> None:
        self.asked: Asked = []
        self._respond = respond

    def call(self, request: bytes, timeout_s: float, wake: int | None) -> bytes:
        fields = messages.decode(request)
        self.asked.append((fields, timeout_s, wake))
        return messages.encode(self._respond(fields))

    def close(self) -> None:
        pass


def answering(*fields: bytes) -> tuple[ServedHost, Asked]:
    channel = Memory(lambda request: list(fields))
    return ServedHost(channel, "run-1", "/opt/strata-engine"), channel.asked


class Signalled:
    """As after a signal that came while a command ran."""

    def __init__(self, free: int) -> None:
        self.free = free  # checks that pass before it is noticed

    def check(self) -> None:
        self.free -= 1
        if self.free < 0:
            raise Interrupted("interrupted by SIGINT.")

    def descriptor(self) -> int | None:
        return 7


def test_a_command_is_asked_for_with_the_mark_and_its_time() -> None:
    host, asked = answering(b"ended", b"0", b"1500000000", b"out", b"")
    done = host.run(Command(("printf", "", os.fsdecode(b"\xff")), timeout_s=2.5, stdin="in"))
    assert (done.argv[0], done.exit_code, done.stdout, done.duration_s) == ("printf", 0, "out", 1.5)
    environment = b"LC_ALL=C.UTF-8\0STRATA_RUN=run-1\0"
    [(fields, timeout_s, wake)] = asked
    assert fields == [b"run", b"2500000000", environment, b"printf\0\0\xff\0", b"in"]
    assert timeout_s == 2.5 + 15 and wake is None
    host.run(Command(("true",)))
    assert asked[1][0][4:] == []  # no standard input is not an empty one
    host.run(Command(("true",), timeout_s=1e30))
    assert asked[2][0][1] == b"%d" % (2**63 - 1)


def test_a_command_that_fails() -> None:
    host, _ = answering(b"ended", b"-9", b"1", b"out", b"why\xff\r\n")
    with pytest.raises(CommandFailed) as caught:
        host.run(Command(("false",)))
    assert (caught.value.status, caught.value.stdout, caught.value.stderr) == (-9, "out", "why\ufffd\n")
    assert host.run(Command(("false",)), check=False).exit_code == -9
    with pytest.raises(CommandFailed, match="could not be started: none: No such file"):
        answering(b"unstarted", b"none: No such file or directory")[0].run(Command(("none",)))
    with pytest.raises(CommandFailed, match="does not know this request"):
        answering(b"failed", b"strata-engine 0.0 does not know this request")[0].run(Command(("true",)))


def test_a_command_that_was_stopped() -> None:
    with pytest.raises(CommandTimedOut, match="did not end within 3 s") as caught:
        answering(b"stopped", b"timeout", b"1", b"so far", b"")[0].run(Command(("sleep",), 3.0), check=False)
    assert caught.value.stdout == "so far"
    with pytest.raises(CommandFailed, match="more than 512 MiB"):
        answering(b"stopped", b"output", b"1", b"so far", b"")[0].run(Command(("cat",)), check=False)


def test_a_signal_cuts_a_command_short() -> None:
    channel = Memory(lambda request: [b"stopped", b"cancel", b"1", b"", b""])
    with pytest.raises(Interrupted):
        ServedHost(channel, "m", "e", Signalled(1)).run(Command(("sleep",)))
    assert channel.asked[0][2] == 7
    # one that came before: nothing is started
    with pytest.raises(Interrupted):
        ServedHost(channel, "m", "e", Signalled(0)).run(Command(("sleep",)))
    assert len(channel.asked) == 1


def test_a_machine_given_up_because_of_a_signal_is_not_one_that_failed() -> None:
    def lose(request: list[bytes]) -> list[bytes]:
        raise HostLost("gone.")

    with pytest.raises(Interrupted):
        ServedHost(Memory(lose), "m", "e", Signalled(1)).run(Command(("sleep",)))
    with pytest.raises(HostLost):
        ServedHost(Memory(lose), "m", "e", Signalled(9)).run(Command(("sleep",)))


def test_files() -> None:
    host, asked = answering(b"done")
    host.write("/x", os.fsdecode(b"a\xff\xc3\xa4"))
    assert asked[0][0] == [b"write", b"/x", b"a\xff\xc3\xa4"]
    with pytest.raises(VisitFailed, match="cannot write /x: No space left on device"):
        answering(b"failed", b"No space left on device")[0].write("/x", "")
    assert answering(b"content", b"a\xff\r\nb")[0].read("/x") == "a\ufffd\nb"
    assert answering(b"missing")[0].read("/x") is None
    with pytest.raises(VisitFailed, match="cannot read /x: Is a directory"):
        answering(b"failed", b"Is a directory")[0].read("/x")


def test_strays() -> None:
    host, asked = answering(b"strays", b"sleep (process 9)\0cat (process 10)\0", b"")
    assert host.end_strays("m") == ["cat (process 10)", "sleep (process 9)"]
    assert asked[0][0] == [b"strays", b"m"]
    assert answering(b"strays", b"", b"")[0].end_strays("m") == []
    with pytest.raises(UndoFailed, match=r"dd \(process 9\) was killed and still lives"):
        answering(b"strays", b"dd (process 9)\0", b"dd (process 9)\0")[0].end_strays("m")


def test_the_clock_is_the_controllers() -> None:
    host = ServedHost(Memory(lambda request: []), "m", "e", clock=lambda: 5.0)
    assert host.now() == 5.0


@pytest.mark.parametrize("answer", [[], [b"ended"], [b"done"], [b"dance", b"x"]])
def test_an_answer_that_is_none(answer: list[bytes]) -> None:
    host, _ = answering(*answer)
    with pytest.raises(HostLost):
        host.run(Command(("true",)))
    with pytest.raises(HostLost):
        host.read("/x")


def test_greeting() -> None:
    answer = messages.encode([b"hello", b"0.1.0", b"12", b"99", b"/opt/strata-engine"])
    assert messages.read_hello(answer) == messages.Hello("0.1.0", 12, 99, "/opt/strata-engine")
    with pytest.raises(HostLost):
        messages.read_hello(messages.encode([b"done"]))


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_fields_come_back(fields: list[bytes]) -> None:
    assert messages.decode(messages.encode(fields)) == fields


@given(st.binary(max_size=40))
def test_what_is_no_message_is_refused(message: bytes) -> None:
    try:
        fields = messages.decode(message)
    except HostLost:
        return
    assert messages.encode(fields) == message
