"""A cache on a faster device: what was read before comes from it."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe, number

_DATA_MIB = 16
_SHARE = 0.5  # of the last reading, that has to come from the cache
_READS = 6
_MEMORY_MIB = 64  # ZFS takes no smaller limit

_SCRIPT = (
    (
        SHELL
        + """\
target=$1
names=" $(lsblk --inverse --noheadings --raw --output KNAME "$source" 2>/dev/null | line) "
mapped=
for each in $names; do
  name=$(cat "/sys/class/block/$each/dm/name" 2>/dev/null) || continue
  if dmsetup status --target cache "$name" 2>/dev/null | grep -q cache; then mapped=$name; fi
done
bcache=
for each in $names; do if [ -d "/sys/class/block/$each/bcache" ]; then bcache=/sys/class/block/$each/bcache; fi; done
l2arc=
if [ "$fs" = zfs ] && zpool status "${source%%/*}" | grep -q '^[[:space:]]*cache'; then l2arc=yes; fi
# HITS MISSES of reads.
count() {
  if [ -n "$l2arc" ]; then
    awk '$1 == "l2_hits" { hits = $3 } $1 == "l2_misses" { print hits, $3 }' /proc/spl/kstat/zfs/arcstats
  elif [ -n "$mapped" ]; then dmsetup status "$mapped" | awk '{ print $8, $9 }'
  else echo "$(cat "$bcache/stats_total/cache_hits") $(cat "$bcache/stats_total/cache_misses")"
  fi
}
if [ -n "$l2arc" ]; then say method l2arc
elif [ -n "$mapped" ]; then say method dm-cache
elif [ -n "$bcache" ]; then say method bcache
else say method none; exit 0
fi
# Bypassing the page cache; but what passes by ZFS's own memory never comes to its cache device. There it is little
# memory that is taken for what is read, and other data that push it out.
way=iflag=direct
if [ -n "$l2arc" ]; then
  way= memory=/sys/module/zfs/parameters/zfs_arc_max
  # A limit of 0 is ZFS's own choice, but setting it to 0 changes nothing: what is in force goes first.
  { sed -n 's/^c_max  *[0-9]*  *//p' /proc/spl/kstat/zfs/arcstats; cat "$memory"; } >"$notes/before" &&
    mv -- "$notes/before" "$notes/zfs_arc_max" || exit 1
  echo $((MEMORY * 1048576)) >"$memory" || exit 1
fi
push_out() {
  sleep 2  # in which ZFS feeds its cache device
  fill "$target/other" $((2 * MEMORY)); zpool sync "${source%%/*}"
}
file=$target
if [ -d "$target" ]; then file=$target/file; fill "$file" DATA; sync --file-system -- "$target"
else head --bytes DATAM /dev/urandom | dd of="$file" bs=1M iflag=fullblock oflag=direct status=none; fi
number=0
while [ "$number" -lt READS ]; do
  if [ -n "$l2arc" ]; then push_out; fi
  start=$(count)
  # in small pieces: a long sequential read is meant to pass a cache by
  dd if="$file" of=/dev/null bs=16k count=$((DATA * 64)) $way status=none
  after=$(count)
  sleep 1
  number=$((number + 1))
done
say hits "$((${after% *} - ${start% *}))"
say misses "$((${after#* } - ${start#* }))\""""
    )
    .replace("DATA", str(_DATA_MIB))
    .replace("READS", str(_READS))
    .replace("MEMORY", str(_MEMORY_MIB))
)


def judge(found: Mapping[str, str]) -> Finding:
    if found.get("method") == "none":
        return Finding(False, "no cache is below: neither dm-cache, bcache nor a cache device of ZFS")
    hits, misses = number(found, "hits"), number(found, "misses")
    if hits is None or misses is None or not hits + misses:
        return Finding(None, "the cache does not say what came from it")
    share = hits / (hits + misses)
    why = f"by {found['method']}: of {_DATA_MIB} MiB read for the {_READS}th time {share:.0%} came from the cache"
    return Finding(share >= _SHARE, why, {"cache_hit_share": share})


PROBE = Probe(
    name="ssd-cache",
    about="Reads 16 MiB again and again, and asks the cache how much of the last time came from it.",
    accepts=frozenset({Kind.DIRECTORY, Kind.BLOCK}),
    script=_SCRIPT,
    judge=judge,
    metrics=(Metric("cache_hit_share", "ratio", "higher", "of the last reading, that came from the cache"),),
    data_bytes=2 * (_DATA_MIB + _MEMORY_MIB) * MIB,
    tools={"lsblk": "util-linux", "dd": "coreutils", **TOOLS},
)
