"""Nothing is touched that the operator did not give, or that anybody uses.

A claimed device is looked at before the campaign and again before every visit. All reasons come at once, and what
cannot be looked at is refused: a check that fails never counts as a check that found nothing.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from strata.errors import CommandFailed, Refused, VisitFailed
from strata.hosts.base import Host
from strata.model import Command, Disk
from strata.units import human_size

_BY_ID = re.compile(r"/dev/disk/by-id/(?!\.\.?$)[^/]+")

_SIGNATURE_NAMES = {
    "LVM2_member": "an LVM physical volume",
    "linux_raid_member": "a member of an md array",
    "zfs_member": "a member of a ZFS pool",
    "crypto_LUKS": "a LUKS volume",
    "bcache": "a bcache device",
    "swap": "swap space",
    "gpt": "a GPT partition table",
    "dos": "a DOS partition table",
    "PMBR": "the protective entry of a GPT partition table",
    "atari": "an Atari partition table",
}

# Targets that export a device by its path and open it without claiming it: NVMe over fabrics, SCSI (fileio).
_EXPORTS = """\
for file in /sys/kernel/config/nvmet/subsystems/*/namespaces/*/device_path \
            /sys/kernel/config/target/core/*/*/udev_path; do
  [ -r "$file" ] && path=$(cat "$file") && [ -e "$path" ] && printf '%s\\t%s\\n' "$file" "$(readlink -f -- "$path")"
