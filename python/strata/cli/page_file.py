"""Files that commands write, in directories that somebody else may have filled. Nothing else in `cli` opens any."""

from __future__ import annotations

import os
import re
import secrets
import stat
from pathlib import Path

from strata.errors import Refused

_DEVICES = Path("/dev")
_NUMBERED = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
_MODE = 0o644  # whatever the umask: root may run what is written


def write(path: Path, text: str) -> None:
    """Write the file whole or not at all. A link that has its name is replaced, never followed.

    A device and a pipe of this user are written to, as are this process's descriptors (/dev/stdout, /dev/fd/N).
    Raises Refused where anything else has the name.
    """
    stream = _stream(path)
    if stream is None:
        _replace(path, text)
        return
    with os.fdopen(stream, "w", encoding="utf-8") as opened:
        opened.write(text)


def create(path: Path, text: str, mode: int = _MODE) -> None:
    """Write a new file. Raises FileExistsError where anything has its name, a link that leads nowhere too."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(file, "w", encoding="utf-8") as opened:
            opened.write(text)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _replace(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        create(partial, text, _mode(path))
        try:
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        error.filename = str(path)
        raise


def _mode(path: Path) -> int:
    """A file of this user that is replaced stays as private, or as executable, as it was."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return _MODE
    own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    return status.st_mode & 0o755 if own else _MODE


def _stream(path: Path) -> int | None:
    """A descriptor to write to, where the name is not that of a file. None: make a file, or replace one."""
    # The directory may be a link to /dev; the last name is looked at as it is.
    place = Path(os.path.realpath(path.parent)) / path.name
    for name in (str(path.absolute()), str(place)):
        numbered = _NUMBERED.fullmatch(name)
        if numbered or name in _STREAMS:
            return os.dup(int(numbered[1]) if numbered else _STREAMS[name])
    try:
        status = place.lstat()
    except FileNotFoundError:
        return None
    below_devices = place.is_relative_to(_DEVICES)
    if stat.S_ISCHR(status.st_mode) and below_devices:
        return os.open(place, os.O_WRONLY | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC)
    if stat.S_ISFIFO(status.st_mode) and status.st_uid == os.geteuid():
        # O_NONBLOCK: a pipe that nobody reads is an error, and must not make us wait.
        pipe = os.open(place, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(pipe, True)
        return pipe
    if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):  # a directory is the kernel's to refuse
        return None
    if stat.S_ISLNK(status.st_mode) and not below_devices:
        return None
    raise Refused(f"{path} is {_what(status)}, which is not replaced by a file; give the name of a file with --out.")


def _what(status: os.stat_result) -> str:
    if stat.S_ISLNK(status.st_mode):
        return "a link to a device"
    if stat.S_ISFIFO(status.st_mode):
        return "a pipe of another user"
    return "a socket" if stat.S_ISSOCK(status.st_mode) else "a device"
