"""Somebody's disks: real loop devices in every state in which Strata must not touch them."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from strata.errors import Refused
from strata.hosts.local import LocalHost
from strata.model import Disk
from strata.run.safety import claims

MIB = 1 << 20
_BLOCK = 1 << 16

STRATA = (sys.executable, "-c", "from strata.cli import main; main()")


def output(*argv: str, stdin: str | None = None) -> str:
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (argv, done.returncode, done.stdout, done.stderr)
    return done.stdout.strip()


def strata(*argv: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run((*STRATA, *argv), cwd=cwd, capture_output=True, text=True, timeout=110, check=False)


def signatures(device: str | Path) -> list[str]:
    """The types that wipefs itself recognises, with their offsets unless nothing is there."""
    listed = json.loads(output("wipefs", "--no-act", "--json", str(device)) or "{}")
    return [signature["type"] for signature in listed.get("signatures", [])]


@dataclass(frozen=True)
class Device:
    """A loop device and the file behind it, both known to the test alone."""

    file: Path
    node: str
    ours: int = -1
    """How many bytes from its start only the test writes; -1: all. The pages of swap are the kernel's."""

    @property
    def name(self) -> str:
        """How it is claimed."""
        return str(self.file)

    def digest(self) -> str:
        """Of every byte behind the device that is the test's, with what is still on its way there."""
        with Path(self.node).open("rb") as device:
            os.fsync(device.fileno())
        found = hashlib.sha256()
        with self.file.open("rb") as file:
            end = os.fstat(file.fileno()).st_size if self.ours < 0 else self.ours
            at = 0
            while at < end:
                try:
                    at = os.lseek(file.fileno(), at, os.SEEK_DATA) // _BLOCK * _BLOCK
                except OSError:  # only a hole is left
                    break
                data = os.pread(file.fileno(), min(end - at, _BLOCK), at)
                if any(data):  # whether zeros are stored or not is no difference
                    found.update(at.to_bytes(8, "big") + data)
                at += _BLOCK
        return found.hexdigest()