done
exit 0"""

# $1 an inode number; the device of its file system and the descriptor, for each that is open anywhere.
_OPEN_FILES = "find -L /proc/[0-9]*/fd -maxdepth 1 -inum \"$1\" -printf '%D %p\\n' 2>/dev/null"

_STABLE_NAMES = 'for l in /dev/disk/by-id/*; do if [ "$l" -ef "$1" ]; then echo "$l"; fi; done'


def claim(host: Host, disks: Sequence[Disk], wipe: Collection[str]) -> list[Disk]:
    """The disks as they can be used now: a claimed one with its device node in place of its stable id.

    The node is the device itself, not a link to it: what was looked at is what will be written to, even if somebody
    points the link elsewhere meanwhile. `wipe`: stable ids whose signatures the operator gave up by naming them. That
    excuses signatures, never use. Raises Refused with every reason why the claimed devices must not be touched. Reads
    only.
    """
    usable: list[Disk] = []
    reasons: list[str] = []
    taken: dict[str, str] = {}
    for disk in disks:
        if disk.device is None:
            usable.append(disk)
            continue
        try:
            found = _look(host, disk.device, find(host, disk.device))
            reasons += reasons_against(host, found, wiped=disk.device in wipe)
        except Refused as refused:
            reasons += refused.reasons
            continue
        except (VisitFailed, ValueError, LookupError, TypeError) as error:
            reasons.append(f"{disk.device} cannot be examined, so it is not touched ({error}); examine it with lsblk.")
            continue
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
        usable.append(replace(disk, device=found.node, size_bytes=found.size_bytes))
    if reasons:
        raise Refused(reasons)
    return usable


def find(host: Host, stable_id: str) -> str:
    """The path of the device with a stable id. Raises Refused when there is none, or more than one.

    A stable id is a link below /dev/disk/by-id, `serial:...`, `wwn:...`, or, for a loop device, its backing file.
    """
    if stable_id.startswith(("serial:", "wwn:")):
        column, _, wanted = stable_id.partition(":")
        listed = _json(host, "lsblk", "--json", "--paths", "--nodeps", "--output", f"PATH,{column}")
        nodes = [device["path"] for device in listed["blockdevices"] if wanted and device[column] == wanted]
        if len(nodes) == 1:
            return str(nodes[0])
        raise Refused(
            f"{len(nodes)} devices have the {column} '{wanted}', and one is wanted; "
            "see `lsblk -o NAME,SERIAL,WWN`, or name it by its link below /dev/disk/by-id."
        )
    if _BY_ID.fullmatch(stable_id):
        return stable_id
    if stable_id.startswith("/dev/"):
        # /dev/sdb is whatever came up second, by-path whatever is plugged in there, by-label whatever says so.
        better = _better(host, stable_id)
        raise Refused(f"{stable_id} may mean another disk tomorrow; name it by its stable id: {better}.")
    if not stable_id.startswith("/"):
        raise Refused(
            f"{stable_id} is no stable id; give a link below /dev/disk/by-id, "
            "or the backing file of a loop device by its absolute path."
        )
    nodes = _output(host, "losetup", "--noheadings", "--output", "NAME", "--associated", stable_id).split()
    if len(nodes) == 1:
        return nodes[0]
    raise Refused(
        f"{stable_id} is neither a link below /dev/disk/by-id nor the backing file of one loop device "
        f"({len(nodes)} found); see `ls -l /dev/disk/by-id` and `losetup --list`."
    )


@dataclass(frozen=True, slots=True)
class Found:
    """A block device as it is now."""

    name: str  # what the operator calls it
    node: str  # the device node, no link
    size_bytes: int
    tree: dict[str, Any]  # lsblk's entry of the device, with everything stacked on it
    states: dict[str, dict[str, Any]]  # path -> what strata-engine says, of the device and its partitions

    def parts(self) -> list[dict[str, Any]]:
        """The device and its partitions: what a file system on the whole device would overwrite."""
        return [entry for entry in _walk(self.tree) if entry is self.tree or entry["type"] == "part"]

    def numbers(self) -> list[str]:
        return [entry["maj:min"] for entry in _walk(self.tree)]

    def called(self, entry: dict[str, Any]) -> str:
        return self.name if entry is self.tree else f"{entry['path']} on {self.name}"


def reasons_against(host: Host, found: Found, *, wiped: bool) -> list[str]:
    """Every reason not to write to a device; [] = it is free. Reads only. Raises VisitFailed when it cannot tell."""
    return [
        *_stacked(found),
        *_taken_by_kernel(host, found),
        *_open_in_processes(host, found),
        *_same_disk_twice(host, found),
        *_unusable(found),
        *([] if wiped else _signatures(host, found)),
    ]


def wipe(host: Host, node: str) -> None:
    """Remove every signature of a device that `claim` let pass.

    Raises Refused when somebody took it meanwhile; wipefs also claims each part before it writes.
    """
    found = _look(host, node, node)
    reasons = reasons_against(host, found, wiped=True)
    if reasons:
        raise Refused(reasons)
    for part in reversed(found.parts()):
        host.run(Command(("wipefs", "--all", "--quiet", "--", part["path"])))
    if len(found.parts()) > 1:
        # The kernel still knows the partitions that the table named. On a kernel that reads the table itself they are
        # gone by now, and partx then has nothing to delete.
        host.run(Command(("partx", "--delete", "--", node)), check=False)


def _look(host: Host, name: str, path: str) -> Found:
    """The device at `path`, which the operator calls `name`. Raises Refused when it is none that could be used."""
    try:
        state = _json(host, host.engine, "device", path)
    except CommandFailed as error:
        said = (error.stderr.strip() or str(error)).removeprefix("strata-engine: ")
        raise Refused(f"{name} cannot be claimed: {said}; see `ls -l /dev/disk/by-id`.") from error
    if not state["size_bytes"]:
        raise Refused(f"{name} has no size: nothing is in it or attached to it; attach or insert it first.")
    columns = "PATH,KNAME,PKNAME,TYPE,RO,MAJ:MIN,WWN,MOUNTPOINTS"
    node = state["real_path"]
    tree = _json(host, "lsblk", "--all", "--json", "--paths", "--output", columns, "--", node)["blockdevices"][0]
    if tree["maj:min"].strip() != state["major_minor"]:
        raise Refused(f"{name} became another device while it was looked at; see `losetup --list` and try again.")
    found = Found(name, node, state["size_bytes"], tree, {tree["path"]: state})
    for part in found.parts()[1:]:
        found.states[part["path"]] = _json(host, host.engine, "device", part["path"])
    return found


def _stacked(found: Found) -> Iterator[str]:
    """Mounts, swap and holders: what lsblk shows of the device and of everything on it."""
    for entry in _walk(found.tree):
        what = found.called(entry)
        mounts = [mount for mount in entry["mountpoints"] or [] if mount and mount != "[SWAP]"]
        if mounts:
            yield f"{what} is mounted at {', '.join(mounts)}; unmount it, if it may be overwritten."
        if "[SWAP]" in (entry["mountpoints"] or []):
            yield f"{what} is swap; turn it off with swapoff, if it may be overwritten."
        holders = [child["path"] for child in entry.get("children") or [] if child["type"] != "part"]
        if holders:
            yield f"{what} is held by {', '.join(holders)}; take that apart, if it may be overwritten."


def _taken_by_kernel(host: Host, found: Found) -> Iterator[str]:
    """Loop devices over it and exports of it: they open it without claiming it, so nothing else shows them."""
    columns = "NAME,BACK-FILE,BACK-INO,BACK-MAJ:MIN"
    listed = _output(host, "losetup", "--json", "--list", "--output", columns)
    loops = json.loads(listed)["loopdevices"] if listed else []
    backing = {loop["name"]: loop for loop in loops if loop["back-file"]}
    exports = [line.split("\t") for line in _output(host, "sh", "-c", _EXPORTS).splitlines()]
    whole = _whole(found)
    called = {whole: f"the disk {whole} of {found.name}"}
    for entry in found.parts():
        called |= dict.fromkeys((entry["path"], entry["kname"]), found.called(entry))
    for name, loop in backing.items():
        if loop["back-file"] in called:
            what = called[loop["back-file"]]
            yield f"{what} carries the loop device {name}; detach that first, if it may be overwritten."
    below = backing.get(whole)
    if below:
        yield from _shared_backing(host, found, below, backing)
        called[below["back-file"]] = f"the backing file of {found.name}"
    for file, real in exports:
        if real in called:
            yield f"{called[real]} is exported ({file}); take that export down, if it may be overwritten."


def _shared_backing(
    host: Host, found: Found, below: dict[str, Any], backing: dict[str, dict[str, Any]]
) -> Iterator[str]:
    """What else uses the backing file of a loop device."""
    if below["back-file"].startswith("/dev/"):
        yield f"{found.name} is a loop device over {below['back-file']}; claim that device itself."
        return
    for name, loop in backing.items():
        if loop is not below and _identity(loop) == _identity(below):
            yield f"{found.name} shares its backing file with {name}; detach that first, if it may be overwritten."
    device, inode = _identity(below)
    command = Command(("sh", "-c", _OPEN_FILES, "sh", inode))
    listed = host.run(command, check=False)
    # 1: a process ended while it was looked at
    if listed.exit_code not in (0, 1):
        raise CommandFailed(listed.argv, listed.exit_code, listed.stdout, listed.stderr)
    openers = set()
    for line in listed.stdout.splitlines():
        number, path = line.split(" ", 1)
        if f"{os.major(int(number))}:{os.minor(int(number))}" == device:
            openers.add(path.split("/")[2])
    if openers:
        names = ", ".join(f"process {pid}" for pid in sorted(openers, key=int))
        yield f"the backing file of {found.name} is open in {names}; end that first, if it may be overwritten."


def _open_in_processes(host: Host, found: Found) -> Iterator[str]:
    """Processes that have it open, and any claim that nothing else explains."""
    states = {found.called(entry): found.states[entry["path"]] for entry in found.parts()}
    unseen = max(state["unseen_processes"] for state in states.values())
    if unseen:
        yield f"{found.name}: {unseen} processes do not show what they have open; run Strata as root."
        return
    explained = bool(list(_stacked(found)))
    for what, state in states.items():
        if state["openers"]:
            yield f"{what} is open in {_openers(state)}; end that first, if it may be overwritten."
        elif not state["exclusive"] and not explained:
            # a further device of a mounted btrfs, part of an imported pool, mounted out of our sight ...
            yield (
                f"{what} cannot be had alone ({state['exclusive_error']}), so something uses it; "
                "find out what, and end that first, if it may be overwritten."
            )
    whole = _whole(found)
    if whole != found.tree["path"]:
        # Writing to the whole disk reaches its partition; claiming the partition does not show that.
        state = _json(host, host.engine, "device", whole)
        if state["openers"]:
            yield f"the disk {whole} of {found.name} is open in {_openers(state)}; end that first."


def _same_disk_twice(host: Host, found: Found) -> Iterator[str]:
    """A disk with two ways to it may be in use by the other."""
    wwn = found.tree["wwn"]
    if not wwn or found.tree["type"] != "disk":
        return
    listed = _json(host, "lsblk", "--json", "--paths", "--nodeps", "--output", "PATH,WWN")["blockdevices"]
    others = [device["path"] for device in listed if device["wwn"] == wwn and device["path"] != found.tree["path"]]
    if others:
        yield (
            f"{found.name} is the same disk as {', '.join(others)} (WWN {wwn}); "
            "claim the multipath device over them, or take the other ways away."
        )


def _unusable(found: Found) -> Iterator[str]:
    if found.tree["ro"]:
        yield f"{found.name} ({human_size(found.size_bytes)}) is read-only; make it writable or give another device."


def _signatures(host: Host, found: Found) -> Iterator[str]:
    # the partitions too: a table may be gone from the device and still be known to the kernel
    names: set[str] = set()
    for part in found.parts():
        listed = _output(host, "wipefs", "--no-act", "--json", "--", part["path"])
        for signature in json.loads(listed or "{}").get("signatures", []):
            names.add(_SIGNATURE_NAMES.get(signature["type"], f"a {signature['type']} file system"))
    if names:
        yield (
            f"{found.name} carries {' and '.join(sorted(names))}; "
            f"if nothing on it is needed any more, add --wipe {found.name}."
        )


def _walk(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield entry
    for child in entry.get("children") or []:
        yield from _walk(child)


def _whole(found: Found) -> str:
    """The path of the disk that the device is a partition of; of itself when it is none."""
    return str(found.tree["pkname"] if found.tree["type"] == "part" else found.tree["path"])


def _identity(loop: dict[str, Any]) -> tuple[str, str]:
    """Device and inode number of a loop device's backing file, which hold for every name of it."""
    return str(loop["back-maj:min"]).strip(), str(loop["back-ino"])


def _openers(state: dict[str, Any]) -> str:
    return ", ".join(f"{opener['command']} (process {opener['pid']})" for opener in state["openers"])


def _better(host: Host, path: str) -> str:
    """The stable name of a device that was called by an unstable one, or how to find it."""
    links = _output(host, "sh", "-c", _STABLE_NAMES, "sh", path).splitlines()
    loop = host.run(Command(("losetup", "--noheadings", "--output", "BACK-FILE", path)), check=False)
    return links[0] if links else loop.stdout.strip() or "see `ls -l /dev/disk/by-id`"


def _output(host: Host, *argv: str) -> str:
    return host.run(Command(argv)).stdout.strip()


def _json(host: Host, *argv: str) -> dict[str, Any]:
    """Raises CommandFailed, and ValueError when it is not JSON."""
    return dict(json.loads(_output(host, *argv)))
