"""What a block device is, who uses it and what it carries. Reads only.

No single question tells it all. A mount shows in lsblk, but not one in another mount namespace; an exclusive open fails
for every holder, but not for a loop device on top, an export, or a process that just opened it; a member of a mounted
btrfs shows nowhere but in the exclusive open. So all are asked.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from strata.errors import CommandFailed, Refused
from strata.hosts.base import Host
from strata.model import Command
from strata.units import human_size

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

# $1 an inode number; the device of its file system and the descriptor or mapping, for each that is open or mapped
# anywhere. A mapping lasts when the descriptor was closed. A thread may have files of its own; where the first one of a
# process has ended (Z), the memory is to be seen at the others only.
_OPEN_FILES = """\
others() {
  for ended in $(grep -ls '^State:[[:space:]]*Z' /proc/[0-9]*/status); do
    for thread in "${ended%/status}"/task/[0-9]*; do echo "/proc/${thread##*/}/map_files"; done
  done
}
find -L /proc/[0-9]*/task/[0-9]*/fd /proc/[0-9]*/map_files $(others) \\
  -maxdepth 1 -inum "$1" -printf '%D %p\\n' 2>/dev/null"""

# $1 an inode number; the device of its file system, for each file of that number that is swap.
_SWAP_FILES = r"""\
while read -r written kind _; do
  [ "$kind" = file ] || continue
  file=$(printf "$(printf %s "$written" | sed 's/%/%%/g')")
  find -L "$file" -maxdepth 0 -inum "$1" -printf '%D\n' 2>/dev/null
done </proc/swaps"""

# A read that never ends cannot be killed, and who waits for it waits without end. So timeout(1) ends this shell, which
# leaves the program to itself: that ends with its read.
_LEAVING = """trap 'kill -KILL "$program"; exit' USR1; "$@" & program=$!; wait "$program\""""
_IN_TIME = ("timeout", "--foreground", "--signal=USR1")
_NOT_IN_TIME = 124

# The engine reads no longer than 2 s, unless one read takes longer.
_CONTENT_S = 4
_SIGNATURES_S = 30

_MOST_SHOWN = 3

# Without NAME lsblk gives a list instead of a tree.
_COLUMNS = "NAME,PATH,KNAME,PKNAME,TYPE,RO,MAJ:MIN,WWN,MOUNTPOINTS"

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """A block device as it is now."""

    name: str  # what the operator calls it
    node: str  # the device node, no link
    size_bytes: int
    tree: Entry  # lsblk's entry of the device, with everything stacked on it
    states: Mapping[str, dict[str, Any]]  # path -> what strata-engine says, of the device and its partitions
    loops: Mapping[str, dict[str, Any]]  # path -> what losetup says, of every loop device of the machine

    def parts(self) -> list[Entry]:
        """The device and its partitions: what a file system on the whole device would overwrite."""
        return _parts(self.tree)

    def numbers(self) -> list[str]:
        """Major and minor numbers of the device and of everything on it."""
        return [entry["maj:min"].strip() for entry in _walk(self.tree)]

    def whole(self) -> str:
        """The path of the disk that it is a partition of; of itself when it is none."""
        return str(self.tree["pkname"] if self.tree["type"] == "part" else self.tree["path"])

    def backing(self) -> dict[str, Any] | None:
        """What losetup says of it, when it is a loop device or a partition of one."""
        return self.loops.get(self.whole())

    def identity(self) -> str:
        """Of the device, and of no other that gets its name or numbers before the next boot."""
        return str(self.states[self.tree["path"]]["identity"])

    def is_numbered(self) -> bool:
        """Whether the kernel gives every disk a number of its own (`diskseq`, since Linux 5.15)."""
        return self.states[self.tree["path"]]["disk_sequence"] is not None

    def called(self, entry: Entry) -> str:
        return self.name if entry is self.tree else f"{entry['path']} on {self.name}"


