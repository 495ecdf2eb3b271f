"""strata lab shell"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from strata.cli import output
from strata.errors import BadInput, Interrupted
from strata.hosts import ssh
from strata.hosts.local import engine_path
from strata.hosts.process import attended
from strata.hosts.served import ServedHost
from strata.lab import cache as caches
from strata.lab import emulator, image, machine, models
from strata.lab.machine import Machine
from strata.lab.qemu import MachineSpec
from strata.lab.scratch import scratch
from strata.lab.spec import LabSpec
from strata.model import Disk
from strata.run.signals import Interrupts
from strata.units import format_size, parse_size

# Of the processes here; the machine is gone when the shell ends.
_MARKER = "lab-shell"
_SMALLEST_BYTES = 1 << 20


def shell(debian: int, features: str | None, kernel: str | None, disks: Sequence[str]) -> int:
    """A shell in a fresh lab machine on the real clock, or what comes on standard input; the exit code of the shell.

    `disks`: ROLE=SIZE or ROLE=SIZE:MODEL, each one disk.
    """
    wanted = frozenset(feature.strip() for feature in (features or "").split(",") if feature.strip())
    asked = _disks(disks)
    interrupts = Interrupts()
    try:
        with interrupts.listening(), scratch("shell") as directory:
            found = image.find(LabSpec(debian, kernel, wanted), caches.default())
            accel = emulator.accelerator("real", found, _MARKER)
            state = machine.saved(MachineSpec(found, Path(engine_path()), accel=accel), _MARKER, _say, interrupts)
            running = machine.resume(state, _MARKER, directory)
            try:
                _plug(running, asked)
                argv = ssh.client(running.server)
                if sys.stdin.isatty():
                    argv[argv.index("-T")] = "-t"
                return attended(argv, marker=_MARKER)
            finally:
                running.close()
    except Interrupted as error:
        raise Interrupted("interrupted; the machine is gone.") from error


def _disks(written: Sequence[str]) -> list[Disk]:
    found = []
    for text in written:
        role, _, rest = text.partition("=")
        size, _, model = rest.partition(":")
        try:
            size_bytes = parse_size(size)
        except ValueError as error:
            raise BadInput(f"--disk {text}: {error}; write it as ssd=2G or hdd=4G:hdd-7200") from error
        if not role or size_bytes < _SMALLEST_BYTES:
            smallest = format_size(_SMALLEST_BYTES)
            raise BadInput(f"--disk {text}: a disk has a role and at least {smallest}; write it as ssd=2G.")
        found.append(Disk(role, size_bytes, model=model or None))
    return found


def _plug(running: Machine, disks: Sequence[Disk]) -> None:
    host = ServedHost(running.channel, _MARKER, running.engine)
    for number, disk in enumerate(disks):
        added = running.add_disk(disk, f"{disk.role}{number}", models.find(disk.model) if disk.model else None)
        for command in added.prepare:
            host.run(command)
        model = f", {disk.model}" if disk.model else ""
        _say(f"{added.path}: {format_size(disk.size_bytes)}{model}")


def _say(line: str) -> None:
    output.err(f"lab: {line}")
