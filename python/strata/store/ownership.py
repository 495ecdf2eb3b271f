"""Whether a run directory is this user's alone, so that nobody else can put links or files into it."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from strata.errors import Refused

# What Strata writes directly in a run directory. Their types do not matter here: what cannot be used is an error later.
_NAMES = ("strata.db", "strata.db-wal", "strata.db-shm", "strata.db-journal", "lock", "samples", "work")


def check(directory: Path) -> None:
    """Raises Refused unless `directory` and what Strata keeps in it belong to this user and are closed to others."""
    check_directory(directory)
    for name in _NAMES:
        path = directory / name
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        if stat.S_ISLNK(status.st_mode):
            raise Refused(f"{path} is a symbolic link, which Strata never makes; {_READ}")
        _check_owner(path, status)
        _check_mode(path, status)


def check_directory(directory: Path) -> None:
    """Raises Refused unless `directory` is a directory, belongs to this user and is closed to others."""
    status = directory.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise Refused(
            f"{directory} is a symbolic link to {directory.readlink()}; give that directory itself: a link can be "
            "changed while Strata works."
        )
    if not stat.S_ISDIR(status.st_mode):
        raise Refused(f"{directory} is a file and not a directory; give a new or empty directory with --out.")
    _check_owner(directory, status)
    _check_mode(directory, status)


def check_parents(directory: Path) -> None:
    """Raises Refused when another user could put another directory in the place of `directory`."""
    sudo_user = os.environ.get("SUDO_UID", "")
    trusted = {0, os.geteuid(), int(sudo_user) if sudo_user.isdecimal() else 0}
    if in_user_namespace(_UID_MAP.read_text()):
        trusted.add(_NOBODY)
    for parent in _parents(directory):
        status = parent.lstat()
        # A group with the number of the owner is the owner's alone, where no list adds others.
        whose = open_to_others(status.st_uid, status.st_mode, trusted, group=status.st_gid != status.st_uid)
        if whose is not None:
            raise Refused(
                f"{directory} lies below {parent}, which {whose}: another user could replace the directory while "
                "Strata works in it; give --out a place of your own."
            )


WAY = r"""
one() {
  case $(ls -ld -- "$1") in ??????????+*) list=. ;; *) list= ;; esac
  echo "$(stat --format="%u %g$list %f" -- "$1") $(printf %s "$1" | tr '\n' '?')"
}
way() (
  at=$1
  while one "$at"; do
    if [ -L "$at" ]; then
      to=$(readlink -- "$at")
      case $to in /*) way "$to" ;; *) way "$(dirname -- "$at")/$to" ;; esac
    fi
    [ "$at" != / ] || break
    at=$(dirname -- "$at")
  done
)
trusted() {
  [ "$(tr -s ' ' </proc/self/uid_map)" = " 0 0 4294967295" ] && inside= || inside=65534
  echo "0 $(id -u) ${SUDO_UID:-} $inside"
}
"""
"""Functions of the shell. `way` prints OWNER GROUP MODE NAME of everything that decides where an absolute path leads:
it, what is above it, and where links on it lead; with a dot after GROUP where an access list says more than the mode.
`trusted`: the users who may have a say there; 65534 is everybody that a user namespace does not know, root among them,
and on the machine itself an ordinary user."""

_UID_MAP = Path("/proc/self/uid_map")
_NOBODY = (
    65534  # a user that a user namespace does not know, root of the machine among them; elsewhere an ordinary user
)


def in_user_namespace(uid_map: str) -> bool:
    """Pure: from /proc/self/uid_map, which maps every user to itself outside of one (user_namespaces(7))."""
    return uid_map.split() != ["0", "0", "4294967295"]


def open_to_others(uid: int, mode: int, trusted: Collection[int], *, group: bool = False) -> str | None:
    """Why others than `trusted` can replace entries of a directory of this owner and mode, or what a link leads to.

    In a sticky directory only the owner of an entry can. `group`: what its group may do is a reason, too. Pure.
    """
    if uid not in trusted:
        return f"belongs to user {uid}"
    if stat.S_ISLNK(mode) or mode & stat.S_ISVTX:
        return None
    if mode & stat.S_IWOTH:
        return f"is writable by every user (mode {stat.S_IMODE(mode):04o})"
    if group and mode & stat.S_IWGRP:
        return f"is writable by a group (mode {stat.S_IMODE(mode):04o})"
    return None


_READ = "the run can only be read (`strata report`); start a new one with another --out."


def _parents(directory: Path) -> Iterator[Path]:
    """Every existing directory or link on the way to it, as written and with links resolved."""
    # realpath, and not Path.resolve, which raises RuntimeError for links in a circle
    for written in (directory.absolute(), Path(os.path.realpath(directory))):
        yield from (parent for parent in written.parents if parent.is_symlink() or parent.exists())


def _check_owner(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise Refused(
            f"{path} belongs to user {status.st_uid} and Strata runs as user {os.geteuid()}: only its owner can use it "
            "with --out, continue it or clean it. Run Strata as that user, or give another directory."
        )


def _check_mode(path: Path, status: os.stat_result) -> None:
    mode = stat.S_IMODE(status.st_mode)
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Refused(
            f"{path} is writable by other users (mode {mode:04o}), who could change what Strata does there; "
            f"run `chmod go-w {path}`, or give another directory."
        )
