"""Podman as an ordinary user: what that user must have, and what the scripts of the layer do besides.

Strata stays root and becomes the user for every call of the engine. Without root nobody makes control groups for the
containers, so a call enters one of the visit's own first, and all that it starts is found by that at the end.
"""

from __future__ import annotations

import re

from strata.model import Call, Facts, Param, ParamType

USER = Param(
    "user",
    ParamType.TEXT,
    "rootless: whose Podman it is, a user of this machine with ids in /etc/subuid and /etc/subgid; root unless said",
)

# As useradd(8) takes them.
_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,30}[a-z0-9_$-]?")

_OF_ROOT = {"btrfs": "removes subvolumes", "zfs": "makes data sets"}


def user_of(spec: Call) -> str | None:
    return None if spec["user"] is None else str(spec["user"])


def user_reasons(spec: Call, facts: Facts) -> list[str]:
    """What keeps this user from having containers of their own; [] where nobody is named."""
    user, driver = user_of(spec), str(spec["driver"])
    if user is None:
        return []
    if user in ("root", "0"):
        return [f"podman(user={user}) is root's Podman, which it is without that; leave user out, or name another."]
    if not _NAME.fullmatch(user):
        return [f"'{user}' is no name of a user; write user= with one of those that `getent passwd` shows."]
    reasons = []
    if driver in _OF_ROOT:
        reasons.append(
            f"podman({driver}) {_OF_ROOT[driver]}, which only root may; take user away, or choose overlay or vfs."
        )
    if spec["base_size"] is not None:
        reasons.append("podman(base_size=...) sets quotas, which only root may; take user or base_size away.")
    if tools := [tool for tool in ("newuidmap", "newgidmap") if tool not in facts.id_maps]:
        reasons.append(
            f"podman(user={user}) needs {' and '.join(tools)} to give containers ids; install the Debian package "
            "uidmap."
        )
    if files := [f"/etc/{name}" for name in ("subuid", "subgid") if f"{name}:{user}" not in facts.id_maps]:
        reasons.append(
            f"The user {user} has no ids for containers in {' and '.join(files)}; "
            f"`usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}` gives some; if there is no "
            f"such user, `useradd {user}` makes one who has some."
        )
    return reasons


CONFIGURE = r"""
own=$dir
echo "$user" >"$dir/user"
if [ -n "$user" ]; then
  own=$dir/own
  # Root does nothing inside a directory that is the user's, who could put a link to any file there at any time.
  group=$(id -g -- "$user") && mkdir -m 0700 -- "$own" &&
    chown --no-dereference -- "$user" "$own" && chown --no-dereference -- "$user:$group" "$root" || exit 1
  if ! setpriv --reuid "$user" --regid "$group" --init-groups -- sh -c '[ -w "$1" ] && [ -w "$2" ]' sh "$root" "$own"
  then
    echo "the user $user cannot reach $root; give the run a directory (--out) that every user may enter" >&2; exit 1
  fi
  setpriv --reuid "$user" --regid "$group" --init-groups -- \
    mkdir -m 0700 -- "$own/home" "$own/run" "$root/copies" || exit 1
else
  mkdir -- "$root/copies"
fi
"""
"""Set before: user ("" is root), dir, root. Sets own, where the engine of that user may write beside the stack."""

AS_USER = r"""
read -r user <"$d/user"
podman=podman
if [ -n "$user" ]; then
  read -r group <"$d/group"
  for top in /sys/fs/cgroup/pids /sys/fs/cgroup/unified /sys/fs/cgroup; do [ ! -e "$top/cgroup.procs" ] || break; done
  mkdir -p -- "$top/$group" && echo $$ >"$top/$group/cgroup.procs" || exit 1
  # What holds the user's name space stays, longer than the command by whose mark it would be ended. The folders of
  # root's are closed to the user.
  podman="setpriv --reuid $user --regid $(id -g -- "$user") --init-groups --
    env --unset=STRATA_RUN --unset=XDG_CACHE_HOME --unset=XDG_CONFIG_HOME --unset=XDG_DATA_HOME --unset=XDG_STATE_HOME
    HOME=$d/own/home XDG_RUNTIME_DIR=$d/own/run USER=$user LOGNAME=$user podman"
  cd /
fi
# What a container is to write to is the user's, and what is put there later too. $1 SRC:DST[:ro]
give() {
  case $user:$1 in :*|*:ro) ;; *) echo "${1%%:*}" >>"$d/given"; give_again ;; esac
}
give_again() {
  if [ -n "$user" ] && [ -e "$d/given" ]; then
    while IFS= read -r given; do chown -R -P -- "$user" "$given" || return 1; done <"$d/given"
  fi
}
"""
"""For the client. Set before: d, its directory. $podman, in words, is the engine of that user."""
