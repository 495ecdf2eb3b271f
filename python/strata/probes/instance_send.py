"""An engine writes an instance out as its storage's own stream, and not file by file, and takes it in again."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._engine import ENGINE, TOOLS
from strata.probes._instances import INSTANCES, NO_INSTANCES
from strata.probes._probe import MIB, SHELL, Finding, Probe, number

_IMAGE_MIB = 16

_SCRIPT = (
    SHELL
    + ENGINE
    + INSTANCES
    + """\
image IMAGE && container c1 && put c1 one && "$client" stop c1 >/dev/null || exit 1
file=$notes/instance
start=$(now)
if "$client" export c1 "$file" --optimized-storage --compression none >/dev/null 2>"$file.said"; then
  say seconds "$(since "$start")"
  say bytes "$(stat --format %s "$file")"
  if tar --list --file "$file" | grep -q '[.]bin$'; then say stream yes; else say stream no; fi
  "$client" remove c1 >/dev/null && "$client" import "$file" c2 >/dev/null && "$client" start c2 >/dev/null || exit 1
  say state "$(got c2)"
else
  say refused yes; say said "$(line <"$file.said")"
fi
rm -f "$file" "$file.said"
"$client" reset >/dev/null"""
).replace("IMAGE", str(_IMAGE_MIB))


def judge(found: Mapping[str, str]) -> Finding:
    if found.get("method") == "none":
        return NO_INSTANCES
    if found.get("refused"):
        return Finding(False, f"writing it out as a stream is refused: {found.get('said') or 'no message'}")
    size, took = number(found, "bytes"), number(found, "seconds")
    if size is None or took is None or "state" not in found:
        return Finding(None, "the probe does not say the result of the instance")
    if found["state"] != "one":
        return Finding(False, f"taken in again the instance has '{found['state']}' and not what it had")
    how = "as a stream of the storage's own" if found.get("stream") == "yes" else "file by file"
    why = f"an instance of {_IMAGE_MIB} MiB went {how}, {size / MIB:.1f} MiB in {took:.2f} s, and was taken in again"
    figures = {"instance_sent_bytes": size, "instance_sent_s": took}
    return Finding(found.get("stream") == "yes", why, figures)


PROBE = Probe(
    name="instance-send",
    about="Has the engine write an instance out in its storage's format, looks at it, and has it taken in again.",
    accepts=frozenset({Kind.ENGINE}),
    script=_SCRIPT,
    judge=judge,
    metrics=(
        Metric("instance_sent_bytes", "bytes", "lower", f"what an instance of {_IMAGE_MIB} MiB went as"),
        Metric("instance_sent_s", "s", "lower", "time to write it out"),
    ),
    data_bytes=4 * _IMAGE_MIB * MIB,
    tools=TOOLS,
)
