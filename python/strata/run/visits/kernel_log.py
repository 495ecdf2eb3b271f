"""Which layer's device failed, and what was killed because memory ran out: a workload that was says nothing, and what
it says of an I/O error names only a file.

The kernel's log says it for most; the lowest device that cannot be read says it where the kernel logs nothing (direct
I/O on device mapper).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from strata.errors import VisitFailed
from strata.hosts.base import Host
from strata.model import Command

_LINE = re.compile(r"^\[\s*(\d+\.\d+)\]\s*(.*)$")
_DEVICE = re.compile(
    r"(?:I/O error[^,]*, dev |I/O error on dev(?:ice)? |\(device |error on device |[Dd]isk failure on )"
    r"([A-Za-z0-9_!-]+)"
)

# As mm/oom_kill.c says it, of the machine or of a control group.
_KILLED = re.compile(r"[Oo]ut of memory.*: Killed process (\d+) \(([^)]*)\)")


def uptime_s(host: Host) -> float | None:
    """What the kernel's log counts from; None where it cannot be read."""
    said = host.read("/proc/uptime")
    try:
        return float((said or "").split()[0])
    except (IndexError, ValueError):
        return None


def io_errors(host: Host, since_s: float | None, layers: Sequence[tuple[str, str]]) -> list[str]:
    """A sentence for each device that failed after `since_s`, and for what was killed then. `layers`: (text, path of
    its device), bottom to top."""
    if since_s is None:
        return []
    try:
        log = host.run(Command(("dmesg",), timeout_s=30.0), check=False).stdout
        links = [
            host.run(Command(("readlink", "-f", "--", path), timeout_s=30.0), check=False).stdout.strip()
            for _, path in layers
        ]
    except VisitFailed:
        return []
    names = {link.rsplit("/", 1)[-1]: text for link, (text, _) in zip(links, layers, strict=True) if link}
    return sentences(log, since_s, names)


def unreadable(host: Host, devices: Sequence[tuple[str, str]]) -> list[str]:
    """A sentence for the lowest device that does not give its first block; none when all do.

    `devices`: (layer, path), bottom to top: what stands on a device that fails, fails too.
    """
    for layer, path in devices:
        read = ("dd", f"if={path}", "of=/dev/null", "bs=4096", "count=1", "iflag=direct", "status=none")
        try:
            done = host.run(Command(read, timeout_s=60.0), check=False)
        except VisitFailed as error:
            return [f"the device {path} of the layer {layer} cannot be read: {error}"]
        if done.exit_code:
            return [f"the device {path} of the layer {layer} cannot be read: {done.stderr.strip()}"]
    return []


def sentences(log: str, since_s: float, layers: dict[str, str]) -> list[str]:
    """Pure. `layers`: the kernel's name of a device -> the layer that it belongs to."""
    found: dict[str, list[str]] = {}
    killed: list[str] = []
    for line in log.splitlines():
        stamped = _LINE.match(line)
        if not stamped or float(stamped[1]) < since_s:
            continue
        if victim := _KILLED.search(stamped[2]):
            killed.append(f"{victim[2]} (process {victim[1]})")
        device = _DEVICE.search(stamped[2])
        if device and device[1] in layers:
            found.setdefault(device[1], []).append(stamped[2].strip())
    starved = f"there was no memory left and the kernel killed {', '.join(killed)}; give it more, or the load less"
    return [starved] * bool(killed) + [
        f"the device {device} of the layer {layers[device]} failed ({len(lines)} lines in the kernel's log, "
        f"the first: {lines[0]})"
        for device, lines in found.items()
    ]
