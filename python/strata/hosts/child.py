"""One process of ours: its start, what it says until it ends, and its end when it must not go on."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from strata.hosts.messages import OUTPUT_LIMIT_BYTES

# How long a group has to end itself after SIGTERM, and the kernel to end it after SIGKILL.
_GRACE_S = 5.0
_KILL_S = 10.0

# A pipe never holds more than this, so one read empties it.
_PIPE_BYTES = 1 << 20


class Child:
    """A process in a session of its own, so that ^C reaches us alone and we end its whole group in good order. It has
    no terminal: one that becomes another user must not be able to type into ours.

    Leaving the `with` block ends what has not ended. Its streams are read until the process itself has ended, not until
    they are closed: what it leaves behind in the background may hold them for ever.
    """

    def __init__(self, argv: Sequence[str], stdin: str | None, environment: Mapping[str, str], directory: str) -> None:
        """`directory`: its current one. Raises OSError when it cannot be started."""
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=directory,
            start_new_session=True,
        )
        self._ended = False
        self.said_too_much = False  # what was beyond the limit is lost
        self._said: tuple[bytearray, bytearray] = (bytearray(), bytearray())
        self._sources: dict[int, bytearray] = {}
        self._unsaid = memoryview((stdin or "").encode(errors="surrogateescape"))
        try:
            self._descriptor = os.pidfd_open(self._process.pid)
        except OSError:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            raise
        for stream, said in zip((self._process.stdout, self._process.stderr), self._said, strict=True):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            self._sources[stream.fileno()] = said
        if self._process.stdin is not None:
            os.set_blocking(self._process.stdin.fileno(), False)
            self._feed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.end()
            self._process.poll()
        finally:
            os.close(self._descriptor)
            for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
                if stream is not None:
                    stream.close()

    @property
    def exit_code(self) -> int | None:
        """-N after signal N; None while it has not ended."""
        return self._process.poll() if self._ended else None

    @property
    def stdout(self) -> str:
        return _text(self._said[0])

    @property
    def stderr(self) -> str:
        return _text(self._said[1])

    def listen(self, seconds: float, wake: int | None = None) -> bool:
        """Feed it and take in what it says, at most `seconds` and until the descriptor `wake` can be read, or it said
        more than a served machine would take (messages.py).

        Returns whether it has ended.
        """
        give_up = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            for descriptor in (self._descriptor, *self._sources, *(() if wake is None else (wake,))):
                selector.register(descriptor, selectors.EVENT_READ)
            stdin = self._process.stdin
            if stdin is not None and not stdin.closed:
                selector.register(stdin, selectors.EVENT_WRITE)
            while not self._ended:
                keys = selector.select(max(give_up - time.monotonic(), 0.0))
                ready = {key.fd for key, _ in keys}
                # Asked before the last read: what it said before it ended is in the pipes by now.
                self._ended = self._descriptor in ready
                for descriptor in list(self._sources):
                    if (self._ended or descriptor in ready) and not self._take(descriptor):
                        selector.unregister(descriptor)
                        del self._sources[descriptor]
                if stdin is not None and not stdin.closed and stdin.fileno() in ready:
                    descriptor = stdin.fileno()
                    if not self._feed():
                        selector.unregister(descriptor)
                if wake in ready or self._says_too_much() or time.monotonic() >= give_up:
                    break
        return self._ended

    def end(self) -> None:
        """Ask the whole group to stop, then make it. Nothing when it has ended by itself."""
        if self._ended:
            return
        self._signal(signal.SIGTERM)
        self.listen(_GRACE_S)
        # Also when the first process heeded SIGTERM: the others of its group may not have.
        self._signal(signal.SIGKILL)
        self.listen(_KILL_S)

    def _signal(self, number: signal.Signals) -> None:
        # Not waited for yet, so the number of the group cannot be another's. Only what changed its user is not ours.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _take(self, descriptor: int) -> bool:
        """False at the end of the stream."""
        try:
            data = os.read(descriptor, _PIPE_BYTES)
        except BlockingIOError:
            return True
        if not self.said_too_much:
            self._sources[descriptor] += data
        return bool(data)

    def _says_too_much(self) -> bool:
        """For the first time: while it is being ended it is read on."""
        before = self.said_too_much
        self.said_too_much = sum(map(len, self._said)) > OUTPUT_LIMIT_BYTES
        return self.said_too_much and not before

    def _feed(self) -> bool:
        """False when it wants no more, or there is no more; its standard input is closed then."""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            self._unsaid = self._unsaid[os.write(stdin.fileno(), self._unsaid) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            self._unsaid = self._unsaid[:0]
        if not self._unsaid:
            stdin.close()
        return bool(self._unsaid)


def _text(said: bytearray) -> str:
    return said.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
