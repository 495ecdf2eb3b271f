"""Whether a directory is this user's alone: what lies in it is trusted without a second look."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path


def reason_against(directory: Path) -> str | None:
    """Why somebody else can change what is in `directory`, as a clause; None when only this user and root can.

    `directory` is absolute and without links, and need not exist. It must belong to this user. Each directory above it
    must belong to this user or root, and be closed to others or sticky: else they could put another in its place.
    """
    uid = os.geteuid()
    for path in (directory, *directory.parents):
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"{path} cannot be looked at ({error.strerror})"
        if status.st_uid != uid and (path == directory or status.st_uid != 0):
            return f"{path} belongs to {_user(status.st_uid)}"
        sticky = path != directory and status.st_mode & stat.S_ISVTX
        if _open_to_others(status, uid) and not sticky:
            return f"others can write to {path} (its mode is {stat.S_IMODE(status.st_mode):04o})"
        if not stat.S_ISDIR(status.st_mode):
            return f"{path} is not a directory"
    return None


def _open_to_others(status: os.stat_result, uid: int) -> bool:
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _own_group(status.st_gid, uid)


def _own_group(gid: int, uid: int) -> bool:
    """Whether a group is of one user alone, as many systems give each user one of the same name."""
    try:
        group, name = grp.getgrgid(gid), pwd.getpwuid(uid).pw_name
    except KeyError:
        return False
    return group.gr_name == name and set(group.gr_mem) <= {name}


def _user(uid: int) -> str:
    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"the user {uid}"
