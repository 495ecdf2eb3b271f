"""The disk of a guest that runs beside the lab machine that the disk is in: an export of qemu-storage-daemon there.

A guest in an emulated lab machine would be emulated twice. One that the controller starts itself is emulated once; its
disk reaches the lab by NBD through a port of 127.0.0.1 that QEMU forwards. The daemon opens what is below with the
cache mode, the aio, the discards and the limits that QEMU would have, so what reaches the stack is as with QEMU there.
Sources: qemu-storage-daemon(1), qemu-block-drivers(7), decision 22.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from strata.errors import BadInput
from strata.layers._daemon import FIND, SHOWN, UNMARKED, end
from strata.layers._steps import run, sh
from strata.model import Beside, Command, Place, Step

DAEMON = "qemu-storage-daemon"
_EXPORT = "disk"


def reach(place: Place, how: str = "beside") -> Beside:
    """Raises BadInput where nobody stands beside the measured machine."""
    if place.beside is None:
        raise BadInput(f"vm({how}) is for guests of a lab; add --on lab, or take {how} away.")
    return place.beside


# $1 and $2 the argument that names the file of the process number, in pieces: this script must not find itself; $3 what
# is served
_SHOW = FIND + SHOWN + 'for process in $(found "$1$2"); do shown "$process" "$3"; done'


def export(place: Place, nodes: Sequence[str], top: str, *, writethrough: bool) -> Step:
    """Serve the node `top` in the lab. `nodes`: options of QEMU that make it, as `-blockdev WHAT -object WHAT`."""
    line = daemon(place, nodes, top, writethrough=writethrough)
    # Its own words about a node that it cannot make are on its streams, which it closes.
    undo = end("--pidfile", _number(place))
    return Step(run(*UNMARKED, *line, timeout_s=120.0), undo, "export the disk of the guest")


def daemon(place: Place, nodes: Sequence[str], top: str, *, writethrough: bool) -> list[str]:
    """Its command line."""
    about = {"id": _EXPORT, "type": "nbd", "node-name": top, "name": _EXPORT, "writable": True}
    line = [DAEMON, "--daemonize", f"--pidfile={_number(place)}"]
    # The daemon knows the long names only.
    line += [f"-{word}" if word.startswith("-") else word for word in nodes]
    line += ["--nbd-server", f"addr.type=inet,addr.host=0.0.0.0,addr.port={reach(place).lab_port}"]
    return [*line, "--export", json.dumps({**about, "writethrough": writethrough})]


def show(place: Place, path: str) -> Command:
    """The daemon, and how it has `path` open."""
    return sh(_SHOW, "--pidfile=", _number(place), path)


def _number(place: Place) -> str:
    return f"{place.dir}/export-pid"


def disk(place: Place, node: str, discard: str) -> list[str]:
    """The options of the guest's QEMU that make `node` of the export."""
    server = f"server.type=inet,server.host=127.0.0.1,server.port={reach(place).port}"
    return ["-blockdev", f"driver=nbd,node-name={node},export={_EXPORT},{server},{discard}"]


def beside(command: Command) -> Command:
    return replace(command, beside=True)


def beside_step(step: Step) -> Step:
    return replace(step, do=beside(step.do), undo=beside(step.undo) if step.undo else None)
