"""Where visits are carried out: a machine with its disks, for one visit at a time.

`run` knows nothing else of a testbed. This machine and one reached by ssh stay as they are from visit to visit, so all
that a visit built there must be undone; a lab machine is thrown away.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from strata.errors import Refused
from strata.hosts.base import Host
from strata.lab import bounds
from strata.model import Beside, Command, Disk, Facts, Stack
from strata.planning.resources import GuestResources
from strata.run.safety import claims
from strata.run.sites import machine_lock

ONLY_HERE = (
    "Strata starts guests on the machine that it runs on, not yet on one reached by ssh; run it there, or take the "
    "layer vm away."
)

# On a machine reached by ssh it lies where everybody may write, and its name is known once the run began.
_OWN_DIRECTORY = 'mkdir -p -- "$1" && [ ! -L "$1" ] && [ -O "$1" ]'


@dataclass(frozen=True, slots=True)
class Site:
    """A machine that is ready for one visit."""

    host: Host
    disks: tuple[Disk, ...]  # as many of each role as were asked for; a device by its node
    work_dir: str  # absolute, on that machine
    uuid: str  # the names and UUIDs of what is built come from this
    attempt: int  # and from this
    # where guests are started beside it: the controller's machine, and a place there for each guest of the stack
    beside: Host | None = None
    reaches: tuple[Beside, ...] = ()
    # on the virtual clock: the modelled disks, by their device nodes, and what computes what they can do at random
    served: Mapping[str, bounds.ServedDisk] = field(default_factory=dict)
    rates: Callable[[bounds.ServedDisk, int], bounds.Rates] | None = None


class Sites(Protocol):
    @property
    def disposable(self) -> bool:
        """Whether the machine goes with the visit: what was not undone is not there any more."""

    @property
    def work_dir(self) -> str:
        """On the measured machine: where disk files and mounts of a visit lie. It need not be there yet."""

    def variant(self, stack: Stack) -> str:
        """Stacks of the same variant are carried by machines that are alike (one kernel, one Debian)."""

    def look(self, variant: str) -> AbstractContextManager[Host]:
        """A machine of that variant to be looked at, and nothing else. Raises Refused, BadInput, HostLost."""

    def describe(self, facts: Facts) -> Facts:
        """What such a machine says of itself, with what only we know: room for disk files, caveats."""

    def versions(self) -> Mapping[str, str]:
        """What the testbed itself is made of, beyond what its machines say; known once one was looked at."""

    def guests(self, tools: Iterable[str], features: frozenset[str]) -> GuestResources:
        """Of guests with these parts of a lab beyond its base. Raises Interrupted."""

    def own_guests(self, facts: Facts) -> GuestResources:
        """Of guests from images of the user's own, in which nothing of a lab is. `facts`: of what starts them."""

    def site(self, stack: Stack, disks: Sequence[Disk], attempt: int, seed: int) -> AbstractContextManager[Site]:
        """Raises Refused (a device in use), HostLost."""

    def now(self) -> float:
        """Unix time, seconds: when things happened, for the store."""

    def elapsed(self) -> float:
        """Seconds of a clock that nobody sets, from any beginning: for budgets, and how long something took. The wait
        for visits of other runs does not count."""


@dataclass(frozen=True, slots=True)
class LastingSites:
    """A machine that stays: this one, or one reached by ssh."""

    host: Host
    uuid: str  # of the run
    work_dir: str
    clock: Callable[[], float] = time.time
    stopwatch: Callable[[], float] = time.monotonic
    disposable: bool = False
    look_at_guests: Callable[[Iterable[str], frozenset[str]], GuestResources] | None = None
    look_at_own: Callable[[Facts], GuestResources] | None = None
    name: str = "another run"  # of the run, for others that wait for its visit
    say: Callable[[str], None] = lambda text: None
    waits_s: list[float] = field(default_factory=list)  # each wait for the visit of another run

    def variant(self, stack: Stack) -> str:
        return ""

    @contextmanager
    def look(self, variant: str) -> Iterator[Host]:
        yield self.host

    def describe(self, facts: Facts) -> Facts:
        return facts

    def versions(self) -> Mapping[str, str]:
        return {}

    def guests(self, tools: Iterable[str], features: frozenset[str]) -> GuestResources:
        if self.look_at_guests is None:
            return GuestResources((ONLY_HERE,))
        return self.look_at_guests(tools, features)

    def own_guests(self, facts: Facts) -> GuestResources:
        return GuestResources((ONLY_HERE,)) if self.look_at_own is None else self.look_at_own(facts)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait for the visit of another run on this machine; none begins before the block ends.

        Raises Refused, Interrupted.
        """
        began_s = self.stopwatch()
        with machine_lock.held(self.host, self.name, self.say):
            self.waits_s.append(self.stopwatch() - began_s)
            yield

    @contextmanager
    def site(self, stack: Stack, disks: Sequence[Disk], attempt: int, seed: int) -> Iterator[Site]:
        with self.alone():
            # Somebody may have taken a device since the last visit, or put another in its place.
            usable = claims.claim(self.host, disks, wipe=())
            if self.host.run(Command(("sh", "-c", _OWN_DIRECTORY, "sh", self.work_dir)), check=False).exit_code:
                raise Refused(
                    f"{self.work_dir} is not a directory of this user's own, and its owner could change what is built "
                    "there; remove it, or begin another run."
                )
            for disk, given in zip(usable, disks, strict=True):
                if given.device is not None:
                    claims.discard(self.host, given, str(disk.device))
            yield Site(self.host, tuple(usable), self.work_dir, self.uuid, attempt)

    def now(self) -> float:
        return self.clock()

    def elapsed(self) -> float:
        return self.stopwatch() - sum(self.waits_s)
