"""The loss of a disk: one is removed with all that was on it, and everything can be read and written."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._devices import DEVICES
from strata.probes._devices import TOOLS as OF_DEVICES
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe, number

_DATA_MIB = 64

# What was lost comes back empty, and is filled from the others: the next probe finds the stack as it was. btrfs lets go
# of no device while it is mounted, so there the disk stays and loses all that it held.
_SCRIPT = (
    SHELL
    + DEVICES
    + """\
dir=$1
set -- $(devices "$dir")
how=
case $fs in
  btrfs) [ $# -lt 2 ] || ! btrfs filesystem df "$dir" | grep -q '^Data, RAID1' || how=btrfs ;;
  zfs) if zpool status "${source%%/*}" | grep -qE 'mirror-|raidz'; then how=zfs; fi ;;
esac
if [ -z "$how" ]; then
  # An array of md below, also below volumes and pools.
  arrays=$(for each; do lsblk --inverse --noheadings --raw --output KNAME,TYPE "$each"; done |
    awk '$2 ~ /^raid/ { print $1 }')
  for array in $arrays; do
    case $(cat "/sys/block/$array/md/level" 2>/dev/null) in raid0 | linear | '') ;; *) how=md; break ;; esac
  done
  [ -n "$how" ] && set -- $(for each in "/sys/block/$array/md"/dev-*; do echo "/dev/${each##*/dev-}"; done)
fi
say disks "$(leaves "$dir" | wc -l)"
if [ -z "$how" ]; then say method none; exit 0; fi
bare "$dir" || exit 1
file=$dir/bare/file
fill "$file" DATA
sum=$(sha256sum <"$file")
used "$dir" >/dev/null
# One on which the first bytes of the file are found is lost, where there is one: they show that it lost all.
head --bytes 64 "$file" >"$notes/want"; dd if="$file" of="$notes/old" bs=4096 count=1 status=none
found_on() { forget "$@"; perl -e "$LOOK" "$notes/want" /dev/null "$@"; }
for lost; do :; done
found_on "$@" | tail -n 1 >"$notes/at"
read -r lost at <"$notes/at" || at=
say method "$how"
case $how in
  md) mdadm --quiet "/dev/$array" --fail "$lost" --remove "$lost" || exit 1 ;;
  zfs) zpool offline "${source%%/*}" "$lost" || exit 1 ;;
esac
[ "$how" = md ] && mdadm --quiet --zero-superblock "$lost"
# A disk may keep what it was told to discard: then, or where nothing shows it, it is written over.
kept() { forget "$lost"; [ -z "$at" ] || same "$lost" "$at" "$notes/old"; }
if ! blkdiscard --force "$lost" 2>/dev/null || kept; then
  blkdiscard --force --zeroout "$lost" 2>/dev/null ||
    dd if=/dev/zero of="$lost" bs=4M oflag=direct status=none 2>/dev/null
fi
if [ -n "$at" ] && kept; then say emptied no; else say emptied yes; fi
forget $(devices "$dir") "$lost"
if now_sum=$(sha256sum <"$file" 2>"$notes/said"); then
  if [ "$now_sum" = "$sum" ]; then say read same; else say read changed; fi
else
  say read refused; say said "$(line <"$notes/said")"
fi
if fill "$dir/bare/more" DATA 2>/dev/null && sync --file-system -- "$dir"; then say written yes; else say written no; fi
more_sum=$(sha256sum <"$dir/bare/more")
start=$(now)
case $how in
  md)
    # what watches devices may have it open for a moment
    for pause in 0.1 0.5 2 ''; do
      mdadm --quiet "/dev/$array" --add "$lost" && break
      [ -n "$pause" ] && sleep "$pause" || exit 1
    done
    mdadm --wait "/dev/$array" 2>/dev/null
    say missing "$(cat "/sys/block/$array/md/degraded")" ;;
  zfs)
    zpool replace -f "${source%%/*}" "$lost" && zpool wait -t replace,resilver "${source%%/*}" || exit 1
    say missing "$(zpool status "${source%%/*}" | grep -cE 'OFFLINE|UNAVAIL|DEGRADED|FAULTED')" ;;
  btrfs)
    btrfs scrub start -B "$dir" >/dev/null 2>&1; sync --file-system -- "$dir"
    say missing "$(btrfs scrub start -B -r "$dir" 2>/dev/null | grep -ciE 'csum=|uncorrectable: *[1-9]')" ;;
esac
say back "$(since "$start")"
forget $(devices "$dir") "$lost"
if [ "$(sha256sum <"$file")" = "$sum" ] && [ "$(sha256sum <"$dir/bare/more")" = "$more_sum" ]; then say after same
else say after changed; fi
# what it had it has again
if [ -z "$at" ] || [ -n "$(found_on "$lost")" ]; then say held yes; else say held no; fi
rm -f -- "$file" "$dir/bare/more"; unbare "$dir"
forget_errors "$dir\""""
).replace("DATA", str(_DATA_MIB))

_HOW = {
    "md": "a disk was taken out of the array and emptied",
    "zfs": "a disk was taken offline and emptied",
    "btrfs": "all of a disk was emptied",
}


def judge(found: Mapping[str, str]) -> Finding:
    disks = number(found, "disks")
    if found.get("method") == "none":
        one = "it lies on one disk, without which there is nothing to look at"
        return Finding(
            None, one if disks == 1 else "nothing below keeps a second copy, and the visit would end with it"
        )
    what, read = _HOW.get(found.get("method", "")), found.get("read")
    if what is None or read is None:
        return Finding(None, "the probe does not say what it did")
    if found.get("emptied") != "yes":
        return Finding(None, "the disk that was to be lost kept what was on it")
    if read != "same":
        return Finding(False, f"{what}, and what was written before read {read} ({found.get('said') or 'no word'})")
    if found.get("written") != "yes":
        return Finding(False, f"{what}; what was written before could be read, but nothing more be written")
    if found.get("after") == "changed":
        return Finding(
            False, f"{what}; all was read and more was written, and after it had come back the data were others"
        )
    back, missing = number(found, "back"), number(found, "missing")
    if back is None or missing or found.get("held") != "yes" or found.get("after") != "same":
        return Finding(True, f"{what}; all was read and more was written, but the disk did not come back into use")
    why = f"{what}; all was read, {_DATA_MIB} MiB more were written, and it was rebuilt in {back:.1f} s"
    return Finding(True, why, {"back_s": back})


PROBE = Probe(
    name="disk-loss",
    about="Takes a disk away with all that was on it, reads, writes, and puts it back empty.",
    accepts=frozenset({Kind.DIRECTORY}),
    script=_SCRIPT,
    judge=judge,
    metrics=(Metric("back_s", "s", "lower", "until the disk that came back empty held all again"),),
    data_bytes=3 * _DATA_MIB * MIB,
    tools={"sha256sum": "coreutils", "lsblk": "util-linux", "blkdiscard": "util-linux", **OF_DEVICES, **TOOLS},
)
