"""What the probes share that ask an engine itself for what its storage can do: snapshots and copies of instances."""

from __future__ import annotations

from strata.probes._probe import Finding

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
