"""Going back to an older snapshot: the data are as they were then, and the newer snapshot is still there."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind
from strata.probes._image import IMAGE
from strata.probes._image import TOOLS as OF_IMAGES
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe

_SIZE_MIB = 32

# Three states, a snapshot of the first and of the second, and back to the first. Volumes are tried on one of their own.
_SCRIPT = (
    SHELL
    + IMAGE
    + """\
target=$1
if [ -f "$target" ]; then
  say method "$format"
  make_image SIZE && put_image 65 1 || exit 1
  if ! qemu-img snapshot -c one "$image" 2>"$image.said"; then
    say unheld "$(tail -n 1 "$image.said")"; rm -f -- "$image" "$image.said"; exit 0
  fi
  put_image 66 1 && qemu-img snapshot -c two "$image" && put_image 67 1 || exit 1
  start=$(now)
  if qemu-img snapshot -a one "$image" 2>"$image.said"; then say back yes; say seconds "$(since "$start")"
  else say back no; say said "$(line <"$image.said")"
  fi
  cold "${target%/*}"
  if has_pattern "$image" "$format" 65; then say live AAA; fi
  if snapshot_has two 66; then say newer BBB; fi
  rm -f -- "$image" "$image.said"; exit 0
fi
set -- $(volume)
case $fs in
  btrfs) method=btrfs ;;
  zfs) method=zfs ;;
  *) case ${3:-} in thin) method=thin ;; linear | striped) method=lvm ;; *) method=none ;; esac ;;
esac
case $target in /dev/zvol/*) method=zvol; name=${target#/dev/zvol/}; name=${name%%/*}/strata-probe ;; esac
say method "$method"
lvm() { word=$1; shift; "$word" -qq --config "$LVM" "$@"; }
case $method in
  none) exit 0 ;;
  btrfs)
    live=$target/live
    btrfs subvolume create "$live" >/dev/null || exit 1
    put() { echo "$1" >"$live/file"; sync --file-system -- "$target"; }
    get() { cat "$live/file"; }
    take() { btrfs subvolume snapshot -r "$live" "$target/$1" >/dev/null; }
    back() { btrfs subvolume delete "$live" >/dev/null && btrfs subvolume snapshot "$target/one" "$live" >/dev/null; }
    newer() { cat "$target/two/file"; } ;;
  zfs)
    live=$target/live
    zfs create -o primarycache=none -o mountpoint="$live" "$source/probe" || exit 1
    put() { echo "$1" >"$live/file"; zpool sync "${source%%/*}"; }
    get() { cat "$live/file"; }
    take() { zfs snapshot "$source/probe@$1"; }
    back() { zfs rollback "$source/probe@one"; }
    newer() { cat "$live/.zfs/snapshot/two/file"; } ;;
  zvol)
    zfs create -s -V SIZEM -o primarycache=none "$name" && udevadm settle || exit 1
    device=/dev/zvol/$name
    take() { zfs snapshot "$name@$1"; }
    back() { zfs rollback "$name@one"; }
    newer() { zfs clone "$name@two" "$name-two" && udevadm settle && head --bytes 4 "/dev/zvol/$name-two"; } ;;
  thin | lvm)
    if [ "$method" = thin ]; then how="--type thin --virtualsize SIZEm --thinpool $4" room=
    else how="--size SIZEm" room="--size SIZEm"
    fi
    if ! lvm lvcreate --yes --wipesignatures n $how --name strata-probe "$1" 2>"$notes/said"; then
      say unmade "$(line <"$notes/said")"; exit 0
    fi
    device=/dev/$1/strata-probe group=$1
    take() { lvm lvcreate --yes --snapshot $room --setactivationskip n --name "strata-$1" "$group/strata-probe"; }
    back() {
      lvm lvchange --yes --activate n "$group/strata-probe"
      lvm lvconvert --merge "$group/strata-one" >&2 && lvm lvchange --yes --activate y "$group/strata-probe" || return 1
      for pause in 0.5 1 2 4 8 16; do
        lvs --config "$LVM" "$group/strata-one" >/dev/null 2>&1 || break
        sleep "$pause"
      done
    }
    newer() {
      lvm lvchange --yes --activate y "$group/strata-two" || return 1
      dd if="/dev/$group/strata-two" bs=4096 count=1 iflag=direct status=none | head --bytes 4
    } ;;
esac
case $method in
  zvol | thin | lvm)
    put() { echo "$1" | dd of="$device" bs=4096 conv=sync,notrunc,fsync status=none; }
    get() { blockdev --flushbufs "$device"; head --bytes 4 "$device"; } ;;
esac
put AAA && take one && put BBB && take two && put CCC || exit 1
start=$(now)
if back 2>"$notes/said"; then say back yes; say seconds "$(since "$start")"
else say back no; say said "$(line <"$notes/said")"; fi
if [ -d "$target" ]; then cold "$target"; fi
say live "$(get)"
say newer "$(newer 2>"$notes/said")"
say newer_said "$(line <"$notes/said")\""""
).replace("SIZE", str(_SIZE_MIB))


def judge(found: Mapping[str, str]) -> Finding:
    method = found.get("method")
    if method == "none":
        return Finding(False, "nothing here takes a snapshot: neither the file system nor LVM")
    if "unheld" in found:
        return Finding(False, f"a snapshot is refused: {found['unheld'] or 'no message'}")
    if "unmade" in found:
        return Finding(None, f"no volume to try it on can be made: {found['unmade'] or 'no message'}")
    if found.get("back") == "no":
        kept = found.get("newer") == "BBB"
        rest = "; the newer snapshot is still there" if kept else ""
        return Finding(False, f"going back is refused: {found.get('said') or 'no message'}{rest}")
    if method is None or found.get("back") != "yes":
        return Finding(None, "the probe does not say what it did")
    if found.get("live") != "AAA":
        return Finding(False, f"by {method}: after it the data were not those of the older snapshot")
    if found.get("newer") != "BBB":
        said = f": {found['newer_said']}" if found.get("newer_said") else ""
        return Finding(False, f"by {method}: back to the older snapshot, and the newer one could not be read{said}")
    took = f" in {float(found['seconds']):.3f} s" if "seconds" in found else ""
    return Finding(True, f"by {method}: back to the older of two snapshots{took}, and the newer one is as it was")


PROBE = Probe(
    name="older-snapshots",
    about="Takes two snapshots, goes back to the first, and looks for the second.",
    accepts=frozenset({Kind.DIRECTORY, Kind.BLOCK, Kind.IMAGE}),
    script=_SCRIPT,
    judge=judge,
    data_bytes=4 * _SIZE_MIB * MIB,
    tools={"dd": "coreutils", "blockdev": "util-linux", **OF_IMAGES, **TOOLS},
)
