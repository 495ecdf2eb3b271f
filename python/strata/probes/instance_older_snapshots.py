"""An engine goes back to an older snapshot of an instance and keeps the newer ones."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind
from strata.probes._engine import ENGINE, TOOLS
from strata.probes._instances import INSTANCES, NO_INSTANCES
from strata.probes._probe import MIB, SHELL, Finding, Probe

_SCRIPT = (
    SHELL
    + ENGINE
    + INSTANCES
    + """\
image 8 && container c1 || exit 1
for state in one two; do put c1 "$state" && "$client" snapshot c1 "s-$state" >/dev/null || exit 1; done
put c1 three || exit 1
if back c1 s-one 2>"$notes/said"; then
  say older "$(got c1)"
  if back c1 s-two 2>"$notes/said"; then say newer "$(got c1)"; else say said "$(line <"$notes/said")"; fi
else
  say refused yes; say said "$(line <"$notes/said")"
fi
"$client" reset >/dev/null"""
)


def judge(found: Mapping[str, str]) -> Finding:
    if found.get("method") == "none":
        return NO_INSTANCES
    said = found.get("said") or "no message"
    if found.get("refused"):
        return Finding(False, f"the way back to the older of two snapshots is refused: {said}")
    if "older" not in found:
        return Finding(None, "the probe does not say the result of the snapshots")
    if found["older"] != "one":
        return Finding(False, f"back at the older snapshot the instance has '{found['older']}'")
    if found.get("newer") != "two":
        return Finding(False, f"it went back to the older of two snapshots, and the newer is gone: {said}")
    return Finding(True, "it went back to the older of two snapshots, and then to the newer one")


PROBE = Probe(
    name="instance-older-snapshots",
    about="Has the engine take two snapshots of an instance, goes back to the older one and then to the newer one.",
    accepts=frozenset({Kind.ENGINE}),
    script=_SCRIPT,
    judge=judge,
    data_bytes=64 * MIB,
    tools=TOOLS,
)
