"""A folder for as long as a block lasts: closed to others, and removed by a later one where its process was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch(name: str) -> Iterator[Path]:
    """Below the temporary folder, with a name that nobody can guess. `name` says what it is for.

    A lock on it ends with its process: what has none was left behind, and is removed if it is this user's.
    """
    prefix = f"strata-{name}-"
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        _remove_if_left(left)
    while True:
        directory = Path(tempfile.mkdtemp(prefix=prefix))
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(lock, fcntl.LOCK_SH)
        if directory.exists():  # another process may have taken it for one left behind, before it had its lock
            break
        os.close(lock)
    try:
        yield directory
    finally:
        os.close(lock)
        shutil.rmtree(directory, ignore_errors=True)


def _remove_if_left(directory: Path) -> None:
    try:
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(directory, ignore_errors=True)
    except BlockingIOError:
        return
    finally:
        os.close(lock)
