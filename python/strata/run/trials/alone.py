"""The tenants of one trial by themselves, each or each two, where their stack asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from strata.errors import CommandFailed
from strata.hosts.base import Host
from strata.model import Command
from strata.planning import measuring_order, trial_steps
from strata.planning.layout import Layout
from strata.run.progress import Listener, StepStarted
from strata.run.safety import journal
from strata.run.signals import Interrupts
from strata.run.trials import neighbours, together
from strata.run.trials.outside import Outside
from strata.run.trials.trial import Trial
from strata.run.visits.guests import Machines

Removals = list[tuple[Host, Command]]


def make_directories(parts: Sequence[together.Part]) -> Removals:
    """Returns what removes them."""
    removals: Removals = []
    for part in parts:
        make, remove = trial_steps.directories(part.target, part.scratch, part.bench.inside)
        for command in make:
            part.host.run(command)
        removals += [(part.host, command) for command in remove]
    return removals


def begin_cleanups(machines: Machines, parts: Sequence[together.Part], seed: int) -> Removals:
    """Journal what removes all that the trials of `parts` change beside their directories, and begin it. Returns it."""
    removals: Removals = []
    for part in parts:
        plan = part.workload.plan(part.call, part.target, part.scratch, seed)
        step = trial_steps.cleanup(plan, part.bench.inside)
        if step is not None:
            machines.begin_cleanup(part.host, part.call.text, step, within=bool(part.bench.inside))
            removals += [(part.host, step.undo)] if step.undo else []
    return removals


def clean_up(cleanups: Removals) -> list[str]:
    """Returns what could not be removed; the journal has it too, and it is tried again with the visit's removal."""
    left: list[str] = []
    for host, undo in cleanups:
        try:
            journal.tried(host, undo)
        except CommandFailed as error:
            left.append(f"what the trial made beside its files could not be removed: {error}")
    return left


@dataclass(slots=True)
class TenantsAlone:
    interrupts: Interrupts
    listener: Listener
    machines: Machines
    plan: Layout
    parts: Sequence[together.Part]
    outside: Outside
    marker: str
    seed: int
    number: int  # of the first part, for directories of its own
    _groups: list[tuple[int, ...]] = field(init=False)
    _found: neighbours.Figures = field(default_factory=neighbours.Figures)

    def __post_init__(self) -> None:
        self._groups = measuring_order.groups(self.plan, self._tenants())

    def measure(self, instead_of: Removals | None = None) -> None:
        """`instead_of`: removes the directories of the trial of all, if it was before, and is then empty.

        Raises VisitFailed, GuestLost, HostLost, Interrupted.
        """
        if not self._groups:
            return
        for host, command in instead_of or ():
            host.run(command)
        if instead_of is not None:
            instead_of.clear()
        for group in self._groups:
            self.interrupts.check()
            self.listener(StepStarted(f"tenant {' and '.join(map(str, group))} without the others"))
            named = "-".join(map(str, group))
            parts = [
                together.Part(
                    part.tenant,
                    part.bench,
                    part.workload,
                    part.call,
                    part.target,
                    f"{self.plan.scratch}/{self.number}-{named}-{part.tenant}",
                )
                for part in self.parts
                if part.tenant in group
            ]
            removals = make_directories(parts)
            cleanups = begin_cleanups(self.machines, parts, self.seed)
            found = together.run(parts, self.outside, self.seed)
            self._found.add(group, [part.workload.primary_of(part.call).name for part in parts], found.trials)
            for host in self.machines.every():
                host.end_strays(self.marker)
            for host, command in (*cleanups, *removals):
                host.run(command)

    def compared(self, results: Sequence[Trial]) -> list[Trial]:
        if not self._groups:
            return list(results)
        primaries = [part.workload.primary_of(part.call) for part in self.parts]
        return neighbours.compared(results, self._tenants(), primaries, self._found)

    def _tenants(self) -> list[int]:
        return [part.tenant for part in self.parts]
