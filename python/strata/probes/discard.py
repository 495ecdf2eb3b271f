"""Discard: what is deleted above is given back below, to the pool or to the disk."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._devices import DEVICES
from strata.probes._image import IMAGE
from strata.probes._image import TOOLS as OF_IMAGES
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe, number

_DATA_MIB = 64
_SHARE = 0.5  # of what was deleted, that has to come back

# Some discard all that is free each time they are asked, others only what came free since: so it is asked for before
# the file is there, with the file until two times in a row give the same (what was deleted earlier comes free over some
# seconds), and without it; what counts is by how much the last is more. The kernel counts the discards of every disk. A
# second file stays: btrfs gives up a block group that nothing is left in, and trims it no more.
_SCRIPT = (
    SHELL
    + DEVICES
    + IMAGE
    + """\
target=$1
if [ -f "$target" ]; then
  say takes yes; say disk 0
  make_image DATA && put_image 1 DATA || exit 1
  held=$(image_bytes)
  qemu-io -d unmap -f "$format" -c "discard 0 DATAM" -c flush -- "$image" >/dev/null 2>"$image.said" ||
    say said "$(line <"$image.said")"
  say pool "$((held - $(image_bytes)))"
  rm -f -- "$image" "$image.said"; exit 0
fi
set -- $(volume)
discarded() {
  total=0
  for each in $(leaves "$target"); do
    total=$((total + $(awk '{ printf "%.0f", $14 }' "/sys/class/block/$each/stat")))
  done
  echo "$((total * 512))"
}
pool() {
  case $target in
    /dev/zvol/*)
      zpool sync "$(pool_of "$target")"
      zfs get -H -p -o value referenced "${target#/dev/zvol/}"
      return ;;
  esac
  case ${3:-} in
    thin) dmsetup status "$source" | awk '{ print $4 * 512 }' ;;
    vdo) vdo_used "$@" ;;
    *) echo 0 ;;
  esac
}
takes=no
for each in $(leaves "$target"); do
  disk=/sys/class/block/$each
  [ -e "$disk/queue" ] || disk=$(readlink -f "$disk")/..
  [ "$(cat "$disk/queue/discard_max_bytes")" = 0 ] || takes=yes
done
say takes "$takes"
trim() {
  sync
  if [ -b "$target" ]; then blkdiscard --force --offset 0 --length $((DATA * 1048576)) "$target"
  elif [ "$fs" = zfs ]; then
    # what came free is kept for two more groups of writes
    for again in 1 2 3; do zpool sync "${source%%/*}"; done
    zpool trim -w "${source%%/*}"
  else fstrim "$target"
  fi
}
[ -b "$target" ] || trim 2>/dev/null
if [ -b "$target" ]; then
  head --bytes DATAM /dev/urandom | dd of="$target" bs=1M iflag=fullblock oflag=direct status=none || exit 1
else
  fill "$target/kept" 1; fill "$target/file" DATA; used "$target" >/dev/null
fi
with=0
if [ ! -b "$target" ]; then
  for turn in 1 2 3 4 5 6; do
    last=$with; before=$(discarded); trim 2>/dev/null; sync; sleep 1; with=$(($(discarded) - before))
    [ "$turn" = 1 ] || [ $((with - last)) -gt 1048576 ] || [ $((last - with)) -gt 1048576 ] || break
  done
fi
held=$(pool "$@"); before=$(discarded)
[ -b "$target" ] || { rm -f -- "$target/file"; used "$target" >/dev/null; }
if ! trim 2>"$notes/said"; then say said "$(line <"$notes/said")"; fi
sync; sleep 1
say pool "$((held - $(pool "$@")))"
say disk "$(($(discarded) - before - with))"
[ -b "$target" ] || rm -f -- "$target/kept\""""
).replace("DATA", str(_DATA_MIB))


def judge(found: Mapping[str, str]) -> Finding:
    pool, disk = number(found, "pool"), number(found, "disk")
    if pool is None or disk is None:
        return Finding(None, "the probe does not say what came back")
    enough = _SHARE * _DATA_MIB * MIB
    figures = {"discarded_bytes": max(disk, 0.0)}
    why = (
        f"{_DATA_MIB} MiB were deleted, and discards of {max(disk, 0) / MIB:.0f} MiB more than before reached the disk"
    )
    if disk >= enough:
        return Finding(True, why, figures)
    if pool >= enough:
        return Finding(
            True,
            f"{_DATA_MIB} MiB were deleted, and {pool / MIB:.0f} MiB came back to what is below; discards of "
            f"{max(disk, 0) / MIB:.0f} MiB reached the disk",
            figures,
        )
    if found.get("takes") == "no":
        return Finding(None, "the disk below takes no discards, so none can reach it")
    said = f": {found['said']}" if found.get("said") else ""
    return Finding(False, f"{why}{said}", figures)


PROBE = Probe(
    name="discard",
    about="Writes 64 MiB, deletes them, trims, and counts what was discarded on the disk or came back to the pool.",
    accepts=frozenset({Kind.DIRECTORY, Kind.BLOCK, Kind.IMAGE}),
    script=_SCRIPT,
    judge=judge,
    metrics=(Metric("discarded_bytes", "bytes", "higher", "discards that reached the disk for 64 MiB deleted"),),
    data_bytes=2 * _DATA_MIB * MIB,
    tools={
        "fstrim": "util-linux",
        "lsblk": "util-linux",
        "blkdiscard": "util-linux",
        "dd": "coreutils",
        **OF_IMAGES,
        **TOOLS,
    },
)
