"""The QEMU of this machine: which one it is, whether KVM works for it, how much memory it may have."""

from __future__ import annotations

import json
import os
import platform
import re
from pathlib import Path

from strata.errors import CommandFailed, LabUnavailable
from strata.hosts.local import LocalHost
from strata.hosts.process import Started
from strata.lab import qemu
from strata.lab.image import Image
from strata.lab.qemu import Clock
from strata.lab.scratch import scratch
from strata.model import Command
from strata.processors import Accel

_KVM = Path("/dev/kvm")
# A kernel without a root ends in a panic, and QEMU with it: under KVM in two seconds.
_PROBE_S = 30.0
# What KVM says where it can make machines but not run them, as in a machine that is itself one.
_PROBE_FAILED = re.compile(
    r"KVM: entry failed|KVM internal error|failed to initialize kvm|kvm run failed", re.IGNORECASE
)


def version(marker: str) -> str:
    """The first line of its --version. Raises LabUnavailable without QEMU, or when its namesake says no version."""
    try:
        said = LocalHost(marker).run(Command((qemu.PROGRAM, "--version"), timeout_s=30.0)).stdout.partition("\n")[0]
    except CommandFailed as error:
        raise LabUnavailable(qemu.reasons_against(None, emulated=True)) from error
    try:
        qemu.version(said)
    except ValueError as error:
        raise LabUnavailable(
            f"the {qemu.PROGRAM} that is first in PATH is no QEMU: asked for its version it says '{said}'; take it out "
            "of PATH, or install the package qemu-system-x86."
        ) from error
    return said


def sandbox(marker: str, now: tuple[int, int]) -> list[str]:
    """Arguments that restrict the system calls of a QEMU of version `now`, as far as this one can."""
    command = Command((qemu.PROGRAM, "-sandbox", "on", "-version"), timeout_s=30.0)
    try:
        LocalHost(marker).run(command)
    except CommandFailed:
        return qemu.sandbox(now, seccomp=False)
    return qemu.sandbox(now, seccomp=True)


def accelerator(clock: Clock, image: Image, marker: str) -> Accel:
    """KVM where it carries the kernel of `image` to its end, else emulation. Tried once per kernel of this machine.

    Raises LabUnavailable when there is no QEMU.
    """
    if clock == "virtual" or not os.access(_KVM, os.R_OK | os.W_OK):
        return "tcg"
    tried = image.directory / "kvm.json"
    with_what = f"{platform.release()}, {version(marker)}"
    if tried.exists():
        known = json.loads(tried.read_text())
        if known["with"] == with_what:
            return "kvm" if known["works"] else "tcg"
    works = _kvm_works(image.kernel, marker)
    tried.write_text(json.dumps({"with": with_what, "works": works}))
    return "kvm" if works else "tcg"


def bare_accelerator(marker: str) -> Accel:
    """KVM where it carries a machine's firmware and a boot sector to their end, else emulation: it needs no lab.

    Raises LabUnavailable when there is no QEMU.
    """
    version(marker)
    return "kvm" if os.access(_KVM, os.R_OK | os.W_OK) and carries_out(marker, "kvm") else "tcg"


def carries_out(marker: str, accel: Accel) -> bool:
    """Whether a machine ends as its boot sector says."""
    with scratch("kvm") as directory:
        disk = directory / "disk"
        disk.write_bytes(qemu.BOOT_SECTOR)
        process = Started(qemu.bare_probe(disk, accel), marker=marker, log=directory / "log")
        try:
            for _ in range(int(_PROBE_S * 10)):
                if process.wait(0.1):
                    break
                if _PROBE_FAILED.search(process.said()):
                    return False
        finally:
            process.kill()
        return process.exit_code == qemu.BARE_PROBE_CODE


def nests() -> bool:
    """Whether KVM here lets a machine have machines of its own, as far as its module says."""
    said = (Path(f"/sys/module/{module}/parameters/nested") for module in ("kvm_intel", "kvm_amd"))
    return any(path.exists() and path.read_text().strip() in ("1", "Y") for path in said)


def _kvm_works(kernel: Path, marker: str) -> bool:
    with scratch("kvm") as directory:
        console, log = directory / "console", directory / "log"
        process = Started(qemu.probe(kernel, console), marker=marker, log=log)
        try:
            for _ in range(int(_PROBE_S * 10)):
                if process.wait(0.1):
                    return console.exists() and b"Kernel panic" in console.read_bytes()
                if _PROBE_FAILED.search(process.said()):
                    return False
            return False
        finally:
            process.kill()


def available_memory() -> int:
    """Bytes that new processes can have without swapping, by the kernel and by our control groups."""
    limits = [
        int(line.split()[1]) * 1024
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemAvailable:")
    ]
    for group in Path("/proc/self/cgroup").read_text().splitlines():
        path = group.partition("::")[2]
        folder = Path("/sys/fs/cgroup") / path.lstrip("/")
        while path and folder != folder.parent and folder.is_relative_to("/sys/fs/cgroup"):
            most, now = folder / "memory.max", folder / "memory.current"
            if most.exists() and (text := most.read_text().strip()) != "max":
                limits.append(int(text) - int(now.read_text()))
            folder = folder.parent
    return min(limits)
