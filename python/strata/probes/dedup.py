"""Inline deduplication: the same bytes a second time take no room."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._probe import MEMORY, MIB, SHELL, TOOLS, Finding, Probe, memory, number

_DATA_MIB = 32
_SHARE = 0.2  # of its bytes, that a second copy may take where it is deduplicated

_SCRIPT = (
    SHELL
    + """\
dir=$1
set -- $(volume)
lay DATA "${3:-}" "$dir/first" "$dir/second"
before=$(stored "$dir" "$@")
head --bytes DATAM /dev/urandom 1<>"$dir/first"
first=$(stored "$dir" "$@")
# Read and written, and not copied: cp would ask the file system to share the blocks.
dd if="$dir/first" of="$dir/second" bs=1M conv=notrunc status=none
second=$(stored "$dir" "$@")
say first "$((first - before + laid))"
say second "$((second - first + laid))"
cold "$dir"
shown same cmp -s -- "$dir/first" "$dir/second"
say memory "$(saver_memory "$@")"
rm -f -- "$dir/first" "$dir/second\""""
).replace("DATA", str(_DATA_MIB))


def judge(found: Mapping[str, str]) -> Finding:
    first, second = number(found, "first"), number(found, "second")
    if first is None or second is None:
        return Finding(None, "the probe does not say how much was stored")
    if first < 0.8 * _DATA_MIB * MIB:
        return Finding(None, f"{_DATA_MIB} MiB that were new took {first / MIB:.1f} MiB, so the count says nothing")
    why = f"{_DATA_MIB} MiB of random bytes took {first / MIB:.1f} MiB, the same again {second / MIB:.1f} MiB"
    if found.get("same") != "yes":
        return Finding(False if found.get("same") == "no" else None, f"{why}, and the two do not read the same")
    figures, held = memory(found)
    return Finding(second < _SHARE * _DATA_MIB * MIB, why + held, {"second_bytes": max(second, 0.0), **figures})


PROBE = Probe(
    name="dedup",
    about="Writes 32 MiB of random bytes twice, and counts what the second time took.",
    accepts=frozenset({Kind.DIRECTORY}),
    script=_SCRIPT,
    judge=judge,
    metrics=(Metric("second_bytes", "bytes", "lower", "what 32 MiB took that were there already"), MEMORY),
    data_bytes=3 * _DATA_MIB * MIB,
    tools={"dd": "coreutils", "cmp": "diffutils", **TOOLS},
    own_files_only=True,
)