class Machine:
    """Makes things, and takes all of them down again, newest first."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.host = LocalHost("test-marker")
        self._undo: list[Callable[[], object]] = []
        self._count = 0

    def later(self, undo: Callable[[], object]) -> None:
        self._undo.append(undo)

    def take_down(self) -> None:
        failures = []
        for undo in reversed(self._undo):
            try:
                undo()
            except (AssertionError, OSError) as error:
                failures.append(str(error))
        assert failures == []

    def take_down_since(self, device: Device) -> None:
        """What was made of it and on it, newest first, and leaves the device itself."""
        while len(self._undo) > 1:
            self._undo.pop()()
        assert Path(device.node).is_block_device()

    def path(self, suffix: str = "") -> Path:
        self._count += 1
        return self.directory / f"{self._count}{suffix}"

    def image(self, mib: float = 16) -> Path:
        file = self.path(".img")
        with file.open("wb") as made:
            made.truncate(int(mib * MIB))
        return file

    def attach(self, file: str | Path, *options: str) -> str:
        node = output("losetup", "--find", "--show", *options, "--", str(file))

        def detach() -> None:
            if Path(f"/sys/block/{Path(node).name}/loop").exists():
                # The kernel would keep a partition that it was told of for the next user of this loop device.
                subprocess.run(("partx", "--delete", node), capture_output=True, check=False)
                output("losetup", "--detach", node)

        self.later(detach)
        return node

    def device(self, mib: float = 16, *options: str) -> Device:
        file = self.image(mib)
        return Device(file, self.attach(file, *options))

    def partitions(self, device: Device, *sizes: str, table: str = "gpt") -> list[str]:
        """Writes a table and tells the kernel, also one that reads no tables itself."""
        script = f"label: {table}\n" + "".join(f"size={size}\n" for size in sizes)
        output("sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", device.node, stdin=script)
        output("partx", "--update", device.node)
        self.later(lambda: subprocess.run(("partx", "--delete", device.node), capture_output=True, check=False))
        nodes = [f"{device.node}p{number + 1}" for number in range(len(sizes))]
        assert all(Path(node).is_block_device() for node in nodes)
        return nodes

    def forgotten_partition(self, device: Device, mib: int) -> str:
        """A partition that the kernel knows of and no table names, 1 MiB into the device."""
        output("addpart", device.node, "1", str(MIB // 512), str(mib * MIB // 512))
        self.later(lambda: subprocess.run(("delpart", device.node, "1"), capture_output=True, check=False))
        return f"{device.node}p1"

    def link(self, target: str | Path) -> Path:
        """A link below /dev/disk/by-id, as udev makes them."""
        folder = Path("/dev/disk/by-id")
        for missing in (folder.parent, folder):
            if not missing.exists():
                missing.mkdir()
                self.later(missing.rmdir)
        self._count += 1
        link = folder / f"strata-test-{os.getpid()}-{self._count}"
        link.symlink_to(target)
        self.later(lambda: link.unlink(missing_ok=True))
        return link

    def mount(self, node: str, *options: str) -> Path:
        point = self.path(".mnt")
        point.mkdir()
        output("mount", *options, "--", node, str(point))
        self.later(lambda: output("umount", str(point)))
        output("sync", "--file-system", str(point))
        return point

    def process(self, *argv: str) -> subprocess.Popen[str]:
        """One that says a line when it is ready, and then stays."""
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)

        def end() -> None:
            process.send_signal(signal.SIGKILL)
            process.communicate()

        self.later(end)
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
        return process

    def opened(self, path: str | Path, mode: str) -> subprocess.Popen[str]:
        keep = "import sys, time; file = open(sys.argv[1], sys.argv[2]); print('ready', flush=True); time.sleep(300)"
        return self.process(sys.executable, "-c", keep, str(path), mode)

    def mapped(self, path: str | Path) -> subprocess.Popen[str]:
        """Mapped for writing; the file itself is closed, so that no descriptor shows it."""
        keep = (
            "import mmap, os, sys, time; file = os.open(sys.argv[1], os.O_RDWR); "
            "memory = mmap.mmap(file, 1 << 20); os.close(file); kept = memory[:1]; "
            "print('ready', flush=True); time.sleep(300)"
        )
        return self.process(sys.executable, "-c", keep, str(path))

    def by_a_thread(self, path: str | Path, what: str) -> subprocess.Popen[str]:
        """Opened by a thread with files of its own (`apart`), or by one whose first thread has ended (`ended`).

        `mapped`: as the second, mapped and closed again.
        """
        keep = (
            "import ctypes, mmap, os, sys, threading, time; libc = ctypes.CDLL(None)\n"
            "def keep():\n"
            "    if sys.argv[2] == 'apart': assert libc.unshare(0x400) == 0\n"  # CLONE_FILES
            "    file = os.open(sys.argv[1], os.O_RDWR)\n"
            "    if sys.argv[2] == 'mapped': memory = mmap.mmap(file, 1 << 20); os.close(file); kept = memory[:1]\n"
            "    print('ready', flush=True); time.sleep(300)\n"
            "threading.Thread(target=keep).start()\n"
            "time.sleep(300 if sys.argv[2] == 'apart' else 0)\n"
            "libc.syscall({'aarch64': 93}.get(os.uname().machine, 60), 0)"  # exit(2), of this thread alone
        )
        process = self.process(sys.executable, "-c", keep, str(path), what)
        status = Path(f"/proc/{process.pid}/status")
        while what != "apart" and "\tZ" not in status.read_text():
            time.sleep(0.01)
        return process

    # ------------------------------------------------------------ what is asked of Strata

    def claim(self, *names: str | Path, wipe: Sequence[str | Path] = ()) -> list[Disk]:
        given = [Disk("disk", 0, str(name)) for name in names]
        return claims.claim(self.host, given, [str(name) for name in wipe])

    def reasons(self, *names: str | Path, wipe: Sequence[str | Path] = ()) -> tuple[str, ...]:
        """Why they are refused; they must be."""
        with pytest.raises(Refused) as refused:
            self.claim(*names, wipe=wipe)
        assert all(reason.endswith(".") for reason in refused.value.reasons)
        return refused.value.reasons


@contextmanager
def untouched(*devices: Device) -> Iterator[None]:
    """Not one byte of them changes inside."""
    before = [device.digest() for device in devices]
    yield
    assert [device.digest() for device in devices] == before
