"""A machine on which `strata-engine serve` executes what we ask, whatever carries the calls there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import NoReturn, Protocol

from strata.errors import CommandFailed, CommandTimedOut, HostLost, UndoFailed, VisitFailed
from strata.hosts import facts, messages
from strata.hosts.base import Interruption
from strata.hosts.local import MARK
from strata.model import Command, Completed, Facts

# How long the runner may need, by its own clock, for what is no command.
_FILE_S = 60.0
_STRAYS_S = 30.0
# SIGTERM, 5 s, SIGKILL, 10 s: what a command may live beyond its time (crates/engine/src/serve/execute.rs).
_ENDING_S = 15.0


class Channel(Protocol):
    """One call at a time to the runner of one machine: hosts/stdio.py, hosts/ssh.py, hosts/mailbox.py."""

    def call(self, request: bytes, timeout_s: float, wake: int | None) -> bytes:
        """The runner's answer to `request`.

        `timeout_s` is what the runner itself needs at most, in seconds of its own clock; what the transport costs
        comes on top and is the channel's to know. When `wake` can be read, the running command is to end early: a
        channel that can tell the runner does so and returns its answer (`stopped cancel`); one that cannot raises
        HostLost. Raises HostLost when no answer comes; then, and ever after, this channel leads nowhere.
        """

    def close(self) -> None:
        """Ends the connection; what runs is ended by the runner. May be called twice."""


class ServedHost:
    """Commands run on the machine behind `channel`, marked with `marker`; `engine` is the path of strata-engine there.

    Durations come from that machine's monotonic clock. `now` does not ask the machine: it is `clock`, the controller's,
    since in a lab the guest's clock may be a model, or stand where the saved state left it.
    """

    def __init__(
        self,
        channel: Channel,
        marker: str,
        engine: str,
        interruption: Interruption | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.engine = engine
        self._channel = channel
        self._interruption = interruption
        self._clock = clock
        self._environment = {"LC_ALL": "C.UTF-8", MARK: marker}

    def run(self, command: Command, *, check: bool = True) -> Completed:
        self._check()
        wake = None if self._interruption is None else self._interruption.descriptor()
        request = messages.run(command, self._environment)
        answer = self._ask(request, command.timeout_s + _ENDING_S, wake)
        match answer:
            case [b"unstarted" | b"failed", why]:
                raise CommandFailed(command.argv, None, "", messages.text(why))
            case [b"ended", code, duration_ns, stdout, stderr]:
                said = messages.text(stdout), messages.text(stderr)
                done = Completed(command.argv, int(code), *said, int(duration_ns) / 1e9)
            case [b"stopped", why, _, stdout, stderr]:
                self._stopped(command, why, messages.text(stdout), messages.text(stderr))
            case _:
                raise _unexpected(answer)
        if check and done.exit_code != 0:
            raise CommandFailed(command.argv, done.exit_code, done.stdout, done.stderr)
        return done

    def write(self, path: str, content: str) -> None:
        answer = self._ask(messages.write(path, content), _FILE_S)
        match answer:
            case [b"done"]:
                return
            case [b"failed", why]:
                raise VisitFailed(f"cannot write {path}: {messages.text(why)}")
        raise _unexpected(answer)

    def read(self, path: str) -> str | None:
        answer = self._ask(messages.read(path), _FILE_S)
        match answer:
            case [b"content", content]:
                return messages.text(content)
            case [b"missing"]:
                return None
            case [b"failed", why]:
                raise VisitFailed(f"cannot read {path}: {messages.text(why)}")
        raise _unexpected(answer)

    def now(self) -> float:
        return self._clock()

    def facts(self, tools: Iterable[str], work_dir: str) -> Facts:
        return facts.parse(self.run(facts.command(tools, work_dir)).stdout)

    def end_strays(self, marker: str) -> list[str]:
        answer = self._ask(messages.strays(marker), _STRAYS_S)
        match answer:
            case [b"strays", ended, b""]:
                return sorted(messages.items(ended))
            case [b"strays", _, left]:
                raise UndoFailed([f"{name} was killed and still lives" for name in messages.items(left)])
        raise _unexpected(answer)

    def _ask(self, request: bytes, timeout_s: float, wake: int | None = None) -> list[bytes]:
        try:
            return messages.decode(self._channel.call(request, timeout_s, wake))
        except HostLost:
            # A machine that was given up because of a signal is no machine that failed.
            if wake is not None:
                self._check()
            raise

    def _stopped(self, command: Command, why: bytes, stdout: str, stderr: str) -> NoReturn:
        self._check()
        if why == b"output":
            detail = f"said more than {messages.OUTPUT_LIMIT_BYTES >> 20} MiB and was stopped; let it write to a file"
            raise CommandFailed(command.argv, None, stdout, stderr, detail)
        detail = f"did not end within {command.timeout_s:g} s and was stopped"
        raise CommandTimedOut(command.argv, None, stdout, stderr, detail)

    def _check(self) -> None:
        if self._interruption is not None:
            self._interruption.check()


def _unexpected(answer: list[bytes]) -> HostLost:
    said = os.fsdecode(b" ".join(answer))[:200]
    return HostLost(f"the runner on the measured machine gave an answer that is none ({said!r}); install it again.")
