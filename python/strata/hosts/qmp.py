"""A client of QEMU's machine protocol (QMP), over a pair of connected sockets that QEMU inherits one end of.

So there is no socket file, whose path could be too long (108 bytes), and nobody else can connect.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from strata.errors import HostLost

_READ_BYTES = 1 << 16


class QmpError(HostLost):
    """QEMU refused a command."""


class Qmp:
    """Give `argv` and `descriptor` to a QEMU that is about to be started, then call `greet`.

    One command at a time, but for `begin`, whose answer `finish` awaits.
    """

    def __init__(self) -> None:
        self._socket, self._theirs = socket.socketpair()
        self._unread = b""
        self._number = 0
        self.events: list[str] = []  # the names of all events so far, oldest first

    @property
    def descriptor(self) -> int:
        """What QEMU must inherit under this number."""
        return self._theirs.fileno()

    @property
    def argv(self) -> Sequence[str]:
        return ("-chardev", f"socket,id=qmp,fd={self.descriptor}", "-mon", "chardev=qmp,mode=control")

    def greet(self, timeout_s: float) -> None:
        """QEMU has been started: await it and leave its negotiation. Raises HostLost when it does not answer."""
        self._theirs.close()  # now only QEMU holds it, so that its end is the end of the stream
        give_up = time.monotonic() + timeout_s
        while "QMP" not in self._message(give_up):
            pass
        self.run("qmp_capabilities", timeout_s=timeout_s)

    def run(self, command: str, arguments: Mapping[str, Any] | None = None, timeout_s: float = 60.0) -> Any:
        """What QEMU returned. Raises QmpError, HostLost (gone, or silent for `timeout_s`)."""
        return self.finish(self.begin(command, arguments), timeout_s)

    def begin(self, command: str, arguments: Mapping[str, Any] | None = None) -> int:
        """Asks without waiting; a QEMU whose lock the guest holds answers later."""
        self._number += 1
        text = json.dumps({"execute": command, "arguments": dict(arguments or {}), "id": self._number})
        try:
            self._socket.settimeout(None)
            self._socket.sendall(text.encode())
        except OSError as error:
            raise HostLost(f"QEMU is gone ({error}); its log says why.") from error
        return self._number

    def finish(self, number: int, timeout_s: float) -> Any:
        give_up = time.monotonic() + timeout_s
        while True:
            message = self._message(give_up)
            if message.get("id") != number:
                continue
            if "error" in message:
                raise QmpError(f"QEMU refused: {message['error']['desc']}.")
            return message["return"]

    def close(self) -> None:
        for end in (self._socket, self._theirs):
            with contextlib.suppress(OSError):
                end.close()

    def _message(self, give_up: float) -> dict[str, Any]:
        """The next one that is no event; those are noted."""
        while True:
            line, newline, rest = self._unread.partition(b"\n")
            if newline:
                self._unread = rest
                message: dict[str, Any] = json.loads(line)
                if "event" not in message:
                    return message
                self.events.append(message["event"])
                continue
            try:
                self._socket.settimeout(max(give_up - time.monotonic(), 0.001))
                data = self._socket.recv(_READ_BYTES)
            except TimeoutError as error:
                raise HostLost("QEMU does not answer on its control socket.") from error
            except OSError as error:
                raise HostLost(f"QEMU is gone ({error}); its log says why.") from error
            if not data:
                raise HostLost("QEMU has ended; its log says why.")
            self._unread += data
