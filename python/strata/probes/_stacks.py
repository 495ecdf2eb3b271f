"""The stacks that `features --all` tries: what people choose among, in the words of expressions.

Groups are tried one after the other, each as a run of its own. What a machine cannot build is shown with the reason.
"""

from __future__ import annotations

FILE_SYSTEMS = (
    "disk | {ext4, ext4(prjquota), xfs(pquota), btrfs(quotas), btrfs(compress=zstd), zfs, zfs(dedup=on)}",
    "disk | lvm(snapshots=256M) | ext4",
    "disk | lvmthin | {ext4, xfs}",
    'disk | vdo | xfs(mkfs="-K")',
    # which answers md changes is seen by having it below each, as it is written above
    "2*disk | md(raid1) | {ext4, xfs(pquota), btrfs(quotas), zfs, lvm(snapshots=256M) | ext4, lvmthin | xfs}",
    '2*disk | md(raid1) | vdo | xfs(mkfs="-K")',
    "2*disk | {btrfs(raid1), zfs(mirror=2)}",
    "disk + disk | {lvmcache | ext4, zfs(l2arc=1)}",
)
VOLUMES = (
    "disk | {lvm(size=1G), lvmthin, lvmthin(zero=off), vdo, zfs | zvol(sparse)}",
    "2*disk | md(raid1)",
)
IMAGES = ("disk | {ext4, xfs} | {raw, qcow2}",)
# with a base size wherever the engine takes one
ENGINES = (
    "disk | xfs(pquota) | {docker(overlay2, base_size=256M), docker(vfs, base_size=256M)}",
    "disk | xfs(pquota) | podman(overlay, base_size=256M)",
    "disk | ext4(prjquota) | {incus(dir, base_size=256M), lxd(dir, base_size=256M)}",
    "disk | xfs(pquota) | incus(dir, base_size=256M)",
    "disk | ext4 | {containerd(overlayfs), podman(user=nobody), podman(vfs)}",
    # Docker 25 dropped it
    "disk | debian(12) | ext4 | docker(devicemapper, base_size=512M)",
    "disk | btrfs(quotas) | {docker(btrfs, base_size=256M), podman(btrfs)}",
    "disk | btrfs(quotas) | {incus(btrfs, base_size=256M), lxd(btrfs, base_size=256M)}",
    "disk | zfs | {docker(zfs, base_size=256M), incus(zfs, base_size=256M), lxd(zfs, base_size=256M)}",
    "disk | lvmthin(zero=off, chunk=512K) | {containerd(devmapper, base_size=512M), incus(lvm, base_size=512M)}",
    "disk | lvmthin(zero=off, chunk=512K) | lxd(lvm, base_size=512M)",
)

STACKS: tuple[str, ...] = (*FILE_SYSTEMS, *VOLUMES, *IMAGES, *ENGINES)
