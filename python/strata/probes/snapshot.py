"""A snapshot: what was there stays readable while the original changes, and costs what changed."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._image import IMAGE
from strata.probes._image import TOOLS as OF_IMAGES
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe, number

_DATA_MIB, _CHANGED_MIB = 64, 8

_SCRIPT = (
    (
        SHELL
        + IMAGE
        + """\
if [ -f "$1" ]; then
  make_image DATA && put_image 1 DATA || exit 1
  before=$(image_bytes); start=$(now)
  if ! qemu-img snapshot -c held "$image" 2>"$image.said"; then
    say method none; say said "$(tail -n 1 "$image.said")"; rm -f -- "$image" "$image.said"; exit 0
  fi
  say method "$format"; say seconds "$(since "$start")"; say bytes "$(($(image_bytes) - before))"
  put_image 2 CHANGED || exit 1
  say bytes_changed "$(($(image_bytes) - before))"
  cold "${1%/*}"
  shown changed has_pattern "$image" "$format" 2
  shown kept snapshot_has held 1
  rm -f -- "$image" "$image.said"; exit 0
fi
dir=$1
set -- $(volume)
take() { :; }
case $fs in
  btrfs) method=btrfs ;;
  zfs) method=zfs ;;
  *) case ${3:-} in thin) method=thin ;; linear | striped) method=lvm ;; *) method=none ;; esac ;;
esac
case $method in
  btrfs) btrfs subvolume create "$dir/live" >/dev/null || exit 1; live=$dir/live ;;
  zfs) zfs create -o primarycache=none -o mountpoint="$dir/live" "$source/probe" || exit 1; live=$dir/live ;;
  thin | lvm) live=$dir ;;
  none) say method none; exit 0 ;;
esac
fill "$live/file" DATA
sum=$(sha256sum <"$live/file")
before=$(used "$dir"); start=$(now)
case $method in
  btrfs) btrfs subvolume snapshot -r "$live" "$dir/held" >/dev/null || exit 1; held=$dir/held/file ;;
  zfs) zfs snapshot "$source/probe@held" || exit 1; held=$live/.zfs/snapshot/held/file ;;
  *)
    room=; [ "$method" = thin ] || room="--size 64m"
    if ! lvcreate -qq --yes --config "$LVM" --snapshot $room --name strata-probe "$1/$2" 2>"$dir/said"; then
      say method none; say said "$(line <"$dir/said")"; exit 0
    fi ;;
esac
say method "$method"
say seconds "$(since "$start")"
say bytes "$(($(used "$dir") - before))"
fill "$notes/new" CHANGED
dd if="$notes/new" of="$live/file" bs=1M conv=notrunc status=none || exit 1
sync --file-system -- "$live"
say bytes_changed "$(($(used "$dir") - before))"
if [ "$method" = thin ] || [ "$method" = lvm ]; then
  lvchange -qq --yes --config "$LVM" --activate y --ignoreactivationskip "$1/strata-probe" || exit 1
  mkdir -- "$dir/held" || exit 1
  case $fs in xfs) how=ro,nouuid,norecovery ;; ext4) how=ro,noload ;; *) how=ro ;; esac
  mount -o "$how" "/dev/$1/strata-probe" "$dir/held" || exit 1
  held=$dir/held/${dir##*/}/file
  [ -e "$held" ] || held=$(find "$dir/held" -name file -type f | head -n 1)
fi
cold "$live"
shown changed cmp -s -n "$((CHANGED * 1048576))" -- "$notes/new" "$live/file"
shown kept [ "$(sha256sum <"$held")" = "$sum" ]"""
    )
    .replace("DATA", str(_DATA_MIB))
    .replace("CHANGED", str(_CHANGED_MIB))
)


def judge(found: Mapping[str, str]) -> Finding:
    if found.get("method") == "none":
        return Finding(False, f"nothing here takes one: {found.get('said') or 'neither the file system nor LVM'}")
    took, cost = number(found, "seconds"), number(found, "bytes")
    if took is None or cost is None or not {found.get("kept"), found.get("changed")} <= {"yes", "no"}:
        return Finding(None, "the probe does not say the result of its snapshot")
    why = f"by {found['method']}, of {_DATA_MIB} MiB in {took:.3f} s; {_CHANGED_MIB} MiB were changed after it"
    if found["changed"] == "no":
        return Finding(None, f"{why}, it was said, but the original reads as before, so it shows nothing")
    if found["kept"] == "no":
        return Finding(False, f"{why}, and the snapshot changed with them")
    return Finding(
        True, f"{why}, and it still has the old ones", {"snapshot_s": took, "snapshot_bytes": max(cost, 0.0)}
    )


PROBE = Probe(
    name="snapshot",
    about="Takes a snapshot, changes the original, and reads the old data from the snapshot.",
    accepts=frozenset({Kind.DIRECTORY, Kind.IMAGE}),
    script=_SCRIPT,
    judge=judge,
    metrics=(
        Metric("snapshot_s", "s", "lower", "time to take it"),
        Metric("snapshot_bytes", "bytes", "lower", "room that it took at once, as the file system counts"),
    ),
    data_bytes=3 * _DATA_MIB * MIB,
    tools={"sha256sum": "coreutils", "cmp": "diffutils", **OF_IMAGES, **TOOLS},
)