def look(host: Host, name: str, path: str) -> Found:
    """The device at `path`, which the operator calls `name`. Raises Refused when it is none that could be used."""
    try:
        state = _state(host, path)
    except CommandFailed as error:
        said = (error.stderr.strip() or str(error)).removeprefix("strata-engine: ")
        raise Refused(f"{name} cannot be claimed: {said}; see `ls -l /dev/disk/by-id`.") from error
    if not state["size_bytes"]:
        raise Refused(f"{name} has no size: nothing is in it or attached to it; attach or insert it first.")
    node = str(state["real_path"])
    listed = read_json(host, "lsblk", "--all", "--json", "--paths", "--output", _COLUMNS, "--", node)
    tree = listed["blockdevices"][0]
    if tree["maj:min"].strip() != state["major_minor"]:
        raise Refused(f"{name} became another device while it was looked at; see `losetup --list` and try again.")
    loops = read(host, "losetup", "--json", "--list", "--output", "NAME,BACK-FILE,BACK-INO,BACK-MAJ:MIN")
    attached = {loop["name"]: loop for loop in json.loads(loops or '{"loopdevices": []}')["loopdevices"]}
    attached = {path: loop for path, loop in attached.items() if loop["back-file"]}
    states = {part["path"]: state if part is tree else _state(host, part["path"]) for part in _parts(tree)}
    return Found(name, node, int(state["size_bytes"]), tree, states, attached)


def lasting(host: Host, found: Found) -> Iterator[str]:
    """Reasons not to write to it that do not go away by themselves."""
    for entry in _walk(found.tree):
        for use in _uses(entry):
            yield f"{found.called(entry)} is {use}, if it may be overwritten."
    yield from _on_top(host, found)
    yield from _below(found)
    yield from _other_ways(host, found)
    if found.tree["ro"]:
        yield f"{found.name} ({human_size(found.size_bytes)}) is read-only; make it writable or give another device."


def passing(host: Host, found: Found) -> Iterator[str]:
    """Reasons that may be gone in a moment: it is open, or claimed by what nothing else shows."""
    unseen = max(state["unseen_processes"] for state in found.states.values())
    if unseen:
        yield f"{found.name}: {unseen} processes do not show what they have open; run Strata as root."
        return
    device, *partitions = found.parts()
    # Who claims a device keeps others from claiming its partitions, and the other way round.
    on_device = any(_uses(device))
    on_partitions = any(not found.states[part["path"]]["exclusive"] for part in partitions)
    for entry in found.parts():
        state = found.states[entry["path"]]
        explained = on_device or any(_uses(entry)) or (entry is device and on_partitions)
        if state["openers"]:
            yield f"{found.called(entry)} is open in {_openers(state)}; end that first, if it may be overwritten."
        elif not state["exclusive"] and not explained:
            # a further device of a mounted btrfs, part of an imported pool, mounted out of our sight ...
            yield (
                f"{found.called(entry)} cannot be had alone ({state['exclusive_error']}), so something uses it; "
                "find out what, and end that first, if it may be overwritten."
            )
    if found.whole() != found.tree["path"]:
        # Writing to the whole disk reaches its partition; claiming the partition does not show that.
        state = _state(host, found.whole())
        if state["openers"]:
            yield f"the disk {found.whole()} of {found.name} is open in {_openers(state)}; end that first."
    yield from _open_backing_file(host, found)


def contents(host: Host, found: Found, *, excused: bool) -> list[str]:
    """Why what it holds keeps it from being written to. `excused`: not for data that no signature explains."""
    try:
        unexplained = [] if excused else [*_unexplained(host, found)]
        # A signature says more of the same.
        return [*_signatures(host, found)] or unexplained
    except _NoAnswerError as error:
        return [
            f"{found.name} does not answer: reading it did not end in {error.seconds} s; see dmesg and `dmsetup info`."
        ]


class _NoAnswerError(Exception):
    def __init__(self, seconds: int) -> None:
        super().__init__(seconds)
        self.seconds = seconds


