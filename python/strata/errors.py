"""Every error that Strata raises on purpose.

    StrataError                 carries the exit code of the command line
     +- BadInput          (2)   something the user wrote; holds every problem found, with its place
     +- Refused           (3)   doing it could cost somebody data, or another run is at work here
     |   +- LabUnavailable (4)  the lab is not built, or cannot have the machine or the disks of the campaign
     +- NothingToRun      (4)   not one of the stacks asked for can run on this machine
     +- Interrupted     (130)   ^C or a termination signal; raised after nothing is left half done
     +- VisitFailed       (1)   one visit went wrong; the campaign goes on
     |   +- CommandFailed       a program ended badly: argv, exit code and both streams
     |   |   +- CommandTimedOut
     |   +- NotAsAsked          the machine, read back, is not what the stack says
     |   +- WorkloadFailed      a workload ended without a figure that can be trusted
     |   +- NoRoom              the disk that holds the run directory is full
     +- UndoFailed        (1)   something of ours could not be removed: the host is quarantined
     +- HostLost          (1)   the machine does not answer any more
     +- StoreError        (2)   the run directory is not one of ours, or is from a newer Strata

A message is a sentence that ends with the next thing to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class StrataError(Exception):
    """Base of the tree."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with what the user wrote."""

    message: str
    where: str | None = None  # "lxd.yaml", "the command line", an expression's number ...
    line: int | None = None  # 1-based
    column: int | None = None  # 1-based
    excerpt: str | None = None  # the line of text that `column` points into

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.where, self.line, self.column) if part is not None)
        text = f"{place}: {self.message}" if place else self.message
        if self.excerpt is not None:
            text += f"\n  {self.excerpt}"
            if self.column is not None:
                text += f"\n  {' ' * (self.column - 1)}^"
        return text


class BadInput(StrataError):
    exit_code = 2

    def __init__(self, problems: Sequence[Problem] | str) -> None:
        self.problems: tuple[Problem, ...] = (Problem(problems),) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class Refused(StrataError):
    """Raised with every reason at once, before anything was touched."""

    exit_code = 3

    def __init__(self, reasons: Sequence[str] | str) -> None:
        self.reasons: tuple[str, ...] = (reasons,) if isinstance(reasons, str) else tuple(reasons)
        super().__init__("\n".join(self.reasons))


class LabUnavailable(Refused):
    exit_code = 4


class NothingToRun(StrataError):
    exit_code = 4


class Interrupted(StrataError):
    exit_code = 130


class VisitFailed(StrataError):
    pass


class CommandFailed(VisitFailed):
    def __init__(self, argv: Sequence[str], exit_code: int | None, stdout: str, stderr: str, detail: str = "") -> None:
        self.argv = tuple(argv)
        self.status = exit_code
        self.stdout = stdout
        self.stderr = stderr
        said = [line.strip() for line in (stderr.strip() or stdout.strip()).splitlines()]
        # Some programs say what is wrong first and end with their usage, others the other way round.
        said = said if len(said) <= 3 else [said[0], "...", said[-1]]
        why = f": {' | '.join(said)}" if said else ""
        how = detail or ("could not be started" if exit_code is None else f"ended with exit code {exit_code}")
        super().__init__(f"`{_shown(self.argv)}` {how}{why}")


def _shown(argv: tuple[str, ...]) -> str:
    """A command in a sentence: of a shell script only what it was given; the journal holds the whole."""
    if argv[:2] == ("sh", "-c") and len(argv) > 4:
        argv = ("sh", "-c", "...", *argv[4:])
    return " ".join("..." if "\n" in word else word for word in argv)


class CommandTimedOut(CommandFailed):
    pass


class NotAsAsked(VisitFailed):
    pass


class WorkloadFailed(VisitFailed):
    pass


class NoRoom(VisitFailed):
    """Ends the visit: its removal is what gives the room back."""


class UndoFailed(StrataError):
    """`cause` is what made us undo (None when it was an ordinary tear-down), `failures` what then failed."""

    def __init__(self, failures: Sequence[str], cause: str | None = None) -> None:
        self.failures = tuple(failures)
        self.cause = cause
        text = "could not remove what this visit built:\n" + "\n".join(f"  {f}" for f in self.failures)
        if cause:
            text += f"\nit was being removed because: {cause}"
        text += "\nend whatever still uses it, then run `strata clean` on the directory of this run."
        super().__init__(text)


class HostLost(StrataError):
    """`console`: the last lines that the machine wrote, where somebody read them."""

    def __init__(self, message: str, console: str = "") -> None:
        self.console = console
        super().__init__(message)


class GuestLost(HostLost):
    """A guest panicked, hangs or has ended; the machine that carries it goes on."""


class StoreError(StrataError):
    exit_code = 2
