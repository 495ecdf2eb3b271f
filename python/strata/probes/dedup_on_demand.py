"""Deduplication on demand: two files that are equal are made to share their blocks, when somebody asks."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe, number

_DATA_MIB = 16
_SHARE = 0.5  # of its bytes, that has to come free

_SCRIPT = (
    SHELL
    + """\
dir=$1
command -v xfs_io >/dev/null 2>&1 || { say method unknown; exit 0; }
fill "$dir/first" DATA
dd if="$dir/first" of="$dir/second" bs=1M status=none
sum=$(sha256sum <"$dir/second")
before=$(used "$dir"); start=$(now)
# The system call under duperemove and bees; xfs_io ends well also where it is refused.
xfs_io -c "dedupe $dir/first 0 0 $((DATA * 1048576))" "$dir/second" >"$dir/did" 2>"$dir/said"
say seconds "$(since "$start")"
after=$(used "$dir")
say freed "$((before - after))"
say said "$(cat "$dir/said" "$dir/did" | line)"
cold "$dir"
shown same [ "$(sha256sum <"$dir/second")" = "$sum" ]
rm -f -- "$dir/first" "$dir/second\""""
).replace("DATA", str(_DATA_MIB))


def judge(found: Mapping[str, str]) -> Finding:
    if found.get("method") == "unknown":
        return Finding(None, "the program xfs_io is not installed, which asks the file system for it")
    freed, took = number(found, "freed"), number(found, "seconds")
    if freed is None or took is None or found.get("same") not in ("yes", "no"):
        return Finding(None, "the probe does not say what came free")
    why = f"of {_DATA_MIB} MiB that were there twice {max(freed, 0) / MIB:.1f} MiB came free in {took:.2f} s"
    if found["same"] == "no":
        return Finding(False, f"{why}, and the data changed")
    if freed < _SHARE * _DATA_MIB * MIB:
        return Finding(False, f"{why}: {found.get('said') or 'no message'}")
    return Finding(True, why, {"freed_bytes": freed})


PROBE = Probe(
    name="dedup-on-demand",
    about="Writes 16 MiB twice, asks the file system to share them, and counts what came free.",
    accepts=frozenset({Kind.DIRECTORY}),
    script=_SCRIPT,
    judge=judge,
    metrics=(Metric("freed_bytes", "bytes", "higher", "what came free of 16 MiB that were there twice"),),
    data_bytes=3 * _DATA_MIB * MIB,
    tools={"xfs_io": "xfsprogs", "dd": "coreutils", "sha256sum": "coreutils", **TOOLS},
    own_files_only=True,
)
