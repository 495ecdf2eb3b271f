"""An engine's copy of an instance shares with it what neither has changed."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._engine import ENGINE, TOOLS
from strata.probes._instances import INSTANCES, shared
from strata.probes._probe import MIB, SHELL, Finding, Probe

# As much of its own as of the image.
_IMAGE_MIB = 32

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
    return shared(found, "a copy", 2 * _IMAGE_MIB, "instance_copy")


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
