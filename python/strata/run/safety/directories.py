"""A directory of the user's, which `existing(PATH)` measures: whether trials can run there, and on what it lies."""

from __future__ import annotations

from collections.abc import Sequence

from strata.errors import VisitFailed
from strata.hosts.base import Host
from strata.model import Command
from strata.planning.user_directory import UserDirectory
from strata.store.ownership import WAY, open_to_others

# They hold no data of anybody's: a directory made there may be an object of the kernel (a control group, a tracing
# instance, a target of configfs), and a file one of its switches. autofs: what lies there is not mounted yet.
_OF_THE_KERNEL = frozenset(
    (
        *("proc", "sysfs", "cgroup", "cgroup2", "devtmpfs", "devpts", "debugfs", "tracefs", "securityfs", "selinuxfs"),
        *("smackfs", "apparmorfs", "configfs", "bpf", "pstore", "efivarfs", "mqueue", "hugetlbfs", "binfmt_misc"),
        *("binder", "fusectl", "autofs", "nsfs", "rpc_pipefs", "nfsd", "resctrl", "dlmfs", "spufs"),
    )
)

# Btrfs has a made-up device number and any number of devices. Names are the kernel's own: a mount's source may be a
# name that is not there (/dev/root).
_LOOK = (
    WAY
    + r"""
[ -d "$1" ] || { echo missing=yes; exit; }
case $1 in /*) way "$1" | sed 's/^/way=/' ;; esac
echo "trusted=$(trusted)"
[ -w "$1" ] && [ -x "$1" ] || echo closed=yes
echo "free=$(df --output=avail --block-size=1 -- "$1" | tail -n 1)"
type=$(findmnt --noheadings --output FSTYPE --target "$1" | tail -n 1)
echo "filesystem=$type"
echo "mounted=$(findmnt --noheadings --output TARGET --target "$1" | tail -n 1)"
if [ "$type" = btrfs ]; then
  set -- "/sys/fs/btrfs/$(findmnt --noheadings --output UUID --target "$1" | tail -n 1)/devices"/*
else
  set -- "/sys/dev/block/$(findmnt --noheadings --output MAJ:MIN --target "$1" | tail -n 1 | tr -d ' ')"
fi
for device; do sed -n 's|^DEVNAME=|device=/dev/|p' "$device/uevent" 2>/dev/null; done
exit 0
"""
)


def look(host: Host, path: str) -> UserDirectory:
    """Touches nothing."""
    try:
        said = host.run(Command(("sh", "-c", _LOOK, "sh", path), timeout_s=30.0)).stdout
    except VisitFailed as error:
        return UserDirectory((f"existing({path}) cannot be looked at: {error}; mend that first.",))
    return read(path, said)


def _insecure(path: str, lines: Sequence[tuple[str, str, str]]) -> str | None:
    """Why another user could make us write to files of his choice, where he may not write himself."""
    trusted = {int(word) for name, _, value in lines if name == "trusted" for word in value.split() if word.isdecimal()}
    for name, _, value in lines:
        if name != "way":
            continue
        try:
            uid, gid, mode, at = value.split(" ", 3)
            # A group with the number of the owner is the owner's alone, where no list adds others.
            whose = open_to_others(int(uid), int(mode, 16), trusted, group=gid != uid)
        except ValueError:
            return f"existing({path}) cannot be looked at: {value.strip()}; name another directory."
        if whose is not None:
            where = "is a directory that" if at.rstrip("/") == path.rstrip("/") else f"is reached by {at}, which"
            return (
                f"existing({path}) {where} {whose}: another user could put a link in the place of what Strata writes "
                "to; name a directory that, with all above it, only you and root can change (chown, chmod go-w)."
            )
    return None


def read(path: str, said: str) -> UserDirectory:
    """Pure: from what the script printed."""
    parts = [line.partition("=") for line in said.split("\n")]
    lines = [(name, value) for name, _, value in parts]
    fields = dict(lines)
    if "missing" in fields:
        return UserDirectory((f"existing({path}): there is no such directory; make it, or name the one in use.",))
    closed = f"existing({path}): this user cannot write there; run Strata as one who can, or name another directory."
    free = fields.get("free", "").strip()
    reasons = [closed] if "closed" in fields else []
    insecure = _insecure(path, parts)
    if insecure is not None:
        reasons.append(insecure)
    filesystem, mounted = fields.get("filesystem", ""), fields.get("mounted", "")
    if filesystem in _OF_THE_KERNEL:
        reasons.append(
            f"existing({path}) lies on {filesystem}, which holds no files but what the kernel shows; name a directory "
            "on a disk."
        )
    elif mounted == "/run":
        reasons.append(
            f"existing({path}) lies on /run, the memory in which services keep their sockets and state, and a full one "
            "stops them; name a directory on a disk, or one in a tmpfs of your own."
        )
    return UserDirectory(
        reasons=tuple(reasons),
        free_bytes=int(free) if free.isdecimal() else None,
        filesystem=fields.get("filesystem") or None,
        devices=tuple(value for name, value in lines if name == "device"),
    )
