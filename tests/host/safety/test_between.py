"""What changes between the look at a device and its use, and runs that want the same device."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from strata.errors import Refused
from strata.model import Disk
from strata.run.safety import claims

from .contents import MIB, TEXT, at
from .machine import STRATA, Device, Machine, output, strata, untouched

# `strata`, which calls the Python function `before` with each command before it runs it; argv[1] has its source.
HOOKED = """\
import sys
from strata.hosts.local import LocalHost

original = LocalHost.run
exec(sys.argv.pop(1))

def run(self, command, *, check=True):
    before(" ".join(command.argv))
    return original(self, command, check=check)

LocalHost.run = run
from strata.cli import main
main()
"""

# {0} what a command begins with, {1} the link, {2} where it leads from then on
SWAP = """\
import os
def before(line):
    if line.replace({3!r}, "strata-engine").startswith({0!r}) and os.readlink({1!r}) != {2!r}:
        os.unlink({1!r}); os.symlink({2!r}, {1!r})
"""

PAUSE = """\
import time
def before(line):
    if line.startswith("mkfs"):
        open("ready", "w").close()
        time.sleep(300)
"""


def hooked(hook: str, *argv: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-c", HOOKED, hook, *argv), cwd=cwd, capture_output=True, text=True, timeout=110, check=False
    )


def precious(machine: Machine) -> Device:
    """Somebody's data, without a signature."""
    file = machine.image(64)
    at((0, TEXT), (32 * MIB, TEXT))(file)
    return Device(file, machine.attach(file))


@pytest.mark.parametrize(
    "moment",
    [
        "mkfs.ext4",
        pytest.param("strata-engine hold", marks=pytest.mark.slow),
        pytest.param("strata-engine blank", marks=pytest.mark.slow),
        pytest.param("sh -c mkdir -p", marks=pytest.mark.slow),
    ],
)
def test_a_link_that_is_pointed_elsewhere_leads_to_no_other_device(
    machine: Machine, tmp_path: Path, moment: str
) -> None:
    device = machine.device(64)
    # Empty where the link changes before the device is looked at: data would be refused for themselves.
    other = machine.device(64) if moment == "strata-engine hold" else precious(machine)
    link = machine.link(device.node)
    swap = SWAP.format(moment, str(link), other.node, machine.host.engine)
    given = ("--device", f"disk={link}", "--rounds", "2", "--yes", "--out", "run")
    with untouched(other):
        done = hooked(swap, "run", "disk | {ext4, f2fs}", "-w", "null", *given, cwd=tmp_path)
    assert str(link.readlink()) == other.node  # else nothing was tried
    if moment == "strata-engine blank":
        assert done.returncode == 0, done
    else:
        assert done.returncode == 3, done
        assert "not the device any more that this run began to use" in done.stderr or "became another" in done.stderr


def test_another_device_under_the_same_node_is_refused(machine: Machine) -> None:
    """As when a disk is pulled out and another gets its name."""
    device, other = machine.device(64), machine.image(64)
    link = machine.link(device.node)
    (disk,) = machine.claim(link)
    output("losetup", "--detach", device.node)
    output("losetup", device.node, str(other))
    held = Disk("disk", 64 * MIB, str(link), identity=disk.identity)
    with pytest.raises(Refused, match="is not the device any more that this run began to use"):
        claims.claim(machine.host, [held], ())


def test_a_second_run_on_the_device_is_refused(machine: Machine, tmp_path: Path) -> None:
    """While the first has claimed it and made nothing yet: no mount and no open file shows that."""
    device = machine.device(64)
    given = ("disk | ext4", "-w", "null", "--device", f"disk={device.name}", "--yes")
    first = subprocess.Popen(
        (sys.executable, "-c", HOOKED, PAUSE, "run", *given, "--out", "first"),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not (tmp_path / "ready").exists():
            assert first.poll() is None
        with untouched(device):
            done = strata("run", *given, "--out", "second", cwd=tmp_path)
        assert done.returncode == 3, done
        assert f"another run of Strata (process {first.pid}) uses {device.node} or a part of it" in done.stderr
    finally:
        first.kill()
        first.wait()
    # The claim ends with its run, however that ended.
    assert strata("clean", "first", cwd=tmp_path).returncode == 0
    assert strata("run", *given, "--out", "second", cwd=tmp_path).returncode == 0


def test_a_disk_and_its_partition_are_one_claim_and_two_partitions_are_two(machine: Machine) -> None:
    device = machine.device(64)
    first, second = machine.partitions(device, "16M", "16M")
    disks = {node: Disk("disk", 0, str(machine.link(node))) for node in (device.node, first, second)}
    with claims.held(machine.host, [disks[first]]) as nodes:
        assert nodes == [first]
        with pytest.raises(Refused, match="another run of Strata"), claims.held(machine.host, [disks[device.node]]):
            pass
        with pytest.raises(Refused, match="another run of Strata"), claims.held(machine.host, [disks[first]]):
            pass
        with claims.held(machine.host, [disks[second]]):
            pass
    with (
        claims.held(machine.host, [disks[device.node]]),
        pytest.raises(Refused, match="another run of Strata"),
        claims.held(machine.host, [disks[second]]),
    ):
        pass
    with claims.held(machine.host, [disks[first], disks[second]]):
        pass


def test_what_holds_a_device_is_no_stray_and_ends_with_its_owner(machine: Machine) -> None:
    device = machine.device(64)
    script = (
        "import sys, time; from strata.hosts.local import LocalHost; from strata.model import Disk; "
        "from strata.run.safety import claims; host = LocalHost('owner'); "
        "held = claims.held(host, [Disk('disk', 0, sys.argv[1])]); held.__enter__(); "
        "assert host.end_strays('owner') == []; print('ready', flush=True); time.sleep(300)"
    )
    owner = machine.process(sys.executable, "-c", script, device.name)
    with (
        pytest.raises(Refused, match=rf"another run of Strata \(process {owner.pid}\)"),
        claims.held(machine.host, [Disk("disk", 0, device.name)]),
    ):
        pass
    owner.kill()
    owner.wait()
    with claims.held(machine.host, [Disk("disk", 0, device.name)]):
        pass
    assert not list(Path("/run/strata").glob("device-*"))


def test_no_file_of_the_current_directory_is_formatted(machine: Machine, tmp_path: Path) -> None:
    """btrfs takes several devices, so a word too many is one of them."""
    device, victim = machine.device(384), tmp_path / "x.img"
    with victim.open("wb") as file:
        file.write(TEXT)
        file.truncate(128 * MIB)
    before = victim.stat()
    stack = 'disk | btrfs(mkfs="x.img")'
    argv = (*STRATA, "run", stack, "-w", "null", "--device", f"disk={device.name}", "--yes", "--out", "run")
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode != 0
    assert "'x.img' is neither an option of mkfs.btrfs nor the value of one" in done.stderr
    assert victim.read_bytes()[: len(TEXT)] == TEXT
    assert victim.stat().st_mtime_ns == before.st_mtime_ns


def test_a_size_for_a_claimed_role_is_refused(machine: Machine, tmp_path: Path) -> None:
    device = machine.device(128)
    for command in (("run", "--yes", "--out", "run"), ("plan",)):
        given = ("hdd | ext4", "-w", "null", "--device", f"hdd={device.name}", "--size", "hdd=10G")
        with untouched(device):
            done = strata(*command, *given, cwd=tmp_path)
        assert done.returncode == 2, done
        assert "--size sets the size of files that stand for disks, and the role hdd is the device" in done.stderr
