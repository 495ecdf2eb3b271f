"""Nothing is touched that the operator did not give, or that anybody uses.

A claimed device is looked at before the campaign and again before every visit, and held for the run, so that no other
run claims it too. All reasons come at once, and what cannot be looked at is refused: a check that fails never counts as
a check that found nothing (docs/decisions/0044).
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from strata.errors import CommandFailed, HostLost, Refused, VisitFailed
from strata.hosts.base import Host
from strata.model import Command, Disk
from strata.run.safety import device_use
from strata.run.safety.device_use import Found

_BY_ID = re.compile(r"/dev/disk/by-id/(?!\.\.?$)[^/]+")

_STABLE_NAMES = 'for l in /dev/disk/by-id/*; do if [ "$l" -ef "$1" ]; then echo "$l"; fi; done'

# $1 the process that holds devices.
_LET_GO = 'case $(tr "\\000" " " <"/proc/$1/cmdline") in *" hold --until-end-of "*) kill "$1" ;; esac'

# At most 64 MiB are written.
_BLANK_S = 120.0

_DISCARDS = ("lsblk", "--bytes", "--nodeps", "--noheadings", "--output", "DISC-MAX", "--")
# A large disk that discards slowly.
_DISCARD_S = 1800.0

# $1 the node of a loop device or of a partition of one. Prints a word when its file has no hole or cannot be examined.
_PREALLOCATED = """\
for of in "/sys/class/block/${1##*/}" "/sys/class/block/${1##*/}/.."; do
  [ -r "$of/loop/backing_file" ] || continue
  file=$(cat "$of/loop/backing_file")
  [ ! -b "$file" ] || continue
  blocks=$(stat --dereference --format=%b -- "$file") && bytes=$(stat --dereference --format=%s -- "$file") &&
    [ $((blocks * 512)) -lt "$bytes" ] || echo preallocated
