"""What the controller asks the guest runner (`strata-engine serve`) and what it answers. Pure; the other end is
crates/engine/src/serve/message.rs.

A message is a list of fields, each its length in bytes (unsigned, 64 bits, little-endian) and its bytes, so that
whatever a program says or a path holds goes through unchanged. The first field says what the message is:

    hello                                                 -> hello VERSION PID MONOTONIC_NS ENGINE
    run TIMEOUT_NS ENVIRONMENT ARGV [STDIN]               -> ended EXIT_CODE DURATION_NS STDOUT STDERR
                                                             stopped WHY DURATION_NS STDOUT STDERR
                                                             unstarted WHY | failed WHY
    write PATH CONTENT                                    -> done | failed WHY
    read PATH                                             -> content BYTES | missing | failed WHY
    strays MARKER                                         -> strays ENDED LEFT
    spin MS                                               -> done
    (anything else)                                       -> failed WHY

ENVIRONMENT, ARGV, ENDED and LEFT are lists, each item ended by a zero byte. ENVIRONMENT (`NAME=value`) comes on top of
the runner's own. WHY of `stopped` is `timeout`, `cancel` or `output` (it said more than OUTPUT_LIMIT_BYTES, and only
the beginning of that is passed on). Numbers are decimal. Times are the guest's monotonic clock.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from strata.errors import HostLost
from strata.model import Command

# More than this, both streams together, and the command is stopped: nothing is cut off in silence.
OUTPUT_LIMIT_BYTES = 512 << 20

_LENGTH = struct.Struct("<Q")
_MAX_NS = (1 << 63) - 1


def encode(fields: Iterable[bytes]) -> bytes:
    return b"".join(part for field in fields for part in (_LENGTH.pack(len(field)), field))


def decode(message: bytes) -> list[bytes]:
    """Raises HostLost when it is not a message: whoever sent it is not our runner, or not of our version."""
    fields, at = [], 0
    while at < len(message):
        start = at + _LENGTH.size
        end = start + (_LENGTH.unpack_from(message, at)[0] if start <= len(message) else 0)
        if start > len(message) or end > len(message):
            raise HostLost("the runner on the measured machine answered what is no message; start it again.")
        fields.append(message[start:end])
        at = end
    return fields


@dataclass(frozen=True, slots=True)
class Hello:
    """Who answers."""

    version: str  # of strata-engine
    pid: int
    monotonic_ns: int  # of the machine's clock
    engine: str  # where strata-engine is there


def hello() -> bytes:
    return encode([b"hello"])


def read_hello(answer: bytes) -> Hello:
    """Raises HostLost when it is none."""
    match decode(answer):
        case [b"hello", version, pid, monotonic_ns, engine]:
            return Hello(text(version), int(pid), int(monotonic_ns), os.fsdecode(engine))
    raise HostLost("what answers on the measured machine is not a runner of ours; install it again.")


def run(command: Command, environment: Mapping[str, str]) -> bytes:
    timeout_ns = min(max(int(command.timeout_s * 1e9), 0), _MAX_NS)
    fields = [
        b"run",
        b"%d" % timeout_ns,
        _items(f"{name}={value}" for name, value in environment.items()),
        _items(command.argv),
    ]
    if command.stdin is not None:
        fields.append(command.stdin.encode(errors="surrogateescape"))
    return encode(fields)


def write(path: str, content: str) -> bytes:
    return encode([b"write", os.fsencode(path), content.encode(errors="surrogateescape")])


def read(path: str) -> bytes:
    return encode([b"read", os.fsencode(path)])


def strays(marker: str) -> bytes:
    return encode([b"strays", os.fsencode(marker)])


def spin(milliseconds: int) -> bytes:
    """Keeps the CPU busy for this long: what a machine that blocks between calls does while it is stopped and saved."""
    return encode([b"spin", b"%d" % milliseconds])


def items(field: bytes) -> list[str]:
    """A list of texts, each ended by a zero byte."""
    return [text(item) for item in field.split(b"\0")[:-1]]


def text(said: bytes) -> str:
    """As Python reads a text file: what is not UTF-8 is marked, and every line ends alike."""
    return said.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def _items(texts: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(item) + b"\0" for item in texts)