def _signatures(host: Host, found: Found) -> Iterator[str]:
    names: set[str] = set()
    # the partitions too: a table may be gone from the device and still be known to the kernel
    for part in found.parts():
        listed = _read_in_time(host, _SIGNATURES_S, "wipefs", "--no-act", "--json", "--", part["path"])
        # some versions say nothing at all of a blank device
        for signature in json.loads(listed)["signatures"] if listed else []:
            names.add(_SIGNATURE_NAMES.get(signature["type"], f"a signature of {signature['type']}"))
    if names:
        yield (
            f"{found.name} carries {' and '.join(sorted(names))}; "
            f"if nothing on it is needed any more, add --wipe {found.name}."
        )


def _unexplained(host: Host, found: Found) -> Iterator[str]:
    """What it holds without regard to signatures; also when it cannot be shown to be empty in bounded time."""
    seen = json.loads(_read_in_time(host, _CONTENT_S, host.engine, "device", "--content", found.node))["content"]
    if seen["empty"]:
        return
    then = f"if nothing on it is needed any more, add --wipe {found.name}."
    if seen["found"]:
        places = " and ".join(_place(each, found.size_bytes) for each in seen["found"][:_MOST_SHOWN])
        yield (
            f"{found.name} holds data that no known signature explains: bytes other than zero at {places}. "
            f"Earlier runs of Strata leave such data too{_unnumbered(found)}; {then}"
        )
    else:
        yield f"{found.name} cannot be shown to be empty: {seen['unread']}{_unnumbered(found)}; {then}"


def _read_in_time(host: Host, seconds: int, *argv: str) -> str:
    """Standard output. Raises CommandFailed, _NoAnswerError."""
    done = host.run(Command((*_IN_TIME, str(seconds), "sh", "-c", _LEAVING, "sh", *argv)), check=False)
    if done.exit_code == _NOT_IN_TIME:
        raise _NoAnswerError(seconds)
    if done.exit_code:
        raise CommandFailed(argv, done.exit_code, done.stdout, done.stderr)
    return done.stdout.strip()


def _unnumbered(found: Found) -> str:
    """Why not even the run that wrote it is excused."""
    if found.is_numbered():
        return ""
    return (
        ", and this kernel has no diskseq (Linux 5.15 has), so a run cannot tell its own disk from another that took "
        "its place between two visits"
    )


def _place(found: Mapping[str, Any], size_bytes: int) -> str:
    offset = int(found["offset_bytes"])
    left = size_bytes - offset
    where = f"{human_size(left)} before its end" if left < offset else f"{human_size(offset)} from its start"
    data = bytes.fromhex(found["bytes"])
    text = data.decode("latin-1").rstrip("\n")
    readable = f", '{text}'" if text.isascii() and text.isprintable() else ""
    return f"byte {offset}, {where} ({data.hex(' ')}{readable})"


def is_device_path(path: str) -> bool:
    """Whether a path lies where device nodes do; /dev/shm holds files."""
    return path.startswith("/dev/") and not path.startswith("/dev/shm/")


def read(host: Host, *argv: str) -> str:
    """Standard output. Raises CommandFailed."""
    return host.run(Command(argv)).stdout.strip()


def read_json(host: Host, *argv: str) -> dict[str, Any]:
    """Raises CommandFailed, and ValueError when it is not JSON."""
    return dict(json.loads(read(host, *argv)))


def _state(host: Host, path: str) -> dict[str, Any]:
    return read_json(host, host.engine, "device", path)


def _uses(entry: Entry) -> Iterator[str]:
    """What lsblk knows of the use of one device, without what stands on it."""
    mounts = [mount for mount in entry["mountpoints"] or [] if mount]
    places = [mount for mount in mounts if mount != "[SWAP]"]
    if places:
        yield f"mounted at {', '.join(places)}; unmount it"
    if "[SWAP]" in mounts:
        yield "swap; turn it off with swapoff"
    holders = [child["path"] for child in entry.get("children") or [] if child["type"] != "part"]
    if holders:
        yield f"held by {', '.join(holders)}; take that apart"


