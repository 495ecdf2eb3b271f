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


_AS_USER = r"""
# Root's environment and keys may be secrets, and the user can read those of every process of the user's: the words
# before a command of the user's begin with the end of both. $1 user
as_user_words() {
  echo "strata-engine without-keys --
    env --ignore-environment LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    setpriv --reuid $1 --regid $(id -g -- "$1") --init-groups --"
}
"""
"""A function of the shell. A name of a user is one word."""

_GIVE = r"""
# A new and empty directory becomes the user's. It is entered, and given by being where we are: what the user may have
# put in its place, a link or another file, is left alone. $1 owner, $2 the directory
give_directory() (
  real=$(readlink -f -- "${2%/*}")/${2##*/} && cd -P -- "$2" && [ "$(pwd -P)" = "$real" ] && chown -- "$1" .
)
"""
"""A function of the shell."""

CONFIGURE = (
    _AS_USER
    + _GIVE
    + r"""
own=$dir
echo "$user" >"$dir/user"
if [ -n "$user" ]; then
  own=$dir/own
  # Root works by name down to these two directories, so only root may change what is above them.
  for above in "$(readlink -f -- "$root")" "$(readlink -f -- "$dir")/own"; do
    while above=${above%/*}; [ -n "$above" ]; do
      if [ "$(stat --format %u -- "$above")" != 0 ] || [ -n "$(find "$above" -maxdepth 0 -perm /022 ! -perm /1000)" ]
      then
        echo "others than root may change what is in $above, which podman(user=...) is not safe with; put it below a" \
          "directory that only root may write to" >&2
        exit 1
      fi
    done
  done
  # Root does nothing inside a directory that is the user's, who could put a link to any file there at any time.
  group=$(id -g -- "$user") && mkdir -m 0700 -- "$own" &&
    give_directory "$user" "$own" && give_directory "$user:$group" "$root" || exit 1
  as_user=$(as_user_words "$user")
  if ! $as_user sh -c '[ -w "$1" ] && [ -w "$2" ]' sh "$root" "$own"; then
    echo "the user $user cannot reach $root; give the run a directory (--out) that every user may enter" >&2; exit 1
  fi
  $as_user mkdir -m 0700 -- "$own/home" "$own/run" "$root/copies" || exit 1
else
  mkdir -- "$root/copies"
fi
"""
)
"""Set before: user ("" is root), dir, root. Sets own, where the engine of that user may write beside the stack."""

AS_USER = (
    _AS_USER
    + _GIVE
    + r"""
read -r user <"$d/user"
read -r group <"$d/group"
podman=podman
if [ -n "$user" ]; then
  for top in /sys/fs/cgroup/pids /sys/fs/cgroup/unified /sys/fs/cgroup; do [ ! -e "$top/cgroup.procs" ] || break; done
  mkdir -p -- "$top/$group" && echo $$ >"$top/$group/cgroup.procs" || exit 1
  # What holds the user's name space stays, longer than the command by whose mark it would be ended; and the folders of
  # root's are closed to the user: no variable of root's is the user's.
  podman="$(as_user_words "$user") env HOME=$d/own/home XDG_RUNTIME_DIR=$d/own/run USER=$user LOGNAME=$user
    TMPDIR=$TMPDIR BUILDAH_ISOLATION=$BUILDAH_ISOLATION CONTAINERS_CONF=$CONTAINERS_CONF
    CONTAINERS_STORAGE_CONF=$CONTAINERS_STORAGE_CONF CONTAINERS_REGISTRIES_CONF=$CONTAINERS_REGISTRIES_CONF
    $(command -v podman)"
  cd /
fi
# $1 SRC:DST[:ro]
give() {
  case $user:$1 in :*|*:ro) ;; *) give_directory "$user" "${1%%:*}" ;; esac
}
# What the user's Podman says may be anything, and what root does with a process would be done to any: it must be one of
# those that we had it start, which no process of the user's can join by itself. $1 process
started_here() {
  [ -n "$user" ] || return 0
  case $1 in ''|*[!0-9]*) said="'$1', which is no process" ;; *)
    ! grep -q -e "/$group\$" -e "/$group/" "/proc/$1/cgroup" 2>/dev/null || return 0
    said="process $1, which was not started for this visit" ;;
  esac
  echo "the Podman of the user $user says that the container is $said; do not trust that user" >&2; return 1
}
"""
)
"""For the client. Set before: d, its directory, and the exported variables of its Podman. $podman, in words, is the
engine of that user."""
