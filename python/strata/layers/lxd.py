"""LXD with a storage pool on what is below (study 1)."""

from __future__ import annotations

from strata.layers._instances import InstancesDriver, Kin, info

_LXD = Kin(
    name="lxd",
    title="LXD",
    program="lxc",
    daemon="lxd",
    daemon_program="lxd",
    variables=("LXD_DIR", "LXD_CONF"),
    snapshot="snapshot",
    restore="restore",
    packages=(("lxd", "lxd"), ("lxc", "lxd-client")),
    oldest=(4, 0),
)

DRIVER = InstancesDriver(_LXD, info(_LXD))
