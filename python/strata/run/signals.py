"""^C and termination leave word, and become one exception only where the run asks for it."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TextIO

from strata.errors import Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(slots=True)
class _Heard:
    came: str | None = None  # the name of the first signal
    descriptor: int | None = None


class Interrupts:
    """Where signals are noted. The handler never raises: it could do so between any two instructions, also between
    `finally:` and its first line, inside a transaction, or while a process is started that nobody then knows.

    Instead `check` raises, at the boundaries of steps, and a host that waits for a command also waits for `descriptor`
    and then cuts the command short. Interrupted is raised once; what comes after it is cleaning up, and undisturbed.
    """

    def __init__(self) -> None:
        self._heard = _Heard()
        self._raised = False
        self._held = 0

    def beside(self) -> Interrupts:
        """For what goes on beside this at the same time: the same signals, held and raised on its own."""
        other = Interrupts()
        other._heard = self._heard
        return other

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Raises Interrupted at its end for a signal that came too late for any boundary: none is ever swallowed.

        A signal that this process was told to ignore (nohup, a job in the background) stays ignored.
        """
        self._heard.descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        before = {
            number: signal.signal(number, self._handle)
            for number in _SIGNALS
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(self._heard.descriptor)
            self._heard.descriptor = None
        self.check()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside nothing is raised and no command is cut short: what removes things always completes."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def check(self) -> None:
        """Raises Interrupted when a signal has come."""
        if self._heard.came and not self._held and not self._raised:
            self._raised = True
            raise Interrupted(
                f"interrupted by {self._heard.came}; what was built is removed; the same command continues from here."
            )

    def descriptor(self) -> int | None:
        """Can be read as soon as `check` would raise; None while nothing may be cut short."""
        return None if self._held or self._raised else self._heard.descriptor

    def wait_for(self, stream: TextIO) -> None:
        """Returns when `stream` can be read, as for an answer; raises Interrupted when a signal comes first."""
        wake = self.descriptor()
        select.select([stream.fileno(), *(() if wake is None else (wake,))], [], [])
        self.check()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._heard.came = self._heard.came or signal.Signals(number).name
        if self._heard.descriptor is not None:
            os.eventfd_write(self._heard.descriptor, 1)
