"""The loop: ask `design` what to visit next, visit it, store what was seen, until it says stop."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

from strata.analysis.verdict import FEWEST_VISITS
from strata.campaign import Campaign, as_file, differences
from strata.design import choice
from strata.errors import BadInput, NothingToRun, Problem, Refused, UndoFailed
from strata.model import Disk, Facts, LayerDriver, Rule
from strata.run import devices, parallel, testbeds, visit
from strata.run.parallel import Worker
from strata.run.plan import Plan
from strata.run.progress import Decided, Listener, Noted, Progress, RunStarted, VisitEnded, VisitStarted
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


def reopen(directory: Path, campaign: Campaign, disks: Sequence[Disk]) -> Store | None:
    """The run that `directory` holds, to continue with it; None when it holds none.

    `disks`: the claimed ones. Raises BadInput when it is another campaign, StoreError when it is not a run of ours.
    """
    if not database.exists(directory):
        return None
    store = Store.resume(directory)
    changed = differences(dict(store.identity().description), _description(campaign, disks))
    if not changed:
        return store
    store.close()
    listing = "\n  ".join(changed)
    text = f"{directory} holds another campaign; give this one another --out. What differs:\n  {listing}"
    raise BadInput([Problem(text)])


def create(directory: Path, order: Order, now: float) -> Store:
    """A new run. Raises StoreError when `directory` holds one already."""
    campaign = order.campaign
    seed = campaign.seed if campaign.seed is not None else random.SystemRandom().randrange(2**31)
    return Store.create(
        directory,
        name=campaign.name,
        about=campaign.about,
        source=as_file(campaign, seed),
        fingerprint=campaign.fingerprint,
        description=_description(campaign, order.plan.disks),
        seed=seed,
        version=order.versions["strata"],
        now=now,
        testbed=campaign.testbed,
    )


def _description(campaign: Campaign, disks: Sequence[Disk]) -> dict[str, object]:
    """What makes a campaign this campaign, to be compared before a run goes on."""
    return {**campaign.describe(), "devices": [f"{disk.role}={disk.device}" for disk in disks if disk.device]}


def recover(store: Store, interrupts: Interrupts, listener: Listener) -> None:
    """Before an old run goes on: remove what it left when it was killed.

    Raises Refused when it is in quarantine, and as `testbeds.clean`.
    """
    why = store.quarantined()
    if why:
        raise Refused(
            f"something of an earlier visit could not be removed:\n{why}\nrun `strata clean {store.directory}` first."
        )
    testbeds.clean(store, interrupts, listener)


def execute(
    order: Order,
    store: Store,
    workers: Sequence[Worker],
    drivers: Mapping[str, LayerDriver],
    listener: Listener,
) -> None:
    """Visits until the decision rule stops, as many at once as there are workers. Everything is stored as it happens;
    nothing is returned.

    Raises Refused (a device in use), NothingToRun, Interrupted, UndoFailed, HostLost.
    """
    identity = store.identity()
    plan = order.plan
    sites = workers[0].sites
    note_changes(order, store, sites.now())  # first: a run that is refused stays as it was
    store.add_plan(
        plan.stacks,
        # a primary that the user's own script reports is not among those that its workload declares
        [(call, primary, (primary, *workload.info.metrics)) for call, workload, primary in plan.workloads],
        plan.machine_metrics,
        plan.disks,
    )
    before = store.rule()
    rule, why = choice.settled(
        order.rule,
        [stack.text for stack in plan.runnable],
        {stack.text: stack.factors for stack in plan.runnable},
    )
    status = reader.status(store.directory)
    looked = before and _looked(before, rule, status.visits_done, status.visits_planned)
    if looked:
        store.add_event("extended", looked, sites.now())
    if before is None or before.design != rule.design:
        store.add_event("design", why, sites.now())
        listener(Noted(why))
    store.set_rule(rule, sites.now())
    store.add_facts(order.facts, order.versions, plan.skipped, sites.now())
    if not order.plan.runnable:
        raise NothingToRun(_nothing(order.plan))
    with devices.held(order.plan, order.wipe, store, sites, workers[0].interrupts, listener) as held:
        bench = visit.Workbench(
            sites=sites,
            store=store,
            drivers=drivers,
            workloads=order.plan.workloads,
            disks=plan.disks,
            memory_bytes=order.plan.memory_bytes,
            machine_metrics=frozenset(metric.name for metric in order.plan.machine_metrics),
            seed=identity.seed,
            interrupts=workers[0].interrupts,
            listener=listener,
            guest_image=order.plan.guest_image,
            given=held.given,
        )
        _Loop(order, workers, bench, held).go()


class _Loop:
    def __init__(
        self, order: Order, workers: Sequence[Worker], bench: visit.Workbench, held: devices.HeldDevices
    ) -> None:
        self.order = order
        self.held = held
        self.workers = workers
        self.bench = bench
        self.store, self.sites, self.listener = bench.store, bench.sites, bench.listener
        self.telling = Lock()  # of visits that end at the same time
        self.started_s = self.sites.elapsed()
        self.took_s: list[float] = []
        self.to_go = 0  # visits that are expected after those planned
        self.stacks = {stack.text: stack for stack in order.plan.runnable}

    def go(self) -> None:
        status = reader.status(self.store.directory)
        self.done, self.planned = status.visits_done, status.visits_planned
        self.listener(RunStarted(len(self.order.plan.stacks), len(self.order.plan.skipped), self.done, self.planned))
        while True:
            view = reader.view(self.store.directory)
            batch = choice.RULES[view.rule.design](
                view, list(self.stacks), seconds_left=self._seconds_left(), seconds_per_visit=self._measured_s()
            )
            self.store.add_event("decision", batch.decision, self.sites.now())
            self.listener(Decided(batch.decision))
            if batch.stop:
                return
            if view.rule.design != "rounds":
                self.planned = self.done + len(batch.visits)
                self.to_go = batch.to_go or 0
            self.store.add_visits(batch.visits, self.sites.now())
            open_visits = {(planned.round, planned.stack): planned for planned in self.store.open_visits()}
            parallel.each((open_visits[wanted] for wanted in batch.visits), self.workers, self._visit)

    def _visit(self, worker: Worker, planned: PlannedVisit) -> None:
        # What several tell at the same time nobody could follow: each tells all of it when it has ended.
        told: list[Progress] = []
        alone = len(self.workers) == 1
        listener = self.listener if alone else told.append
        bench = replace(self.bench, sites=worker.sites, interrupts=worker.interrupts, listener=listener)
        if alone:
            self.listener(VisitStarted(planned.stack, planned.round, self.done + 1, self.planned))
        began_s = self.sites.elapsed()
        stack = self.stacks[planned.stack]
        try:
            failure = visit.visit(replace(bench, disks=self.held.ready_for(stack)), planned, stack)
        except Refused as error:
            self.store.add_event("refused", str(error), self.sites.now())
            raise
        except UndoFailed as error:
            self.store.add_event("quarantine", str(error), self.sites.now())
            raise
        with self.telling:
            if not alone:
                for each in (VisitStarted(planned.stack, planned.round, self.done + 1, self.planned), *told):
                    self.listener(each)
            self.done += 1
            self.took_s.append(self.sites.elapsed() - began_s)
            left = (self.planned + self.to_go - self.done) * self._seconds_per_visit()
            self.listener(VisitEnded(planned.stack, failure, self.took_s[-1], self.done, self.planned, max(left, 0.0)))

    def _measured_s(self) -> float | None:
        """Of one visit while others go on beside it, shared among them. None before the first: a guess must not keep a
        campaign with a budget from beginning."""
        return sum(self.took_s) / len(self.took_s) / len(self.workers) if self.took_s else None

    def _seconds_per_visit(self) -> float:
        return self._measured_s() or self.order.plan.seconds_per_visit / len(self.workers)

    def _seconds_left(self) -> float | None:
        budget_s = self.order.rule.budget_s
        return None if budget_s is None else budget_s - (self.sites.elapsed() - self.started_s)


def _looked(before: Rule, now: Rule, visits: int, planned: int) -> str | None:
    """Why the number of rounds was not fixed before `visits` of those `planned` were made, or None when it was."""
    if now.design != "rounds" or not visits:
        return None
    if before.design != "rounds":
        return f"rounds were asked for after {before.design} had chosen visits by what it saw, {visits} so far"
    if now.rounds > before.rounds and before.rounds >= FEWEST_VISITS:  # with fewer, no look decides anything
        return f"rounds raised from {before.rounds} to {now.rounds}"
    # When all that was planned is there, a lower number takes nothing away.
    if now.rounds < before.rounds and visits < planned:
        return f"rounds lowered from {before.rounds} to {now.rounds} after {visits} of {planned} visits"
    return None


def note_changes(order: Order, store: Store, now: float) -> None:
    """Rounds measured on another machine or kernel are not replicates of these.

    Raises Refused where they would be averaged: with those of other programs, or as seeds of one exact machine.
    """
    before, versions = store.facts(), store.versions()
    if before is None:
        return
    labs = [(f"the {name}", versions[name], order.versions.get(name)) for name in versions if name.startswith("lab ")]
    others = [f"{what} was {old} and is {new}" for what, old, new in labs if old != new]
    if others and order.campaign.testbed.clock == "virtual":
        raise Refused(
            f"{store.directory} was begun on another machine of the virtual clock, whose figures are not those of this "
            f"one: {'; '.join(others)}. Give --out another directory, and compare the two with `strata compare`."
        )
    _check_programs(order, store, versions)
    for what, old, new in (
        *labs,
        ("the machine", (before.machine_id, before.cpu_model), (order.facts.machine_id, order.facts.cpu_model)),
        ("the kernel", before.kernel_text, order.facts.kernel_text),
        ("the memory", before.memory_bytes, order.facts.memory_bytes),
    ):
        if old != new:
            store.add_event("changed", f"{what} is another than before: {old} became {new}", now)


def _check_programs(order: Order, store: Store, before: Mapping[str, str]) -> None:
    """Raises Refused when a program has another version than when visits of this run were measured."""
    programs = [
        f"{name} was {before[name]} and is {order.versions[name]}"
        for name in sorted(before.keys() & order.versions.keys())
        if not name.startswith("lab ") and before[name] != order.versions[name]
    ]
    measured = reader.status(store.directory).visits_done
    if programs and measured:
        raise Refused(
            f"{store.directory} has {measured} visits that were measured with other programs and are no replicates "
            f"of those to come: {'; '.join(programs)}. Continue with the earlier versions, or give --out another "
            "directory and compare the two with `strata compare`."
        )


def _nothing(plan: Plan) -> str:
    lines = ["none of the stacks can run here:"]
    for stack, reasons in plan.skipped.items():
        lines += [f"  {stack}", *(f"    {reason}" for reason in reasons)]
    return "\n".join(lines)