def _on_top(host: Host, found: Found) -> Iterator[str]:
    """Loop devices over it and exports of it: they open it without claiming it, so nothing else shows them."""
    called = {found.whole(): f"the disk {found.whole()} of {found.name}"}
    for entry in found.parts():
        called |= dict.fromkeys((entry["path"], entry["kname"]), found.called(entry))
    for path, loop in found.loops.items():
        what = called.get(loop["back-file"])
        if what:
            yield f"{what} carries the loop device {path}; detach that first, if it may be overwritten."
    backing = found.backing()
    if backing:
        called[backing["back-file"]] = f"the backing file of {found.name}"
    for line in read(host, "sh", "-c", _EXPORTS).splitlines():
        file, real = line.split("\t")
        if real in called:
            yield f"{called[real]} is exported ({file}); take that export down, if it may be overwritten."


def _below(found: Found) -> Iterator[str]:
    """What a loop device stands on, and what else does."""
    backing = found.backing()
    if backing is None:
        return
    if is_device_path(backing["back-file"]):
        yield f"{found.name} is a loop device over {backing['back-file']}; claim that device itself."
        return
    for path, loop in found.loops.items():
        if loop is not backing and _identity(loop) == _identity(backing):
            yield f"{found.name} shares its backing file with {path}; detach that first, if it may be overwritten."


def _open_backing_file(host: Host, found: Found) -> Iterator[str]:
    """Processes that write to a loop device behind its back, such as a virtual machine with that image."""
    backing = found.backing()
    if backing is None or is_device_path(backing["back-file"]):
        return
    device, inode = _identity(backing)
    openers = {int(path.split("/")[2]) for number, path in _listed(host, _OPEN_FILES, inode) if number == device}
    if openers:
        names = ", ".join(f"process {pid}" for pid in sorted(openers))
        yield f"the backing file of {found.name} is open in {names}; end that first, if it may be overwritten."
    if any(number == device for number, _ in _listed(host, _SWAP_FILES, inode)):
        yield f"the backing file of {found.name} is swap; turn it off with swapoff, if it may be overwritten."


def _listed(host: Host, script: str, inode: str) -> Iterator[tuple[str, str]]:
    """MAJOR:MINOR of the file system, and the rest of each line."""
    listed = host.run(Command(("sh", "-c", script, "sh", inode)), check=False)
    # 1: a process ended while it was looked at
    if listed.exit_code not in (0, 1):
        raise CommandFailed(listed.argv, listed.exit_code, listed.stdout, listed.stderr)
    for line in listed.stdout.splitlines():
        number, _, rest = line.partition(" ")
        yield f"{os.major(int(number))}:{os.minor(int(number))}", rest


def _other_ways(host: Host, found: Found) -> Iterator[str]:
    """A disk with two ways to it may be in use by the other."""
    wwn = found.tree["wwn"]
    if not wwn or found.tree["type"] != "disk":
        return
    listed = read_json(host, "lsblk", "--json", "--paths", "--nodeps", "--output", "PATH,WWN")["blockdevices"]
    others = [device["path"] for device in listed if device["wwn"] == wwn and device["path"] != found.tree["path"]]
    if others:
        yield (
            f"{found.name} is the same disk as {', '.join(others)} (WWN {wwn}); "
            "claim the multipath device over them, or take the other ways away."
        )


def _walk(entry: Entry) -> Iterator[Entry]:
    yield entry
    for child in entry.get("children") or []:
        yield from _walk(child)


def _parts(tree: Entry) -> list[Entry]:
    return [entry for entry in _walk(tree) if entry is tree or entry["type"] == "part"]


def _identity(loop: Mapping[str, Any]) -> tuple[str, str]:
    """Device and inode number of a loop device's backing file, which hold for every name of it."""
    return str(loop["back-maj:min"]).strip(), str(loop["back-ino"])


def _openers(state: Mapping[str, Any]) -> str:
    return ", ".join(f"{opener['command']} (process {opener['pid']})" for opener in state["openers"])
