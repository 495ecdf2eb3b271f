"""A virtual machine that a step of a visit started on this machine: the lab's own system, reached by ssh."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from strata.errors import GuestLost, HostLost
from strata.hosts import ssh
from strata.hosts.base import Host, Interruption
from strata.hosts.local import MARK
from strata.hosts.served import ServedHost
from strata.hosts.ssh import Identity, Server
from strata.hosts.stdio import StdioChannel
from strata.model import Guest

_USER = "root"
# Where the initramfs puts it.
_ENGINE = "/usr/local/bin/strata-engine"
_DYING = re.compile(r"^.*(?:Kernel panic|\bBUG: |\bOops: |strata lab: ).*$", re.MULTILINE)
_CONSOLE_LINES = 80  # a panic takes some 50
# A QEMU that ends closes its connections a moment before it is gone.
_ENDING_S = 2.0


class GuestHost(ServedHost):
    """Runs commands in `guest`, marked with `marker`. `outer`: the machine that started it: this one, or a lab machine
    of which a port of ours leads to the guest."""

    def __init__(self, guest: Guest, outer: Host, marker: str, interruption: Interruption | None = None) -> None:
        """Raises GuestLost when it does not answer."""
        self._guest = guest
        self._outer = outer
        files, port = Path(guest.image.directory), guest.port or int(outer.read(f"{guest.dir}/port") or 0)
        server = Server(f"{_USER}@127.0.0.1", port, Identity(files / "key", files / "known_hosts"))
        try:
            # Another mark than that of the commands, for ending the strays of this machine would end the connection.
            self._stdio = StdioChannel(
                (*ssh.client(server), f"exec {_ENGINE} serve --stdio"),
                {**os.environ, "LC_ALL": "C.UTF-8", MARK: f"{marker}-guest"},
                lambda code, said: ssh.explain(server, code, said),
            )
        except HostLost as error:
            raise self._lost(error) from error
        super().__init__(self._stdio, marker, _ENGINE, interruption)

    def close(self) -> None:
        self._stdio.close()

    def _ask(self, request: bytes, timeout_s: float, wake: int | None = None) -> list[bytes]:
        try:
            return super()._ask(request, timeout_s, wake)
        except HostLost as error:
            raise self._lost(error) from error

    def _lost(self, error: HostLost) -> GuestLost:
        time.sleep(_ENDING_S)
        said = console(self._guest.dir, self._outer)
        return GuestLost(f"the guest was lost: {last_words(said) or error}", said)


def console(directory: str, outer: Host) -> str:
    """The last lines that the guest of `directory` wrote; "" when there are none."""
    said = (outer.read(f"{directory}/console") or "").replace("\r", "")
    return "\n".join(said.splitlines()[-_CONSOLE_LINES:])


def last_words(console: str) -> str | None:
    """The line by which its kernel says that it dies."""
    found = _DYING.search(console)
    return found[0].strip() if found else None
