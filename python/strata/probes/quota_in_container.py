"""A quota against root of an unprivileged container, of a user namespace: the machine knows him as an ordinary user.

That is what Incus, LXD and rootless Podman give where nothing else is said.
"""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._probe import Finding, Probe
from strata.probes._quota_of_root import TOOLS_OF_ROOT, TRIED_BYTES, judged, script

_OUTER_ID = 100000  # where /etc/subuid begins to give away: nobody's on the machine itself
_FIGURE = "user_quota_bytes"


def judge(found: Mapping[str, str]) -> Finding:
    return judged(found, "root of a user namespace", _FIGURE)


PROBE = Probe(
    name="quota-in-container",
    about="Limits a tenant's part to 16 MiB; root of a user namespace writes there, and looks for ways past the limit.",
    accepts=frozenset({Kind.DIRECTORY}),
    script=script(
        _OUTER_ID,
        ("setpriv", f"--reuid={_OUTER_ID}", f"--regid={_OUTER_ID}", "--clear-groups", "unshare", "--user",
         "--map-root-user"),
    ),
    judge=judge,
    metrics=(Metric(_FIGURE, "bytes", "neither", "what root of a user namespace wrote where 16 MiB were allowed"),),
    data_bytes=TRIED_BYTES,
    tools=TOOLS_OF_ROOT,
)  # fmt: skip
