"""What a lab machine costs: cold boot, saving its state, resuming it to the first command, plugging in five disks.

    python benchmarks/lab_machine.py [--clock real|virtual] [--times N] [--cold]

Prints seconds of wall time as JSON, and beside each the processor time that QEMU took for it, which a busy machine
changes less. KVM and emulation are named: their figures are not to be compared. --cold boots and saves again, in a copy
of the image's folder that only has its states apart.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from strata.hosts.local import engine_path
from strata.hosts.served import ServedHost
from strata.lab import cache as caches
from strata.lab import emulator, image, machine, models
from strata.lab.machine import Machine, SavedState
from strata.lab.qemu import Clock, MachineSpec
from strata.lab.spec import LabSpec
from strata.model import Command, Disk

MARKER = "bench-lab-machine"
MEMORY: dict[Clock, int] = {"real": 2 << 30, "virtual": 8 << 30}
DISKS = 5
TICKS_PER_S = 100


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clock", choices=["real", "virtual"], default="real")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args(argv)
    clock: Clock = options.clock
    found = image.find(LabSpec(), caches.default())
    accel = emulator.accelerator(clock, found, MARKER)
    spec = MachineSpec(found, Path(engine_path()), clock, 1 if clock == "virtual" else 2, MEMORY[clock], accel)
    with TemporaryDirectory(prefix="bench-lab-", dir=found.directory) as apart:
        # The states lie beside the image that is named; its parts keep their places.
        spec = replace(spec, image=replace(found, directory=Path(apart))) if options.cold else spec
        state = machine.saved(spec, MARKER, print)
        figures = [_visit(state) for _ in range(options.times)]
    known = {
        "clock": clock,
        "accelerator": "tcg" if spec.emulated else "kvm",
        "qemu": state.qemu,
        "cold_boot_s": round(state.boot_s, 2),
        "save_s": round(state.save_s, 2),
        "state_bytes": state.size_bytes,
    }
    print(json.dumps(known | {name: [figure[name] for figure in figures] for name in figures[0]}, indent=2))
    print(f"median resume to first command: {median(figure['resume_s'] for figure in figures):.2f} s")
    return 0


def _visit(state: SavedState) -> dict[str, float]:
    with TemporaryDirectory(prefix="bench-lab-") as directory:
        began = time.monotonic()
        running = machine.resume(state, MARKER, Path(directory))
        try:
            host = ServedHost(running.channel, "visit", running.engine)
            host.run(Command(("true",)))
            figures = {"resume_s": time.monotonic() - began, "resume_cpu_s": _cpu_s(running)}
            began, used = time.monotonic(), _cpu_s(running)
            for number in range(DISKS):
                added = running.add_disk(Disk("hdd", 1 << 30), f"hdd{number}", models.find("serial-8ms"))
                for command in added.prepare:
                    host.run(command)
            figures |= {"disks_s": time.monotonic() - began, "disks_cpu_s": _cpu_s(running) - used}
            began = time.monotonic()
        finally:
            running.close()
        figures["close_s"] = time.monotonic() - began
    return {name: round(value, 2) for name, value in figures.items()}


def _cpu_s(running: Machine) -> float:
    fields = Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


if __name__ == "__main__":
    raise SystemExit(main())
