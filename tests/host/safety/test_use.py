"""A device that anybody uses is refused, whatever --wipe says."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from strata.model import Disk

from .machine import MIB, Device, Machine, output, untouched

# Its one page; the kernel writes the others when memory is short.
SWAP_HEADER = 4096

# A device in a state, and what the user is told of it.
State = tuple[Device, str]


def ext4(node: str) -> None:
    """Whose tables are written at once, so that nothing writes them while we compare bytes."""
    output("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", node)


def mounted(machine: Machine) -> State:
    device = machine.device()
    ext4(device.node)
    point = machine.mount(device.node)
    return device, f"{device.name} is mounted at {point}; unmount it"


def mounted_read_only(machine: Machine) -> State:
    device = machine.device()
    ext4(device.node)
    point = machine.mount(device.node, "--options", "ro,noload")
    return device, f"{device.name} is mounted at {point}; unmount it"


def mounted_partition(machine: Machine) -> State:
    device = machine.device(40)
    _, second = machine.partitions(device, "16M", "16M")
    ext4(second)
    point = machine.mount(second)
    return device, f"{second} on {device.name} is mounted at {point}; unmount it"


def mounted_out_of_sight(machine: Machine) -> State:
    """In a mount namespace of its own, as in a container: no mount table of ours shows it."""
    device = machine.device()
    ext4(device.node)
    point = machine.path(".mnt")
    point.mkdir()
    script = 'mount -- "$1" "$2" && sync --file-system "$2" && echo ready && exec sleep 300'
    machine.process("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", device.node, str(point))
    assert str(point) not in Path("/proc/self/mountinfo").read_text()
    return device, f"{device.name} cannot be had alone (Device or resource busy), so something uses it"


def mounted_partition_out_of_sight(machine: Machine) -> State:
    device = machine.device(40)
    (part,) = machine.partitions(device, "16M")
    ext4(part)
    point = machine.path(".mnt")
    point.mkdir()
    script = 'mount -- "$1" "$2" && sync --file-system "$2" && echo ready && exec sleep 300'
    machine.process("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", part, str(point))
    return device, f"{part} on {device.name} cannot be had alone (Device or resource busy), so something uses it"


def further_member_of_a_mounted_btrfs(machine: Machine) -> State:
    first, second = machine.device(128), machine.device(128)
    output("mkfs.btrfs", "-q", "-d", "raid1", "-m", "raid1", first.node, second.node)
    output("btrfs", "device", "scan", first.node, second.node)
    machine.mount(first.node, "--options", f"device={second.node}")
    sources = [line.split(" - ")[1].split()[1] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    assert second.node not in sources
    return second, f"{second.name} cannot be had alone (Device or resource busy), so something uses it"


def swap(machine: Machine) -> State:
    device = machine.device()
    output("mkswap", "--quiet", device.node)
    _swap_on(machine, device.node)
    return replace(device, ours=SWAP_HEADER), f"{device.name} is swap; turn it off with swapoff"


def swap_partition(machine: Machine) -> State:
    device = machine.device(40)
    (part,) = machine.partitions(device, "16M")
    output("mkswap", "--quiet", part)
    _swap_on(machine, part)
    return replace(device, ours=MIB + SWAP_HEADER), f"{part} on {device.name} is swap; turn it off with swapoff"


def _swap_on(machine: Machine, node: str) -> None:
    done = subprocess.run(("swapon", "--priority", "0", node), capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this machine lets nobody turn on swap: {done.stderr.strip()}")
    machine.later(lambda: output("swapoff", node))


def held(machine: Machine) -> State:
    device = machine.device()
    name = f"strata-test-{device.node.removeprefix('/dev/')}"
    table = f"0 {16 * MIB // 512} linear {device.node} 0"
    try:
        done = subprocess.run(
            ("dmsetup", "create", name, "--table", table), capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("dmsetup is not installed, and this machine has nothing else that holds a device")
    if done.returncode:
        pytest.skip(f"this kernel has no device mapper to hold a device: {done.stderr.strip().splitlines()[0]}")
    machine.later(lambda: output("dmsetup", "remove", name))
    return device, f"{device.name} is held by /dev/mapper/{name}; take that apart"


def opened(machine: Machine) -> State:
    device = machine.device()
    process = machine.opened(device.node, "r+b")
    return device, f"(process {process.pid})"


def opened_for_reading(machine: Machine) -> State:
    device = machine.device()
    process = machine.opened(device.node, "rb")
    return device, f"(process {process.pid})"


def opened_partition(machine: Machine) -> State:
    device = machine.device(40)
    (part,) = machine.partitions(device, "16M")
    process = machine.opened(part, "r+b")
    assert process.pid
    return device, f"{part} on {device.name} is open in {sys.executable}"


def opened_backing_file(machine: Machine) -> State:
    """As a virtual machine does whose disk image somebody also attached."""
    device = machine.device()
    process = machine.opened(device.file, "r+b")
    return device, f"the backing file of {device.name} is open in process {process.pid}; end that first"


def mapped(machine: Machine) -> State:
    """By a process that closed it."""
    device = machine.device()
    process = machine.mapped(device.node)
    assert not any(str(Path(f"/proc/{process.pid}/fd/{n}").readlink()) == device.node for n in (0, 1, 2))
    return device, f"(process {process.pid})"


def mapped_partition(machine: Machine) -> State:
    device = machine.device(40)
    (part,) = machine.partitions(device, "16M")
    process = machine.mapped(part)
    return device, f"{part} on {device.name} is open in {sys.executable} -c" if process.pid else ""


def mapped_by_another_node(machine: Machine) -> State:
    """A node of its own, as in a container: the list of mappings names that one."""
    device, node = machine.device(), machine.path(".node")
    os.mknod(node, stat.S_IFBLK | 0o600, Path(device.node).stat().st_rdev)
    process = machine.mapped(node)
    return device, f"(process {process.pid})"


def mapped_backing_file(machine: Machine) -> State:
    device = machine.device()
    process = machine.mapped(device.file)
    return device, f"the backing file of {device.name} is open in process {process.pid}; end that first"


def opened_by_a_thread(machine: Machine) -> State:
    device = machine.device()
    process = machine.by_a_thread(device.node, "apart")
    return device, f"(process {process.pid})"


def opened_by_what_is_left_of_a_process(machine: Machine) -> State:
    device = machine.device()
    process = machine.by_a_thread(device.node, "ended")
    return device, f"(process {process.pid})"


def mapped_by_what_is_left_of_a_process(machine: Machine) -> State:
    device = machine.device()
    process = machine.by_a_thread(device.node, "mapped")
    return device, f"(process {process.pid})"


def backing_file_opened_by_a_thread(machine: Machine) -> State:
    device = machine.device()
    process = machine.by_a_thread(device.file, "apart")
    return device, f"the backing file of {device.name} is open in process {process.pid}; end that first"


def backing_file_mapped_by_what_is_left_of_a_process(machine: Machine) -> State:
    device = machine.device()
    machine.by_a_thread(device.file, "mapped")
    return device, f"the backing file of {device.name} is open in process "


def backing_file_that_is_swap(machine: Machine) -> State:
    device = machine.device()
    device.file.write_bytes(bytes(device.file.stat().st_size))  # swap has no holes
    output("mkswap", "--quiet", str(device.file))
    _swap_on(machine, str(device.file))
    return (
        replace(device, ours=SWAP_HEADER),
        f"the backing file of {device.name} is swap; turn it off with swapoff, if it may be overwritten",
    )


def under_a_loop_device(machine: Machine) -> State:
    """The kernel opens it without claiming it: nothing but the list of loop devices shows it."""
    device = machine.device()
    upper = machine.attach(device.node)
    ext4(upper)
    machine.mount(upper)
    return device, f"{device.name} carries the loop device {upper}; detach that first"


def partition_under_a_loop_device(machine: Machine) -> State:
    device = machine.device(40)
    (part,) = machine.partitions(device, "16M")
    upper = machine.attach(part)
    return device, f"{part} on {device.name} carries the loop device {upper}; detach that first"


def read_only(machine: Machine) -> State:
    device = machine.device(16, "--read-only")
    return device, f"{device.name} (16.0 MiB) is read-only; make it writable"


STATES: list[Callable[[Machine], State]] = [
    mounted,
    mounted_read_only,
    mounted_partition,
    mounted_out_of_sight,
    mounted_partition_out_of_sight,
    further_member_of_a_mounted_btrfs,
    swap,
    swap_partition,
    held,
    opened,
    opened_for_reading,
    opened_partition,
    opened_backing_file,
    mapped,
    mapped_partition,
    mapped_by_another_node,
    mapped_backing_file,
    opened_by_a_thread,
    opened_by_what_is_left_of_a_process,
    mapped_by_what_is_left_of_a_process,
    backing_file_opened_by_a_thread,
    backing_file_mapped_by_what_is_left_of_a_process,
    backing_file_that_is_swap,
    under_a_loop_device,
    partition_under_a_loop_device,
    read_only,
]  # fmt: skip


@pytest.mark.parametrize("wiped", [False, True], ids=["", "wipe"])
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_device_in_use_is_refused(machine: Machine, state: Callable[[Machine], State], wiped: bool) -> None:
    device, told = state(machine)
    with untouched(device):
        reasons = machine.reasons(device.name, wipe=[device.name] if wiped else [])
    about_use = [reason for reason in reasons if "add --wipe" not in reason]
    assert len(about_use) == 1, reasons
    assert told in about_use[0]
    assert device.name in about_use[0]
    if wiped:
        assert len(reasons) == 1


def test_a_device_in_no_use_is_claimed_as_it_is(machine: Machine) -> None:
    """Without this every refusal above could be a refusal of everything."""
    device = machine.device(20)
    with untouched(device):
        assert machine.claim(device.name) == [Disk("disk", 20 * MIB, device.node)]


@pytest.mark.parametrize("state", [mounted, opened, swap, under_a_loop_device], ids=lambda state: state.__name__)
def test_when_the_use_has_ended_it_is_claimed(machine: Machine, state: Callable[[Machine], State]) -> None:
    device, _ = state(machine)
    machine.reasons(device.name, wipe=[device.name])
    machine.take_down_since(device)
    (disk,) = machine.claim(device.name, wipe=[device.name])
    assert disk.device == device.node


def test_a_partition_of_an_opened_disk_is_refused(machine: Machine) -> None:
    device = machine.device(40)
    (part,) = machine.partitions(device, "16M")
    link = machine.link(part)
    assert [disk.device for disk in machine.claim(link)] == [part]
    process = machine.opened(device.node, "r+b")
    with untouched(device):
        (reason,) = machine.reasons(link)
    assert f"the disk {device.node} of {link} is open in" in reason
    assert f"(process {process.pid})" in reason


def test_a_partition_beside_a_mounted_one_is_free(machine: Machine) -> None:
    device = machine.device(40)
    first, second = machine.partitions(device, "16M", "16M")
    ext4(first)
    machine.mount(first)
    assert [disk.device for disk in machine.claim(machine.link(second))] == [second]


def test_a_partition_of_a_disk_under_a_loop_device_is_refused(machine: Machine) -> None:
    device = machine.device(40)
    (part,) = machine.partitions(device, "16M")
    link, upper = machine.link(part), machine.attach(device.node)
    with untouched(device):
        (reason,) = machine.reasons(link)
    assert f"the disk {device.node} of {link} carries the loop device {upper}" in reason


def test_a_loop_device_over_a_device_is_refused(machine: Machine) -> None:
    """What is below it may be mounted: claiming the upper one shows nothing of that."""
    device = machine.device()
    ext4(device.node)
    link = machine.link(machine.attach(device.node))
    machine.mount(device.node)
    with untouched(device):
        (reason,) = machine.reasons(link, wipe=[link])
    assert f"{link} is a loop device over {device.node}; claim that device itself." in reason


def test_a_loop_device_that_shares_its_file_is_refused(machine: Machine) -> None:
    device = machine.device()
    ext4(device.node)
    link, twin = machine.link(device.node), machine.attach(device.file)
    machine.mount(twin)
    with untouched(device):
        (reason,) = machine.reasons(link, wipe=[link])
    assert f"{link} shares its backing file with {twin}" in reason


def test_so_it_is_under_another_name_of_the_file(machine: Machine) -> None:
    device = machine.device()
    other = machine.path(".img")
    other.hardlink_to(device.file)
    link, twin = machine.link(device.node), machine.attach(other)
    (reason,) = machine.reasons(link)
    assert f"{link} shares its backing file with {twin}" in reason


def test_the_disk_of_the_running_system_is_refused(machine: Machine) -> None:
    """And so is every disk below the mounts of this machine, and the one that carries the run itself."""
    numbers = {line.split()[2] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    nodes = [path for number in numbers if (path := Path(f"/dev/block/{number}").resolve()).is_block_device()] + [
        path
        for number in numbers
        if (path := Path("/dev") / Path(f"/sys/dev/block/{number}").resolve().name).is_block_device()
    ]
    if not nodes:
        pytest.skip("no block device is mounted here: the system runs from something else")
    for node in sorted(set(nodes)):
        link = machine.link(node)
        reasons = machine.reasons(link, wipe=[link])
        assert any("is mounted at" in reason or "cannot be had alone" in reason for reason in reasons)


def test_every_reason_is_told_at_once(machine: Machine) -> None:
    device, other = machine.device(40), machine.device()
    first, second = machine.partitions(device, "16M", "16M")
    ext4(first)
    machine.mount(first)
    machine.opened(second, "rb")
    output("mkswap", "--quiet", other.node)
    with untouched(device, other):
        reasons = machine.reasons(device.name, other.name, other.node)
    for told in (
        "is mounted at",
        "is open in",
        "a GPT partition table",
        "swap space",
        "may mean another disk tomorrow",
    ):
        assert sum(told in reason for reason in reasons) == 1, told
    assert len(reasons) == 5
