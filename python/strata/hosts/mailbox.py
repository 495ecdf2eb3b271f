"""The way into a machine on a virtual clock: calls through shared memory, made while its only CPU thread is blocked.

The machine is a QEMU under `-icount`, where whatever completes in real time (network, disks on files) would disturb the
one clock. So a call is made of three things that cannot: a file that the guest sees as an NVDIMM, and two FIFOs behind
`isa-debugcon` ports. The guest runner (`strata-engine serve --mailbox`, crates/engine/src/serve/mailbox.rs) writes an
answer and a serial number n into the memory, then one byte to port 0x6f0 + n % 2. That pipe is full, so the virtual CPU
stands still inside that instruction, and the virtual clock with it, until this side has put the next request into the
memory and empties the pipe. What the guest executes depends only on the requests, however long this side takes.

QEMU is given, by whoever starts it (lab/qemu.py), after `Mailbox` has made the files:

    -object memory-backend-file,id=mailbox,share=on,mem-path={mailbox.region},size={REGION_BYTES}
    -device nvdimm,memdev=mailbox
    -chardev file,id=bell0,path={mailbox.bells[0]} -device isa-debugcon,iobase=0x6f0,chardev=bell0
    -chardev file,id=bell1,path={mailbox.bells[1]} -device isa-debugcon,iobase=0x6f1,chardev=bell1

The runner says hello by itself when it has started: after boot, `receive()` is that. **While the guest is blocked QEMU
does not answer QMP either**: the CPU thread holds its lock.

Saving a machine and continuing from what was saved:

    boot:    mailbox = Mailbox.create(directory, lost);  start QEMU;  mailbox.receive(300)
    save:    qmp: write the command `stop`, do not wait for its answer (blocked, as above)
             mailbox.send(messages.spin(1000))    # the CPU runs again, so QEMU can take its lock and stop
             qmp: await the answer of `stop`;  assert not mailbox.answered()
             qmp: migrate file:STATE, await "completed"
             mailbox.save(STATE.mailbox)          # the memory belongs to the state
             end QEMU, then mailbox.close()
    resume:  mailbox = Mailbox.resume(directory, STATE.mailbox, lost);  start QEMU with the same arguments and
             -incoming defer;  qmp: migrate-incoming, cont
             mailbox.receive(60)                  # the end of the spin; then call() as ever
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import select
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from strata.errors import HostLost

# An NVDIMM of QEMU wants whole sections of 128 MiB. The file is sparse: what is used lies in its first 4 MiB.
REGION_BYTES = 128 << 20
PORTS = (0x6F0, 0x6F1)

# Shared with crates/engine/src/serve/mailbox.rs. Every block is written whole by one side only.
_MAGIC = b"STRATAM1"
_SERIAL_AT = 4096
_REQUEST_AT = 64 << 10
_ANSWER_AT = 2 << 20
_USED_BYTES = 4 << 20
_PART_BYTES = 1 << 20
# What this part is, bytes of the whole message, bytes of this part, which follow.
_PART = struct.Struct("<QQQ")
_DATA, _GO_ON = 1, 2
_SERIAL = struct.Struct("<Q")

# Reading the memory costs nothing but our own time, which the guest does not see.
_LOOK_S = 0.001
_ASK_LOST_S = 0.1
# Wall time that a virtual second may take, and what a call may take beside the command: generous, since whoever started
# the machine says by `lost` when it is gone. This only ends a wait for a machine that spins for ever.
_WALL_PER_S = 30.0
_WALL_S = 120.0


class Mailbox:
    """One machine's mailbox: a Channel, and the files that QEMU is given."""

    region: Path
    bells: tuple[Path, Path]

    def __init__(self, directory: Path, lost: Callable[[], str | None], content: bytes) -> None:
        """`create` and `resume` are the ways to make one."""
        self.region = directory / "mailbox"
        self.bells = (directory / "bell0", directory / "bell1")
        self._lost = lost
        self._gone: str | None = None
        with self.region.open("w+b") as file:
            file.write(content)
            file.truncate(REGION_BYTES)
            self._memory = mmap.mmap(file.fileno(), _USED_BYTES)
        self._serial = _SERIAL.unpack_from(self._memory, _SERIAL_AT)[0]
        self._pipes: list[int] = []
        for bell in self.bells:
            bell.unlink(missing_ok=True)
            os.mkfifo(bell, 0o600)
            # Opened for reading too, so that QEMU can open it and never sees it without a reader.
            pipe = os.open(bell, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            self._pipes.append(pipe)
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)
        # The guest stops at its next serial number. A machine may have been saved between the number in the memory and
        # its byte: that one goes through, since the request is in the memory already.
        _fill(self._pipes[1 - self._serial % 2])

    @classmethod
    def create(cls, directory: Path, lost: Callable[[], str | None]) -> Self:
        """For a machine that will boot; `directory` exists. `lost` says why the machine is gone, or None."""
        return cls(directory, lost, _MAGIC)

    @classmethod
    def resume(cls, directory: Path, saved: Path, lost: Callable[[], str | None]) -> Self:
        """For a machine that will continue from a state, with the memory that `save` kept."""
        return cls(directory, lost, saved.read_bytes())

    def save(self, path: Path) -> None:
        """Keeps the memory of a machine that is stopped."""
        path.write_bytes(self._memory[:])

    def call(self, request: bytes, timeout_s: float, wake: int | None) -> bytes:
        self.send(request)
        return self.receive(timeout_s, wake)

    def send(self, request: bytes) -> None:
        """Puts a request whose answer `receive` then awaits. Nothing else may be outstanding.

        One of up to 1 MiB is put at once and without waiting; of a longer one each part waits for the guest to have
        read the one before.
        """
        for at in range(0, len(request), _PART_BYTES):
            if at:
                self._await(_WALL_S, None)
                self._expect(_GO_ON)
            self._put(_DATA, len(request), request[at : at + _PART_BYTES])

    def receive(self, timeout_s: float, wake: int | None = None) -> bytes:
        """Awaits the answer, at most `timeout_s` of virtual time, which is translated generously into ours.

        Raises HostLost when the machine is gone, does not answer, or `wake` can be read: a guest that runs cannot be
        sent anything. The machine is of no more use then and every later call says the same.
        """
        answer = bytearray()
        while True:
            self._await(_WALL_S + _WALL_PER_S * timeout_s, wake)
            total, part = self._expect(_DATA)
            answer += part
            if len(answer) >= total:
                return bytes(answer)
            self._put(_GO_ON, 0, b"")

    def answered(self) -> bool:
        """Whether the guest has rung since the last `send`; does not wait for it."""
        return bool(_SERIAL.unpack_from(self._memory, _SERIAL_AT)[0] == self._serial + 1)

    def close(self) -> None:
        """To be called once QEMU has ended: without our end of the pipes its CPU would block no more."""
        self._gone = self._gone or "the connection to the lab machine is closed; start another machine."
        for pipe in self._pipes:
            os.close(pipe)
        self._pipes.clear()
        self._memory.close()

    def _put(self, kind: int, total: int, part: bytes) -> None:
        """Writes what the blocked guest reads next, and lets it go on."""
        if self._gone is not None:
            raise HostLost(self._gone)
        _PART.pack_into(self._memory, _REQUEST_AT, kind, total, len(part))
        start = _REQUEST_AT + _PART.size
        self._memory[start : start + len(part)] = part
        # The guest waits at pipe serial % 2. The other one may hold its byte of the turn before: it is full again
        # before the guest can come to it.
        other = self._pipes[1 - self._serial % 2]
        _drain(other)
        _fill(other)
        _drain(self._pipes[self._serial % 2])

    def _await(self, limit_s: float, wake: int | None) -> None:
        """Returns when the guest has rung with the next serial number."""
        started = asked = time.monotonic()
        while self._gone is None:
            if self.answered():
                self._serial += 1
                return
            ready, _, _ = select.select([] if wake is None else [wake], [], [], _LOOK_S)
            now = time.monotonic()
            if ready:
                self._gone = "the lab machine was given up in the middle of a command, because of a signal."
            elif now - asked >= _ASK_LOST_S:
                asked = now
                self._gone = self._lost()
                if self._gone is None and now - started >= limit_s:
                    self._gone = f"the lab machine has not answered for {limit_s:.0f} s; look at its console."
        raise HostLost(self._gone)

    def _expect(self, kind: int) -> tuple[int, bytes]:
        found, total, length = _PART.unpack_from(self._memory, _ANSWER_AT)
        if found != kind or length > min(total, _PART_BYTES) or (kind == _DATA and length == 0):
            self._gone = (
                "the runner in the lab machine uses another version of the protocol; "
                "rebuild the saved state with `strata lab build`."
            )
            raise HostLost(self._gone)
        start = _ANSWER_AT + _PART.size
        return total, self._memory[start : start + length]


def _fill(pipe: int) -> None:
    """Whatever the guest writes to it from now on waits for us."""
    for some in (b"\0" * 4096, b"\0"):
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(pipe, some)


def _drain(pipe: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(pipe, 4096):
            pass
