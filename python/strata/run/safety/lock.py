"""One run at a time in a directory. The lock is the kernel's: it ends with the process, however that ends."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from strata.errors import Refused
from strata.store import ownership

_FILE = "lock"

# `strata status` holds it for a moment when it asks; a process that was killed does until its last write is through.
_PATIENCE_S = 3.0
_PAUSE_S = 0.05


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Makes `directory` if need be, and takes it away again when nothing came of it.

    Raises Refused when another process works on it, when it is somebody's directory and no run of ours, and when
    another user could write or link something there.
    """
    check(directory)
    made = [path for path in (directory, *directory.parents) if not path.exists() and not path.is_symlink()]
    for path in reversed(made):
        # Whatever the umask: the group of the user cannot write in it.
        path.mkdir(mode=0o755, exist_ok=True)
    if made:  # another user may have been faster, in a directory that all share
        ownership.check_parents(directory)
        ownership.check(directory)
    file = _take(directory)
    try:
        yield
    finally:
        if not (directory / "strata.db").exists() and not _content(directory):
            (directory / _FILE).unlink()
            with suppress(OSError):  # another run may have begun beside it
                for path in made:
                    path.rmdir()
        os.close(file)


def check(directory: Path) -> None:
    """Raises Refused unless a run may be made or continued in `directory`. Changes nothing."""
    ownership.check_parents(directory)
    if not os.path.lexists(directory):
        return
    ownership.check(directory)
    if not (directory / "strata.db").exists() and _content(directory):
        raise Refused(f"{directory} holds other things and no run of Strata; give a new or empty directory with --out.")


def check_group(directory: Path, runs: Collection[str], page: str) -> None:
    """Raises Refused unless `directory` may hold the runs of these names, and one page about them. Changes nothing.

    It must be new or empty, or hold nothing else. A page without any run is somebody's file.
    """
    ownership.check_parents(directory)
    if not os.path.lexists(directory):
        return
    ownership.check_directory(directory)
    names = {path.name for path in directory.iterdir()}
    kept = any((directory / name / "strata.db").exists() for name in names.intersection(runs))
    # A process that is killed while it writes the page leaves a hidden file.
    pages = {name for name in names if name == page or name.startswith(f".{page}.")} if kept else set()
    if other := sorted(names.difference(runs, pages)):
        raise Refused(
            f"{directory} holds other things ({other[0]}) and not only runs of this command; give a new or empty "
            "directory with --out."
        )
    for name in sorted(names):
        if name in runs:
            check(directory / name)


def held(directory: Path) -> bool:
    """Whether a process works on `directory` now. Changes nothing."""
    try:
        # O_NONBLOCK: a pipe of that name must not make us wait.
        file = os.open(directory / _FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno == errno.ELOOP:  # a symbolic link, which is no lock of ours
            return False
        raise
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def _content(directory: Path) -> bool:
    """Whether anything there is not ours: an empty lock, or the beginning of a store whose making was killed."""
    return any(path.lstat().st_size if path.name == _FILE else not _begun(path) for path in directory.iterdir())


def _begun(path: Path) -> bool:
    if path.name == "samples":
        return path.is_dir() and not any(path.iterdir())
    return path.name.startswith("strata.db.new")


def _take(directory: Path) -> int:
    """A descriptor of the lock file, locked."""
    path = directory / _FILE
    tries = round(_PATIENCE_S / _PAUSE_S)
    for _ in range(tries):
        # whatever a file of that name holds stays
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            time.sleep(_PAUSE_S)
            continue
        # its last holder may have taken it away between our open and our lock
        if path.exists() and os.fstat(file).st_ino == path.stat().st_ino:
            return file
        os.close(file)
    raise Refused(
        f"another strata works on {directory} now; wait for it, watch it with `strata status {directory}`, "
        "or give this run another directory with --out."
    )
