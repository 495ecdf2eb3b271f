"""A machine that is booted, does one job, and is shut down; its disks stay."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from strata.hosts.local import LocalHost
from strata.hosts.process import Started
from strata.lab.qemu import PROGRAM
from strata.model import Command
from strata.processors import ACCELERATOR, CPU, Accel

from .system import MARKER, System

# An emulated boot takes a minute, and more on a busy machine; it waits 90 s for missing disks and carries out the job.
_BOOT_S = 3000.0
_MAIL_BYTES = 32 << 20
_UPPER_BYTES = 2 << 30
_KERNEL = "root=/dev/vda rootfstype=squashfs ro console=ttyS0 panic=-1 net.ifnames=0 mitigations=off nowatchdog"


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything that it keeps lies in `directory`."""

    system: System
    accel: Accel
    directory: Path

    def prepare(self, disks: Mapping[str, int]) -> None:
        """Makes fresh disks: bytes by name; each is /dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_NAME."""
        for name, size in disks.items():
            _sparse(self.directory / name, size)
        _sparse(self.directory / "upper", _UPPER_BYTES)
        LocalHost(MARKER).run(Command(("mke2fs", "-q", "-F", "-t", "ext4", str(self.directory / "upper"))))

    def boot(self, disks: Sequence[str], job: Mapping[str, str], *, kept: bool) -> dict[str, str]:
        """Boots with these disks, runs the file `run` of the job in a folder that holds all of it, and shuts down.

        Returns the answers: the files that it wrote to the folder $1. `kept`: what it writes to the disks stays. Raises
        AssertionError with the end of its console when it gives none.
        """
        mail, console, log = (self.directory / name for name in ("mail", "console", "log"))
        mail.write_bytes(_tar(job))
        os.truncate(mail, _MAIL_BYTES)
        console.unlink(missing_ok=True)
        process = Started(self._argv(disks, kept), marker=MARKER, log=log, environment={"TMPDIR": str(self.directory)})
        try:
            ended = process.wait(_BOOT_S)
        finally:
            process.kill()
        said = console.read_text(errors="replace") if console.exists() else process.said()
        assert ended, f"the machine did not shut down; its console:\n{said[-6000:]}"
        answers = _untar(mail.read_bytes())
        assert "state" in answers, f"the machine did not come up; its console:\n{said[-6000:]}"
        return answers

    def _argv(self, disks: Sequence[str], kept: bool) -> list[str]:
        drive = "if=none,format=raw,discard=unmap,cache=unsafe" + ("" if kept else ",snapshot=on")
        line = [PROGRAM, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "pc"]
        line += ["-accel", ACCELERATOR[self.accel], "-cpu", CPU[self.accel], "-m", "3G", "-smp", "2"]
        line += ["-kernel", str(self.system.kernel), "-initrd", str(self.system.initrd), "-append", _KERNEL]
        line += ["-serial", f"file:{self.directory / 'console'}"]
        line += ["-drive", f"id=root,file={self.system.root},if=none,format=raw,readonly=on"]
        line += ["-drive", f"id=upper,file={self.directory / 'upper'},{drive}"]
        line += ["-drive", f"id=mail,file={self.directory / 'mail'},if=none,format=raw,cache=unsafe"]
        for name in ("root", "upper", "mail"):
            line += ["-device", f"virtio-blk-pci,drive={name},serial={name}"]
        line += ["-device", "virtio-scsi-pci"]
        for name in disks:
            line += ["-drive", f"id={name},file={self.directory / name},{drive}"]
            line += ["-device", f"scsi-hd,drive={name},serial={name}"]
        return line


def link(disk: str) -> str:
    """How the machine names a disk."""
    return f"/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_{disk}"


def _sparse(path: Path, size: int) -> None:
    path.touch()
    os.truncate(path, size)


def _tar(files: Mapping[str, str]) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, text in files.items():
            content = text.encode()
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return archive.getvalue()


def _untar(content: bytes) -> dict[str, str]:
    answers = {}
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isfile() else None
            if file is not None:
                answers[member.name.removeprefix("./")] = file.read().decode(errors="replace")
    return answers
