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
from strata.run.trials import machine_samples
from strata.run.trials.machine_samples import Samples

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

QEMU = "guest.qemu_cpu_s"


@dataclass(frozen=True, slots=True)
class Watched:
    samples: Samples
    starter: Samples  # of the machine that started the guests, which may be the same

    def between(self, began_s: float, ended_s: float, ahead_s: float) -> Watched:
        """Unix times by the controller's clock, which is that of a `starter` of its own; how far the clock of the
        watched machine is ahead."""
        samples = machine_samples.between(self.samples, began_s + ahead_s, ended_s + ahead_s)
        if self.starter is self.samples:
            return Watched(samples, samples)
        return Watched(samples, machine_samples.between(self.starter, began_s, ended_s))


@dataclass(slots=True)
class Outside:
    """`devices`: (layer, path) there, bottom to top; `directory` there is ours. `starter`: the machine that started the
    guests, where that is another."""

    host: Host
    devices: Sequence[tuple[str, str]]
    guests: Sequence[Guest]
    directory: str
    starter: Host | None = None
    holders: Sequence[str] = ()  # what holds data of the stack there, top to bottom
    _count: int = 0

    def watch(self, at_most_s: float) -> Watch:
        """For `with`: begins before the block, ends after it."""
        self._count += 1
        return Watch(self, f"{self.directory}/outside-{self._count}", at_most_s)

    def figures(self, watched: Watched, measured: Measured) -> dict[str, float]:
        """Of the machine, and of the only guest where there is one."""
        found = machine_samples.figures(watched.samples, self._named(), measured)
        if len(self.guests) == 1:
            found |= self.of_guest(watched, self.guests[0])
        return found

    def of_guest(self, watched: Watched, guest: Guest) -> dict[str, float]:
        """Empty where its QEMU has ended."""
        spent_s = machine_samples.processes_s(watched.starter).get(guest.name)
        return {} if spent_s is None else {QEMU: spent_s}

    def series(self, watched: Watched) -> dict[str, list[tuple[float, float]]]:
        return machine_samples.rates(watched.samples, self._named())

    def _named(self) -> list[tuple[str, str]]:
        return [(layer, f"d{i}") for i, (layer, _) in enumerate(self.devices)]


@dataclass(slots=True)
class Watch:
    outside: Outside
    path: str  # of its files, but for their endings
    at_most_s: float

    def __enter__(self) -> Self:
        outside = self.outside
        sampled = [part for i, (_, path) in enumerate(outside.devices) for part in ("--device", f"d{i}={path}")]
        pids = [part for guest in outside.guests for part in ("--process", f"{guest.name}={guest.dir}/pid")]
        if outside.starter is None:
            self._begin(outside.host, self.path, *sampled, *pids)
        else:
            self._begin(outside.starter, self._there, *pids)
            self._begin(outside.host, self.path, *sampled)
        return self

    @property
    def _there(self) -> str:
        """The same on the machine that started the guests, where one of them has its directory."""
        return f"{self.outside.guests[0].dir}/{self.path.rpartition('/')[2]}"

    def _begin(self, host: Host, path: str, *sampled: str) -> None:
        argv = (
            *(host.engine, "sample", "--out", f"{path}.jsonl", "--interval", _INTERVAL),
            *("--timeout", f"{self.at_most_s + 2 * _BEGIN_S:g}s", *sampled),
        )
        # Whatever is wrong is wrong for the trial as well, and is said there.
        with suppress(VisitFailed):
            host.run(Command(("sh", "-c", _BEGIN, "sh", path, *argv), 2 * _BEGIN_S), check=False)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None and not issubclass(kind, VisitFailed):
            return  # what was begun carries the mark of the run, and is ended as a stray
        for host, path in self._files():
            with suppress(VisitFailed):
                host.run(Command(("sh", "-c", _END, "sh", path), 2 * _BEGIN_S), check=False)

    def seen(self) -> Watched | None:
        """None when the machine could not be watched."""
        try:
            samples = [machine_samples.parse(host.read(f"{path}.jsonl")) for host, path in self._files()]
        except VisitFailed:
            return None
        return Watched(samples[0], samples[-1])

    def _files(self) -> list[tuple[Host, str]]:
        outside = self.outside
        return [(outside.host, self.path), *([(outside.starter, self._there)] if outside.starter else [])]
