"""The machine that carries a guest, watched while a trial runs inside: its processors, its disks, the QEMU process.

One command of strata-engine there, in a thread of its own, since the trial itself is a command that we wait for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from strata.errors import Interrupted, StrataError, VisitFailed
from strata.hosts.base import Host
from strata.model import Command, Guest, Measured
from strata.run import machine
from strata.run.machine import Samples

# Until the engine has written its first line, on a busy machine.
_BEGIN_S = 20.0
_LOOK_S = 0.02
_INTERVAL = "100ms"

# $1 the file that ends it, the rest: the pid files of the guests. Two lines for each process: its processor time in
# ticks (user, system) at the beginning and at the end.
_WATCH = """\
stop=$1; shift
ticks() { for file; do sed 's/.*) //' "/proc/$(cat "$file")/stat" | cut -d ' ' -f 12,13; done; }
getconf CLK_TCK; ticks "$@"
until [ -e "$stop" ]; do sleep 0.05; done
ticks "$@\""""


@dataclass(frozen=True, slots=True)
class Watched:
    samples: Samples
    qemu_cpu_s: float | None  # of all guests together


@dataclass(slots=True)
class Outside:
    """`devices`: (layer, path) there, bottom to top; `directory` there is ours."""

    host: Host
    devices: Sequence[tuple[str, str]]
    guests: Sequence[Guest]
    directory: str
    _count: int = 0

    def watch(self, at_most_s: float) -> Watch:
        """For `with`: begins before the block, ends after it."""
        self._count += 1
        return Watch(self, f"{self.directory}/outside-{self._count}", at_most_s)

    def figures(self, watched: Watched, measured: Measured) -> dict[str, float]:
        found = machine.figures(watched.samples, self._named(), measured)
        if watched.qemu_cpu_s is not None:
            found["guest.qemu_cpu_s"] = watched.qemu_cpu_s
        return found

    def series(self, watched: Watched) -> dict[str, list[tuple[float, float]]]:
        return machine.rates(watched.samples, self._named())

    def _named(self) -> list[tuple[str, str]]:
        return [(layer, f"d{i}") for i, (layer, _) in enumerate(self.devices)]


@dataclass(slots=True)
class Watch:
    outside: Outside
    path: str
    at_most_s: float
    _thread: threading.Thread = field(init=False)
    _said: str = ""
    _interrupted: Interrupted | None = None

    def __enter__(self) -> Self:
        host = self.outside.host
        self._thread = threading.Thread(target=self._run, name="outside")
        self._thread.start()
        give_up = time.monotonic() + _BEGIN_S
        while not self._begun(host) and self._thread.is_alive() and time.monotonic() < give_up:
            time.sleep(_LOOK_S)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with suppress(VisitFailed):
            self.outside.host.write(f"{self.path}.stop", "")
        self._thread.join()
        if self._interrupted is not None:
            # A signal is told of once, and this thread was the one that heard of it.
            raise self._interrupted

    def seen(self) -> Watched | None:
        """None when the machine could not be watched."""
        try:
            samples = machine.parse(self.outside.host.read(f"{self.path}.jsonl"))
        except VisitFailed:
            return None
        return Watched(samples, _spent_s(self._said, len(self.outside.guests)))

    def _begun(self, host: Host) -> bool:
        with suppress(VisitFailed):
            return bool(host.read(f"{self.path}.jsonl"))
        return False

    def _run(self) -> None:
        outside = self.outside
        sampled = [part for i, (_, path) in enumerate(outside.devices) for part in ("--device", f"d{i}={path}")]
        pids = [f"{guest.dir}/pid" for guest in outside.guests]
        argv = (
            *(outside.host.engine, "sample", "--out", f"{self.path}.jsonl", "--interval", _INTERVAL),
            *("--timeout", f"{self.at_most_s + _BEGIN_S:g}s", *sampled),
            *("--", "sh", "-c", _WATCH, "sh", f"{self.path}.stop", *pids),
        )
        # Whatever else is wrong is wrong for the trial as well, and is said there.
        with suppress(StrataError):
            try:
                self._said = outside.host.run(Command(argv, self.at_most_s + 2 * _BEGIN_S), check=False).stdout
            except Interrupted as error:
                self._interrupted = error


def _spent_s(said: str, guests: int) -> float | None:
    numbers = [[int(word) for word in line.split() if word.isdecimal()] for line in said.splitlines()]
    if len(numbers) != 1 + 2 * guests or not all(numbers):
        return None
    ticks, before, after = numbers[0][0], numbers[1 : 1 + guests], numbers[1 + guests :]
    return (sum(map(sum, after)) - sum(map(sum, before))) / ticks
