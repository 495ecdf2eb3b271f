"""Base size: root in a container writes to its own root until it is refused at the size that the engine was given."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._engine import ENGINE, TOOLS
from strata.probes._probe import MIB, SHELL, Finding, Probe, full, number

_MOST_MIB = 640
_NEAR = 0.5  # refusal above this part of it says something: the image counts, and what the file system keeps
_OVER = 1.05

_SCRIPT = (
    SHELL
    + ENGINE
    + """\
base=$("$client" base) || exit 1
say base "$base"
case $base in '' | - | *[!0-9]*) exit 0 ;; esac
if [ "$base" -gt $((MOST * 1048576)) ]; then exit 0; fi
image 4 && container c1 || exit 1
most=$((base / 4194304 + base / 16777216 + 1))
"$client" exec c1 /bin/sh -c 'n=0 said=
  while [ "$n" -lt "$1" ]; do
    said=$(cat /large 2>&1 >>/grown) || { said=${said:-refused}; break; }
    n=$((n + 1))
  done
  sync; wc -c </grown; echo "$said"' sh "$most" >"$notes/grown"
say grown "$(head -n 1 "$notes/grown" | tr -d ' ')"
say refused "$(sed -n 2p "$notes/grown")"
# Podman makes a directory there when it ends a container, and Incus changes owners: neither can where nothing is left
# of its room. ZFS at its quota refuses to cut a file short but not to remove it, and gives its room back a bit later.
"$client" exec c1 /bin/sh -c 'rm /grown; n=0
  until sync; (echo >/room) 2>/dev/null || [ "$n" -ge 60 ]; do sleep 1; n=$((n + 1)); done'
"$client" reset >/dev/null"""
).replace("MOST", str(_MOST_MIB))


def judge(found: Mapping[str, str]) -> Finding:
    base, grown = number(found, "base"), number(found, "grown")
    if base is None:
        return Finding(None, "the engine was given no base size: write base_size= in the stack")
    if grown is None:
        too_large = base > _MOST_MIB * MIB
        return Finding(
            None,
            f"a base size of {base / MIB:.0f} MiB is more than is written here ({_MOST_MIB} MiB)"
            if too_large
            else "the container does not say how much it wrote",
        )
    why = f"root in a container wrote {grown / MIB:.0f} MiB where {base / MIB:.0f} MiB were allowed"
    figures = {"grown_bytes": grown}
    if grown > _OVER * base:
        return Finding(False, why, figures)
    if full(found.get("refused", "")) and grown >= _NEAR * base:
        return Finding(True, f"{why}, then: {found['refused']}", figures)
    return Finding(None, f"{why}, and was stopped by something else: {found.get('refused') or 'nothing'}")


PROBE = Probe(
    name="base-size",
    about="Writes to a container's root as root, more than its base size.",
    accepts=frozenset({Kind.ENGINE}),
    script=_SCRIPT,
    judge=judge,
    metrics=(Metric("grown_bytes", "bytes", "neither", "what root could write in a container"),),
    data_bytes=2 * _MOST_MIB * MIB,
    tools=TOOLS,
)
