"""What every machine that carries a visit can do. `run` uses this and nothing else.

A transport that batches (the exact lab's mailbox) fits behind it too: nothing here returns while a command runs,
nothing depends on the clock of the controller, and files go in and come out as whole texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from strata.model import Command, Completed, Facts


class Interruption(Protocol):
    """What may cut a command short. It never raises by itself, so that nothing is left half done: it is asked."""

    def check(self) -> None:
        """Raises Interrupted when what runs is to stop."""

    def descriptor(self) -> int | None:
        """Can be read as soon as `check` would raise; None while nothing may be cut short."""


class Host(Protocol):
    engine: str  # path of strata-engine on this host

    def run(self, command: Command, *, check: bool = True) -> Completed:
        """Start it, wait until it has ended; not for what it leaves running, even where that holds its streams.

        Raises CommandFailed (when `check`), CommandTimedOut, HostLost, Interrupted; then the command was ended.
        """

    def write(self, path: str, content: str) -> None:
        """Make or replace a small file. Raises VisitFailed (no room, no such directory)."""

    def read(self, path: str) -> str | None:
        """The content of a text file; None when there is none. Raises VisitFailed (a directory, not ours to read)."""

    def now(self) -> float:
        """Unix time of the host's clock, seconds."""

    def facts(self, tools: Iterable[str], work_dir: str) -> Facts:
        """What the machine is: kernel, memory, the versions of `tools`, the room below `work_dir`."""

    def end_strays(self, marker: str) -> list[str]:
        """End every process that was started here under `marker` and still lives; returns what they were.

        Raises UndoFailed when one does not end.
        """
