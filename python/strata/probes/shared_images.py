"""Image storage shared between instances: a further container takes little more than what it writes."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._engine import ENGINE, TOOLS
from strata.probes._probe import MIB, SHELL, Finding, Probe, number

# Every container takes some 10 MiB of its own, whatever the image: for Incus and its file system on LVM more.
_IMAGE_MIB, _CONTAINERS = 128, 3
_SHARE = 0.25  # of the image, that a container may take

_SCRIPT = (
    (
        SHELL
        + ENGINE
        + """\
image IMAGE || exit 1
# Incus and LXD unpack an image into the pool with the first container of it: the one time that all the others share.
container c0 || exit 1
before=$(taken)
[ -n "$before" ] || { say method none; "$client" reset >/dev/null; exit 0; }
start=$(now)
for each in $(seq COUNT); do container "c$each" || exit 1; done
say seconds "$(since "$start")"
say bytes "$(($(taken) - before))"
"$client" reset >/dev/null"""
    )
    .replace("IMAGE", str(_IMAGE_MIB))
    .replace("COUNT", str(_CONTAINERS))
)


def judge(found: Mapping[str, str]) -> Finding:
    if found.get("method") == "none":
        return Finding(None, "nobody counts what the engine takes here")
    taken, took = number(found, "bytes"), number(found, "seconds")
    if taken is None or took is None:
        return Finding(None, "the probe does not say what the containers took")
    each = max(taken, 0.0) / _CONTAINERS
    why = (
        f"{_CONTAINERS} containers of an image of {_IMAGE_MIB} MiB took {each / MIB:.1f} MiB each, "
        f"and {took / _CONTAINERS:.2f} s to be made and started"
    )
    figures = {"instance_bytes": each, "instance_s": took / _CONTAINERS}
    return Finding(each <= _SHARE * _IMAGE_MIB * MIB, why, figures)


PROBE = Probe(
    name="shared-images",
    about="Starts a container of an image, then three more, and counts what each of these took.",
    accepts=frozenset({Kind.ENGINE}),
    script=_SCRIPT,
    judge=judge,
    metrics=(
        Metric("instance_bytes", "bytes", "lower", f"what a container of an image of {_IMAGE_MIB} MiB took"),
        Metric("instance_s", "s", "lower", "time to make and start one"),
    ),
    data_bytes=8 * _IMAGE_MIB * MIB,
    tools=TOOLS,
)
