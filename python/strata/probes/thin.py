"""Thin allocation: room is given out when it is first written, and not before."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._image import IMAGE
from strata.probes._image import TOOLS as OF_IMAGES
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe, number

_SIZE_MIB, _WRITTEN_MIB = 64, 8

_SCRIPT = (
    (
        SHELL
        + IMAGE
        + """\
target=$1
if [ -f "$target" ]; then
  make_image SIZE || exit 1
  say before "$(($(image_bytes) / 512))"
  put_image 1 WRITTEN || exit 1
  say after "$(($(image_bytes) / 512))"
  rm -f -- "$image"; exit 0
fi
if [ -d "$target" ]; then
  set -- $(volume)
  # On LVM a tenant has a volume of his own, where there is room for one: what it takes is what the group has less.
  case ${3:-} in
    linear | striped)
      room() { vgs --config "$LVM" --noheadings --nosuffix --units s --options vg_free "$1" | tr -d ' '; }
      free=$(room "$1")
      if lvcreate -qq --yes --wipesignatures n --config "$LVM" --size SIZEM --name strata-probe "$1" 2>/dev/null; then
        say before "$((free - $(room "$1")))"
        exit 0
      fi ;;
  esac
  truncate --size SIZEM "$target/file" || exit 1
  say before "$(stat --format '%b' "$target/file")"
  dd if=/dev/urandom of="$target/file" bs=1M count=WRITTEN conv=notrunc status=none
  used "$target" >/dev/null  # on ZFS a file's blocks are counted with the next group of writes
  say after "$(stat --format '%b' "$target/file")"
  exit 0
fi
set -- $(volume)
given() {
  case $kind in
    thin) dmsetup status "$target" | awk '{ print $4 }' ;;
    vdo) echo "$(($(vdo_used "$@") / 512))" ;;
    zvol) zpool sync "${name%%/*}"; zfs get -H -p -o value referenced "$name" | awk '{ print $1 / 512 }' ;;
  esac
}
name= kind=none
case ${3:-} in thin) kind=thin ;; vdo) kind=vdo ;; esac
case $target in
  /dev/zvol/*)
    name=${target#/dev/zvol/}
    [ "$(zfs get -H -p -o value refreservation "$name")" != 0 ] || kind=zvol ;;
esac
# a device of device mapper of which nobody says what it is could be anything, and so could what a program serves
if [ "$kind" = none ] && [ -z "${3:-}" ]; then
  case /sys/class/block/${source##*/} in */loop* | */ublk* | */nbd*) exit 0 ;; esac
  [ ! -d "/sys/class/block/${source##*/}/dm" ] || exit 0
fi
if [ "$kind" = none ]; then say before "$(($(blockdev --getsize64 "$target") / 512))"; exit 0; fi
# what was written before is given back; VDO counts what it needs for itself, too
blkdiscard --force "$target" 2>/dev/null; sync
[ "$kind" != vdo ] || say overhead yes
say before "$(given "$@")"
dd if=/dev/urandom of="$target" bs=1M count=WRITTEN oflag=direct status=none
sync
say after "$(given "$@")\""""
    )
    .replace("SIZE", str(_SIZE_MIB))
    .replace("WRITTEN", str(_WRITTEN_MIB))
)


def judge(found: Mapping[str, str]) -> Finding:
    before, after = (number(found, name) for name in ("before", "after"))
    if before is None:
        return Finding(None, "the probe does not say how much was given out")
    first = before * 512
    if after is None:
        return Finding(False, f"all of its {first / MIB:.0f} MiB are its own from the start")
    grown = after * 512 - first
    why = (
        f"{first / MIB:.1f} MiB were given out before any write, and {grown / MIB:.1f} MiB more for {_WRITTEN_MIB} MiB"
    )
    if found.get("overhead"):
        return Finding(grown > 0, f"{why}; the first are its own", {"thin_bytes": first})
    return Finding(first < _WRITTEN_MIB * MIB and grown > 0, why, {"thin_bytes": first})


PROBE = Probe(
    name="thin",
    about="Writes 8 MiB to a new file of 64 MiB, or to a volume, and counts what was given out.",
    accepts=frozenset({Kind.DIRECTORY, Kind.BLOCK, Kind.IMAGE}),
    script=_SCRIPT,
    judge=judge,
    metrics=(Metric("thin_bytes", "bytes", "lower", "given out before anything was written"),),
    data_bytes=2 * _SIZE_MIB * MIB,
    tools={"truncate": "coreutils", "dd": "coreutils", "blockdev": "util-linux", **OF_IMAGES, **TOOLS},
)
