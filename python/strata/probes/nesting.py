"""Nesting: root in an unprivileged container makes parts of the stack for tenants of his own."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind
from strata.probes._probe import SHELL, TOOLS, Finding, Probe

# A user namespace is what such a container is made of: an ordinary user, who is root inside. He has a directory of his
# own at /mnt, and on ZFS a data set that was handed over to him, as Incus and LXD do. He makes a part, writes to it,
# makes a second one of it, and changes the first. What is mounted for him goes with his processes.
_SCRIPT = (
    SHELL
    + """\
dir=$1
set -- $(volume)
case $fs in
  btrfs) method=btrfs ;;
  zfs) method=zfs ;;
  *) case ${3:-} in thin | linear | striped) method=lvm ;; *) method=dir ;; esac ;;
esac
say method "$method"
mkdir -- "$dir/tenant" && chown 65534:65534 "$dir/tenant" || exit 1
INSIDE=$(cat <<'SH'
cd /mnt || exit 1
case $1 in
  btrfs) btrfs subvolume create one && echo old >one/file && btrfs subvolume snapshot one two ;;
  zfs)
    zfs create -o mountpoint=/mnt/one "$2/one" && echo old >one/file && zfs snapshot "$2/one@held" &&
      zfs clone -o mountpoint=/mnt/two "$2/one@held" "$2/two" ;;
  lvm) lvcreate -qq --yes --config "$3" --wipesignatures n $4 --name strata-probe "$2" && exit ;;
  dir) mkdir one && echo old >one/file && cp -R one two ;;
esac >/dev/null && echo new >one/file && [ "$(cat two/file)" = old ]
SH
)
unshare --mount sh -c 'mount --bind "$1" /mnt && exec setpriv --reuid 65534 --regid 65534 --clear-groups \
  unshare --user --map-root-user --mount sleep 600' sh "$dir/tenant" 2>"$dir/said" &
tenant=$!
own=$(readlink /proc/$$/ns/user)
for pause in 0.1 0.2 0.4 0.8 1.6 3.2; do
  its=$(readlink "/proc/$tenant/ns/user")
  [ -n "$its" ] && [ "$its" != "$own" ] && break
  sleep "$pause"
done
if [ -z "$its" ] || [ "$its" = "$own" ]; then
  say space none; say said "$(line <"$dir/said")"; kill "$tenant" 2>/dev/null; exit 0
fi
name=${1:-} how=
case $method in
  zfs)
    name=$source/probe
    zfs create -o mountpoint=none -o zoned=on "$name" && zfs zone "/proc/$tenant/ns/user" "$name" || exit 1 ;;
  lvm) if [ "$3" = thin ]; then how="--type thin --thinpool $4 --virtualsize 32m"; else how="--size 32m"; fi ;;
esac
if nsenter --target "$tenant" --user --mount sh -c "$INSIDE" sh "$method" "$name" "$LVM" "$how" \\
  >/dev/null 2>"$dir/said"
then say made yes; else say made no; say said "$(line <"$dir/said")"; fi
case $method in
  # while its user namespace is there, which the data set knows by it
  zfs) zfs unzone "/proc/$tenant/ns/user" "$name" || exit 1 ;;
esac
# what was mounted there goes with the namespace, a moment after its last process
kill "$tenant"; wait "$tenant" 2>/dev/null
true"""
)

_PARTS = {
    "btrfs": "a subvolume and a snapshot of it",
    "zfs": "a data set and a clone of it, in one that was handed over to him",
    "lvm": "a volume",
    "dir": "a directory and a copy of it",
}


def judge(found: Mapping[str, str]) -> Finding:
    if found.get("space") == "none":
        said = found.get("said") or "no message"
        return Finding(None, f"an ordinary user is given no namespace of his own here: {said}")
    parts = _PARTS.get(found.get("method", ""))
    if parts is None or found.get("made") not in ("yes", "no"):
        return Finding(None, "the probe does not say what it made")
    who = "root in a user namespace of an ordinary user"
    if found["made"] == "yes":
        return Finding(True, f"{who} made {parts}, and could write to it")
    return Finding(False, f"{who} could not make {parts}: {found.get('said') or 'no message'}")


PROBE = Probe(
    name="nesting",
    about="As root in a user namespace of an ordinary user, makes what the stack gives to tenants, and a second of it.",
    accepts=frozenset({Kind.DIRECTORY}),
    script=_SCRIPT,
    judge=judge,
    tools={**dict.fromkeys(("setpriv", "unshare", "nsenter"), "util-linux"), "mount": "mount", **TOOLS},
)
