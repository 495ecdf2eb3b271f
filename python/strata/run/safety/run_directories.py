"""Which run directories may be shown to every user of this machine.

`strata serve` answers whoever connects, so it shows only what its own user put there. A directory that somebody else
can write to could hold a link to a file that only this user may read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

_FILES = ("strata.db", "strata.db-wal", "strata.db-shm", "strata.db-journal", "lock")
_SAMPLES = "samples"
_NO_LINK = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def below(directory: Path) -> list[Path]:
    """The run directories in `directory`, or itself where it is one. No link is followed, and no run is entered."""
    if _holds_run(directory):
        return [directory]
    return sorted(_runs(directory))


def _runs(directory: Path) -> Iterator[Path]:
    for path, names, _ in os.walk(directory, followlinks=False):
        inside = [Path(path) / name for name in names]
        runs = [each for each in inside if not each.is_symlink() and _holds_run(each)]
        yield from runs
        names[:] = [each.name for each in inside if each not in runs]


def _holds_run(directory: Path) -> bool:
    return os.path.lexists(directory / _FILES[0])


def reason_against(directory: Path) -> str | None:
    """Why the run in `directory` is not shown; None when all its files are regular files of this user or of root.

    Every file is looked at from an open directory, so that no part of its path below can be a link.
    """
    try:
        opened = os.open(directory, _NO_LINK | os.O_DIRECTORY)
    except OSError as error:
        return f"{directory} is not shown: it cannot be opened as a directory ({error.strerror}); give the directory."
    try:
        problem = _problem(os.fstat(opened), stat.S_ISDIR, "directory")
        if problem is not None:
            return f"{directory} is not shown: it {problem}."
        problem = _of_files(opened, _FILES) or _of_samples(opened)
    except OSError as error:
        return f"{directory} is not shown: it cannot be looked at ({error.strerror}); check who may read it."
    finally:
        os.close(opened)
    return None if problem is None else f"{directory} is not shown: its {problem}."


def _of_files(directory: int, names: Iterable[str], where: str = "") -> str | None:
    for name in names:
        try:
            seen = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:  # it is not there, or a run that goes on took it away
            continue
        problem = _problem(seen, stat.S_ISREG, "regular file")
        if problem is not None:
            return f"{where}{name} {problem}"
    return None


def _of_samples(directory: int) -> str | None:
    try:
        problem = _problem(os.stat(_SAMPLES, dir_fd=directory, follow_symlinks=False), stat.S_ISDIR, "directory")
    except FileNotFoundError:
        return None
    if problem is not None:
        return f"{_SAMPLES} {problem}"
    opened = os.open(_SAMPLES, _NO_LINK | os.O_DIRECTORY, dir_fd=directory)
    try:
        return _of_files(opened, os.listdir(opened), f"{_SAMPLES}/")  # noqa: PTH208 - of an open directory
    finally:
        os.close(opened)


def _problem(seen: os.stat_result, is_kind: Callable[[int], bool], kind: str) -> str | None:
    if not is_kind(seen.st_mode):
        return f"is {'a link' if stat.S_ISLNK(seen.st_mode) else 'something else'} and not a {kind}"
    if seen.st_uid not in (os.geteuid(), 0):
        return f"belongs to user {seen.st_uid}, and this is user {os.geteuid()}; let that user serve it"
    if seen.st_mode & stat.S_IWOTH or (seen.st_mode & stat.S_IWGRP and seen.st_gid != os.getegid()):
        return "can be written to by other users; take that permission away with `chmod go-w`"
    return None
