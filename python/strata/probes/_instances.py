"""What the probes share that ask an engine itself for what its storage can do: snapshots and copies of instances."""

from __future__ import annotations

from collections.abc import Mapping

from strata.probes._probe import MIB, Finding, number

_SHARE = 0.25  # of an instance, that a copy or a snapshot may take: as of an image, what a container of it may

INSTANCES = """\
# Engines whose containers are thrown away do not know the verb.
"$client" copy nobody nobody-else >/dev/null 2>&1
if [ $? = 64 ]; then say method none; exit 0; fi
# State $2 in instance $1, and what state it is in, running.
put() { "$client" exec "$1" /bin/sh -c 'echo "$1" >/state; sync' sh "$2"; }
got() { "$client" exec "$1" /bin/cat /state; }
# Back to snapshot $2.
back() { "$client" stop "$1" >/dev/null && "$client" restore "$1" "$2" >/dev/null && "$client" start "$1" >/dev/null; }
"""
"""After `ENGINE`. Ends the script where the engine keeps no instances."""

NO_INSTANCES = Finding(False, "it keeps containers of images and no instances")


def shared(found: Mapping[str, str], of: str, instance_mib: int, name: str) -> Finding:
    """Whether what the engine made `of` an instance ("a copy") has its state and takes little. `name`: of the figures,
    NAME_bytes and NAME_s."""
    if found.get("method") == "none":
        return NO_INSTANCES
    taken, took = number(found, "bytes"), number(found, "seconds")
    if took is None or "state" not in found:
        return Finding(None, f"the probe does not say the result of {of}")
    if found["state"] != "one":
        return Finding(False, f"{of} led to '{found['state']}' and not to what the instance had")
    if taken is None:
        return Finding(None, "nobody counts what the engine takes here")
    room = max(taken, 0.0)
    why = f"of an instance of {instance_mib} MiB {of} took {room / MIB:.1f} MiB and {took:.2f} s, and has what it had"
    return Finding(taken <= _SHARE * instance_mib * MIB, why, {f"{name}_bytes": room, f"{name}_s": took})
