"""A quota against root of a container without a user namespace: the machine's own root, with fewer capabilities.

That is what Docker, Podman and containerd give root where nothing else is said.
"""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._probe import Finding, Probe
from strata.probes._quota_of_root import TOOLS_OF_ROOT, TRIED_BYTES, judged, script

# Docker's own, where nothing else is said (moby, profiles and oci/caps/defaults.go).
_CAPABILITIES = (
    "chown", "dac_override", "fsetid", "fowner", "mknod", "net_raw", "setgid", "setuid", "setfcap", "setpcap",
    "net_bind_service", "sys_chroot", "kill", "audit_write",
)  # fmt: skip
_FIGURE = "docker_quota_bytes"


def judge(found: Mapping[str, str]) -> Finding:
    return judged(found, "root with what Docker leaves him", _FIGURE)


PROBE = Probe(
    name="quota-in-privileged-container",
    about="Limits a tenant's part to 16 MiB; root with Docker's capabilities writes there, and looks for ways past it.",
    accepts=frozenset({Kind.DIRECTORY}),
    script=script(0, ("setpriv", "--bounding-set", "-all," + ",".join("+" + name for name in _CAPABILITIES))),
    judge=judge,
    metrics=(Metric(_FIGURE, "bytes", "neither", "what root with Docker's capabilities wrote of 16 MiB"),),
    data_bytes=TRIED_BYTES,
    tools=TOOLS_OF_ROOT,
)
