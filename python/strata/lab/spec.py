"""What a lab is made of, as data: the Debian release, the kernel, the packages, and what of them is left out."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from importlib import resources

from strata.errors import BadInput, Problem

# Raised whenever what a build makes of the same lists changes.
_FORMAT = 1

# The archive's names of the releases that can be a lab's root.
SUITES = {12: "bookworm", 13: "trixie"}

_BASE = (
    *("udev", "kmod", "iproute2", "util-linux", "mount", "procps", "psmisc", "fdisk", "busybox-static"),
    *("lvm2", "dmsetup", "thin-provisioning-tools", "mdadm", "bcache-tools"),
    *("btrfs-progs", "xfsprogs", "e2fsprogs", "f2fs-tools", "duperemove"),
    *("fio", "openssh-server"),
)
_CONTAINERS = (
    *("podman", "crun", "fuse-overlayfs", "netavark", "passt", "uidmap"),
    *("containerd", "runc", "docker.io", "iptables", "buildah", "lxc", "rsync", "lxd"),
)
_INCUS = ("incus-base", "incus-client", "dnsmasq-base", "lxcfs")
# Beside those of every release. Debian 12 has no vdo, its docker.io is one package, and incus is in its backports.
_BASE_OF = {12: (), 13: ("vdo",)}
_CONTAINERS_OF = {12: _INCUS, 13: (*_INCUS, "docker-cli")}
_BACKPORTED = {12: frozenset({"containers"}), 13: frozenset[str]()}

# Bytes that building takes while it lasts: the root unpacked, as a tar and as an image; the kernel's packages and
# modules unpacked; for ZFS a compiler and the kernel's headers. Measured, and a quarter more.
_ROOM_BYTES = 1_200_000_000
_ROOM_OF = {
    "zfs": 800_000_000,
    "containers": 1_400_000_000,
    "install": 900_000_000,
    "postgres": 900_000_000,
    "qemu": 500_000_000,
}

FEATURES = tuple(sorted(_ROOM_OF))


@dataclass(frozen=True, slots=True)
class LabSpec:
    """Raises BadInput for a release, a kernel or a feature that no lab can have."""

    debian: int = 13
    kernel: str | None = None  # "6.1", "6.12", "7.2"; None is the release's own
    features: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        problems = []
        if self.debian not in SUITES:
            known = " or ".join(str(release) for release in SUITES)
            problems.append(Problem(f"there is no lab of Debian {self.debian}; give {known}"))
        if self.kernel is not None and not re.fullmatch(r"[1-9][0-9]*\.[0-9]+", self.kernel):
            problems.append(Problem(f"'{self.kernel}' is not a kernel; write its first two numbers, as 6.12"))
        for feature in sorted(self.features - set(FEATURES)):
            problems.append(Problem(f"a lab has no feature '{feature}'; the features are {', '.join(FEATURES)}"))
        if problems:
            raise BadInput(problems)

    @property
    def suite(self) -> str:
        return SUITES[self.debian]

    @property
    def packages(self) -> tuple[str, ...]:
        """Debian packages of the root, without what they depend on."""
        more = {
            "containers": (*_CONTAINERS, *_CONTAINERS_OF[self.debian]),
            "install": ("mmdebstrap",),
            "postgres": ("postgresql", "sysbench"),
            "qemu": ("qemu-system-x86", "qemu-utils", "libnbd-bin"),
            "zfs": ("zfsutils-linux",),
        }
        return (
            *_BASE,
            *_BASE_OF[self.debian],
            *(package for feature in sorted(self.features) for package in more[feature]),
        )

    @property
    def more_suites(self) -> tuple[str, ...]:
        """Where apt may look for what the release does not have."""
        return (f"{self.suite}-backports",) if self.features & _BACKPORTED[self.debian] else ()

    @property
    def room_bytes(self) -> int:
        """What building it takes of the cache while it lasts, about."""
        return _ROOM_BYTES + sum(_ROOM_OF[feature] for feature in self.features)

    @property
    def key(self) -> str:
        """Names everything that is known before a mirror was asked: lists, scripts, choices. 16 hexadecimal digits."""
        parts = {
            "format": _FORMAT,
            "debian": self.debian,
            "kernel": self.kernel,
            "packages": sorted((*self.packages, *self.more_suites)),
            "modules": [MODULES, BEFORE_ROOT],
            "scripts": [
                script("trim.sh"),
                *([script("containers.sh")] if "containers" in self.features else []),
                *([script("zfs.sh")] if "zfs" in self.features else []),
                *([script("install.sh")] if "install" in self.features else []),
            ],
            "features": sorted(self.features),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def command(self) -> str:
        """What a person types to build it."""
        words = ["strata lab build", f"--debian {self.debian}"]
        if self.features:
            words.append(f"--with {','.join(sorted(self.features))}")
        if self.kernel is not None:
            words.append(f"--kernel {self.kernel}")
        return " ".join(words)

    def __str__(self) -> str:
        kernel = "its own kernel" if self.kernel is None else f"kernel {self.kernel}"
        return ", ".join((f"Debian {self.debian}", kernel, *sorted(self.features)))


def script(name: str) -> str:
    """The text of a script that runs inside mmdebstrap, with the new root as its first argument."""
    return (resources.files("strata.lab") / "scripts" / name).read_text(encoding="utf-8")


# Kernel modules, below /lib/modules/VERSION/kernel: a whole folder ends with "/", "*" is any name in a folder. What
# these need comes with them. All that storage, containers and the machine itself use; no graphics, sound, radio.
MODULES = (
    *("arch/x86/crypto/", "arch/x86/kvm/", "crypto/", "lib/", "block/"),
    *("fs/9p/", "fs/autofs/", "fs/bcachefs/", "fs/btrfs/", "fs/erofs/", "fs/exfat/", "fs/ext4/", "fs/f2fs/"),
    *("fs/fat/", "fs/fuse/", "fs/isofs/", "fs/jbd2/", "fs/nls/", "fs/overlayfs/", "fs/quota/", "fs/squashfs/"),
    *("fs/xfs/", "fs/binfmt_misc*", "fs/mbcache*"),
    *("drivers/acpi/nfit/", "drivers/ata/ahci*", "drivers/ata/ata_piix*", "drivers/ata/ata_generic*"),
    *("drivers/block/brd*", "drivers/block/loop*", "drivers/block/nbd*", "drivers/block/null_blk/"),
    *("drivers/block/ublk_drv*", "drivers/block/virtio_blk*", "drivers/block/zram/"),
    *("drivers/char/hw_random/virtio-rng*", "drivers/dax/", "drivers/firmware/qemu_fw_cfg*", "drivers/md/"),
    *("drivers/net/bonding/", "drivers/net/dummy*", "drivers/net/ipvlan/", "drivers/net/macvlan*"),
    *("drivers/net/macvtap*", "drivers/net/tap*", "drivers/net/tun*", "drivers/net/veth*"),
    *("drivers/net/virtio_net*", "drivers/net/vxlan/", "drivers/nvdimm/", "drivers/nvme/common/"),
    *("drivers/nvme/host/nvme.*", "drivers/nvme/host/nvme-core*", "drivers/nvme/host/nvme-fabrics*"),
    *("drivers/nvme/host/nvme-tcp*", "drivers/nvme/target/nvmet.*", "drivers/nvme/target/nvmet-tcp*"),
    *("drivers/nvme/target/nvme-loop*", "drivers/ptp/ptp_kvm*", "drivers/scsi/iscsi_tcp*"),
    *("drivers/scsi/scsi_debug*", "drivers/scsi/sd_mod*", "drivers/scsi/sg*", "drivers/scsi/sr_mod*"),
    *("drivers/scsi/virtio_scsi*", "drivers/target/target_core_*", "drivers/target/loopback/"),
    *("drivers/vhost/", "drivers/virtio/"),
    *("net/802/", "net/8021q/", "net/9p/9pnet.*", "net/9p/9pnet_virtio*", "net/bridge/", "net/core/"),
    *("net/ipv4/", "net/ipv6/", "net/llc/", "net/netfilter/", "net/packet/", "net/sched/", "net/unix/"),
    *("net/vmw_vsock/vsock*", "net/vmw_vsock/vmw_vsock_virtio*"),
)

# What stands between the machine's start and its root: NVDIMMs, squashfs, overlay; and the network card, which is there
# before udev is. A kernel that has one built in has no file of it (virtio_pci since 6.12).
BEFORE_ROOT = ("nfit", "nd_pmem", "squashfs", "overlay", "virtio_pci", "virtio_net")
