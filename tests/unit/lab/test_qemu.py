"""The command line of QEMU, the saved state's key, and which QEMU will do."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from strata.lab import models, qemu
from strata.lab.image import Image
from strata.lab.qemu import MachineSpec, Wires
from strata.lab.spec import LabSpec

LAB = Path("/lab, of ours")
IMAGE = Image(
    spec=LabSpec(),
    directory=LAB,
    root=LAB / "root.sqfs",
    modules=LAB / "modules.sqfs",
    kernel=LAB / "vmlinuz",
    kernel_version="6.12.1",
    boot=LAB / "boot",
    key_file=LAB / "key",
    host_key_file=LAB / "host_key",
    host_key="ssh-ed25519 AAAA",
    packages={},
    hash="abc",
)
REAL = MachineSpec(IMAGE, Path("/engine"))
VIRTUAL = replace(REAL, clock="virtual", cpus=1)
SIZES = (128 << 20, 256 << 20)
WIRES = Wires(Path("/w/initrd"), Path("/w/console"), ("-chardev", "socket,id=qmp,fd=3"), ssh_port=4022)
BLOCKED = replace(WIRES, ssh_port=None, mailbox=Path("/w/mailbox"), bells=(Path("/w/bell0"), Path("/w/bell1")))


def values(line: list[str], option: str) -> list[str]:
    return [value for name, value in pairwise(line) if name == option]


def test_the_real_clock_has_a_network_that_leads_nowhere_but_to_loopback() -> None:
    line = qemu.argv(REAL, WIRES, SIZES, incoming=False)
    assert values(line, "-netdev") == ["user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:4022-:22"]
    assert values(line, "-accel") == ["tcg,thread=multi"]
    assert "-icount" not in line
    assert "-incoming" not in line
    assert "-no-reboot" in line
    (kernel,) = values(line, "-append")
    assert "panic=-1" in kernel and "oops=panic" in kernel and kernel.endswith("strata.clock=real")


def test_the_virtual_clock_has_nothing_that_completes_in_real_time() -> None:
    line = qemu.argv(VIRTUAL, BLOCKED, SIZES, incoming=True)
    assert not [word for word in line if "virtio" in word or "netdev" in word]
    assert values(line, "-icount") == ["shift=0,align=off,sleep=off,rr=record,rrfile=/dev/null"]
    assert values(line, "-accel") == ["tcg,thread=single"]
    assert values(line, "-cpu") == ["max,-erms,-fsrm,-fsrs,-rdrand,-rdseed"]
    assert values(line, "-rtc") == ["base=2026-01-01,clock=vm"]
    assert values(line, "-incoming") == ["defer"]


@pytest.mark.parametrize(("cpus", "incoming"), [(2, True), (1, False)])
def test_what_cannot_be_recorded_is_not(cpus: int, incoming: bool) -> None:
    """QEMU 10.0 records no machine of several processors, and ends when one that it records is to be saved."""
    line = qemu.argv(replace(VIRTUAL, cpus=cpus), BLOCKED, SIZES, incoming)
    assert values(line, "-icount") == ["shift=0,align=off,sleep=off"]
    assert [value for value in values(line, "-device") if "debugcon" in value] == [
        "isa-debugcon,iobase=0x6f0,chardev=bell0",
        "isa-debugcon,iobase=0x6f1,chardev=bell1",
    ]
    (mailbox,) = [value for value in values(line, "-object") if "mailbox" in value]
    assert mailbox == f"memory-backend-file,id=mailbox,share=on,mem-path=/w/mailbox,size={128 << 20}"


def test_emulation_is_never_left_by_the_virtual_clock() -> None:
    line = qemu.argv(replace(VIRTUAL, accel="kvm"), BLOCKED, SIZES, incoming=False)
    assert "kvm" not in line
    assert values(qemu.argv(replace(REAL, accel="kvm"), WIRES, SIZES, incoming=False), "-accel") == ["kvm"]


def test_the_image_is_shared_and_read_only_and_a_comma_in_a_path_ends_nothing() -> None:
    line = qemu.argv(REAL, WIRES, SIZES, incoming=False)
    root, modules = values(line, "-object")
    assert root == ("memory-backend-file,id=root,share=on,mem-path=/lab,, of ours/root.sqfs,size=134217728,readonly=on")
    assert modules.endswith("size=268435456,readonly=on")
    assert values(line, "-m") == ["size=2048M,slots=4,maxmem=6144M"]


def test_the_key_is_of_all_that_the_machine_is_and_of_nothing_else() -> None:
    def key(spec: MachineSpec = REAL, said: str = "10.0", cpu: str = "A", initrd: bytes = b"i") -> str:
        return qemu.key(spec, said, cpu, initrd, SIZES)

    one = key()
    assert one == key(replace(REAL, engine=Path("/elsewhere")))  # its content is in the initramfs
    assert one == key(cpu="B")  # an emulated processor is the same everywhere
    moved = replace(IMAGE, directory=Path("/x"), root=Path("/x/root.sqfs"), modules=Path("/x/modules.sqfs"))
    assert one == key(replace(REAL, image=replace(moved, kernel=Path("/x/vmlinuz"))))
    others = [
        key(VIRTUAL),
        key(replace(VIRTUAL, mips=250)),
        key(replace(REAL, cpus=4)),
        key(replace(REAL, memory_bytes=1 << 30)),
        key(replace(REAL, image=replace(IMAGE, hash="abd"))),
        key(said="10.1"),
        key(initrd=b"j"),
        key(replace(REAL, accel="kvm")),
        key(replace(REAL, accel="kvm"), cpu="B"),
    ]
    assert len({one, *others}) == 10


@pytest.mark.parametrize(
    ("said", "emulated", "word"),
    [
        (None, True, "install the package qemu-system-x86"),
        (None, False, "install the package qemu-system-x86"),
        ("QEMU emulator version 7.2.11 (Debian 1:7.2+dfsg-7)", True, "bookworm-backports"),
        ("QEMU emulator version 7.2.11 (Debian 1:7.2+dfsg-7)", False, None),
        ("QEMU emulator version 9.2.0", True, "QEMU 9.2 is too old"),
        ("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)", True, None),
        ("QEMU emulator version 11.1.0", True, None),
    ],
)
def test_which_qemu_will_do(said: str | None, emulated: bool, word: str | None) -> None:
    reasons = qemu.reasons_against(said, emulated)
    assert [word in reason for reason in reasons if word] == ([True] if word else [])
    assert bool(reasons) == bool(word)


def test_more_memory_than_there_is_is_refused_with_both_figures() -> None:
    (reason,) = qemu.reasons_against_memory(REAL, (2 << 30) - 1)
    assert "2.0 GiB" in reason and "give it less" in reason
    assert qemu.reasons_against_memory(REAL, 2 << 30) == []


def test_older_qemus_write_a_state_through_a_program() -> None:
    assert qemu.state_uri(Path("/a b/state"), (10, 0), incoming=False) == "file:/a b/state"
    assert qemu.state_uri(Path("/a b/state"), (7, 2), incoming=False) == "exec:cat > '/a b/state'"
    assert qemu.state_uri(Path("/a b/state"), (7, 2), incoming=True) == "exec:cat < '/a b/state'"


@pytest.mark.parametrize(
    ("write_cache", "told", "no_flush"), [("volatile", "on", False), ("protected", "on", True), ("none", "off", False)]
)
def test_what_the_guest_is_told_of_a_write_cache(write_cache: str, told: str, no_flush: bool) -> None:
    (_, block), (_, device) = qemu.hot_plug("hdd0", Path("/d/hdd0.img"), write_cache, None)  # type: ignore[arg-type]
    assert device["write-cache"] == told
    assert block["cache"] == {"direct": False, "no-flush": no_flush}
    assert block["discard"] == "unmap" and block["file"]["discard"] == "unmap"
    assert device["serial"] == "hdd0"
    assert qemu.disk_path("hdd0") == "/dev/disk/by-id/virtio-hdd0"
    assert device["werror"] == "report"  # a full disk of ours must not stop the machine


def test_a_model_is_kept_by_limits() -> None:
    group, block, device = qemu.hot_plug("hdd0", Path("/d/hdd0.img"), "volatile", models.find("hdd-7200"))
    assert group[0] == "object-add"
    # One arm serves reads and writes.
    assert group[1]["limits"] == {"iops-total": 180, "bps-total": 175_000_000}
    assert block[1]["driver"] == "throttle" and block[1]["throttle-group"] == group[1]["id"]
    assert block[1]["file"]["driver"] == "raw"
    assert device[1]["drive"] == block[1]["node-name"]


def test_reads_and_writes_of_flash_are_limited_apart() -> None:
    group, *_ = qemu.hot_plug("ssd0", Path("/d/ssd0.img"), "volatile", models.find("ssd-sata"))
    assert group[1]["limits"] == {
        "iops-read": 98_000,
        "iops-write": 90_000,
        "bps-read": 540_000_000,
        "bps-write": 520_000_000,
    }


@pytest.mark.parametrize(("model", "takes"), [("hdd-7200", False), ("ssd-sata", True)])
def test_a_disk_that_turns_takes_no_discards(model: str, takes: bool) -> None:
    *_, device = qemu.hot_plug("a", Path("/d/a.img"), "volatile", models.find(model))
    assert device[1].get("discard", True) is takes


def test_a_serial_number_has_twenty_bytes_and_stays_unique() -> None:
    long = ["capacity-tier-of-nvme-1", "capacity-tier-of-nvme-2"]
    serials = [qemu.serial(name) for name in long]
    assert len(set(serials)) == 2
    assert all(len(serial.encode()) <= 20 for serial in serials)
    assert qemu.serial("a" * 20) == "a" * 20


def test_kvm_is_tried_without_a_kernel_by_a_boot_sector() -> None:
    assert len(qemu.BOOT_SECTOR) == 512 and qemu.BOOT_SECTOR.endswith(b"\x55\xaa")
    line = qemu.bare_probe(Path("/d/a,b"), "kvm")
    assert "-kernel" not in line and line[line.index("-accel") + 1] == "kvm"
    assert any("file.filename=/d/a,,b" in word for word in line)


@pytest.mark.parametrize(
    ("version", "seccomp", "restricted"), [((10, 0), True, True), ((10, 0), False, False), ((8, 2), True, False)]
)
def test_qemu_can_start_no_program_unless_it_saves_states_through_one(
    version: tuple[int, int], seccomp: bool, restricted: bool
) -> None:
    line = qemu.sandbox(version, seccomp)
    assert ("spawn=deny" in ",".join(line).split(",")) is restricted
    assert qemu.state_uri(Path("/s"), version, incoming=True).startswith("file:" if version >= (9, 0) else "exec:")
