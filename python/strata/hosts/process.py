"""Processes that live longer than one command: QEMU, an ssh client."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from strata.errors import CommandFailed
from strata.hosts.local import MARK

# How long it has to end after SIGTERM, and the kernel to end it after SIGKILL.
_GRACE_S = 5.0
_KILL_S = 10.0


class Started:
    """A process in a session of its own, so that no ^C reaches it, and marked, so that `strata clean` finds it.

    What it says goes to `log`; it reads nothing. `keep` are descriptors that it inherits under the same numbers.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        marker: str,
        log: Path,
        environment: Mapping[str, str] = MappingProxyType({}),
        keep: Sequence[int] = (),
    ) -> None:
        """Raises CommandFailed when it cannot be started."""
        self.argv = tuple(argv)
        self.log = log
        with log.open("ab") as said:
            try:
                self._process = subprocess.Popen(
                    self.argv,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    env={**os.environ, "LC_ALL": "C.UTF-8", **environment, MARK: marker},
                    pass_fds=tuple(keep),
                    start_new_session=True,
                )
            except OSError as error:
                raise CommandFailed(self.argv, None, "", str(error)) from error
        self.pid = self._process.pid
        self.exit_code: int | None = None  # -N after signal N; known after `end`
        try:
            self.pidfd = os.pidfd_open(self.pid)  # can be read once the process has ended; -1 after `end`
        except OSError:
            self._process.kill()
            self._process.wait()
            raise

    def alive(self) -> bool:
        return not self.wait(0.0)

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, at most `seconds` from now. It stays a zombie until `end`, and its number its own."""
        return self.pidfd < 0 or bool(select.select([self.pidfd], [], [], seconds)[0])

    def said(self) -> str:
        """All that it wrote so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def end(self) -> None:
        """Ask its whole group to stop, then make it; also what a process that ended left. May be called again."""
        if self.pidfd < 0:
            return
        if self.alive():
            self._signal(signal.SIGTERM)
            self.wait(_GRACE_S)
        self.kill()

    def kill(self) -> None:
        """As `end`, but it gets no chance to tidy up. For what is thrown away."""
        if self.pidfd < 0:
            return
        self._signal(signal.SIGKILL)
        if self.wait(_KILL_S):
            self.exit_code = self._process.wait()
        os.close(self.pidfd)
        self.pidfd = -1

    def _signal(self, number: signal.Signals) -> None:
        # Not waited for yet, so the number of the group cannot be another's.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def attended(argv: Sequence[str], *, marker: str) -> int:
    """Run a program that a person uses, on our terminal, and return its exit code.

    In our own group: a terminal gives its keys to that one alone. Raises CommandFailed when it cannot be started.
    """
    try:
        return subprocess.run(argv, env={**os.environ, MARK: marker}, check=False).returncode
    except OSError as error:
        raise CommandFailed(tuple(argv), None, "", str(error)) from error
