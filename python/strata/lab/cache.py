"""The folder that keeps labs between runs.

labs/HASH/           a whole lab; processes that use it share a lock on the folder
labs/building-KEY/   one that is being built, or was and was cut short; never used
apt/SUITE/           what the mirror has
zfs/.../             modules that took minutes to build
lock                 held by the one process that builds or removes
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from strata.errors import Refused
from strata.lab import private
from strata.units import human_size

_BUILDING = "building-"


def default() -> Path:
    """Where this user's labs are. Raises Refused when somebody else could put one there."""
    base = os.environ.get("XDG_CACHE_HOME")
    cache = ((Path(base) if base else Path.home() / ".cache") / "strata" / "lab").resolve()
    _check_private(cache)
    return cache


def _check_private(cache: Path) -> None:
    reason = private.reason_against(cache)
    if reason is not None:
        raise Refused(
            f"labs are kept in {cache}, and {reason}: a lab from somebody else would run as yours. Name a directory of "
            "your own with XDG_CACHE_HOME (after sudo, HOME may be that of another user: `sudo -H`)."
        )


def labs(cache: Path) -> list[Path]:
    """Folders of labs that were built to the end."""
    return [path for path in _folders(cache) if not path.name.startswith(_BUILDING)]


def half_built(cache: Path) -> list[Path]:
    return [path for path in _folders(cache) if path.name.startswith(_BUILDING)]


def building(cache: Path, key: str) -> Path:
    return cache / "labs" / f"{_BUILDING}{key}"


def apt(cache: Path, suite: str) -> Path:
    return cache / "apt" / suite


def zfs(cache: Path) -> Path:
    return cache / "zfs"


def check_room(directory: Path, wanted_bytes: int, named_by: str) -> None:
    """Raises Refused. `directory` exists; the environment's `named_by` can name another."""
    free = shutil.disk_usage(directory).free
    if free < wanted_bytes:
        raise Refused(
            f"building this lab takes {human_size(wanted_bytes)} for a while and {directory} has {human_size(free)} "
            f"free; make room there (`strata lab status` shows the labs), or name another place with {named_by}."
        )


@contextmanager
def locked(cache: Path) -> Iterator[None]:
    """Makes the folder if need be. Raises Refused when another process builds or removes."""
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = (cache / "lock").open("a")
    except OSError as error:
        raise Refused(
            f"cannot keep a lab in {cache}: {error.strerror}; name another place with XDG_CACHE_HOME."
        ) from error
    with file:
        _check_private(cache)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(f"another strata builds or removes a lab in {cache} now; wait for it.") from None
        yield


def use(lab: Path) -> None:
    """Nobody removes the lab until this process ends. Raises Refused when it is being removed."""
    try:
        # Never closed: the lock goes with it.
        fcntl.flock(os.open(lab, os.O_RDONLY | os.O_DIRECTORY), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, FileNotFoundError):
        raise Refused(f"the lab {lab.name} is being removed now; wait for that and build it again.") from None


@contextmanager
def unused(labs: Iterable[Path]) -> Iterator[None]:
    """Nobody begins to use one of them meanwhile. Raises Refused when one is in use."""
    with ExitStack() as stack:
        for lab in labs:
            folder = os.open(lab, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, folder)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refused(
                    f"the lab {lab.name} is in use by another strata, and nothing was removed; end that run or shell, "
                    "or wait for it."
                ) from None
        yield


def held(cache: Path) -> bool:
    """Whether a process builds or removes now. Changes nothing."""
    try:
        with (cache / "lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _folders(cache: Path) -> list[Path]:
    try:
        return sorted(path for path in (cache / "labs").iterdir() if path.is_dir())
    except FileNotFoundError:
        return []
