"""An engine's copy of an instance shares with it what neither has changed."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._engine import ENGINE, TOOLS
from strata.probes._instances import INSTANCES, NO_INSTANCES
from strata.probes._probe import MIB, SHELL, Finding, Probe, number

# As much of its own as of the image; a copy may take a part of both.
_IMAGE_MIB, _SHARE = 32, 0.25

_SCRIPT = (
    SHELL
    + ENGINE
    + INSTANCES
    + """\
image IMAGE && container c1 && put c1 one || exit 1
"$client" exec c1 /bin/sh -c 'cat /large >/own && echo more >>/own && sync' && "$client" stop c1 >/dev/null || exit 1
before=$(taken); start=$(now)
"$client" copy c1 c2 >/dev/null || exit 1
say seconds "$(since "$start")"
[ -z "$before" ] || say bytes "$(($(taken) - before))"
"$client" start c2 >/dev/null && say state "$(got c2)"
"$client" reset >/dev/null"""
).replace("IMAGE", str(_IMAGE_MIB))


def judge(found: Mapping[str, str]) -> Finding:
    if found.get("method") == "none":
        return NO_INSTANCES
    taken, took = number(found, "bytes"), number(found, "seconds")
    if took is None or "state" not in found:
        return Finding(None, "the probe does not say what came of the copy")
    if found["state"] != "one":
        return Finding(False, f"the copy has '{found['state']}' and not what the instance had")
    if taken is None:
        return Finding(None, "nobody counts what the engine takes here")
    whole = 2 * _IMAGE_MIB
    room = max(taken, 0) / MIB
    why = f"of an instance of {whole} MiB, half of them its own, a copy took {room:.1f} MiB and {took:.2f} s"
    figures = {"instance_copy_bytes": max(taken, 0.0), "instance_copy_s": took}
    return Finding(taken <= _SHARE * whole * MIB, why, figures)


PROBE = Probe(
    name="instance-copy",
    about="Has the engine copy an instance that has data of its own, counts what that took, and starts the copy.",
    accepts=frozenset({Kind.ENGINE}),
    script=_SCRIPT,
    judge=judge,
    metrics=(
        Metric("instance_copy_bytes", "bytes", "lower", "what a copy of an instance took"),
        Metric("instance_copy_s", "s", "lower", "time to make it"),
    ),
    data_bytes=4 * _IMAGE_MIB * MIB,
    tools=TOOLS,
)
