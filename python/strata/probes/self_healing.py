"""Self-healing: one copy of a block goes bad, and what is read is right, and so is the copy after it."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind
from strata.probes._devices import DEVICES
from strata.probes._devices import TOOLS as OF_DEVICES
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe, number

_DATA_MIB = 4
_READS = 8  # which copy is read is the kernel's choice, and changes with the process

# Every copy is spoiled alone, for a reader may happen to use the other one. Below a mirror of md its members are
# looked at, at their own offsets: it has no word for where a block lies.
_SCRIPT = (
    (
        SHELL
        + DEVICES
        + """\
dir=$1
list=$notes/list old=$notes/old
members() {
  while read -r device offset; do
    block=$(readlink -f "/sys/class/block/$(kernel_name "$device")") start=0
    # ZFS makes a partition on what it is given
    [ ! -e "$block/partition" ] || { start=$(cat "$block/start"); block=${block%/*}; }
    if [ "$(cat "$block/md/level" 2>/dev/null)" = raid1 ]; then
      for each in "$block"/md/dev-*; do
        echo "/dev/${each##*/dev-} $((offset + (start + $(cat "$each/offset")) * 512))"
      done
    else
      echo "$device $offset"
    fi
  done
}
bare "$dir" || exit 1
file=$dir/bare/file
fill "$file" DATA
sum=$(sha256sum <"$file")
dd if="$file" of="$old" bs=4096 count=1 status=none
used "$dir" >/dev/null
places "$file" "$dir" | members >"$list"
say copies "$(wc -l <"$list")"
# Between the file system and a mirror of md volumes may stand, so its members cannot be determined.
below=$(lsblk --inverse --noheadings --raw --output TYPE "$source" 2>/dev/null | line)
if [ "$(wc -l <"$list")" = 1 ] && [ "${below#*raid1}" != "$below" ]; then
  say mirrored yes; rm -f -- "$list" "$old"; unbare "$dir"; exit 0
fi
copy=0
while read -r device offset; do
  copy=$((copy + 1))
  spoil "$device" "$offset" || exit 1
  forget "$device"
  if same "$device" "$offset" "$old"; then say unspoiled "$device"; break; fi
  read=same healed=no number=0
  while [ "$number" -lt READS ]; do
    forget $(devices "$dir") "$device"
    now_sum=$(sha256sum <"$file" 2>"$list.said") || { read=refused; break; }
    [ "$now_sum" = "$sum" ] || { read=changed; break; }
    used "$dir" >/dev/null
    if same "$device" "$offset" "$old"; then healed=read; break; fi
    number=$((number + 1))
  done
  if [ "$read$healed" = sameno ]; then
    case $fs in
      btrfs) btrfs scrub start -B "$dir" >/dev/null 2>&1 ;;
      zfs) zpool scrub -w "${source%%/*}" ;;
    esac
    forget "$device"
    if same "$device" "$offset" "$old"; then healed=scrub; fi
  fi
  say "read_$copy" "$read"
  say "healed_$copy" "$healed"
  [ "$read" != refused ] || say said "$(line <"$list.said")"
  [ "$healed" != no ] || put_back "$device" "$offset" "$old" || exit 1
done <"$list"
rm -f -- "$list" "$list.said" "$old" "$file"; unbare "$dir"
forget_errors "$dir\""""
    )
    .replace("DATA", str(_DATA_MIB))
    .replace("READS", str(_READS))
)


def judge(found: Mapping[str, str]) -> Finding:
    copies = int(number(found, "copies") or 0)
    if not copies:
        return Finding(None, "the bytes of the file are not on the devices below as they were written")
    if found.get("mirrored"):
        return Finding(None, "a mirror of md is below volumes, through which its two copies cannot be distinguished")
    if "unspoiled" in found:
        return Finding(None, f"{found['unspoiled']} kept the bytes that were to be spoiled")
    read = [found.get(f"read_{each + 1}") for each in range(copies)]
    healed = [found.get(f"healed_{each + 1}") for each in range(copies)]
    what = "the only copy of 4 KiB was" if copies == 1 else f"{copies} copies of 4 KiB were, one after the other,"
    why = f"{what} spoiled below"
    if "changed" in read:
        return Finding(False, f"{why}, and the file read as what was spoiled")
    if "refused" in read:
        return Finding(False, f"{why}, and reading it was refused: {found.get('said') or 'no message'}")
    if None in read or None in healed:
        return Finding(None, "the probe does not say what was read")
    if "no" in healed:
        return Finding(False, f"{why}; the file read as it was, but the bad copy stayed bad")
    how = "a scrub" if "scrub" in healed else "reading it"
    return Finding(True, f"{why}; the file read as it was, and {how} made the bad copy right again")


PROBE = Probe(
    name="self-healing",
    about="Spoils each copy of 4 KiB of a file on the devices below, reads the file, and looks at the copy again.",
    accepts=frozenset({Kind.DIRECTORY}),
    script=_SCRIPT,
    judge=judge,
    data_bytes=2 * _DATA_MIB * MIB,
    tools={"lsblk": "util-linux", "sha256sum": "coreutils", **OF_DEVICES, **TOOLS},
)
