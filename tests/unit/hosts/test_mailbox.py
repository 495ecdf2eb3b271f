"""The mailbox against a guest that plays on the same files as QEMU and the runner would."""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strata.errors import HostLost
from strata.hosts import mailbox
from strata.hosts.mailbox import Mailbox

PART = mailbox._PART_BYTES


class Guest(threading.Thread):
    """Answers every request with `respond` of it; `steps` is all that it did, as the machine would see it."""

    def __init__(self, box: Mailbox, respond: Callable[[bytes], bytes]) -> None:
        super().__init__(daemon=True)
        self.steps: list[str] = []
        self._respond = respond
        self._answer = b"hello"
        self._serial = 0
        self._memory = os.open(box.region, os.O_RDWR)
        self._bells = [os.open(bell, os.O_WRONLY) for bell in box.bells]
        self.start()

    def run(self) -> None:
        answer = self._answer
        while True:
            for at in range(0, len(answer), PART):
                _, total, part = self._turn(1, len(answer), answer[at : at + PART])
            request = part
            while len(request) < total:
                request += self._turn(2, 0, b"")[2]
            if not request or request == b"end":
                return
            answer = self._respond(request)

    def _turn(self, kind: int, total: int, part: bytes) -> tuple[int, int, bytes]:
        self._serial += 1
        os.pwrite(self._memory, struct.pack("<QQQ", kind, total, len(part)) + part, mailbox._ANSWER_AT)
        os.pwrite(self._memory, struct.pack("<Q", self._serial), mailbox._SERIAL_AT)
        self.steps.append(f"ring {self._serial}")
        try:
            os.write(self._bells[self._serial % 2], b"!")  # blocks, as the virtual CPU does
        except BrokenPipeError:
            return 1, 0, b""
        kind, total, here = struct.unpack("<QQQ", os.pread(self._memory, 24, mailbox._REQUEST_AT))
        return kind, total, os.pread(self._memory, here, mailbox._REQUEST_AT + 24)


class Resumed(Guest):
    """One that was saved in the middle of a spin, or so `late` that it had not rung for the turn before."""

    def __init__(self, box: Mailbox, late: bool) -> None:
        self._late = late
        super().__init__(box, lambda request: request + b"!")

    def run(self) -> None:
        self._serial, self._answer = 1, b"spun"
        if self._late:
            os.write(self._bells[1], b"!")
            self.steps.append("late")
        super().run()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Mailbox]:
    made = Mailbox.create(tmp_path, lambda: None)
    yield made
    made.close()


def test_calls_of_every_length(box: Mailbox) -> None:
    Guest(box, lambda request: request[::-1])
    assert box.receive(10) == b"hello"
    for length in (1, 24, PART - 1, PART, PART + 1, 3 * PART + 5):
        request = os.urandom(length)
        assert box.call(request, 10, None) == request[::-1]


def test_the_guest_stands_still_between_two_calls(box: Mailbox) -> None:
    guest = Guest(box, lambda request: request)
    assert box.receive(10) == b"hello"
    for number in range(1, 20):
        # However long the host takes: it has rung once more, and has not come a step further.
        time.sleep(0.002 * (number % 3))
        assert guest.steps == [f"ring {serial}" for serial in range(1, number + 1)]
        box.call(b"%d" % number, 10, None)


@pytest.mark.parametrize("late", [False, True], ids=["in the spin", "before it rang"])
def test_what_was_saved_goes_on_where_it_was(box: Mailbox, tmp_path: Path, late: bool) -> None:
    stopped, go_on = threading.Event(), threading.Event()

    def spin(request: bytes) -> bytes:
        stopped.set()
        go_on.wait()
        return b"spun"

    Guest(box, spin)
    box.receive(10)
    box.send(b"spin")
    stopped.wait()
    assert not box.answered()
    box.save(tmp_path / "saved")
    go_on.set()
    assert box.receive(10) == b"spun"
    directory = tmp_path / "resumed"
    directory.mkdir()
    again = Mailbox.resume(directory, tmp_path / "saved", lambda: None)
    guest = Resumed(again, late)
    assert again.receive(10) == b"spun"
    time.sleep(0.01)
    assert guest.steps == [*(["late"] if late else []), "ring 2"]
    assert again.call(b"x", 10, None) == b"x!"
    assert again.call(b"y", 10, None) == b"y!"
    again.close()


def test_the_files_are_what_qemu_wants(box: Mailbox) -> None:
    assert box.region.stat().st_size == mailbox.REGION_BYTES
    assert box.region.stat().st_blocks * 512 < 1 << 20
    assert box.region.read_bytes()[:8] == b"STRATAM1"
    pipe = os.open(box.bells[1], os.O_WRONLY | os.O_NONBLOCK)  # where the first byte goes
    with pytest.raises(BlockingIOError):
        os.write(pipe, b"!")
    os.close(pipe)


def test_a_machine_that_is_gone_is_lost_for_ever(tmp_path: Path) -> None:
    said: list[str | None] = [None, None, "QEMU ended: panic."]
    box = Mailbox.create(tmp_path, lambda: said.pop(0))
    for _ in range(2):
        with pytest.raises(HostLost, match="panic"):
            box.receive(10)
    with pytest.raises(HostLost, match="panic"):
        box.call(b"x", 10, None)
    box.close()
    box.close()


def test_a_machine_that_spins_for_ever_is_given_up(box: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "_WALL_S", 0.0)
    monkeypatch.setattr(mailbox, "_WALL_PER_S", 0.0)
    with pytest.raises(HostLost, match="has not answered for 0 s"):
        box.receive(10)


def test_a_signal_gives_the_machine_up(box: Mailbox) -> None:
    wake = os.eventfd(1)
    with pytest.raises(HostLost, match="because of a signal"):
        box.receive(10, wake)
    os.close(wake)


@pytest.mark.parametrize("head", [(7, 1, 1), (2, 0, 0), (1, 5, 6), (1, 0, 0), (1, PART * 2, PART + 1)])
def test_another_language_is_refused(box: Mailbox, head: tuple[int, int, int]) -> None:
    memory = os.open(box.region, os.O_RDWR)
    os.pwrite(memory, struct.pack("<QQQ", *head), mailbox._ANSWER_AT)
    os.pwrite(memory, struct.pack("<Q", 1), mailbox._SERIAL_AT)
    os.close(memory)
    with pytest.raises(HostLost, match="another version of the protocol"):
        box.receive(10)
