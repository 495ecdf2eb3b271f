"""Records what stacks ask of modelled disks, for the witness of the disk models (crates/disks/tests/witness).

    python -m tests.lab.record_requests crates/disks/tests/witness/recorded

Builds each stack in a fresh lab machine on the virtual clock, runs fio and varmail on it, takes it down, and keeps what
was asked of its first disk, from the first request to the last, as NAME.gz: a line of JSON for the disk, and one for
each request (arrival in ns, operation, first sector, sectors, when the model says that it completes, when the engine
answered). The same lab gives the same files.
"""

from __future__ import annotations

import argparse
import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from strata.hosts.local import engine_path
from strata.hosts.served import ServedHost
from strata.lab import cache as caches
from strata.lab import image, machine, models
from strata.lab.machine import SavedState
from strata.lab.models import DiskModel
from strata.lab.qemu import MachineSpec
from strata.model import Command

from .lab_runs import built

_MARKER = "record-requests"
_SIZE = 1 << 30
_RECORD = "/run/requests-{}"

_FIXED = """\
name: fixed-with-cache
queue_depth: 32
write_cache: volatile
service:
  fixed: {servers: 2, read_us: 3000, write_us: 700, flush_us: 5000, bytes_per_s: 200000000, cache_bytes: 8388608}
"""


@dataclass(frozen=True)
class Stack:
    model: DiskModel
    disks: int
    build: str  # "$@" are the disks; the file system comes to /mnt
    take_down: str
    fio_s: str
    varmail_s: str


def stacks() -> dict[str, Stack]:
    hdd, ssd = models.find("hdd-7200"), models.find("ssd-sata")
    fixed = models.find("fixed.yaml", _FIXED)
    md = 'mdadm --create /dev/md0 --run --level=1 --raid-devices=2 --assume-clean --bitmap=none "$@"'
    return {
        "ext4-hdd": Stack(hdd, 1, 'mkfs.ext4 -q "$1" && mount "$1" /mnt', "umount /mnt", "8s", "6"),
        "xfs-hdd": Stack(hdd, 1, 'mkfs.xfs -q "$1" && mount "$1" /mnt', "umount /mnt", "8s", "6"),
        "btrfs-hdd": Stack(hdd, 1, 'mkfs.btrfs -q "$1" && mount "$1" /mnt', "umount /mnt", "8s", "6"),
        "raid1-ssd": Stack(
            ssd,
            2,
            f"{md} && mkfs.ext4 -q /dev/md0 && mount /dev/md0 /mnt",
            "umount /mnt && mdadm --stop /dev/md0",
            "200ms",
            "1",
        ),
        "xfs-fixed": Stack(fixed, 1, 'mkfs.xfs -q "$1" && mount "$1" /mnt', "umount /mnt", "3s", "2"),
    }


# $1 seconds of fio, $2 of varmail. Small and large requests, with and without a flush or FUA after them.
_LOAD = """set -e
fio --name=job --directory=/mnt --rw=randrw --rwmixread=60 --bssplit=4k/60:32k/30:256k/10 --size=48m --direct=1 \
  --ioengine=libaio --iodepth=8 --fsync=24 --time_based --runtime="$1" --randseed=7 >&2
mkdir /mnt/mail
strata-engine wml run --dir=/mnt/mail --seconds="$2" --set=nfiles=150 --data=random builtin:varmail >&2
sync
"""


def record(state: SavedState, stack: Stack) -> bytes:
    """What was asked of the first disk of a stack, compressed."""
    with TemporaryDirectory(prefix="record-requests-") as directory:
        running = machine.resume(state, _MARKER, Path(directory))
        try:
            host = ServedHost(running.channel, _MARKER, running.engine)

            def sh(script: str, *words: str) -> str:
                return host.run(Command(("sh", "-c", script, "sh", *words), timeout_s=1800.0)).stdout

            paths = []
            for number in range(stack.disks):
                path, commands = models.in_guest(
                    f"disk{number}", _SIZE, stack.model, stack.model.write_cache, seed=number
                )
                for command in commands:
                    argv = (*command.argv, f"--record={_RECORD.format(number)}")
                    host.run(replace(command, argv=argv))
                paths.append(path)
            sh(stack.build, *paths)
            sh(_LOAD, stack.fio_s, stack.varmail_s)
            sh(stack.take_down)
            for number in range(stack.disks):
                sh('strata-engine disk stop "$1"', f"disk{number}")
            return base64.b64decode(sh('gzip --best --no-name --stdout -- "$1" | base64', _RECORD.format(0)))
        finally:
            running.close()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", nargs="*", default=list(stacks()))
    options = parser.parse_args(argv)
    spec = MachineSpec(image.find(built("zfs"), caches.default()), Path(engine_path()), "virtual", 1, 8 << 30)
    state = machine.saved(spec, _MARKER, print)
    options.directory.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        content = record(state, stacks()[name])
        (options.directory / f"{name}.gz").write_bytes(content)
        print(f"{name}: {len(content)} bytes", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
