"""A quota: root writes more than a tenant may, and is refused at the limit."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe, number
from strata.probes._quota import LIMIT_MIB, LIMITED, OVER, TRIED_MIB, refusal

_SCRIPT = (
    SHELL
    + LIMITED
    + """\
dir=$1
limited
number=0
while [ "$number" -lt TRIED ]; do
  fill "$dir/tenant/$number" 1 2>"$dir/refused" && sync --file-system -- "$dir/tenant" 2>"$dir/refused" || break
  used "$dir/tenant" >/dev/null
  number=$((number + 1))
done
say written "$((number * 1048576))"
say refused "$(line <"$dir/refused")"
# beside the tenant's part there is room
shown outside fill "$dir/outside" 1 2>/dev/null"""
).replace("TRIED", str(TRIED_MIB))


def judge(found: Mapping[str, str]) -> Finding:
    written = number(found, "written")
    if found.get("method") == "none":
        return Finding(False, f"no limit can be set: {found.get('said') or 'no message'}")
    if written is None:
        return Finding(None, "the probe does not say how much it wrote")
    of = " on a volume of his own" if found.get("method") == "volume" else ""
    why = f"root wrote{of} {written / MIB:.0f} MiB where {LIMIT_MIB} MiB were allowed"
    if written > OVER * LIMIT_MIB * MIB:
        return Finding(False, why, {"quota_bytes": written})
    return refusal(found.get("refused", ""), found.get("outside"), written, why, {"quota_bytes": written})


PROBE = Probe(
    name="quota",
    about="Limits a tenant's part to 16 MiB and writes 48 MiB to it as root.",
    accepts=frozenset({Kind.DIRECTORY}),
    script=_SCRIPT,
    judge=judge,
    metrics=(Metric("quota_bytes", "bytes", "neither", "what could be written where 16 MiB were allowed"),),
    data_bytes=2 * TRIED_MIB * MIB,
    tools=TOOLS,
)
