"""QEMU's cache modes do what they promise: flushes that reach the file below the image are counted.

The file is one that nbdfuse serves from nbdkit, whose log filter writes down every request. QEMU opens it with its file
driver, as it opens any image: over its NBD driver it would never leave a flush out, and `unsafe` would look safe.
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from strata.errors import Refused
from strata.hosts import ports
from strata.hosts.local import engine_path
from strata.lab import cache, guests, image
from strata.lab.spec import LabSpec
from strata.model import Beside, GuestImage, Kind, Provides

from .layer_bench import Bench, Built, call, do, undo

NEEDED = ("nbdkit", "nbdfuse", "qemu-storage-daemon")
pytestmark = pytest.mark.skipif(
    any(shutil.which(program) is None for program in NEEDED),
    reason=f"needs {', '.join(NEEDED)}: scripts/os-packages.sh run and test install them",
)

SIZE_BYTES = 64 << 20
WRITES = 20
MODES = ("none", "writeback", "writethrough", "directsync", "unsafe")
PROMISES: dict[str, Callable[[int, int], bool]] = {
    "none": lambda written, synced: written == 0 and synced >= 1,
    "writeback": lambda written, synced: written == 0 and synced >= 1,
    "writethrough": lambda written, synced: written >= WRITES,
    "directsync": lambda written, synced: written >= WRITES,
    "unsafe": lambda written, synced: written == synced == 0,
}
"""Of each mode, from flushes after `WRITES` writes and after one fsync: whether it is as promised."""


def wait_for(what: str, there: Callable[[], bool]) -> None:
    for _ in range(200):
        if there():
            return
        time.sleep(0.05)
    pytest.fail(f"{what} did not come up in 10 s")


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def logged_file(root: Path, filters: Sequence[str]) -> Iterator[tuple[Path, Path]]:
    """(a file of SIZE_BYTES, nbdkit's log of what reached it). `filters` stand above the log."""
    socket, log, file, ready = (root / name for name in ("below.sock", "log", "file", "ready"))
    file.touch()
    kit = subprocess.Popen(
        ["nbdkit", "-f", "-U", str(socket), *filters, "--filter=log", "memory", str(SIZE_BYTES), f"logfile={log}"]
        + (["cache=unsafe"] if "--filter=cache" in filters else [])
    )
    try:
        wait_for("nbdkit", socket.exists)
        fuse = subprocess.Popen(["nbdfuse", f"--pidfile={ready}", str(file), "--unix", str(socket)])
        try:
            wait_for("nbdfuse", ready.exists)
            yield file, log
        finally:
            end(fuse)
    finally:
        end(kit)
        for left in (socket, log, file, ready):
            left.unlink(missing_ok=True)


def flushes(log: Path) -> int:
    return len(re.findall(r" Flush id=", log.read_text()))


def counted(bench: Bench, mode: str, filters: Sequence[str] = ()) -> tuple[int, int]:
    """Flushes that reached the file after WRITES writes, and after the fsync that followed them."""
    with logged_file(bench.root, filters) as (file, log):
        below = Provides(Kind.IMAGE, str(file), SIZE_BYTES, name="raw")
        bench.layers.append(Built(call("qsd", {"cache": mode}), (below,), bench.place()))
        do(bench.steps)
        try:
            assert bench.differences() == []
            before = flushes(log)
            device = os.open(bench.layers[-1].provides.path, os.O_RDWR | os.O_DIRECT)
            try:
                write(device)
                written = flushes(log) - before
                os.fsync(device)
                synced = flushes(log) - before - written
            finally:
                os.close(device)
            reached = len(re.findall(r" Write id=", log.read_text()))
            assert reached >= WRITES or filters, "the writes did not reach the file"  # a cache may keep them
        finally:
            undo(bench.steps)
    return written, synced


def write(device: int) -> None:
    page = mmap.mmap(-1, 4096)  # direct I/O wants memory on a page's boundary
    page.write(b"x" * 4096)
    for number in range(WRITES):
        assert os.pwrite(device, page, number * (1 << 20)) == 4096


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_flushes_as_it_promises(bench: Bench, mode: str) -> None:
    written, synced = counted(bench, mode)
    assert PROMISES[mode](written, synced), f"{mode}: {written} flushes after {WRITES} writes, {synced} after an fsync"
    others = [other for other in MODES if PROMISES[other](written, synced)]
    assert (mode == "unsafe") == (others == ["unsafe"]), "the counts do not tell this mode from the others"


def counted_in_a_guest(bench: Bench, mode: str, bus: str, system: GuestImage, *, beside: bool) -> tuple[int, int]:
    """The same for writes of a guest, which sends flushes of its own where it is told of a write cache. `beside`: its
    disk is served by the daemon that would stand in a lab machine."""
    with logged_file(bench.root, ()) as (served, log):
        below = Provides(Kind.IMAGE, str(served), SIZE_BYTES, name="raw")
        port = ports.free_port()
        reach = Beside(str(bench.root / "beside"), port, port) if beside else None
        place = dataclasses.replace(bench.place(), guest_image=system, beside=reach)
        guest = Built(call("vm", {"cache": mode, "bus": bus, "beside": beside}), (below,), place)
        bench.layers.append(guest)
        try:
            do(bench.steps)
            assert bench.differences() == []
            disk, before = guest.provides.path, flushes(log)
            inside(guest, f"dd if=/dev/zero of={disk} bs=4k count={WRITES} oflag=direct")
            written = flushes(log) - before
            inside(guest, f"dd if=/dev/zero of={disk} bs=4k count=1 oflag=direct conv=fsync")
            synced = flushes(log) - before - written
        finally:
            undo(bench.steps)
            for directory in (place.dir, *([reach.dir] if reach else [])):
                for file in Path(directory).glob("*"):  # they go with the directory of a visit
                    file.unlink()
            if reach:
                Path(reach.dir).rmdir()
    return written, synced


def inside(guest: Built, script: str) -> None:
    started = guest.provides.guest
    assert started is not None
    port = Path(started.dir, "port").read_text().strip()
    client = (*started.image.ssh, "-p", port, "--", "root@127.0.0.1", "sh", "-s")
    done = subprocess.run(client, input=script, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("mode", "bus", "beside"),
    [
        *((mode, "virtio-blk", False) for mode in MODES),
        *(("none", bus, False) for bus in ("virtio-scsi", "sata", "nvme")),
        *((mode, "virtio-blk", True) for mode in MODES),
    ],
)
def test_a_mode_of_a_guest_s_disk_flushes_as_it_promises(bench: Bench, mode: str, bus: str, beside: bool) -> None:
    try:
        system = guests.prepared(image.find(LabSpec(), cache.default()), Path(engine_path()), "tcg")
    except Refused as refused:
        pytest.skip(f"guests start from the lab's system: {refused}")
    written, synced = counted_in_a_guest(bench, mode, bus, system, beside=beside)
    assert PROMISES[mode](written, synced), f"{mode}: {written} flushes after {WRITES} writes, {synced} after an fsync"


@pytest.mark.parametrize("mode", ["none", "writethrough"])
def test_a_store_that_forgets_flushes_is_exposed(bench: Bench, mode: str) -> None:
    """The positive control: below a cache that drops flushes no mode keeps its promise."""
    assert not PROMISES[mode](*counted(bench, mode, ["--filter=cache"]))


def test_what_is_written_at_once_is_read_back(bench: Bench) -> None:
    """QEMU's own FUSE export fails this at 10.0.2: it mixes up writes that are in flight at the same time."""
    image = bench.put("qcow2", bench.put("ext4", bench.disk()), size=SIZE_BYTES)
    device = bench.put("qsd", image, cache="none").provides.path
    do(bench.steps)
    how = ("--rw=randwrite", "--bs=4k", "--iodepth=16", "--ioengine=libaio", "--direct=1", "--size=32M")
    verify = ("--verify=crc32c", "--do_verify=1", "--verify_state_save=0")
    fio = subprocess.run(["fio", "--name=v", f"--filename={device}", *how, *verify], capture_output=True, text=True)
    assert fio.returncode == 0, fio.stderr[-2000:]
    undo(bench.steps)
