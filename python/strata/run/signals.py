"""^C and termination become one exception, which never lands in the middle of a removal."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from strata.errors import Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """While `listening`, a signal raises Interrupted at once; inside `held`, only at its end."""

    def __init__(self) -> None:
        self._held = 0
        self._pending: str | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        if not self._held and self._pending:
            name, self._pending = self._pending, None
            raise _interrupted(name)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if self._held:
            self._pending = name
        else:
            raise _interrupted(name)


def _interrupted(name: str) -> Interrupted:
    return Interrupted(
        f"interrupted by {name}; what was built is removed, and the same `strata run` goes on from here."
    )
