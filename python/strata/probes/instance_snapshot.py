"""An engine's snapshot of an instance takes little more room than what changes after it, and leads back."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._engine import ENGINE, TOOLS
from strata.probes._instances import INSTANCES, shared
from strata.probes._probe import MIB, SHELL, Finding, Probe

_IMAGE_MIB = 48

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
    return shared(found, "a snapshot", _IMAGE_MIB, "instance_snapshot")


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
