"""Calls to `strata-engine serve --stdio` through the standard streams of a process of ours: the runner itself, or a
program that leads to it (ssh).

What the runner says begins with a line, GREETING; what comes before it is whatever a login shell prints. Then frames go
both ways: one byte that says what it is, the length of the rest (64 bits, little-endian), the rest. The runner sends a
heartbeat every 5 s, busy or not; a running command is told to end by a cancel frame; the end of our stream tells the
runner to end what runs and itself. The other end is crates/engine/src/serve/{stdio,frame}.rs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from strata.errors import HostLost
from strata.hosts import messages

GREETING = b"strata-engine serve 1"

_HEAD = struct.Struct("<cQ")
_REQUEST, _CANCEL, _ANSWER, _HEARTBEAT = b"Q", b"C", b"A", b"H"

# What the runner may say, and how long that may be: what a command said, twice over.
_MAX_BYTES = {_ANSWER: 2 * messages.OUTPUT_LIMIT_BYTES, _HEARTBEAT: 0}

# Five heartbeats missed: a machine that hangs is seen within half a minute.
_SILENCE_S = 20.0
# A command that was cancelled has SIGTERM, 5 s, SIGKILL, 10 s; the rest is the way there and back.
_CANCEL_S = 30.0
# Beyond what the runner itself needs, until the first byte of an answer.
_WAY_S = 30.0
# For the runner to end what runs and itself when we close.
_CLOSE_S = 8.0
_KILL_S = 10.0
_PIPE_BYTES = 1 << 20
_SAID_BYTES = 4096

# Says in a sentence what the end of a process that should lead to the runner means: its exit code (None: we ended it),
# and what it said on its standard error.
Explain = Callable[[int | None, str], str]


class StdioChannel:
    """A process in a group of its own (^C does not reach it), and the runner behind it."""

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        explain: Explain,
        answers: Mapping[bytes, bytes] | None = None,
        open_s: float = 60.0,
    ) -> None:
        """Returns when the runner has greeted. `answers`: what is sent when the other end prints a line that is a key.

        `environment` is the whole environment of the process. Raises HostLost.
        """
        self._explain = explain
        self._gone: str | None = None
        self._one_at_a_time = threading.Lock()
        self._incoming, self._said = bytearray(), bytearray()
        self._outgoing = memoryview(b"")
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                process_group=0,
                bufsize=0,
            )
        except OSError as error:
            raise HostLost(f"{argv[0]} cannot be started ({error.strerror}); install it.") from error
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._stderr = self._process.stderr
        self._selector = selectors.DefaultSelector()
        for stream in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(stream.fileno(), False)
            with contextlib.suppress(OSError):  # only faster; an ordinary user may have too many large pipes already
                fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._selector.register(self._stdout, selectors.EVENT_READ)
        self._selector.register(self._stderr, selectors.EVENT_READ)
        self._open(answers or {}, open_s)

    def call(self, request: bytes, timeout_s: float, wake: int | None) -> bytes:
        # Of two guests that are lost at the same time both consoles are asked for.
        with self._one_at_a_time:
            return self._call(request, timeout_s, wake)

    def _call(self, request: bytes, timeout_s: float, wake: int | None) -> bytes:
        if self._gone is not None:
            raise HostLost(self._gone)
        self._send(_REQUEST, request)
        heard = time.monotonic()
        give_up = heard + timeout_s + _WAY_S
        if wake is not None:
            self._selector.register(wake, selectors.EVENT_READ)
        try:
            while True:
                frame = self._frame()
                if frame is not None:
                    kind, body = frame
                    if kind == _ANSWER:
                        return body
                    continue
                ready = self._pump(1.0)
                now = time.monotonic()
                if self._stdout.fileno() in ready:
                    heard = now
                if wake is not None and wake in ready:
                    self._selector.unregister(wake)
                    wake = None
                    self._send(_CANCEL, b"")
                    give_up = now + _CANCEL_S
                if self._outgoing:
                    give_up = max(give_up, now + timeout_s + _WAY_S)
                if now - heard > _SILENCE_S:
                    raise self._lose(f"it has said nothing for {_SILENCE_S:.0f} s, not even that it lives")
                if now > give_up and not self._answering():
                    raise self._lose("it lives, but does not answer")
        finally:
            if wake is not None and self._gone is None:
                self._selector.unregister(wake)

    def close(self) -> None:
        """Ends the process; the runner ends what runs when it sees that we are gone."""
        if self._process.returncode is None:
            for stream in (self._stdin, self._stdout):
                stream.close()
            try:
                self._process.wait(_CLOSE_S)
            except subprocess.TimeoutExpired:
                self._kill()
        self._release("the connection to the measured machine is closed.")

    def _open(self, answers: Mapping[bytes, bytes], open_s: float) -> None:
        give_up = time.monotonic() + open_s
        while True:
            line, newline, rest = self._incoming.partition(b"\n")
            if newline:
                self._incoming = rest
                said = bytes(line).strip()
                if said == GREETING:
                    return
                if said in answers:
                    self._outgoing = memoryview(answers[said])
                    give_up = time.monotonic() + open_s
            else:
                if time.monotonic() > give_up:
                    raise self._lose(f"the runner did not start within {open_s:.0f} s")
                if self._pump(1.0) and self._outgoing:
                    give_up = time.monotonic() + open_s

    def _send(self, kind: bytes, body: bytes) -> None:
        self._outgoing = memoryview(bytes(self._outgoing) + _HEAD.pack(kind, len(body)) + body)

    def _frame(self) -> tuple[bytes, bytes] | None:
        """The next whole frame that has come."""
        if len(self._incoming) < _HEAD.size:
            return None
        kind, length = _HEAD.unpack_from(self._incoming)
        end = _HEAD.size + length
        if length > _MAX_BYTES.get(kind, -1):
            raise self._lose("what it says is not what a runner says")
        if len(self._incoming) < end:
            return None
        with memoryview(self._incoming) as view:
            body = bytes(view[_HEAD.size : end])
        del self._incoming[:end]
        return kind, body

    def _answering(self) -> bool:
        return self._incoming[:1] == _ANSWER

    def _pump(self, seconds: float) -> set[int]:
        """Sends and takes in what can be, waiting at most `seconds` for the first; returns the descriptors ready."""
        stdin = self._stdin.fileno()
        if self._outgoing and stdin not in self._selector.get_map():
            self._selector.register(stdin, selectors.EVENT_WRITE)
        elif not self._outgoing and stdin in self._selector.get_map():
            self._selector.unregister(stdin)
        ready = {key.fd for key, _ in self._selector.select(seconds)}
        if stdin in ready:
            with contextlib.suppress(BlockingIOError):
                try:
                    self._outgoing = self._outgoing[os.write(stdin, self._outgoing) :]
                except BrokenPipeError:  # what it has to say about that comes by the other streams
                    self._outgoing = memoryview(b"")
        if self._stderr.fileno() in ready:
            self._hear()
        if self._stdout.fileno() in ready:
            data = os.read(self._stdout.fileno(), _PIPE_BYTES)
            if not data:
                raise self._lose(None)
            self._incoming += data
        return ready

    def _hear(self) -> bool:
        """Takes in what the process says on its standard error, of which the last is kept; False at its end."""
        try:
            data = os.read(self._stderr.fileno(), _PIPE_BYTES)
        except BlockingIOError:
            return False
        if not data and self._stderr in self._selector.get_map():
            self._selector.unregister(self._stderr)
        self._said = (self._said + data)[-_SAID_BYTES:]
        return bool(data)

    def _lose(self, why: str | None) -> HostLost:
        """Ends the process and says what is known; `why` is None when it ended the conversation itself."""
        code = None
        if why is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._process.wait(2.0)
        if self._process.returncode is None:
            self._kill()
        while self._hear():
            pass
        said = messages.text(bytes(self._said)).strip()
        text = self._explain(code, "\n".join(part for part in (why, said) if part))
        self._release(text)
        return HostLost(text)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # stuck in the kernel; `strata clean` finds it
            self._process.wait(_KILL_S)

    def _release(self, why: str) -> None:
        self._gone = self._gone or why
        self._selector.close()
        for stream in (self._stdin, self._stdout, self._stderr):
            stream.close()
