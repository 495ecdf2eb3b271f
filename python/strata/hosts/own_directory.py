"""The current directory of a command: empty and its own, so that a relative name in its arguments names nothing of
anybody's."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "strata-cwd-"

# For a machine whose temporary folder is full or not there.
_OTHERS = ("/run", "/dev/shm")

# Between the making of a directory and its lock it looks as one that was left.
_SETTLED_S = 60.0

# Blanks, line ends and backslashes in mount points. Source: proc(5), mountinfo.
_ESCAPED = re.compile(rb"\\([0-7]{3})")


@contextmanager
def own_directory() -> Iterator[str]:
    """Removed with what a program left in it, unless something is mounted on it or below it. Raises OSError."""
    path = _made()
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)  # ends with us, however we end: then it is one that was left
        yield path
    finally:
        os.close(descriptor)
        _remove(path)


def remove_left() -> None:
    """Those of this user's processes that were killed."""
    for place in (tempfile.gettempdir(), *_OTHERS):
        with suppress(OSError):
            for path in Path(place).glob(f"{_PREFIX}*"):
                with suppress(OSError):
                    if _left(path):
                        _remove(str(path))


def _made() -> str:
    for place in (None, *_OTHERS):
        try:
            return tempfile.mkdtemp(prefix=_PREFIX, dir=place)
        except OSError as error:
            failure = error
    raise failure


def _left(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid() or time.time() - found.st_mtime < _SETTLED_S:
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    finally:
        os.close(descriptor)


def _remove(path: str) -> None:
    try:
        Path(path).rmdir()  # the common case, and the only one that needs no look at what is mounted
    except OSError:
        if not _holds_mount(path):
            shutil.rmtree(path, ignore_errors=True)


def _holds_mount(path: str) -> bool:
    """Return whether something is mounted on `path` or below it, or what is mounted cannot be read."""
    # The kernel shows mount points without links. The last name is a directory of ours; a link in its place is not
    # followed by the removal either.
    directory = str(Path(path).parent.resolve() / Path(path).name)
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().rstrip(b"\n").split(b"\n")
    except OSError:
        return True
    points = (os.fsdecode(_ESCAPED.sub(_character, line.split(b" ")[4])) for line in lines)
    return any(point == directory or point.startswith(f"{directory}/") for point in points)


def _character(escaped: re.Match[bytes]) -> bytes:
    return bytes([int(escaped[1], 8)])
