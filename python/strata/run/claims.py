"""Nothing is touched that the operator did not give, or that anybody uses.

A claimed device is looked at before the campaign and again before every visit. All reasons come at once.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from strata.errors import CommandFailed, Refused
from strata.hosts.base import Host
from strata.model import Command, Disk

# Names that stay the same over reboots and re-plugging. /dev/sdb is whatever came up second.
_STABLE = ("/dev/disk/by-id/", "/dev/disk/by-path/", "/dev/disk/by-partuuid/")

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


def claim(host: Host, disks: Sequence[Disk], wipe: Collection[str]) -> list[Disk]:
    """The disks as they can be used now: a claimed one with its device node in place of its stable id.

    `wipe`: stable ids whose signatures the operator gave up by naming them. That excuses signatures, never use.
    Raises Refused with every reason why the claimed devices must not be touched. Reads only.
    """
    usable: list[Disk] = []
    reasons: list[str] = []
    seen: dict[str, str] = {}
    for disk in disks:
        if disk.device is None:
            usable.append(disk)
            continue
        node, why_not = find(host, disk.device)
        if node is None:
            reasons += why_not
            continue
        reasons += reasons_against(host, disk.device, node, wiped=disk.device in wipe)
        real = _output(host, "readlink", "--canonicalize", "--", node)
        if real in seen:
            reasons.append(f"{disk.device} and {seen[real]} are the same device; give each device once.")
        seen[real] = disk.device
        usable.append(replace(disk, device=node, size_bytes=size_of(host, node)))
    if reasons:
        raise Refused(reasons)
    return usable


def find(host: Host, stable_id: str) -> tuple[str | None, list[str]]:
    """The device node of a stable id, or the reason why there is none.

    A stable id is a link below /dev/disk/by-id, `serial:...`, `wwn:...`, or, for a loop device, its backing file.
    """
    if stable_id.startswith(("serial:", "wwn:")):
        column, _, wanted = stable_id.partition(":")
        listed = json.loads(_output(host, "lsblk", "--json", "--paths", "--nodeps", "--output", f"PATH,{column}"))
        nodes = [device["path"] for device in listed["blockdevices"] if device[column] == wanted]
        if len(nodes) == 1:
            return nodes[0], []
        return None, [f"{len(nodes)} devices have the {column} {wanted}; see `lsblk -o NAME,SERIAL,WWN`."]
    if stable_id.startswith(_STABLE):
        return stable_id, []
    if stable_id.startswith("/dev/"):
        better = _stable_name(host, stable_id)
        return None, [f"{stable_id} may mean another disk tomorrow; name it by its stable id: {better}."]
    nodes = _output(host, "losetup", "--noheadings", "--output", "NAME", "--associated", stable_id).split()
    if len(nodes) == 1:
        return nodes[0], []
    why_not = (
        f"{stable_id} is neither a link below /dev/disk/by-id nor the backing file of one loop device "
        f"({len(nodes)} found); see `ls -l /dev/disk/by-id` and `losetup --list`."
    )
    return None, [why_not]


def reasons_against(host: Host, name: str, node: str, *, wiped: bool) -> list[str]:
    """Every reason not to write to the device `node`, called `name` in messages; [] = it is free. Read-only."""
    try:
        about = json.loads(host.run(Command((host.engine, "device", node))).stdout)
    except CommandFailed as error:
        return [f"{name} cannot be claimed: {error.stderr.strip() or error}; check it with `ls -l /dev/disk/by-id`."]
    return _use(host, name, node, about) + ([] if wiped else _signatures(host, name, node))


def wipe(host: Host, node: str) -> None:
    """Remove every signature of a device that `claim` let pass. Fails if somebody took it meanwhile."""
    for part in reversed(_tree(host, node)):
        host.run(Command(("wipefs", "--all", "--quiet", "--", str(part["path"]))))
    # the kernel forgets the partitions that the table named
    host.run(Command(("blockdev", "--rereadpt", node)), check=False)


def size_of(host: Host, node: str) -> int:
    """Bytes; 0 when there is no such device (`claim` says so in words)."""
    return int(_output(host, "blockdev", "--getsize64", node) or 0)


def _use(host: Host, name: str, node: str, about: dict[str, Any]) -> list[str]:
    reasons = []
    swaps = {line.split()[0] for line in (host.read("/proc/swaps") or "").splitlines()[1:]}
    for part in _tree(host, node):
        path = part["path"]
        whole = path == about["real_path"]
        what = name if whole else f"{path} on {name}"
        mounts = [mount for mount in part.get("mountpoints") or [] if mount and mount != "[SWAP]"]
        if mounts:
            reasons.append(f"{what} is mounted at {', '.join(mounts)}; unmount it, if it may be overwritten.")
        if path in swaps:
            reasons.append(f"{what} is swap; turn it off with swapoff, if it may be overwritten.")
        holders = _output(host, "sh", "-c", 'ls "/sys/class/block/${1##*/}/holders"', "sh", path).split()
        if holders:
            reasons.append(f"{what} is held by {', '.join(holders)}; take that apart, if it may be overwritten.")
        state = about if whole else json.loads(host.run(Command((host.engine, "device", path))).stdout)
        if state["openers"]:
            openers = ", ".join(f"{opener['command']} (process {opener['pid']})" for opener in state["openers"])
            reasons.append(f"{what} is open in {openers}; end that first.")
        elif not state["exclusive"] and not reasons:
            # a further device of a mounted btrfs, part of an imported pool, taken by a driver ...
            reasons.append(f"{what} is in use ({state['exclusive_error']}); find out by what, and end that first.")
    return reasons


def _signatures(host: Host, name: str, node: str) -> list[str]:
    # the partitions too: a table may be gone from the device and still be known to the kernel
    found: set[str] = set()
    for part in _tree(host, node):
        listed = _output(host, "wipefs", "--no-act", "--json", "--", part["path"])
        for signature in json.loads(listed or "{}").get("signatures", []):
            found.add(_SIGNATURE_NAMES.get(signature["type"], f"a {signature['type']} file system"))
    if not found:
        return []
    return [f"{name} carries {' and '.join(sorted(found))}; if nothing on it is needed any more, add --wipe {name}."]


def _tree(host: Host, node: str) -> list[dict[str, Any]]:
    """The device and everything stacked on it, as lsblk sees it, the device first."""
    flat: list[dict[str, Any]] = []

    def walk(entry: dict[str, Any]) -> None:
        flat.append(entry)
        for child in entry.get("children") or []:
            walk(child)

    listed = _output(host, "lsblk", "--json", "--paths", "--output", "PATH,TYPE,MOUNTPOINTS", "--", node)
    for entry in json.loads(listed)["blockdevices"]:
        walk(entry)
    return flat


def _stable_name(host: Host, node: str) -> str:
    script = 'for l in /dev/disk/by-id/*; do if [ "$l" -ef "$1" ]; then echo "$l"; fi; done'
    links = _output(host, "sh", "-c", script, "sh", node).splitlines()
    backing = _output(host, "losetup", "--noheadings", "--output", "BACK-FILE", node).strip()
    return links[0] if links else backing or "see `lsblk -o NAME,SERIAL,WWN`"


def _output(host: Host, *argv: str) -> str:
    return host.run(Command(argv), check=False).stdout.strip()
