"""An engine's snapshot of an instance takes little more room than what changes after it, and leads back."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._engine import ENGINE, TOOLS
from strata.probes._instances import INSTANCES, NO_INSTANCES
from strata.probes._probe import MIB, SHELL, Finding, Probe, number

# As for the images that instances share.
_IMAGE_MIB, _SHARE = 48, 0.25

_SCRIPT = (
    SHELL
    + ENGINE
    + INSTANCES
    + """\
image IMAGE && container c1 && put c1 one || exit 1
before=$(taken); start=$(now)
"$client" snapshot c1 s1 >/dev/null || exit 1
say seconds "$(since "$start")"
[ -z "$before" ] || say bytes "$(($(taken) - before))"
put c1 two && back c1 s1 || exit 1
say state "$(got c1)"
"$client" reset >/dev/null"""
).replace("IMAGE", str(_IMAGE_MIB))


def judge(found: Mapping[str, str]) -> Finding:
    if found.get("method") == "none":
        return NO_INSTANCES
    taken, took = number(found, "bytes"), number(found, "seconds")
    if took is None or "state" not in found:
        return Finding(None, "the probe does not say what came of the snapshot")
    if found["state"] != "one":
        return Finding(False, f"back at the snapshot the instance has '{found['state']}' and not what it had then")
    if taken is None:
        return Finding(None, "nobody counts what the engine takes here")
    why = f"of an instance of {_IMAGE_MIB} MiB it took {max(taken, 0) / MIB:.1f} MiB and {took:.2f} s, and led back"
    figures = {"instance_snapshot_bytes": max(taken, 0.0), "instance_snapshot_s": took}
    return Finding(taken <= _SHARE * _IMAGE_MIB * MIB, why, figures)


PROBE = Probe(
    name="instance-snapshot",
    about="Has the engine take a snapshot of an instance, counts what that took, and goes back to it.",
    accepts=frozenset({Kind.ENGINE}),
    script=_SCRIPT,
    judge=judge,
    metrics=(
        Metric("instance_snapshot_bytes", "bytes", "lower", "what a snapshot of an instance took"),
        Metric("instance_snapshot_s", "s", "lower", "time to take it"),
    ),
    data_bytes=3 * _IMAGE_MIB * MIB,
    tools=TOOLS,
)
