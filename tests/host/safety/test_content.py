"""A device that holds data is refused although no signature explains them; one that holds none is not."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from strata.errors import Refused
from strata.run.safety import claims, device_use

from .contents import HELD, MIB, NOISE, SIGNED, at
from .machine import Device, Machine, output, signatures, untouched

BLKIO = Path("/sys/fs/cgroup/blkio")


@pytest.mark.parametrize("kind", HELD)
def test_a_device_that_holds_it_is_refused(machine: Machine, kind: str) -> None:
    mib, write = HELD[kind]
    file = machine.image(mib)
    write(file)
    device = Device(file, machine.attach(file))
    assert bool(signatures(device.node)) is (kind in SIGNED)  # else the refusal below would prove nothing
    with untouched(device):
        (reason,) = machine.reasons(device.name)
    if kind not in SIGNED:
        assert "holds data that no known signature explains: bytes other than zero at byte " in reason
    assert f"add --wipe {device.name}." in reason


@pytest.mark.parametrize("kind", ["plain-dm-crypt", "text", "a-partition-at-a-third"])
def test_named_in_wipe_it_is_claimed(machine: Machine, kind: str) -> None:
    mib, write = HELD[kind]
    file = machine.image(mib)
    write(file)
    device = Device(file, machine.attach(file))
    with untouched(device):
        (disk,) = machine.claim(device.name, wipe=[device.name])
    assert disk.device == device.node


def sparse(machine: Machine) -> Device:
    return machine.device(300)


def tiny(machine: Machine) -> Device:
    return machine.device(0.0625)


def two_tebibytes(machine: Machine) -> Device:
    return machine.device(2 * MIB)


def odd_number_of_sectors(machine: Machine) -> Device:
    file = machine.image(100)
    os.truncate(file, 100 * MIB + 512)
    return Device(file, machine.attach(file))


def sectors_of_4_kib(machine: Machine) -> Device:
    return machine.device(100, "--sector-size", "4096")


def written_with_zeros(machine: Machine) -> Device:
    device = machine.device(32)
    output("dd", "if=/dev/zero", f"of={device.node}", "bs=1M", "count=32", "conv=fsync", "status=none")
    return device


def allocated(machine: Machine) -> Device:
    file = machine.image(80)
    output("fallocate", "--length", "80MiB", str(file))
    return Device(file, machine.attach(file))


def discarded(machine: Machine) -> Device:
    device = machine.device(80)
    output("mkfs.ext4", "-q", device.node)
    output("blkdiscard", "--force", device.node)
    return device


def zeroed_after_use(machine: Machine) -> Device:
    device = machine.device(16)
    output("mkfs.ext4", "-q", device.node)
    output("dd", "if=/dev/zero", f"of={device.node}", "bs=1M", "count=16", "conv=fsync", "status=none")
    return device


def erased_to_ones(machine: Machine) -> Device:
    """Flash that was erased may read so."""
    file = machine.image(80)
    at((0, b"\xff" * (80 * MIB)))(file)
    return Device(file, machine.attach(file))


def with_direct_io(machine: Machine) -> Device:
    return machine.device(100, "--direct-io=on")


def blanked(machine: Machine) -> Device:
    """As a run leaves it."""
    file = machine.image(300)
    at(*((number * 8 * MIB, NOISE) for number in range(37)))(file)
    device = Device(file, machine.attach(file))
    identity = str(device_use.read_json(machine.host, machine.host.engine, "device", device.node)["identity"])
    output(machine.host.engine, "blank", "--identity", identity, device.node)
    return device


EMPTY: list[Callable[[Machine], Device]] = [
    sparse,
    tiny,
    two_tebibytes,
    odd_number_of_sectors,
    sectors_of_4_kib,
    written_with_zeros,
    allocated,
    discarded,
    zeroed_after_use,
    erased_to_ones,
    with_direct_io,
    blanked,
]  # fmt: skip


@pytest.mark.parametrize("make", EMPTY, ids=lambda make: make.__name__)
def test_an_empty_device_is_claimed(machine: Machine, make: Callable[[Machine], Device]) -> None:
    device = make(machine)
    with untouched(device):
        (disk,) = machine.claim(device.name)
    assert disk.device == device.node


def test_what_is_read_is_bounded(machine: Machine) -> None:
    device = machine.device(2 * MIB)
    state = device_use.read_json(machine.host, machine.host.engine, "device", "--content", device.node)
    assert state["content"] == {
        "empty": True,
        "found": [],
        "unread": None,
        "bytes_read": pytest.approx(33 * MIB, abs=7 * MIB),
    }


@contextmanager
def slowed_down(device: Device, bytes_per_s: int) -> Iterator[Path]:
    """The control group whose processes read it no faster."""
    if not (BLKIO / "blkio.throttle.read_bps_device").exists():
        pytest.skip("nothing to slow a device down with: no blkio.throttle of cgroup v1 at /sys/fs/cgroup/blkio")
    group = BLKIO / f"strata-test-{os.getpid()}"
    group.mkdir()
    number = Path(f"/sys/block/{Path(device.node).name}/dev").read_text().strip()
    limit = group / "blkio.throttle.read_bps_device"
    try:
        limit.write_text(f"{number} {bytes_per_s}")
        yield group
    finally:
        limit.write_text(f"{number} 0")
        while (group / "cgroup.procs").read_text():  # what was waiting for its read ends now
            time.sleep(0.02)
        group.rmdir()


def test_of_a_very_slow_device_little_is_read_and_it_is_not_called_empty(machine: Machine) -> None:
    device = machine.device(1024)
    with slowed_down(device, MIB // 2) as group:
        join = ("sh", "-c", 'echo $$ >"$1/cgroup.procs" && shift && exec timeout 30 "$@"', "sh", str(group))
        # All that it reads of a device that answers would take more than a minute.
        state = json.loads(output(*join, machine.host.engine, "device", "--content", device.node))
    content = state["content"]
    assert content["empty"] is False and content["found"] == []
    assert "too slow" in content["unread"]
    assert content["bytes_read"] < 8 * MIB


@pytest.mark.parametrize("ours", [False, True])
def test_a_device_that_does_not_answer_is_refused_in_bounded_time(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, ours: bool
) -> None:
    """Its first read never ends, and no signal ends who waits for it. `ours`: only signatures are asked for."""
    for name in ("_CONTENT_S", "_SIGNATURES_S"):
        monkeypatch.setattr(device_use, name, 1)
    device = machine.device(1024)
    (disk,) = machine.claim(device.name)
    given = replace(disk, device=device.name, identity=disk.identity if ours else None)
    (line,) = (line for line in Path("/proc/self/cgroup").read_text().splitlines() if ":blkio:" in line)
    before = BLKIO / line.split(":", 2)[2].removeprefix("/")
    with slowed_down(device, 1) as group:
        (group / "cgroup.procs").write_text(str(os.getpid()))
        began = time.monotonic()
        try:
            with pytest.raises(Refused, match="does not answer: reading it did not end in 1 s"):
                claims.claim(machine.host, [given], wipe=())
        finally:
            (before / "cgroup.procs").write_text(str(os.getpid()))
        assert time.monotonic() - began < 10


def test_what_was_written_behind_the_page_cache_is_found(machine: Machine) -> None:
    device = machine.device(16)
    assert not any(Path(device.node).read_bytes())  # now in the cache of the device
    at((MIB, b"written to the file"))(device.file)
    (reason,) = machine.reasons(device.name)
    assert "at byte 1048576, 1.0 MiB from its start (77 72 69 74" in reason
    assert "'written to the f'" in reason