done"""

# udev, blkid and `btrfs device scan` open every device for a moment, udev just after anything was written to it.
# So a device that is merely open is looked at again.
_PAUSES_S = (0.1, 0.2, 0.4, 0.8)


def claim(host: Host, disks: Sequence[Disk], wipe: Collection[str]) -> list[Disk]:
    """The disks as they can be used now: a claimed one with its device node in place of its stable id.

    The node is the device itself, not a link to it: what was looked at is what will be written to, even if somebody
    points the link elsewhere meanwhile. `wipe`: stable ids whose content the operator gave up by naming them. That
    excuses content, never use. A disk with an `identity` is one that this run holds: what its own visits left
    there has no signature and is excused, and another device under its name is refused. Raises Refused with every
    reason why the claimed devices must not be touched. Reads only.
    """
    usable: list[Disk] = []
    reasons: list[str] = []
    taken: dict[str, str] = {}
    for disk in disks:
        if disk.device is None:
            usable.append(disk)
            continue
        try:
            path, ours = find(host, disk.device), disk.identity is not None
            found, against = _judge(host, disk.device, path, wiped=disk.device in wipe, ours=ours)
        except Refused as refused:
            reasons += refused.reasons
            continue
        except (VisitFailed, ValueError, LookupError, TypeError) as error:
            reasons.append(f"{disk.device} cannot be examined, so it is not touched ({error}); examine it with lsblk.")
            continue
        if ours and disk.identity != found.identity():
            reasons.append(
                f"{disk.device} is not the device any more that this run began to use; see `ls -l /dev/disk/by-id` and "
                "the kernel's log for what happened to it, then start the run again."
            )
        reasons += against
        # A partition and its disk overlap as much as a device given twice.
        other = next((taken[number] for number in found.numbers() if number in taken), None)
        if other is not None:
            reasons.append(f"{disk.device} and {other} lie on the same device; give each device once.")
        taken |= dict.fromkeys(found.numbers(), disk.device)
        if disk.size_bytes not in (0, found.size_bytes):
            reasons.append(
                f"{disk.device} holds {found.size_bytes} bytes and held {disk.size_bytes} when this run was planned; "
                "it may be another disk now: look at it, then start the run again."
            )
        usable.append(replace(disk, device=found.node, size_bytes=found.size_bytes, identity=found.identity()))
    if reasons:
        raise Refused(reasons)
    return usable


@contextmanager
def held(host: Host, disks: Sequence[Disk]) -> Iterator[list[str]]:
    """Keeps every other run of Strata on that machine from the claimed devices, and yields their nodes.

    A process there holds them; it ends with the block, or with the process of Strata or the connection to it. Raises
    Refused when another run has one of them.
    """
    paths = [find(host, disk.device) for disk in disks if disk.device is not None]
    try:
        nodes = device_use.read(host, "readlink", "--canonicalize-existing", "--", *paths).splitlines()
        holder = device_use.read(host, host.engine, "hold", "--", *nodes)
    except CommandFailed as error:
        message = (error.stderr.strip() or str(error)).removeprefix("strata-engine: ")
        raise Refused(f"{message}.") from error
    try:
        yield nodes
    finally:
        with suppress(HostLost):  # then the process that holds them has ended too
            host.run(Command(("sh", "-c", _LET_GO, "sh", holder)))


def find(host: Host, stable_id: str) -> str:
    """The path of the device with a stable id. Raises Refused when there is none, or more than one.

    A stable id is a link below /dev/disk/by-id, `serial:...`, `wwn:...`, or, for a loop device, its backing file.
    """
    if stable_id.startswith(("serial:", "wwn:")):
        column, _, wanted = stable_id.partition(":")
        listed = device_use.read_json(host, "lsblk", "--json", "--paths", "--nodeps", "--output", f"PATH,{column}")
        nodes = [device["path"] for device in listed["blockdevices"] if wanted and device[column] == wanted]
        if len(nodes) == 1:
            return str(nodes[0])
        raise Refused(
            f"{len(nodes)} devices have the {column} '{wanted}', and one is wanted; "
            "see `lsblk -o NAME,SERIAL,WWN`, or name it by its link below /dev/disk/by-id."
        )
    if _BY_ID.fullmatch(stable_id):
        return stable_id
    if device_use.is_device_path(stable_id):
        # /dev/sdb is whatever came up second, by-path whatever is plugged in there, by-label whatever says so.
        better = _better(host, stable_id)
        raise Refused(f"{stable_id} may mean another disk tomorrow; name it by its stable id: {better}.")
    if not stable_id.startswith("/"):
        raise Refused(
            f"{stable_id} is no stable id; give a link below /dev/disk/by-id, "
            "or the backing file of a loop device by its absolute path."
        )
    nodes = device_use.read(host, "losetup", "--noheadings", "--output", "NAME", "--associated", stable_id).split()
    if len(nodes) == 1:
        return nodes[0]
    raise Refused(
        f"{stable_id} is neither a link below /dev/disk/by-id nor the backing file of one loop device "
        f"({len(nodes)} found); see `ls -l /dev/disk/by-id` and `losetup --list`."
    )


def wipe(host: Host, disk: Disk) -> None:
    """Remove every signature of a disk that `claim` let pass, and what `claim` would find of the rest.

    Raises Refused when somebody took it meanwhile, CommandFailed when it became another device or was taken just now.
    """
    node = str(disk.device)
    _, reasons = _judge(host, node, node, wiped=True)
    if reasons:
        raise Refused(reasons)
    _blank(host, disk, "--wipe")


def is_preallocated(host: Host, node: str) -> bool:
    """Whether it is a loop device, or a partition of one, whose file has all its blocks: a discard would free them."""
    if not node.startswith("/dev/loop"):
        return False
    return bool(device_use.read(host, "sh", "-c", _PREALLOCATED, "sh", node).strip())


def discard(host: Host, disk: Disk, node: str) -> None:
    """Discard all of a claimed disk, where it can discard: each visit starts on flash in the same state, whatever is
    built on it. `node`: where `claim` found it.

    It is looked at again, for to discard the disks before it may have taken an hour, and once more by the engine.

    Raises Refused when somebody took it or put something on it, or it does not do what it says it can.
    """
    if disk.keep_blocks or device_use.read(host, *_DISCARDS, node).split() in ([], ["0"]):
        return
    (usable,) = claim(host, [disk], wipe=())
    try:
        _blank(host, usable, "--discard", timeout_s=_DISCARD_S)
    except CommandFailed as error:
        message = (error.stderr.strip() or str(error)).removeprefix("strata-engine: ")
        raise Refused(f"{message}.") from error


def blank(host: Host, disks: Sequence[Disk]) -> list[str]:
    """Leave the claimed ones of `disks`, which this run holds and has used, as it found them: empty.

    Each is looked at just before it is written to. One that somebody took or put something on in the meantime is left
    alone; returns why.
    """
    left: list[str] = []
    for disk in disks:
        if disk.device is None:
            continue
        try:
            (usable,) = claim(host, [disk], wipe=())
            _blank(host, usable)
        except Refused as refused:
            left += refused.reasons
        except VisitFailed as error:
            left.append(f"{disk.device}: {error}")
    return left


def _blank(host: Host, disk: Disk, *options: str, timeout_s: float = _BLANK_S) -> None:
    """The engine compares the identity when it has the device alone, and only then writes or discards."""
    argv = (host.engine, "blank", *options, "--identity", str(disk.identity), "--", str(disk.device))
    host.run(Command(argv, timeout_s=timeout_s))


def _judge(host: Host, name: str, path: str, *, wiped: bool, ours: bool = False) -> tuple[Found, list[str]]:
    """The device at `path`, which the operator calls `name`, with every reason not to write to it; [] = it is free.

    `wiped`: its content may go. `ours`: this run holds it, so content without a signature is what its visits left.

    Raises Refused when it is none that could be used, VisitFailed when that is unknown.
    """
    for pause_s in (*_PAUSES_S, None):
        found = device_use.look(host, name, path)
        lasting = [*device_use.lasting(host, found)]
        passing = [*device_use.passing(host, found)]
        if not passing or pause_s is None:
            break
        time.sleep(pause_s)
    reasons = [*lasting, *passing]
    if not wiped:
        reasons += device_use.contents(host, found, excused=ours and found.is_numbered())
    return found, reasons


def _better(host: Host, path: str) -> str:
    """The stable name of a device that was called by an unstable one, or how to find it."""
    links = device_use.read(host, "sh", "-c", _STABLE_NAMES, "sh", path).splitlines()
    loop = host.run(Command(("losetup", "--noheadings", "--output", "BACK-FILE", path)), check=False)
    return links[0] if links else loop.stdout.strip() or "see `ls -l /dev/disk/by-id`"
