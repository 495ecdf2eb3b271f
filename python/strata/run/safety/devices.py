"""The claimed devices of a run: held from its beginning, taken when a visit first gets them, blanked at its end.

A run that has nothing to do writes to no device, and one that no visit was given stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from strata.errors import Refused
from strata.hosts.base import Host
from strata.model import Command, Disk, Stack
from strata.planning.plan import Plan
from strata.run.progress import Listener, Noted
from strata.run.safety import claims
from strata.run.signals import Interrupts
from strata.run.sites.site import Sites
from strata.store.writer import Store


@dataclass(frozen=True, slots=True)
class HeldDevices:
    """The disks of a plan; no other run of Strata claims the devices among them."""

    disks: Sequence[Disk]
    wipe: Collection[str]  # stable ids of devices whose signatures may go
    host: Host | None  # None: no disk is a device
    nodes: Collection[str]
    store: Store
    listener: Listener
    taken: dict[str, Disk] = field(default_factory=dict)  # by their stable ids, known by their identity from then on
    given: set[str] = field(default_factory=set)  # those that visits were given

    def ready_for(self, stack: Stack) -> Sequence[Disk]:
        """The disks that a visit of `stack` gets, with those taken that it is the first to get. Raises Refused."""
        if self.host is None:
            return self.disks
        left = stack.disks()
        ready: list[Disk] = []
        for disk in self.disks:
            if left.get(disk.role, 0) > 0:
                left[disk.role] -= 1
                ready.append(disk)
        new = [disk for disk in ready if disk.device and disk.device not in self.taken]
        if new:
            self._take(self.host, new)
        return [self.taken.get(disk.device or "", disk) for disk in ready]

    def _take(self, host: Host, disks: Sequence[Disk]) -> None:
        usable = claims.claim(host, disks, self.wipe)
        for disk, found in zip(disks, usable, strict=True):
            name, node = str(disk.device), str(found.device)
            if node not in self.nodes:
                raise Refused(f"{name} became another device while it was claimed; start the run again.")
            if _goes_through_memory(host, node):
                text = f"{name} is a loop device without direct I/O: what it stores goes through this machine's memory"
                self._say("caching", text)
            # Decided once: visits fill a sparse file too, and all of them are to start from the same state.
            keep_blocks = claims.is_preallocated(host, node)
            if keep_blocks:
                text = (
                    f"{name} is a loop device whose file is allocated in full, so it is not discarded before visits: "
                    "a discard would free blocks of the file"
                )
                self._say("undiscarded", text)
            if name in self.wipe:
                self.store.add_event("wipe", f"signatures of {name} removed, as --wipe asked", host.now())
                self.listener(Noted(f"removing the signatures of {name}, as --wipe asked"))
                claims.wipe(host, found)
            self.taken[name] = replace(disk, identity=found.identity, keep_blocks=keep_blocks)

    def blank(self) -> None:
        """Those that visits were given; what is left alone is told."""
        if self.host is not None:
            used = [disk for name, disk in self.taken.items() if name in self.given]
            for reason in claims.blank(self.host, used):
                self._say("unblanked", f"a device was not left blank: {reason}")

    def _say(self, kind: str, text: str) -> None:
        if self.host is not None:
            self.store.add_event(kind, text, self.host.now())
        self.listener(Noted(text))


@contextmanager
def held(
    plan: Plan, wipe: Collection[str], store: Store, sites: Sites, interrupts: Interrupts, listener: Listener
) -> Iterator[HeldDevices]:
    """The disks of the plan, those that were claimed held for this run. Raises Refused."""
    if not any(disk.device for disk in plan.disks):
        yield HeldDevices(plan.disks, wipe, None, (), store, listener)
        return
    with sites.look(sites.variant(plan.runnable[0])) as host, claims.held(host, plan.disks) as nodes:
        devices = HeldDevices(plan.disks, wipe, host, nodes, store, listener)
        try:
            yield devices
        finally:
            # In quarantine something of ours is still on them.
            if store.quarantined() is None:
                with interrupts.held():
                    devices.blank()


def _goes_through_memory(host: Host, node: str) -> bool:
    """A loop device of the operator's that was attached without --direct-io=on; False for any other device."""
    if not node.startswith("/dev/loop"):
        return False  # the losetup of Debian 13 (util-linux 2.41) prints a line for any block device
    shown = host.run(Command(("losetup", "--noheadings", "--output", "DIO", node)), check=False)
    return shown.exit_code == 0 and shown.stdout.strip() == "0"
