"""The machine itself: resumed fresh each time, given disks, lost and seen to be lost, gone without a trace."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from strata.errors import CommandFailed, HostLost, Refused
from strata.hosts.local import LocalHost, engine_path
from strata.hosts.served import ServedHost
from strata.lab import cache as caches
from strata.lab import emulator, image, machine, models
from strata.lab.machine import Machine, SavedState
from strata.lab.qemu import MachineSpec
from strata.lab.spec import LabSpec
from strata.model import Command, Disk

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

MARKER = f"test-machine-{os.getpid()}"
MEMORY = {"real": 2 << 30, "virtual": 4 << 30}


@pytest.fixture(scope="module")
def states() -> Iterator[Callable[[str], SavedState]]:
    found = image.find(LabSpec(), caches.default())

    def state(clock: str) -> SavedState:
        accel = emulator.accelerator(clock, found, MARKER)  # type: ignore[arg-type]
        spec = MachineSpec(found, Path(engine_path()), clock, 1 if clock == "virtual" else 2, MEMORY[clock], accel)  # type: ignore[arg-type]
        return machine.saved(spec, MARKER, print)

    yield state
    assert LocalHost(MARKER).end_strays(MARKER) == []


@contextmanager
def resumed(state: SavedState, directory: Path, seed: int = 1) -> Iterator[tuple[Machine, ServedHost]]:
    directory.mkdir(exist_ok=True)
    running = machine.resume(state, MARKER, directory, seed)
    try:
        yield running, ServedHost(running.channel, "visit", running.engine)
    finally:
        running.close()
    assert list(directory.iterdir()) == []


def sh(host: ServedHost, script: str) -> str:
    return host.run(Command(("bash", "-c", script), timeout_s=300.0)).stdout


def plug(running: Machine, host: ServedHost, disk: Disk, name: str) -> str:
    added = running.add_disk(disk, name, models.find(disk.model) if disk.model else None)
    for command in added.prepare:
        host.run(command)
    return added.path


@pytest.mark.parametrize("clock", ["real", "virtual"])
def test_what_breaks_out_of_the_machine_can_start_no_program(
    clock: str, states: Callable[[str], SavedState], tmp_path: Path
) -> None:
    with resumed(states(clock), tmp_path / "machine") as (running, host):
        assert sh(host, "echo up").strip() == "up"
        status = Path(f"/proc/{running.pid}/status").read_text()
        assert "Seccomp:\t2" in status  # a filter of system calls is in force
        assert "NoNewPrivs:\t1" in status


def test_a_resumed_machine_is_fresh_knows_the_time_and_draws_its_own_numbers(
    states: Callable[[str], SavedState], tmp_path: Path
) -> None:
    drawn = set()
    for number in range(2):
        with resumed(states("real"), tmp_path / str(number)) as (_, host):
            assert abs(float(sh(host, "date +%s.%N")) - time.time()) < 30.0
            drawn.add(sh(host, "od -An -N16 -tx1 /dev/urandom; cat /proc/sys/kernel/random/uuid"))
            sh(host, "[ ! -e /root/left ] && touch /root/left && [ ! -b /dev/vda ]")
    assert len(drawn) == 2


def test_nothing_in_the_machine_leads_out_of_it(states: Callable[[str], SavedState], tmp_path: Path) -> None:
    with resumed(states("real"), tmp_path) as (running, host):
        # The network's name for us; there we listen on the machine's own way in.
        with pytest.raises(CommandFailed):
            sh(host, f"timeout 20 bash -c 'echo >/dev/tcp/10.0.2.2/{running.server.port}'")
        # The run's mark stays outside: what it marks is ended.
        assert MARKER not in sh(host, "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'")


def test_disks_are_plugged_in_as_asked(states: Callable[[str], SavedState], tmp_path: Path) -> None:
    with resumed(states("real"), tmp_path) as (running, host):
        asked = {
            "slow": Disk("slow", 1 << 30, model="hdd-7200"),
            "safe": Disk("safe", 1 << 30, write_cache="protected"),
            "bare": Disk("bare", 1 << 30, write_cache="none"),
        }
        paths = {name: plug(running, host, disk, name) for name, disk in asked.items()}
        assert paths["slow"] == "/dev/disk/by-id/virtio-slow"
        seen = {
            name: sh(
                host,
                f"cd /sys/class/block/$(basename $(readlink -f {path})); cat size queue/rotational queue/write_cache",
            )
            for name, path in paths.items()
        }
        assert seen["slow"].splitlines() == [str(1 << 21), "1", "write back"]
        assert seen["safe"].splitlines() == [str(1 << 21), "0", "write back"]
        assert seen["bare"].splitlines() == [str(1 << 21), "0", "write through"]
        image_file = tmp_path / "safe.img"
        sh(host, f"dd if=/dev/zero of={paths['safe']} bs=1M count=64 oflag=direct status=none; sync")
        written = image_file.stat().st_blocks
        sh(host, f"blkdiscard {paths['safe']}")
        assert written >= (64 << 20) // 512 > image_file.stat().st_blocks  # a discard frees room here


def test_sixteen_disks_and_more(states: Callable[[str], SavedState], tmp_path: Path) -> None:
    with resumed(states("real"), tmp_path) as (running, host):
        paths = [plug(running, host, Disk("disk", 1 << 30), f"disk{number}") for number in range(18)]
        devices = sh(host, f"readlink -f {' '.join(paths)}").split()
        assert len(set(devices)) == 18


@pytest.mark.parametrize("clock", ["real", "virtual"])
def test_a_panic_is_seen_and_said(clock: str, states: Callable[[str], SavedState], tmp_path: Path) -> None:
    with resumed(states(clock), tmp_path) as (running, host):
        assert running.lost() is None
        began = time.monotonic()
        with pytest.raises(HostLost):
            sh(host, "echo c >/proc/sysrq-trigger; sleep 600")
        assert time.monotonic() - began < 30
        reason = running.lost() or ""
        assert "sysrq" in reason and "died" in reason
        assert "sysrq" in running.console()
    assert running.lost() == reason  # also once it was closed


@pytest.mark.parametrize("clock", ["real", "virtual"])
def test_a_killed_qemu_is_seen(clock: str, states: Callable[[str], SavedState], tmp_path: Path) -> None:
    with resumed(states(clock), tmp_path) as (running, host):
        os.kill(running.pid, signal.SIGKILL)
        with pytest.raises(HostLost):
            sh(host, "sleep 600")
        assert "QEMU ended" in (running.lost() or "")


@pytest.mark.parametrize("clock", ["real", "virtual"])
def test_a_machine_that_hangs_is_seen(clock: str, states: Callable[[str], SavedState], tmp_path: Path) -> None:
    with resumed(states(clock), tmp_path) as (running, host):
        os.kill(running.pid, signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(HostLost):
            sh(host, "sleep 600")
        assert time.monotonic() - began < 40


def test_a_guest_that_answers_no_more_says_where_it_was(states: Callable[[str], SavedState], tmp_path: Path) -> None:
    with resumed(states("real"), tmp_path / "machine") as (running, host):
        server = sh(host, "pidof -s strata-engine").strip()
        with pytest.raises(HostLost, match="does not answer any more"):
            # The runner is stopped, so even its sign of life fails to come.
            sh(host, f"kill -STOP {server}")
        assert "unknown_nmi_error" in running.console() and running.lost() is not None


def test_what_a_killed_strata_leaves_is_found_by_its_mark(states: Callable[[str], SavedState], tmp_path: Path) -> None:
    running = machine.resume(states("real"), MARKER, tmp_path)
    try:
        ended = LocalHost("clean").end_strays(MARKER)
        assert any(name.startswith("qemu-system") for name in ended)
    finally:
        running.close()


def test_more_memory_than_this_machine_has_is_refused(states: Callable[[str], SavedState]) -> None:
    spec = states("real").spec
    with pytest.raises(Refused, match="give it less"):
        machine.saved(MachineSpec(spec.image, spec.engine, memory_bytes=emulator.available_memory() * 2), MARKER, print)


FIO = (
    "fio --name=t --filename=/mnt/f --ioengine=libaio --direct=1 --bs=4k --iodepth=16 --rw=randrw --rwmixread=75 "
    "--time_based --runtime=1 --size=32M --output-format=json"
)


@pytest.mark.parametrize("model", [None, "hdd-7200"])
def test_by_the_virtual_clock_two_resumes_give_the_same_to_the_last_digit(
    model: str | None, states: Callable[[str], SavedState], tmp_path: Path
) -> None:
    def visit(seed: int, directory: str) -> list[str]:
        with resumed(states("virtual"), tmp_path / directory, seed) as (running, host):
            paths = [plug(running, host, Disk("disk", 512 << 20, model=model), f"disk{n}") for n in range(2)]
            said = [sh(host, f"mkfs.ext4 -q {paths[0]} && mount {paths[0]} /mnt && {FIO}; umount /mnt")]
            mirror = "mdadm -q --create /dev/md0 --run --level=1 --raid-devices=2 --assume-clean --bitmap=none"
            said.append(sh(host, f"wipefs -qa {paths[0]}; {mirror} {' '.join(paths)}"))
            said.append(sh(host, f"mkfs.xfs -q -f /dev/md0 && mount /dev/md0 /mnt && {FIO}; umount /mnt"))
            said.append(sh(host, "cat /proc/uptime /proc/stat /proc/vmstat; od -An -N16 -tx1 /dev/urandom"))
        for text in (said[0], said[2]):
            (job,) = json.loads(text[text.index("{") :])["jobs"]
            assert job["error"] == 0 and job["read"]["iops"] > 10
        return said

    first = visit(1, "first")
    assert visit(1, "second") == first
    assert visit(2, "third") != first
