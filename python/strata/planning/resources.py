"""What the machines of a testbed have for a campaign, as they were looked at before anything is built. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from strata.model import Disk, Facts, GuestImage, Stack
from strata.planning.user_directory import UserDirectory


@dataclass(frozen=True, slots=True)
class GuestResources:
    """What guests of a testbed start from and what they say of themselves; or why it has none."""

    reasons: tuple[str, ...] = ()
    image: GuestImage | None = None
    facts: Facts | None = None
    memory_bytes: int | None = None  # what the machine that starts them has to give; None: not known
    taken_bytes: int = 0  # what of that the lab machine takes
    ports: bool = False  # they belong to a lab machine, into which a port leads for each


@dataclass(frozen=True, slots=True)
class Resources:
    facts: Facts  # of the machine that carries the stacks
    disks: Sequence[Disk]
    memory_budget_bytes: int | None = None  # as the campaign states it
    directories: Mapping[str, UserDirectory] = field(default_factory=dict)  # the user's own, by path
    others: Mapping[str, Facts] = field(default_factory=dict)  # by stack, where another machine carries it
    guests: GuestResources | None = None  # None: no stack starts one
    unreadable: Collection[str] = ()  # files that arguments name and that the machine of `facts` cannot read

    @property
    def guest_facts(self) -> Facts | None:
        """What guests say of themselves; None: not known."""
        return None if self.guests is None else self.guests.facts

    def machines(self) -> list[Facts]:
        """Return every machine that may carry a workload, each once: that of `facts` first."""
        inside = () if self.guest_facts is None else (self.guest_facts,)
        machines = [self.facts]
        for machine in (*self.others.values(), *inside):
            if machine not in machines:
                machines.append(machine)
        return machines

    def carrier(self, stack: Stack) -> Facts:
        """Return the machine on which `stack` is built."""
        return self.others.get(stack.text, self.facts)
