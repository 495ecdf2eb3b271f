"""The key of this machine and user, which signs their runs. Nobody else can read it."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from strata.errors import Refused

_FILE = "key"
_BYTES = 32
_MACHINE_ID = Path("/etc/machine-id")

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_USE = stat.S_IRWXG | stat.S_IRWXO


def state_directory() -> Path:
    """Where the key is kept: STATE_DIRECTORY as systemd sets it, else /var/lib/strata for root and the state
    directory of the XDG convention for anybody else."""
    if stated := os.environ.get("STATE_DIRECTORY"):
        return Path(stated.partition(":")[0])
    if os.geteuid() == 0:
        return Path("/var/lib/strata")
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "strata"


def machine_id() -> str:
    """The id of this machine; empty where it has none."""
    try:
        return _MACHINE_ID.read_text().strip()
    except FileNotFoundError:
        return ""


def of_this_machine(directory: Path | None = None) -> bytes:
    """Return the key in `directory` (default: the state directory), 32 bytes; make it if there is none.

    Raises Refused when it cannot be made or read, or when somebody else could read or replace it.
    """
    directory = directory or state_directory()
    try:
        with _opened(directory) as folder:
            key = _read(directory, folder)
            while key is None:  # a second time only when the key is removed at this moment
                _make(folder)
                key = _read(directory, folder)
            return key
    except OSError as error:
        raise Refused(
            f"the key in {directory}, which signs runs, cannot be used ({error.strerror}); make this a directory of "
            "your own with room for it, or name another with STATE_DIRECTORY."
        ) from error


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    """A descriptor of the directory, through which the key is used: no link can take its place meanwhile."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check(directory, os.fstat(folder), _OTHERS_WRITE)
        yield folder
    finally:
        os.close(folder)


def _read(directory: Path, folder: int) -> bytes | None:
    path = directory / _FILE
    try:
        # O_NONBLOCK: a pipe of that name must not make us wait.
        file = os.open(_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size != _BYTES:
            raise Refused(
                f"{path} is not a key that signs runs: a key is a file of {_BYTES} bytes. Remove it; runs that were "
                "signed with an earlier key can then be read, but not continued or cleaned."
            )
        _check(path, status, _OTHERS_USE)
        return os.read(file, _BYTES)
    finally:
        os.close(file)


def _make(folder: int) -> None:
    """Make the key under another name first: a key that exists is complete, whenever we are killed."""
    name = f"{_FILE}.{secrets.token_hex(8)}"
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        os.write(file, secrets.token_bytes(_BYTES))
        os.fsync(file)
        with suppress(FileExistsError):  # another strata was faster; a rename would replace its key
            os.link(name, _FILE, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(file)
        os.unlink(name, dir_fd=folder)
    os.fsync(folder)


def _check(path: Path, status: os.stat_result, forbidden: int) -> None:
    if status.st_uid != os.geteuid():
        raise Refused(
            f"{path}, which signs runs, belongs to user {status.st_uid} and Strata runs as user {os.geteuid()}; "
            "make it yours with `chown`, or name another directory with STATE_DIRECTORY."
        )
    mode = stat.S_IMODE(status.st_mode)
    if mode & forbidden:
        letters = "go-w" if forbidden == _OTHERS_WRITE else "go-rwx"
        raise Refused(
            f"{path}, which signs runs, is open to other users (mode {mode:04o}); run `chmod {letters} {path}`, "
            "or remove it if another user may have read or changed it."
        )
