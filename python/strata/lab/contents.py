"""What the files of a folder hold: recorded when the folder is made, compared before it is used.

Reading a lab takes half a second and more. So the stamps of its files (size, times, inode) are kept after they were
read: a file with the same stamps is not read again, unless the caller wants every byte. The stamps hold the time of the
last change, which no program can set back.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path, PurePath

_STAMPS = "stamps.json"

Stamp = list[int]

# What this process has read in full: file -> stamp. A run needs every byte once, however many machines it resumes.
_read: dict[Path, Stamp] = {}


def digests(directory: Path) -> dict[str, str]:
    """SHA-256 of each file, by its name from the folder."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): _digest(path) for path in files}


def difference(directory: Path, recorded: Mapping[str, str], *, whole: bool = False) -> str | None:
    """How the folder differs from what was recorded, as a clause; None when it does not.

    Further files do not count, except in the folders of recorded ones. `whole`: every byte is read, once in this
    process.
    """
    kept = _kept(directory)
    stamps: dict[str, Stamp] = {}
    for name, digest in recorded.items():
        path = directory / name
        try:
            stamps[name] = _stamp(path)
            known = _read.get(path) if whole else kept.get(name)
            if known != stamps[name]:
                if _digest(path) != digest:
                    return f"{name} was changed"
                _read[path] = stamps[name]
        except OSError as error:
            return f"{name} cannot be read: {error.strerror}"
    for folder in {PurePath(name).parent for name in recorded} - {PurePath()}:
        for added in sorted(path.name for path in (directory / folder).iterdir()):
            if str(folder / added) not in recorded:
                return f"{folder / added} was added"
    if stamps != kept:
        _keep(directory, stamps)
    return None


def forget(directory: Path) -> None:
    """Have every byte of the folder read before it is used again: what was made of it did not work."""
    (directory / _STAMPS).unlink(missing_ok=True)
    for path in [path for path in _read if path.is_relative_to(directory)]:
        _read.pop(path, None)


def put(part: Path, directory: Path) -> None:
    """Rename a finished folder to the name by which it is found: whole, also after a power failure.

    Raises OSError when the name is taken.
    """
    for path in (*part.rglob("*"), part):
        if not path.is_symlink():
            _sync(path)
    part.rename(directory)
    _sync(directory.parent)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _digest(path: Path) -> str:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stamp(path: Path) -> Stamp:
    status = path.lstat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _kept(directory: Path) -> Mapping[str, Stamp]:
    try:
        kept: Mapping[str, Stamp] = json.loads((directory / _STAMPS).read_text())
    except (OSError, ValueError):
        return {}
    return kept


def _keep(directory: Path, stamps: Mapping[str, Stamp]) -> None:
    # A run compares from several threads at once. Where nothing can be kept, the files are read the next time too.
    part = directory / f"{_STAMPS}.{os.getpid()}.{threading.get_ident()}"
    with contextlib.suppress(OSError):
        part.write_text(json.dumps(stamps))
        part.replace(directory / _STAMPS)
