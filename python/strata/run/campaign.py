"""The loop: ask `design` what to visit next, visit it, store what was seen, until it says stop."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from strata.campaign import Campaign, differences
from strata.design import rounds
from strata.errors import BadInput, NothingToRun, Problem, Refused, UndoFailed
from strata.hosts.base import Host
from strata.model import Disk, Facts, LayerDriver, Rule
from strata.run import claims, visit
from strata.run.clean import clean
from strata.run.plan import Plan
from strata.run.progress import Decided, Listener, Noted, RunStarted, VisitEnded, VisitStarted
from strata.run.signals import Interrupts
from strata.store import database, reader
from strata.store.writer import PlannedVisit, Store


@dataclass(frozen=True, slots=True)
class Order:
    """What the caller of `execute` decided."""

    campaign: Campaign
    plan: Plan
    rule: Rule
    facts: Facts
    versions: Mapping[str, str]
    wipe: Collection[str]  # stable ids of devices whose signatures may go


def open_store(directory: Path, order: Order, now: float) -> Store:
    """A new run, or the same campaign going on. Raises BadInput when `directory` holds another campaign."""
    campaign = order.campaign
    description = {**campaign.describe(), "devices": [f"{d.role}={d.device}" for d in order.plan.disks if d.device]}
    if not database.exists(directory):
        seed = campaign.seed if campaign.seed is not None else random.SystemRandom().randrange(2**31)
        store = Store.create(
            directory,
            name=campaign.name,
            about=campaign.about,
            source=campaign.text,
            fingerprint=campaign.fingerprint,
            description=description,
            seed=seed,
            version=order.versions["strata"],
            now=now,
        )
    else:
        store = Store.resume(directory)
        identity = store.identity()
        changed = differences(dict(identity.description), description)
        if changed:
            store.close()
            raise BadInput(
                [
                    Problem(
                        f"{directory} holds another campaign; give this one another --out. What differs:\n  "
                        + "\n  ".join(changed)
                    )
                ]
            )
    store.add_plan(
        order.plan.stacks,
        [(call, primary, workload.info.metrics) for call, workload, primary in order.plan.workloads],
        order.plan.machine_metrics,
        order.plan.disks,
    )
    return store


def recover(store: Store, host: Host, interrupts: Interrupts, listener: Listener) -> None:
    """Before an old run goes on: remove what it left when it was killed. Raises Refused when it is in quarantine."""
    why = store.quarantined()
    if why:
        raise Refused(
            f"something of an earlier visit could not be removed:\n{why}\nrun `strata clean {store.directory}` first."
        )
    with interrupts.held():
        clean(store, host, store.identity().uuid, listener)


def execute(
    order: Order,
    store: Store,
    host: Host,
    drivers: Mapping[str, LayerDriver],
    interrupts: Interrupts,
    listener: Listener,
) -> None:
    """Visits until the decision rule stops. Everything is stored as it happens; nothing is returned.

    Raises Refused (a device in use), NothingToRun, Interrupted, UndoFailed.
    """
    identity = store.identity()
    before = store.rule()
    if before and before.rounds < order.rule.rounds:
        store.add_event("extended", f"rounds raised from {before.rounds} to {order.rule.rounds}", host.now())
    store.set_rule(order.rule, host.now())
    store.add_facts(order.facts, order.versions, order.plan.skipped, host.now())
    if not order.plan.runnable:
        raise NothingToRun(_nothing(order.plan))
    _take_devices(order, store, host, listener)
    bench = visit.Workbench(
        host=host,
        store=store,
        run_uuid=identity.uuid,
        work_dir=str(store.directory.absolute() / "work"),
        drivers=drivers,
        workloads=order.plan.workloads,
        disks=(),
        memory_bytes=order.plan.memory_bytes,
        machine_metrics=frozenset(metric.name for metric in order.plan.machine_metrics),
        seed=identity.seed,
        interrupts=interrupts,
        listener=listener,
    )
    _Loop(order, store, host, bench, listener).go()


class _Loop:
    def __init__(self, order: Order, store: Store, host: Host, bench: visit.Workbench, listener: Listener) -> None:
        self.order = order
        self.store = store
        self.host = host
        self.bench = bench
        self.listener = listener
        self.started_at = host.now()
        self.took_s: list[float] = []
        self.stacks = {stack.text: stack for stack in order.plan.runnable}

    def go(self) -> None:
        status = reader.status(self.store.directory)
        self.done, self.planned = status.visits_done, status.visits_planned
        self.listener(RunStarted(len(self.order.plan.stacks), len(self.order.plan.skipped), self.done, self.planned))
        while True:
            view = reader.view(self.store.directory)
            batch = rounds.next_batch(
                view, list(self.stacks), seconds_left=self._seconds_left(), seconds_per_visit=self._seconds_per_visit()
            )
            self.store.add_event("decision", batch.decision, self.host.now())
            self.listener(Decided(batch.decision))
            if batch.stop:
                return
            self.store.add_visits(batch.visits, self.host.now())
            wanted = set(batch.visits)
            for planned in self.store.open_visits():
                if (planned.round, planned.stack) in wanted:
                    self._visit(planned)

    def _visit(self, planned: PlannedVisit) -> None:
        self.listener(VisitStarted(planned.stack, planned.round, self.done + 1, self.planned))
        began = self.host.now()
        # Somebody may have taken a device since the last visit.
        disks = claims.claim(self.host, self.order.plan.disks, wipe=())
        try:
            failure = visit.visit(_with_disks(self.bench, disks), planned, self.stacks[planned.stack])
        except UndoFailed as error:
            self.store.add_event("quarantine", str(error), self.host.now())
            raise
        self.done += 1
        self.took_s.append(self.host.now() - began)
        left = (self.planned - self.done) * self._seconds_per_visit()
        self.listener(VisitEnded(planned.stack, failure, self.took_s[-1], self.done, self.planned, max(left, 0.0)))

    def _seconds_per_visit(self) -> float:
        return sum(self.took_s) / len(self.took_s) if self.took_s else self.order.plan.seconds_per_visit

    def _seconds_left(self) -> float | None:
        budget_s = self.order.rule.budget_s
        return None if budget_s is None else budget_s - (self.host.now() - self.started_at)


def _with_disks(bench: visit.Workbench, disks: Sequence[Disk]) -> visit.Workbench:
    return replace(bench, disks=tuple(disks))


def _take_devices(order: Order, store: Store, host: Host, listener: Listener) -> None:
    usable = claims.claim(host, order.plan.disks, order.wipe)
    for disk, node in zip(order.plan.disks, usable, strict=True):
        if disk.device in order.wipe and node.device:
            store.add_event("wipe", f"signatures of {disk.device} removed, as --wipe asked", host.now())
            listener(Noted(f"removing the signatures of {disk.device}, as --wipe asked"))
            claims.wipe(host, node.device)


def _nothing(plan: Plan) -> str:
    lines = ["none of the stacks can run here:"]
    for stack, reasons in plan.skipped.items():
        lines += [f"  {stack}", *(f"    {reason}" for reason in reasons)]
    return "\n".join(lines)
