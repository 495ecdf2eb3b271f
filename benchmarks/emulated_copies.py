"""What it costs in an emulated machine that its processor says it copies strings of bytes fast (ERMS, FSRM, FSRS).

    python benchmarks/emulated_copies.py [--clock real|virtual] [--pairs N]

Boots two lab machines, one whose processor says so and one as Strata starts it (strata/processors.py), and runs the
same commands in both in turn: through the kernel's copies (a file in memory is written and read), and the layout of a
file on ext4 on a disk of 7200 rpm (on the virtual clock) or on a virtio disk. Prints of each pair QEMU's processor time
with the features over that without them; on the virtual clock also what the machine itself took for it, which is exact.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from strata.hosts.local import engine_path
from strata.hosts.served import ServedHost
from strata.lab import cache as caches
from strata.lab import image, machine, models, qemu
from strata.lab.machine import Machine, SavedState
from strata.lab.qemu import Clock, MachineSpec
from strata.lab.spec import LabSpec
from strata.model import Command, Disk
from strata.processors import CPU, Accel

MARKER = "bench-emulated-copies"
MEMORY_BYTES = 4 << 30
TICKS_PER_S = 100
DISK_BYTES = 2 << 30
WORK = {
    "256 MiB into memory and back": (
        "dd if=/dev/zero of=/dev/shm/file bs=1M count=256 status=none && "
        "dd if=/dev/shm/file of=/dev/null bs=1M status=none && rm /dev/shm/file"
    ),
    "mkfs.ext4": "mkfs.ext4 -q -F {device}",
    "256 MiB laid out on it by fio": (
        "mkdir -p /mnt/bench && mount {device} /mnt/bench && fio --name=layout --filename=/mnt/bench/file --rw=write "
        "--bs=1M --size=256M --ioengine=psync --end_fsync=1 --refill_buffers=1 --output=/dev/null && umount /mnt/bench"
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clock", choices=["real", "virtual"], default="virtual")
    parser.add_argument("--pairs", type=int, default=2)
    options = parser.parse_args(argv)
    clock: Clock = options.clock
    found = image.find(LabSpec(), caches.default())
    with ExitStack() as stack:
        states = []
        for cpu in ({**CPU, "tcg": "max"}, CPU):
            apart = stack.enter_context(TemporaryDirectory(prefix="bench-copies-", dir=found.directory))
            spec = MachineSpec(replace(found, directory=Path(apart)), Path(engine_path()), clock, 1, MEMORY_BYTES)
            with patch.object(qemu, "CPU", cpu):
                states.append((cpu, machine.saved(spec, MARKER, print)))
        for _ in range(options.pairs):
            with_them, without = (visit(cpu, state, clock) for cpu, state in states)
            for name, (used, took) in with_them.items():
                used_without, took_without = without[name]
                line = f"{name}: QEMU {used:.1f} and {used_without:.1f} s of processor, ratio {used / used_without:.2f}"
                if clock == "virtual":
                    line += f"; within {took:.3f} and {took_without:.3f} s, ratio {took / took_without:.2f}"
                print(line, flush=True)
    return 0


def visit(cpu: Mapping[Accel, str], state: SavedState, clock: Clock) -> dict[str, tuple[float, float]]:
    """Of each command QEMU's processor time and the machine's own time, in s."""
    figures = {}
    with resumed(cpu, state) as (running, host):
        added = running.add_disk(
            Disk("hdd", DISK_BYTES), "hdd0", models.find("hdd-7200") if clock == "virtual" else None
        )
        for command in added.prepare:
            host.run(command)
        for name, script in WORK.items():
            used = cpu_s(running)
            timed = f"began=$(date +%s%N); {script.format(device=added.path)} && echo $(($(date +%s%N) - began))"
            took_ns = int(host.run(Command(("sh", "-c", timed), timeout_s=1800.0)).stdout)
            figures[name] = (cpu_s(running) - used, took_ns / 1e9)
    return figures


def cpu_s(running: Machine) -> float:
    fields = Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


@contextmanager
def resumed(cpu: Mapping[Accel, str], state: SavedState) -> Iterator[tuple[Machine, ServedHost]]:
    with TemporaryDirectory(prefix="bench-copies-") as directory, patch.object(qemu, "CPU", cpu):
        running = machine.resume(state, MARKER, Path(directory))
        try:
            yield running, ServedHost(running.channel, "visit", running.engine)
        finally:
            running.close()


if __name__ == "__main__":
    raise SystemExit(main())
