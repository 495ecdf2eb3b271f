"""Devices that only the lab's kernel has, claimed as a user's: thin volumes, zvols, and one that does not answer."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from strata.errors import Refused
from strata.model import Disk
from strata.run.safety import claims

from .kept_machine import KeptMachine, kept_machine
from .lab_runs import built

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

GIB = 1 << 30
BY_ID = "/dev/disk/by-id"

# The links of zvols lie elsewhere; these are of the kind that udev makes of other disks.
MAKE = r"""
set -e
vgcreate -qq users /dev/disk/by-id/virtio-lvm
lvcreate -qq --monitor n --type thin-pool -L 64M -n pool users
for name in thin_empty thin_used; do lvcreate -qq --monitor n --type thin -V 8M --thinpool pool -n $name users; done
modprobe zfs && zpool create -f -o ashift=12 users /dev/disk/by-id/virtio-zfs
for name in zvol-empty zvol-used; do zfs create -V 8M users/$name; done
dmsetup create users-silent --table "0 16384 linear /dev/disk/by-id/virtio-silent 0"
udevadm settle
for name in zvol-empty zvol-used; do ln -s "$(readlink -f /dev/zvol/users/$name)" "$1/$name"; done
for name in dm-name-users-thin_used zvol-used; do
  printf 'Dear reader, nobody has a copy.\n' | dd of="$1/$name" bs=4096 seek=1000 oflag=sync conv=notrunc status=none
  [ -z "$(wipefs --noheadings "$1/$name")" ] # else the refusal would prove nothing
done
udevadm settle
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptMachine]:
    disks = dict.fromkeys(("lvm", "zfs", "silent"), GIB // 2)
    with kept_machine(built("zfs"), tmp_path_factory.mktemp("machine"), disks) as made:
        made.run(MAKE, BY_ID)
        yield made


def claim(machine: KeptMachine, name: str) -> Disk:
    (disk,) = claims.claim(machine.host, [Disk("disk", 0, f"{BY_ID}/{name}")], wipe=())
    return disk


def digest(machine: KeptMachine, name: str) -> str:
    return machine.run('sha256sum <"$1"', f"{BY_ID}/{name}").stdout


def taken_by_thin_volume(machine: KeptMachine) -> float:
    """Per cent of it that its pool has given out."""
    return float(machine.run("lvs --noheadings -o data_percent users/thin_empty").stdout)


@pytest.mark.parametrize("name", ["dm-name-users-thin_empty", "zvol-empty"])
def test_a_fresh_volume_is_empty(machine: KeptMachine, name: str) -> None:
    before = digest(machine, name)
    assert claim(machine, name).size_bytes == 8 << 20
    assert digest(machine, name) == before
    assert taken_by_thin_volume(machine) == 0


@pytest.mark.parametrize("name", ["dm-name-users-thin_used", "zvol-used"])
def test_a_volume_that_holds_data_without_a_signature_is_refused(machine: KeptMachine, name: str) -> None:
    before = digest(machine, name)
    with pytest.raises(Refused, match=r"byte 4096000, .*'Dear reader, nob'") as refused:
        claim(machine, name)
    assert len(refused.value.reasons) == 1
    assert digest(machine, name) == before


def test_a_suspended_device_is_refused_in_bounded_time(machine: KeptMachine) -> None:
    name = "dm-name-users-silent"
    machine.run("dmsetup suspend users-silent")
    began = time.monotonic()
    try:
        with pytest.raises(Refused, match="does not answer: reading it did not end in 4 s"):
            claim(machine, name)
        took_s = time.monotonic() - began
    finally:
        machine.run("dmsetup resume users-silent")
    assert took_s < 30  # an emulated machine takes some seconds for the other questions
    claim(machine, name)  # what waited for it has ended
