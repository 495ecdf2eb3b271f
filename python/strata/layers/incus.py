"""Incus with a storage pool on what is below: the fork of LXD that Debian continues with."""

from __future__ import annotations

from strata.layers._instances import InstancesDriver, Kin, info

_DAEMON = "/usr/libexec/incus/incusd"

_INCUS = Kin(
    name="incus",
    title="Incus",
    program="incus",
    daemon="incusd",
    daemon_program=_DAEMON,
    variables=("INCUS_DIR", "INCUS_CONF", "INCUS_CACHE"),
    snapshot="snapshot create",
    restore="snapshot restore",
    packages=((_DAEMON, "incus-base (Debian 12: from bookworm-backports)"), ("incus", "incus-client")),
    oldest=(6, 0),
)

DRIVER = InstancesDriver(_INCUS, info(_INCUS))
