"""A device that carries anything is refused, unless that very device is named in --wipe."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from strata.errors import Refused
from strata.run.safety import claims

from . import superblocks
from .machine import MIB, Device, Machine, output, signatures, untouched


def tool(*argv: str, stdin: str | None = None) -> Callable[[str, int], None]:
    def write(device: str, size_bytes: int) -> None:
        if shutil.which(argv[0]) is None:
            pytest.skip(f"{argv[0]} is not installed")
        output(*argv, device, stdin=stdin)

    return write


def backup_gpt(device: str, size_bytes: int) -> None:
    """A table whose start somebody overwrote: the copy at the end is what is left of it."""
    tool("sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", stdin="label: gpt\n")(device, size_bytes)
    output("dd", "if=/dev/zero", f"of={device}", "bs=4096", "count=16", "conv=fsync", "status=none")


SFDISK = ("sfdisk", "--quiet", "--no-reread", "--no-tell-kernel")

# what is written, MiB that it needs, what wipefs calls it, what the user is told
KINDS = {
    "ext4": (tool("mkfs.ext4", "-q"), 16, "ext4", "a signature of ext4"),
    "xfs": (tool("mkfs.xfs", "-q"), 320, "xfs", "a signature of xfs"),
    "btrfs": (tool("mkfs.btrfs", "-q"), 128, "btrfs", "a signature of btrfs"),
    "f2fs": (tool("mkfs.f2fs", "-q"), 64, "f2fs", "a signature of f2fs"),
    "swap": (tool("mkswap", "--quiet"), 16, "swap", "swap space"),
    "gpt": (tool(*SFDISK, stdin="label: gpt\n"), 16, "gpt", "a GPT partition table"),
    "dos": (tool(*SFDISK, stdin="label: dos\nsize=4M\n"), 16, "dos", "a DOS partition table"),
    "gpt-at-the-end": (backup_gpt, 16, "gpt", "a GPT partition table"),
    "lvm": (superblocks.lvm2, 16, "LVM2_member", "an LVM physical volume"),
    "md": (superblocks.md, 16, "linux_raid_member", "a member of an md array"),
    "zfs": (superblocks.zfs, 96, "zfs_member", "a member of a ZFS pool"),
    "bcache": (superblocks.bcache, 16, "bcache", "a bcache device"),
    "luks": (superblocks.luks, 16, "crypto_LUKS", "a LUKS volume"),
}  # fmt: skip


def carrying(machine: Machine, kind: str) -> Device:
    write, mib, known_as, _ = KINDS[kind]
    device = machine.device(mib)
    write(device.node, mib * MIB)
    assert known_as in signatures(device.node)  # else the refusal below would prove nothing
    return device


@pytest.mark.parametrize("kind", KINDS)
def test_a_device_that_carries_it_is_refused(machine: Machine, kind: str) -> None:
    device = carrying(machine, kind)
    with untouched(device):
        (reason,) = machine.reasons(device.name)
    assert KINDS[kind][3] in reason
    assert f"--wipe {device.name}" in reason


@pytest.mark.parametrize("kind", KINDS)
def test_named_in_wipe_it_is_claimed_and_wiped(machine: Machine, kind: str) -> None:
    device = carrying(machine, kind)
    with untouched(device):
        (disk,) = machine.claim(device.name, wipe=[device.name])
    claims.wipe(machine.host, disk)
    assert signatures(device.node) == []
    assert machine.claim(device.name) == [disk]


@pytest.mark.parametrize("kind", ["ext4", "lvm", "luks"])
def test_so_is_one_with_a_partition_that_carries_it(machine: Machine, kind: str) -> None:
    """The table is gone and the kernel still knows the partition: the whole device looks blank."""
    write, mib, known_as, told = KINDS[kind]
    device = machine.device(mib + 4)
    part = machine.forgotten_partition(device, mib)
    write(part, mib * MIB)
    assert signatures(device.node) == []
    assert signatures(part) == [known_as]
    with untouched(device):
        (reason,) = machine.reasons(device.name)
    assert told in reason


def test_a_partition_is_judged_by_itself(machine: Machine) -> None:
    device = machine.device(40)
    first, second = machine.partitions(device, "16M", "16M")
    output("mkfs.ext4", "-q", first)
    free, taken = machine.link(second), machine.link(first)
    with untouched(device):
        (disk,) = machine.claim(free)
        (reason,) = machine.reasons(taken)
    assert (disk.device, disk.size_bytes) == (second, 16 * MIB)
    assert "a signature of ext4" in reason


def test_wipe_excuses_only_the_device_that_it_names(machine: Machine) -> None:
    one, other = carrying(machine, "ext4"), carrying(machine, "swap")
    with untouched(one, other):
        (reason,) = machine.reasons(one.name, other.name, wipe=[one.name])
    assert other.name in reason
    assert "swap space" in reason


def test_wiping_reaches_the_device_and_its_partitions_and_nothing_else(machine: Machine) -> None:
    device, neighbour = machine.device(40), carrying(machine, "ext4")
    parts = machine.partitions(device, "16M", "16M")
    output("mkfs.ext4", "-q", parts[0])
    superblocks.lvm2(parts[1], 16 * MIB)
    (disk,) = machine.claim(device.name, wipe=[device.name])
    with untouched(neighbour):
        claims.wipe(machine.host, disk)
    assert signatures(device.node) == []
    assert not any(Path(part).exists() for part in parts)
    (disk,) = machine.claim(device.name)
    assert disk.device == device.node
    # The same partitions again: what was in them is gone too.
    for part in machine.partitions(device, "16M", "16M"):
        assert signatures(part) == []


def test_wiping_a_device_that_was_taken_meanwhile_is_refused(machine: Machine) -> None:
    device = carrying(machine, "ext4")
    (disk,) = machine.claim(device.name, wipe=[device.name])
    machine.mount(device.node)
    with untouched(device), pytest.raises(Refused, match="mounted"):
        claims.wipe(machine.host, disk)


def test_wiping_a_device_whose_partition_was_taken_meanwhile_is_refused(machine: Machine) -> None:
    device = machine.device(40)
    (part,) = machine.partitions(device, "16M")
    output("mkfs.ext4", "-q", part)
    (disk,) = machine.claim(device.name, wipe=[device.name])
    machine.mount(part)
    with untouched(device), pytest.raises(Refused, match="mounted"):
        claims.wipe(machine.host, disk)
