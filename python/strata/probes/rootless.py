"""Rootless: a container runs as an ordinary user of this machine, also where it believes to be root."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind
from strata.probes._engine import ENGINE, TOOLS
from strata.probes._probe import MIB, SHELL, Finding, Probe, number

_SCRIPT = (
    SHELL
    + ENGINE
    + """\
image 4 && "$client" create probe c1 -- /stay >/dev/null || exit 1
# as the engine itself would start it, where this client asks for more than others do
if "$client" unprivileged c1 >/dev/null 2>&1; then say asked yes; fi
"$client" start c1 >/dev/null || exit 1
pid=$("$client" pid c1) || exit 1
say user "$(awk '$1 == "Uid:" { print $2 }' "/proc/$pid/status")"
say inside "$("$client" exec c1 /bin/sh -c 'while read -r name id rest; do
  [ "$name" != Uid: ] || echo "$id"
done </proc/self/status')"
if "$client" exec c1 /bin/sh -c 'echo written >/file' 2>/dev/null; then say written yes; else say written no; fi
"$client" reset >/dev/null"""
)


def judge(found: Mapping[str, str]) -> Finding:
    user, inside = number(found, "user"), number(found, "inside")
    if user is None or inside is None:
        return Finding(None, "the probe does not say as which user the container runs")
    why = f"user {inside:.0f} in the container is user {user:.0f} of the machine"
    if found.get("written") != "yes":
        return Finding(False, f"{why}, and it cannot write to its root")
    return Finding(user != 0, f"{why}, and it can write to its root")


PROBE = Probe(
    name="rootless",
    about="Reads from the kernel as which user a container's first process runs, and writes to its root.",
    accepts=frozenset({Kind.ENGINE}),
    script=_SCRIPT,
    judge=judge,
    data_bytes=32 * MIB,
    tools=TOOLS,
)
