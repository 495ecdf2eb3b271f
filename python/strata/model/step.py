"""Commands, and the steps that change a host."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """A program to start on a host. Never a shell line: where a shell is needed, argv names it."""

    argv: tuple[str, ...]
    timeout_s: float = 600.0
    stdin: str | None = None
    beside: bool = False  # on the controller's machine, beside the lab machine that is measured


@dataclass(frozen=True, slots=True)
class Completed:
    """What a command left behind."""

    argv: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str
    duration_s: float  # by the host's monotonic clock


@dataclass(frozen=True, slots=True)
class Step:
    """One change to a host. `undo` must succeed even if `do` never ran or stopped half way."""

    do: Command
    undo: Command | None
    why: str  # "make the ext4 file system"; ends up in the journal, progress and the report
    # brings it back after the machine has started again, and changes nothing where it is there; None: it lasts by
    # itself
    again: Command | None = None
