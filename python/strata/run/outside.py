"""The machine that carries a guest, watched while a trial runs inside: its processors, its disks, the QEMU process.

A strata-engine there is begun before the trial and ended after it, by a command each: the trial itself is a command
that we wait for, and a machine behind a connection takes one at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from strata.errors import VisitFailed
from strata.hosts.base import Host
from strata.model import Command, Guest, Measured
from strata.run import machine
from strata.run.machine import Samples

# Until the engine has written its first line, on a busy machine; until it has ended.
_BEGIN_S = 20.0
_INTERVAL = "100ms"

# $1 path of the files, the rest: the engine, up to what it is to wait for, which takes no processor time of what is
# measured: a word through a pipe.
_BEGIN = """\
path=$1; shift
mkfifo "$path.stop"
{ "$@" -- sh -c 'read -r _ < "$1"' sh "$path.stop"; : > "$path.done"; } > "$path.said" 2>&1 \
  < /dev/null &
for pause in 0 0.02 0.05 0.1 0.2 0.4 0.8 1.6 3 6 6; do
  sleep "$pause"
  if [ -s "$path.jsonl" ] || [ -e "$path.done" ]; then break; fi
done"""

# $1 path of the files. Opened for both, a pipe waits for no reader: the engine may have ended by itself.
_END = """\
exec 3<> "$1.stop"; echo >&3
for pause in 0.05 0.1 0.1 0.2 0.4 0.8 1.6 3 6 6; do
  if [ -e "$1.done" ]; then break; fi
  sleep "$pause"
done"""

# The pid files of the guests: the kernel's ticks in a second, then processor time in ticks (user, system) of each.
_TICKS = """\
getconf CLK_TCK
for file; do sed 's/.*) //' "/proc/$(cat "$file")/stat" | cut -d ' ' -f 12,13; done"""


@dataclass(frozen=True, slots=True)
class Watched:
    samples: Samples
    qemu_cpu_s: float | None  # of all guests together


@dataclass(slots=True)
class Outside:
    """`devices`: (layer, path) there, bottom to top; `directory` there is ours. `starter`: the machine that started the
    guests, where that is another."""

    host: Host
    devices: Sequence[tuple[str, str]]
    guests: Sequence[Guest]
    directory: str
    starter: Host | None = None
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
    _before: tuple[float, ...] | None = None  # processor time of each QEMU
    _after: tuple[float, ...] | None = None

    def __enter__(self) -> Self:
        outside = self.outside
        sampled = [part for i, (_, path) in enumerate(outside.devices) for part in ("--device", f"d{i}={path}")]
        argv = (
            *(outside.host.engine, "sample", "--out", f"{self.path}.jsonl", "--interval", _INTERVAL),
            *("--timeout", f"{self.at_most_s + 2 * _BEGIN_S:g}s", *sampled),
        )
        self._before = self._spent_s()
        # Whatever is wrong is wrong for the trial as well, and is said there.
        with suppress(VisitFailed):
            outside.host.run(Command(("sh", "-c", _BEGIN, "sh", self.path, *argv), 2 * _BEGIN_S), check=False)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None and not issubclass(kind, VisitFailed):
            return  # what was begun carries the mark of the run, and is ended as a stray
        with suppress(VisitFailed):
            self.outside.host.run(Command(("sh", "-c", _END, "sh", self.path), 2 * _BEGIN_S), check=False)
        self._after = self._spent_s()

    def seen(self) -> Watched | None:
        """None when the machine could not be watched."""
        try:
            samples = machine.parse(self.outside.host.read(f"{self.path}.jsonl"))
        except VisitFailed:
            return None
        if self._before is None or self._after is None:
            return Watched(samples, None)
        return Watched(samples, sum(self._after) - sum(self._before))

    def _spent_s(self) -> tuple[float, ...] | None:
        outside = self.outside
        pids = [f"{guest.dir}/pid" for guest in outside.guests]
        try:
            said = (outside.starter or outside.host).run(Command(("sh", "-c", _TICKS, "sh", *pids)), check=False).stdout
        except VisitFailed:
            return None
        return spent_s(said, len(pids))


def spent_s(said: str, guests: int) -> tuple[float, ...] | None:
    """Processor time of each guest's QEMU, from what `_TICKS` said; None when one of them is not known."""
    numbers = [[int(word) for word in line.split() if word.isdecimal()] for line in said.splitlines()]
    if not guests or len(numbers) != 1 + guests or not all(numbers):
        return None
    return tuple(sum(ticks) / numbers[0][0] for ticks in numbers[1:])
