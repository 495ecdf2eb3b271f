"""Instant clone: a copy that shares its blocks, and takes no longer for a large original than for a small one."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe, number

SMALL_MIB, LARGE_MIB = 10, 160
_SHARE = 0.1  # of the original, that a clone may take
_SLOWER, _AT_LEAST_S = 4.0, 0.5  # sixteen times the data may take four times as long, or half a second

_SCRIPT = (
    SHELL
    + """\
dir=$1; shift
copy() {
  case $method in
    reflink) cp --reflink=always -- "$dir/original" "$dir/copy" ;;
    zfs) zfs snapshot "$source/probe@one" && zfs clone "$source/probe@one" "$source/copy" ;;
    thin) lvcreate -qq --yes --config "$LVM" --snapshot --name strata-probe "$1/$2" ;;
  esac
}
remove() {
  case $method in
    reflink) rm -f -- "$dir/copy" ;;
    zfs) zfs destroy -R "$source/probe" ;;
    thin) lvremove -qq --force --config "$LVM" "$1/strata-probe" ;;
  esac
}
fill "$dir/tried" 1
set -- $(volume)
if cp --reflink=always -- "$dir/tried" "$dir/shared" 2>"$dir/said"; then method=reflink
elif [ "$fs" = zfs ]; then method=zfs
elif [ "${3:-}" = thin ]; then method=thin
else method=none; say said "$(line <"$dir/said")"
fi
say method "$method"
[ "$method" != none ] || exit 0
for size in SIZES; do
  if [ "$method" = zfs ]; then
    zfs create -o mountpoint="$dir/zfs" "$source/probe" && fill "$dir/zfs/original" "$size" || exit 1
  else
    fill "$dir/original" "$size"
  fi
  before=$(used "$dir"); start=$(now)
  copy "$@" || exit 1
  say "seconds_$size" "$(since "$start")"
  say "bytes_$size" "$(($(used "$dir") - before))"
  remove "$@" || exit 1
done"""
).replace("SIZES", f"{SMALL_MIB} {LARGE_MIB}")


def judge(found: Mapping[str, str]) -> Finding:
    if found.get("method") == "none":
        return Finding(False, f"a copy that shares its blocks is refused: {found.get('said') or 'without a word'}")
    took = [number(found, f"seconds_{size}") for size in (SMALL_MIB, LARGE_MIB)]
    grown = number(found, f"bytes_{LARGE_MIB}")
    if took[0] is None or took[1] is None or grown is None:
        return Finding(None, "the probe does not say how long a clone took")
    small, large = took[0], took[1]
    flat = large <= max(_SLOWER * small, _AT_LEAST_S)
    shared = grown <= _SHARE * LARGE_MIB * MIB
    why = (
        f"by {found.get('method')}: {SMALL_MIB} MiB in {small:.3f} s, {LARGE_MIB} MiB in {large:.3f} s, "
        f"which took {grown / MIB:.1f} MiB more"
    )
    return Finding(flat and shared, why, {"clone_s": large, "clone_bytes": max(grown, 0.0)})


PROBE = Probe(
    name="clone",
    about="Copies a small and a large original so that the copy shares its blocks, by the file system or the volume.",
    accepts=frozenset({Kind.DIRECTORY}),
    script=_SCRIPT,
    judge=judge,
    metrics=(
        Metric("clone_s", "s", "lower", "time of a clone of the large original"),
        Metric("clone_bytes", "bytes", "lower", "room that it took"),
    ),
    data_bytes=2 * LARGE_MIB * MIB,
    tools={"cp": "coreutils", **TOOLS},
)
