"""A device is claimed by a name that stays with it, and used under the node that was looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import BadInput
from strata.model import Disk, Testbed
from strata.run import session
from strata.run.safety import claims

from .machine import MIB, Machine, output, untouched


def test_a_kernel_name_is_refused_and_the_backing_file_suggested(machine: Machine) -> None:
    device = machine.device()
    with untouched(device):
        (reason,) = machine.reasons(device.node)
    assert reason == f"{device.node} may mean another disk tomorrow; name it by its stable id: {device.file}."


def test_a_kernel_name_is_refused_and_its_link_suggested(machine: Machine) -> None:
    device = machine.device()
    link = machine.link(device.node)
    with untouched(device):
        (reason,) = machine.reasons(device.node)
    assert reason.endswith(f"name it by its stable id: {link}.")


@pytest.mark.parametrize(
    "name",
    [
        "/dev/disk/by-path/pci-0000:00:1f.2-ata-1",  # whatever is plugged in there
        "/dev/disk/by-uuid/5f0c2b9e-1d5f-4a43-9c0e-6a1f5f0c2b9e",  # whatever says so; gone once it is overwritten
        "/dev/disk/by-label/data",
        "/dev/disk/by-partuuid/5f0c2b9e-01",
        "/dev/mapper/data",
        "/dev/disk/by-id",
        "/dev/disk/by-id/",
        "/dev/disk/by-id/.",
        "/dev/disk/by-id/..",
    ],
)
def test_other_names_below_dev_are_refused(machine: Machine, name: str) -> None:
    (reason,) = machine.reasons(name)
    assert f"{name} may mean another disk tomorrow" in reason


def test_a_way_out_of_by_id_is_refused(machine: Machine) -> None:
    device = machine.device()
    machine.link(device.node)
    name = f"/dev/disk/by-id/../../{Path(device.node).name}"
    assert Path(name).samefile(device.node)
    with untouched(device):
        (reason,) = machine.reasons(name)
    assert "may mean another disk tomorrow" in reason


def test_a_link_that_is_not_there_is_refused(machine: Machine) -> None:
    (reason,) = machine.reasons("/dev/disk/by-id/strata-test-nothing")
    assert "/dev/disk/by-id/strata-test-nothing cannot be" in reason
    assert "No such file" in reason


def test_a_link_to_a_file_is_refused(machine: Machine) -> None:
    file = machine.image()
    (reason,) = machine.reasons(machine.link(file))
    assert "is not a block device" in reason
    assert file.read_bytes() == bytes(16 * MIB)


@pytest.mark.parametrize("name", ["relative.img", "../x.img", "", "loop0"])
def test_a_relative_name_is_refused(machine: Machine, name: str) -> None:
    (reason,) = machine.reasons(name)
    assert "is no stable id" in reason


def test_a_file_that_is_not_attached_is_refused(machine: Machine) -> None:
    file = machine.image()
    (reason,) = machine.reasons(file)
    assert "nor the backing file of one loop device (0 found)" in reason
    assert file.read_bytes() == bytes(16 * MIB)


def test_so_are_a_file_that_is_not_there_and_a_directory(machine: Machine) -> None:
    for path in (machine.directory / "nothing.img", machine.directory):
        (reason,) = machine.reasons(path)
        assert "(0 found)" in reason


def test_a_file_on_two_loop_devices_is_refused(machine: Machine) -> None:
    device = machine.device()
    machine.attach(device.file)
    with untouched(device):
        (reason,) = machine.reasons(device.name)
    assert "(2 found)" in reason


def test_a_file_that_was_removed_is_no_name(machine: Machine) -> None:
    device = machine.device()
    device.file.unlink()
    (reason,) = machine.reasons(device.name)
    assert "(0 found)" in reason


def test_a_new_file_of_that_name_is_not_the_old_device(machine: Machine) -> None:
    device = machine.device()
    device.file.unlink()
    with device.file.open("wb") as file:
        file.truncate(MIB)
    (reason,) = machine.reasons(device.name)
    assert "(0 found)" in reason


@pytest.mark.parametrize("name", ["serial:no-such-serial", "serial:", "wwn:0xdeadbeef", "wwn:"])
def test_a_serial_that_no_device_has_is_refused(machine: Machine, name: str) -> None:
    (reason,) = machine.reasons(name)
    assert "0 devices have the" in reason


def test_a_device_without_size_is_refused(machine: Machine) -> None:
    device = machine.device(0)
    (reason,) = machine.reasons(device.name)
    assert f"{device.name} has no size" in reason


def test_a_device_given_twice_is_refused(machine: Machine) -> None:
    device = machine.device()
    link = machine.link(device.node)
    for names in ((device.name, device.name), (device.name, link)):
        with untouched(device):
            (reason,) = machine.reasons(*names)
        assert "lie on the same device; give each device once" in reason


@pytest.mark.parametrize("order", [1, -1])
def test_a_disk_and_its_partition_are_refused(machine: Machine, order: int) -> None:
    device = machine.device(40)
    (part,) = machine.partitions(device, "16M")
    with untouched(device):
        (reason,) = machine.reasons(*[device.name, machine.link(part)][::order], wipe=[device.name])
    assert "lie on the same device" in reason


def test_two_partitions_of_a_disk_are_two_devices(machine: Machine) -> None:
    device = machine.device(40)
    parts = machine.partitions(device, "16M", "16M")
    links = [machine.link(part) for part in parts]
    assert [disk.device for disk in machine.claim(*links)] == parts


def test_a_link_that_is_turned_elsewhere_after_the_claim_does_not_turn_the_claim(machine: Machine) -> None:
    claimed, other = machine.device(16), machine.device(16)
    link = machine.link(claimed.node)
    (disk,) = machine.claim(link)
    link.unlink()
    link.symlink_to(other.node)
    assert disk.device == claimed.node


def test_a_link_that_leads_to_a_device_of_another_size_is_noticed(machine: Machine) -> None:
    claimed, other = machine.device(16), machine.device(20)
    link = machine.link(claimed.node)
    (disk,) = machine.claim(link)
    planned = Disk("disk", disk.size_bytes, str(link))
    assert claims.claim(machine.host, [planned], ()) == [disk]
    link.unlink()
    link.symlink_to(other.node)
    with untouched(claimed, other), pytest.raises(claims.Refused, match="holds 20971520 bytes and held 16777216"):
        claims.claim(machine.host, [planned], ())


def test_a_device_that_grew_is_noticed(machine: Machine) -> None:
    device = machine.device(16)
    planned = Disk("disk", 16 * MIB, device.name)
    with device.file.open("r+b") as file:
        file.truncate(32 * MIB)
    output("losetup", "--set-capacity", device.node)
    with pytest.raises(claims.Refused, match="holds 33554432 bytes and held 16777216"):
        claims.claim(machine.host, [planned], ())


def test_files_of_ours_pass_untouched(machine: Machine) -> None:
    device = machine.device()
    ours = Disk("ssd", 4 * MIB)
    given = [ours, Disk("disk", 0, device.name)]
    assert claims.claim(machine.host, given, ()) == [ours, Disk("disk", 16 * MIB, device.node)]


def test_wipe_of_a_device_that_is_not_given_is_an_error(machine: Machine) -> None:
    device, other = machine.device(), machine.device()
    with pytest.raises(BadInput, match=f"--wipe {other.name} names a device that no --device gives"):
        session.devices([f"disk={device.name}"], [other.name], Testbed())
