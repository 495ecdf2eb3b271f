"""What is rebooted: the best stacks of the five studies, and more; and which disks are missing then."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from strata.campaign import parse_stacks
from strata.layers import catalogue, drivers
from strata.recipes import plan
from strata.recipes.plan import Recipe
from strata.units import parse_size

from .machine import link


@dataclass(frozen=True, slots=True)
class Case:
    """A stack, how it comes back at boot, and which of its disks are missing in the two boots that lack some."""

    stack: str
    disks: tuple[tuple[str, str], ...]  # role, size
    form: Literal["fstab", "systemd"] = "systemd"
    spare: int | None = None  # a disk that redundancy can spare; None: it has none
    needed: tuple[int, ...] = (0,)  # those without which nothing is left
    by_hand: str = ""  # options of a mount by hand where boot does not mount it without the spare disk
    study: str = ""  # whose best stack it is


def _disks(count: int, size: str = "512M", role: str = "disk") -> tuple[tuple[str, str], ...]:
    return ((role, size),) * count


_CACHED = (*_disks(2, role="hdd"), *_disks(1, "256M", "ssd"))

CASES = {
    # the best of the studies, without what runs on them
    "lxd": Case("disk | partition | btrfs(noatime, ssd)", _disks(1), "fstab", study="2016-lxd-backends"),
    "kvm": Case("4*disk | zfs(mirror=2)", _disks(4), spare=0, needed=(0, 1), study="2015-kvm-storage"),
    "guests": Case("disk | scheduler(none) | xfs", _disks(1), study="2017-host-guest-filesystems"),
    "proxmox": Case(
        "(2*hdd | md(raid1)) + ssd | lvmcache(writeback) | btrfs(noatime)",
        _CACHED,
        spare=0,
        needed=(0, 1),
        study="2019-proxmox-cache-modes",
    ),
    "docker": Case("disk | btrfs | docker(btrfs)", _disks(1), study="2016-docker-drivers"),
    # more
    "plain": Case("disk | ext4", _disks(1), "fstab"),
    "mirror": Case("2*disk | md(raid1) | xfs", _disks(2), spare=0, needed=(0, 1)),
    "mirror-fstab": Case("2*disk | md(raid1) | ext4", _disks(2), "fstab", spare=1, needed=(0, 1)),
    "parity": Case("3*disk | md(raid5) | ext4", _disks(3), spare=2, needed=(0, 1)),
    "thin": Case("disk | lvmthin | ext4", _disks(1)),
    "thin-mirror": Case("2*disk | md(raid1) | lvmthin | xfs", _disks(2), "fstab", spare=0, needed=(0, 1)),
    "lvm-mirror": Case("2*disk | lvm(raid1) | ext4", _disks(2), "fstab", spare=0, needed=(0, 1)),
    "btrfs-mirror": Case("2*disk | btrfs(raid1)", _disks(2), spare=0, needed=(0, 1), by_hand="degraded"),
    "btrfs-fstab": Case("2*disk | btrfs(raid1)", _disks(2), "fstab", spare=1, needed=(0, 1), by_hand="degraded"),
    "zfs-mirror": Case("2*disk | zfs(mirror=2)", _disks(2), spare=1, needed=(0, 1)),
    "vdo": Case('disk | vdo | xfs(mkfs="-K")', _disks(1, "6G")),
    "bcache": Case("hdd + ssd | bcache | ext4", (*_disks(1, role="hdd"), *_disks(1, role="ssd"))),
}


@dataclass(frozen=True, slots=True)
class Rebooted:
    """A case with the recipe that it makes."""

    name: str
    case: Case
    recipe: Recipe = field(repr=False)

    @property
    def disks(self) -> dict[str, int]:
        """Bytes by the name of the disk, in the order of the stack."""
        return {f"{self.name}-{number}": parse_size(size) for number, (_, size) in enumerate(self.case.disks)}


def made(name: str) -> Rebooted:
    case = CASES[name]
    (stack,) = parse_stacks(case.stack, catalogue())
    words = [f"{role}={link(f'{name}-{number}')}" for number, (role, _) in enumerate(case.disks)]
    sizes = {role: parse_size(size) for role, size in case.disks}
    recipe = plan.recipe(stack, drivers(), plan.mapped(words, sizes), name=name, accept_loss=True)
    return Rebooted(name, case, recipe)
