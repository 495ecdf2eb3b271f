"""The machines of one visit: the measured one, and the guests that its layers start there.

What is done inside a guest is journaled without an undo: the undo of the step that started the guest is the undo of
all of it, also after a kill -9. Removing it in good order is a measurement, made where the visit went well. The same
holds for what is done beside a lab machine: it goes with the lab machine (docs/decisions/0022).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePosixPath

from strata.errors import GuestLost, HostLost, VisitFailed
from strata.hosts import guest as guests
from strata.hosts.base import Host, Interruption
from strata.hosts.guest import GuestHost
from strata.model import BOOT_TIME, Command, Completed, Guest, Provides, Step
from strata.planning.layout import Layout, PlacedLayer, guest_directory_step
from strata.run.safety import journal
from strata.run.trials.concurrently import run_concurrently
from strata.store.writer import Store


@dataclass(slots=True)
class Machines:
    """Made for one attempt, closed after it. `marker` is what commands inside carry."""

    outer: Host
    store: Store
    attempt: int
    marker: str
    interruption: Interruption
    beside: Host | None = None  # the controller's own machine, where guests of a lab are started
    _open: dict[Guest, GuestHost] = field(default_factory=dict)
    _undos: list[tuple[int, Host, Command, str]] = field(default_factory=list)

    def of(self, guest: Guest | None) -> Host:
        """Raises GuestLost."""
        return self.outer if guest is None else self._open[guest]

    def starter(self, guest: Guest) -> Host:
        """The machine that started `guest`."""
        return self._besides() if guest.beside else self.outer

    def ask(self, placed: PlacedLayer, command: Command) -> Completed:
        """A command of a layer that changes nothing, where it belongs."""
        return (self._besides() if command.beside else self.of(placed.guest)).run(command, check=False)

    def ask_all(self, asked: Sequence[tuple[PlacedLayer, Sequence[Command]]]) -> list[list[Completed]]:
        """The same of many layers: of each machine one after the other, and all machines at the same time."""
        answers: list[list[Completed]] = [[] for _ in asked]

        def ask(numbers: Sequence[int]) -> None:
            for number in numbers:
                placed, commands = asked[number]
                answers[number] += [self.ask(placed, command) for command in commands]

        of_guest: dict[Guest | None, list[int]] = {}
        for number, (placed, _) in enumerate(asked):
            of_guest.setdefault(placed.guest, []).append(number)
        run_concurrently(
            {guest.name if guest else "outside": partial(ask, numbers) for guest, numbers in of_guest.items()}
        )
        return answers

    def every(self) -> list[Host]:
        """The innermost first."""
        return [*reversed(self._open.values()), self.outer]

    def carry_out(self, placed: PlacedLayer, step: Step) -> None:
        """Raises VisitFailed, GuestLost, Interrupted."""
        layer, guest = placed.node.call.text, placed.guest
        if guest is not None:
            self._inside(layer, self._open[guest], step)
            return
        try:
            if step.do.beside:
                self._inside(layer, self._besides(), step)
            else:
                journal.carry_out(self.store, self.outer, self.attempt, layer, step)
        except VisitFailed as error:
            # One that began to boot and did not come up is lost; where nothing was said QEMU itself refused.
            if said := self._said_by(placed.provides):
                why = guests.last_words(said) or str(error)
                raise GuestLost(f"the guest did not come up: {why}", said) from error
            raise

    def carry_out_together(self, steps: Sequence[tuple[PlacedLayer, Step]]) -> None:
        """A step in each of several guests, at the same time. Raises VisitFailed, GuestLost, Interrupted."""
        entries = [self._noted(placed.node.call.text, self.of(placed.guest), step) for placed, step in steps]
        ended: dict[int, Completed | VisitFailed] = {}

        def run(number: int, host: Host, do: Command) -> None:
            try:
                ended[number] = host.run(do)
            except VisitFailed as error:
                ended[number] = error

        try:
            run_concurrently(
                {
                    f"{step.why} ({number})": partial(run, number, self.of(placed.guest), step.do)
                    for number, (placed, step) in enumerate(steps)
                }
            )
        finally:
            for number, how in ended.items():
                self._settled(entries[number], how)
        for how in ended.values():
            if isinstance(how, VisitFailed):
                raise how

    def begin_cleanup(self, host: Host, call: str, step: Step, *, within: bool) -> None:
        """Before a trial that changes more than its own files. What it changes in a guest, or `within` a container,
        goes with that. Raises VisitFailed, GuestLost, Interrupted."""
        if host is self.outer and not within:
            journal.carry_out(self.store, host, self.attempt, call, step)
        else:
            self._inside(call, host, replace(step, undo=None))

    def started(self, placed: PlacedLayer, layout: Layout) -> None:
        """A layer was built: what it started can be used from now on."""
        guest = placed.provides.guest
        if guest is None or guest == placed.guest or guest in self._open:
            return
        starter = self.starter(guest)
        self._open[guest] = GuestHost(guest, starter, self.marker, self.interruption)
        self._open[guest].write(BOOT_TIME, starter.read(f"{guest.dir}/boot_s") or "")
        self._inside("visit", self._open[guest], guest_directory_step(layout, guest))

    def remove(self, progress: Callable[[str], None]) -> None:
        """Undo what was built inside or beside, newest first. Raises VisitFailed (something does not go), GuestLost."""
        while self._undos:
            entry, host, undo, why = self._undos[-1]
            progress(why)
            took_s = journal.tried(host, undo)
            self.store.settle(entry, "undone", took_s, self.outer.now())
            self._undos.pop()

    def close(self) -> None:
        for host in self._open.values():
            with suppress(HostLost):
                host.close()
        self._open.clear()

    def _said_by(self, started: Provides) -> str:
        """On the console of a guest, ours or of an image of the user's."""
        if started.guest is not None:
            return guests.console(started.guest.dir, self.starter(started.guest))
        if started.pid_file is not None:
            return guests.console(str(PurePosixPath(started.pid_file).parent), self.outer)
        return ""

    def _besides(self) -> Host:
        assert self.beside is not None, "a stack with guests beside the machine is laid out only where there are any"
        return self.beside

    def _inside(self, layer: str, host: Host, step: Step) -> None:
        entry = self._noted(layer, host, step)
        try:
            done = host.run(step.do)
        except VisitFailed as error:
            self._settled(entry, error)
            raise
        self._settled(entry, done)

    def _noted(self, layer: str, host: Host, step: Step) -> int:
        """In the journal, before it starts."""
        entry = self.store.journal(self.attempt, layer, step.why, step.do, None, host.now())
        if step.undo is not None:
            self._undos.append((entry, host, step.undo, step.why))
        return entry

    def _settled(self, entry: int, how: Completed | VisitFailed) -> None:
        if isinstance(how, VisitFailed):
            self.store.settle(entry, "failed", None, self.outer.now(), str(how))
        else:
            self.store.settle(entry, "done", how.duration_s, self.outer.now())
