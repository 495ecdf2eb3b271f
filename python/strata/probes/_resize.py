"""What growing and shrinking share: something of the same kind as the stack, with data in it, and in use.

A stack fills its disks, so a file system is tried on a loop device over a file that lies on the stack, and ZFS on files
as disks of a pool of its own; a volume on another one of its group or pool.
"""

from __future__ import annotations

from collections.abc import Mapping

SMALL_MIB, LARGE_MIB = 384, 512
VOLUME_SMALL_MIB, VOLUME_LARGE_MIB = 32, 48

# Sets `method` and functions: make SIZE, bytes, fill_it, sum_it, try. `file` is where data are put, "" on a volume.
# `reopen` closes it and removes what is in memory, and the file below is cut to `cut`: what was given up is gone.
RESIZE = (
    """\
target=$1 small=SMALL large=LARGE
set -- $(volume)
method=none loop= box=$notes/box file= cut=
if [ -b "$target" ]; then
  small=VOLUME_LESS large=VOLUME_MORE
  case $target in
    /dev/zvol/*) method=zvol; name=${target#/dev/zvol/}; name=${name%%/*}/strata-probe device=/dev/zvol/$name ;;
    *) case ${3:-} in
        thin) method=thin how="--type thin --thinpool $4 --virtualsize" group=$1 ;;
        linear | striped) method=lvm how=--size group=$1 ;;
      esac
      device=/dev/${group:-}/strata-probe ;;
  esac
else
  case $fs in ext4 | xfs | btrfs | zfs) method=$fs ;; esac
fi
say method "$method"
[ "$method" != none ] || exit 0
lvm() { word=$1; shift; "$word" -qq --config "$LVM" "$@"; }
make() {
  case $method in
    thin | lvm) lvm lvcreate --yes --wipesignatures n $how "$1m" --name strata-probe "$group" ;;
    zvol) zfs create -s -V "$1M" -o primarycache=none "$name" && udevadm settle ;;
    zfs)
      mkdir "$box" && truncate --size "$1M" "$box/disk" || return 1
      zpool create -o cachefile=none -O mountpoint="$box/mnt" strata-probe "$box/disk" || return 1
      file=$box/mnt/file ;;
    *)
      truncate --size "$1M" "$target/disk" && loop=$(losetup --find --show "$target/disk") || return 1
      case $method in
        ext4) mkfs.ext4 -q "$loop" ;;
        xfs) mkfs.xfs -q "$loop" ;;
        btrfs) mkfs.btrfs -q "$loop" ;;
      esac && mkdir "$box" && mount "$loop" "$box" && file=$box/file ;;
  esac
}
reopen() {
  case $method in
    thin | lvm)
      udevadm settle
      lvm lvchange --yes --activate n "$group/strata-probe" && lvm lvchange --yes --activate y "$group/strata-probe" ;;
    zvol) udevadm settle; blockdev --flushbufs "$device" ;;
    zfs) zpool export strata-probe && zpool import -d "$box" -o cachefile=none strata-probe ;;
    *)
      if mountpoint --quiet "$box"; then umount "$box" || return 1; fi
      losetup --detach "$loop" || return 1
      [ -z "$cut" ] || truncate --size "$cut" "$target/disk" || return 1
      sync --file-system -- "$target"; echo 3 >/proc/sys/vm/drop_caches
      loop=$(losetup --find --show "$target/disk") && mount "$loop" "$box" ;;
  esac
}
bytes() {
  case $method in
    thin | lvm | zvol) blockdev --getsize64 "$device" ;;
    zfs) zpool list -H -p -o size strata-probe ;;
    *) df --block-size=1 --output=size "$box" | tail -n 1 | tr -d ' ' ;;
  esac
}
fill_it() {
  if [ -n "$file" ]; then fill "$file" 8; sync --file-system -- "${file%/*}"
  else head --bytes 8M /dev/urandom | dd of="$device" bs=1M iflag=fullblock oflag=direct status=none
  fi
}
sum_it() {
  if [ -n "$file" ]; then sha256sum <"$file"
  else dd if="$device" bs=1M count=8 iflag=direct status=none | sha256sum
  fi
}
# It stays open all the while: in use.
try() {
  if [ -n "$file" ]; then exec 7<"$file"; else exec 7<"$device"; fi
  sum=$(sum_it)
  say before "$(bytes)"
  start=$(now)
  if resize 2>"$notes/said"; then say seconds "$(since "$start")"; cut=${smaller:-}
  else say said "$(line <"$notes/said")"
  fi
  exec 7<&-
  opened ''
}
# What is there after it was closed and opened again; $1 precedes the names.
opened() {
  if ! reopen 2>"$notes/closed"; then say "${1}same" closed; say closed "$(line <"$notes/closed")"; exit 0; fi
  say "${1}after" "$(bytes)"
  if [ "$(sum_it)" = "$sum" ]; then say "${1}same" yes; else say "${1}same" no; fi
}
"""
    .replace("SMALL", str(SMALL_MIB))
    .replace("LARGE", str(LARGE_MIB))
    .replace("VOLUME_LESS", str(VOLUME_SMALL_MIB))
    .replace("VOLUME_MORE", str(VOLUME_LARGE_MIB))
)  # fmt: skip
"""After `SHELL`."""


def lost(found: Mapping[str, str], same: str) -> str | None:
    """What became of the data, where they are not as they were."""
    match found.get(same):
        case "no":
            return "its data changed"
        case "closed":
            return f"it could not be opened again: {found.get('closed') or 'no message'}"
        case _:
            return None


def denied(found: Mapping[str, str]) -> bool:
    """Whether it is the machine that refuses, as a container does of what may change a file system's size."""
    return any(word in found.get("said", "") for word in ("Permission denied", "Operation not permitted"))


ON = {"thin": "a thin volume", "lvm": "a volume", "zvol": "a volume of the pool", "zfs": "a pool on a file"}

TOOLS = {
    **dict.fromkeys(("losetup", "mount", "umount"), "mount"),
    "mountpoint": "util-linux",
    **dict.fromkeys(("sha256sum", "dd", "truncate"), "coreutils"),
    "blockdev": "util-linux",
}
