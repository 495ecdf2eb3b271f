"""The machines of one visit: the measured one, and the guests that its layers start there.

What is done inside a guest is journaled without an undo: the undo of the step that started the guest is the undo of
all of it, also after a kill -9. Removing it in good order is a measurement, made where the visit went well.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from strata.errors import GuestLost, HostLost, VisitFailed
from strata.hosts import guest as guests
from strata.hosts.base import Host, Interruption
from strata.hosts.guest import GuestHost
from strata.model import BOOT_TIME, Command, Guest, Step
from strata.run import journal
from strata.run.layout import Layout, Placed, guest_directory_step
from strata.store.writer import Store


@dataclass(slots=True)
class Machines:
    """Made for one attempt, closed after it. `marker` is what commands inside carry."""

    outer: Host
    store: Store
    attempt: int
    marker: str
    interruption: Interruption
    _open: dict[Guest, GuestHost] = field(default_factory=dict)
    _undos: list[tuple[int, Guest, Command, str]] = field(default_factory=list)

    def of(self, guest: Guest | None) -> Host:
        """Raises GuestLost."""
        return self.outer if guest is None else self._open[guest]

    def every(self) -> list[Host]:
        """The innermost first."""
        return [*reversed(self._open.values()), self.outer]

    def carry_out(self, placed: Placed, step: Step) -> None:
        """Raises VisitFailed, GuestLost, Interrupted."""
        layer, guest = placed.node.call.text, placed.guest
        if guest is not None:
            self._inside(layer, guest, step)
            return
        try:
            journal.carry_out(self.store, self.outer, self.attempt, layer, step)
        except VisitFailed as error:
            started = placed.provides.guest
            # One that began to boot and did not come up is lost; where nothing was said QEMU itself refused.
            if started is not None and (said := guests.console(started, self.outer)):
                why = guests.last_words(said) or str(error)
                raise GuestLost(f"the guest did not come up: {why}", said) from error
            raise

    def started(self, placed: Placed, layout: Layout) -> None:
        """A layer was built: what it started can be used from now on."""
        guest = placed.provides.guest
        if guest is None or guest == placed.guest or guest in self._open:
            return
        self._open[guest] = GuestHost(guest, self.outer, self.marker, self.interruption)
        self._open[guest].write(BOOT_TIME, self.outer.read(f"{guest.dir}/boot_s") or "")
        self._inside("visit", guest, guest_directory_step(layout, guest))

    def remove(self, progress: Callable[[str], None]) -> None:
        """Undo what was built inside, newest first. Raises VisitFailed when something does not go, GuestLost."""
        while self._undos:
            entry, guest, undo, why = self._undos[-1]
            progress(why)
            took_s = journal.tried(self._open[guest], undo)
            self.store.settle(entry, "undone", took_s, self.outer.now())
            self._undos.pop()

    def close(self) -> None:
        for host in self._open.values():
            with suppress(HostLost):
                host.close()
        self._open.clear()

    def _inside(self, layer: str, guest: Guest, step: Step) -> None:
        store, host = self.store, self._open[guest]
        entry = store.journal(self.attempt, layer, step.why, step.do, None, host.now())
        if step.undo is not None:
            self._undos.append((entry, guest, step.undo, step.why))
        try:
            done = host.run(step.do)
        except VisitFailed as error:
            store.settle(entry, "failed", None, host.now(), str(error))
            raise
        store.settle(entry, "done", done.duration_s, host.now())
