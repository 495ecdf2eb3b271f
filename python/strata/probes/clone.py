"""Instant clone: a copy that shares its blocks, and takes no longer for a large original than for a small one."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._image import IMAGE
from strata.probes._image import TOOLS as OF_IMAGES
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe, number

SMALL_MIB, LARGE_MIB = 10, 1024
_LESS_MIB = 160  # where there is no room for the large one
_SHARE = 0.1  # of the original, that a clone may take
_SLOWER, _AT_LEAST_S = 4.0, 0.2  # a hundred times the data may take four times as long, or a fifth of a second

_SCRIPT = (
    (
        SHELL
        + IMAGE
        + """\
if [ -f "$1" ]; then
  dir=${1%/*}
  say method "$format"
  for size in SMALL LARGE; do
    make_image "$size" && put_image 1 "$size" || exit 1
    before=$(used "$dir"); start=$(now)
    case $format in
      raw) cp --reflink=always -- "$image" "$image.copy" 2>"$image.said" ;;
      *) qemu-img create -q -f "$format" -b "$image" -F "$format" -- "$image.copy" 2>"$image.said" ;;
    esac || {
      say refused yes; say said "$(line <"$image.said")"
      rm -f -- "$image" "$image.copy" "$image.said"
      exit 0
    }
    [ "$size" = SMALL ] && which=small || which=large
    say "${which}_seconds" "$(since "$start")"
    say "${which}_bytes" "$(($(used "$dir") - before))"; say "${which}_mib" "$size"
    cold "$dir"
    shown same has_pattern "$image.copy" "$format" 1
    qemu-io -f "$format" -c "write -P 2 0 1M" -c flush -- "$image.copy" >/dev/null || exit 1
    cold "$dir"
    own() { has_pattern "$image.copy" "$format" 2 && has_pattern "$image" "$format" 1; }
    shown own own
    rm -f -- "$image" "$image.copy" "$image.said"
  done
  exit 0
fi
dir=$1; shift
copy() {
  case $method in
    reflink) cp --reflink=always -- "$dir/original" "$dir/copy" ;;
    zfs)
      zfs snapshot "$source/probe@one" &&
        zfs clone -o primarycache=none -o mountpoint="$dir/clone" "$source/probe@one" "$source/copy" ;;
    thin) lvcreate -qq --yes --config "$LVM" --snapshot --name strata-probe "$1/$2" ;;
  esac
}
# Where the copy of the file is, which a clone of a volume shows when it is mounted.
find_copy() {
  original=$dir/original
  case $method in
    reflink) copy=$dir/copy ;;
    zfs) original=$dir/zfs/original copy=$dir/clone/original ;;
    thin)
      lvchange -qq --yes --config "$LVM" --activate y --ignoreactivationskip "$1/strata-probe" || return 1
      mkdir -p -- "$dir/clone" || return 1
      mount $([ "$fs" != xfs ] || echo -o nouuid) "/dev/$1/strata-probe" "$dir/clone" || return 1
      copy=$(find "$dir/clone" -name original -type f | head -n 1) ;;
  esac
}
# What is written to the copy is in it, and not in the original.
own() {
  head --bytes 4096 "$original" >"$notes/old"; fill "$notes/new" 1
  dd if="$notes/new" of="$copy" bs=4096 count=1 conv=notrunc status=none || return 1
  cold "$original"; cold "$copy"
  cmp -s -n 4096 -- "$notes/new" "$copy" && cmp -s -n 4096 -- "$notes/old" "$original"
}
remove() {
  if [ "$method" = thin ]; then umount "$dir/clone" || return 1; fi
  case $method in
    reflink) rm -f -- "$dir/copy" ;;
    zfs) zfs destroy -R "$source/probe" ;;
    thin) lvremove -qq --force --config "$LVM" "$1/strata-probe" ;;
  esac
}
fill "$dir/tried" 1
set -- $(volume)
# ZFS shares the blocks of files, too, but one by one: its clones are those of data sets
if [ "$fs" = zfs ]; then method=zfs
elif cp --reflink=always -- "$dir/tried" "$dir/shared" 2>"$dir/said"; then method=reflink
elif [ "${3:-}" = thin ]; then method=thin
else method=none; say said "$(line <"$dir/said")"
fi
say method "$method"
[ "$method" != none ] || exit 0
# The same random bytes many times over: what a clone shares is not compared with anything.
grow() {
  if [ "$2" -le SMALL ]; then fill "$1" "$2"; return; fi
  fill "$1.part" 16
  parts=$(($2 / 16))
  while [ "$parts" -gt 0 ]; do cat "$1.part"; parts=$((parts - 1)); done >"$1" || exit 1
  rm -f -- "$1.part"
}
large=LARGE
[ "$(df --block-size=1M --output=avail "$dir" | tail -n 1)" -ge $((large * 5 / 2)) ] || large=LESS
for size in SMALL "$large"; do
  if [ "$method" = zfs ]; then
    zfs create -o primarycache=none -o mountpoint="$dir/zfs" "$source/probe" || exit 1
    grow "$dir/zfs/original" "$size"
  else
    grow "$dir/original" "$size"
  fi
  before=$(used "$dir"); start=$(now)
  copy "$@" || exit 1
  [ "$size" = "$large" ] && which=large || which=small
  say "${which}_seconds" "$(since "$start")"
  say "${which}_bytes" "$(($(used "$dir") - before))"
  say "${which}_mib" "$size"
  find_copy "$@" || exit 1
  cold "$original"; cold "$copy"
  shown same cmp -s -- "$original" "$copy"
  shown own own
  remove "$@" || exit 1
done
rm -f -- "$dir/original\""""
    )
    .replace("SMALL", str(SMALL_MIB))
    .replace("LARGE", str(LARGE_MIB))
    .replace("LESS", str(_LESS_MIB))
)


def judge(found: Mapping[str, str]) -> Finding:
    if found.get("method") == "none" or found.get("refused"):
        return Finding(False, f"a copy that shares its blocks is refused: {found.get('said') or 'no message'}")
    small, large = number(found, "small_seconds"), number(found, "large_seconds")
    grown, size = number(found, "large_bytes"), number(found, "large_mib")
    if small is None or large is None or grown is None or size is None:
        return Finding(None, "the probe does not say how long a clone took")
    flat = large <= max(_SLOWER * small, _AT_LEAST_S)
    shared = grown <= _SHARE * size * MIB
    why = (
        f"by {found.get('method')}: {SMALL_MIB} MiB in {small:.3f} s, {size:.0f} MiB in {large:.3f} s, "
        f"which took {grown / MIB:.1f} MiB more"
    )
    if size < LARGE_MIB:
        why += f" (for {LARGE_MIB} MiB there was no room)"
    if found.get("same") == "no":
        return Finding(False, f"{why}, and it is not what the original is")
    if found.get("own") == "no":
        return Finding(False, f"{why}, and what is written to it is not in it alone")
    if flat and shared and (found.get("same"), found.get("own")) != ("yes", "yes"):
        return Finding(None, f"{why}; the probe does not say what was in it")
    return Finding(flat and shared, why, {"clone_s": large, "clone_bytes": max(grown, 0.0)})


PROBE = Probe(
    name="clone",
    about="Copies a small and a large original so that the copy shares its blocks, by the file system or the volume.",
    accepts=frozenset({Kind.DIRECTORY, Kind.IMAGE}),
    script=_SCRIPT,
    judge=judge,
    metrics=(
        Metric("clone_s", "s", "lower", "time of a clone of the large original"),
        Metric("clone_bytes", "bytes", "lower", "room that it took"),
    ),
    data_bytes=2 * _LESS_MIB * MIB,
    tools={"cp": "coreutils", "cmp": "diffutils", "mount": "mount", **OF_IMAGES, **TOOLS},
)
