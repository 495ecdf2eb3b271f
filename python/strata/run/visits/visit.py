"""One fresh build of a stack, the trials on it, and its removal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from strata.errors import BadInput, GuestLost, HostLost, NotAsAsked, UndoFailed, VisitFailed
from strata.hosts.base import Host
from strata.judge.risks import loses_acknowledged, sentence
from strata.model import (
    Call,
    DataStep,
    Disk,
    GuestImage,
    Kind,
    LayerDriver,
    Meanwhile,
    Metric,
    Outcome,
    Provides,
    Stack,
    Workload,
)
from strata.planning import layout, measuring_order, trial_steps
from strata.run.progress import Listener, Noted, StepStarted, TrialEnded
from strata.run.safety import directories, journal
from strata.run.signals import Interrupts
from strata.run.sites.site import Site, Sites
from strata.run.trials import data_source, limits, merging, model_bounds, together, trial, witness
from strata.run.trials.alone import TenantsAlone, begin_cleanups, clean_up, make_directories
from strata.run.trials.outside import Outside
from strata.run.visits import kernel_log, layer_figures, leaks
from strata.run.visits.guests import Machines
from strata.store.writer import PlannedVisit, Store

# A machine that breaks down once may do so by chance; one that does so every time says something about the stack.
_RETRIES = 2

_HANGS = "look for a device that does not answer: a killed process lives on only while it waits for the kernel."


@dataclass(frozen=True, slots=True)
class Workbench:
    """What every visit of a run shares."""

    sites: Sites
    store: Store
    drivers: Mapping[str, LayerDriver]
    workloads: Sequence[tuple[Call, Workload, Metric]]  # with the metric that decides
    disks: Sequence[Disk]
    memory_bytes: int
    machine_metrics: frozenset[str]
    seed: int
    interrupts: Interrupts
    listener: Listener
    guest_image: GuestImage | None = None  # what guests start from, where stacks have any
    given: set[str] = field(default_factory=set)  # devices that visits were given, by their stable ids


def visit(bench: Workbench, planned: PlannedVisit, stack: Stack) -> str | None:
    """Returns why the visit failed, None when it did not; it is stored either way.

    Raises UndoFailed when something could not be removed, Interrupted on a signal, Refused (a device in use) and
    HostLost. In all these cases the attempt has no ending and does not count; after Interrupted nothing of it is left.
    A signal during the removal waits for its end. A disposable machine that is lost is tried again, at most twice, and
    so is a guest.
    """
    store, sites = bench.store, bench.sites
    while True:
        bench.interrupts.check()
        attempt = store.begin(planned.id, sites.now())
        try:
            with sites.site(stack, bench.disks, attempt, bench.seed + planned.round) as site:
                bench.given.update(disk.device for disk in bench.disks if disk.device)
                return _carry_out(bench, site, attempt, planned, stack)
        except HostLost as error:
            if not sites.disposable and not isinstance(error, GuestLost):
                raise
            store.lose(attempt, str(error), sites.now(), error.console)
            losses = store.losses(planned.id)
            what = "guest" if isinstance(error, GuestLost) else "machine"
            bench.listener(Noted(f"the {what} was lost ({losses}): {error}"))
            if losses > _RETRIES:
                failure = f"the {what} was lost {losses} times, the last time so: {error}"
                store.end(attempt, failure, sites.now())
                return failure
        except VisitFailed as error:
            # the machine, a disk in it, or a look at what was left there
            if not sites.disposable:
                raise
            store.end(attempt, str(error), sites.now())
            return str(error)
        finally:
            if sites.disposable:
                store.discard(attempt, sites.now())


def _carry_out(bench: Workbench, site: Site, attempt: int, planned: PlannedVisit, stack: Stack) -> str | None:
    failure: str | None = None
    ended = False
    gone = False  # the machine
    before: frozenset[str] = frozenset()
    machines = Machines(site.host, bench.store, attempt, site.uuid, bench.interrupts, site.beside)
    try:
        plan = layout.lay_out(
            stack,
            bench.drivers,
            site.disks,
            work_dir=site.work_dir,
            run_uuid=site.uuid,
            attempt=site.attempt,
            guest_image=bench.guest_image,
            beside=site.reaches,
        )
        if bench.sites.disposable:
            before = leaks.look(site.host)
        _build(bench, machines, plan)
        _measure(bench, site, machines, planned, stack, plan)
        machines.remove(lambda why: bench.listener(StepStarted(f"undo: {why}")))
        ended = True
    except (VisitFailed, BadInput) as error:  # BadInput: a layer that does not fit the device as it is now
        failure = str(error)
        ended = True
    except UndoFailed as error:
        # A trial left a process that cannot be killed, here or in a guest. Where that matters the removal fails too: a
        # machine that is thrown away takes the process along.
        failure = f"what a trial left running does not end: {'; '.join(error.failures)}; {_HANGS}"
        ended = True
    except HostLost as error:
        gone = not isinstance(error, GuestLost)
        raise
    finally:
        with bench.interrupts.held():
            machines.close()
            # Undoing on a machine that is thrown away is a measurement: nothing that failed needs it.
            if not gone and not (bench.sites.disposable and (failure or not ended)):
                failure = _remove(bench, site, attempt, failure, before) or failure
            if ended:
                bench.store.end(attempt, failure, bench.sites.now())
    return failure


def _remove(bench: Workbench, site: Site, attempt: int, cause: str | None, before: frozenset[str]) -> str | None:
    """Undo the attempt; first end what its commands left running, which would keep it in use.

    Raises UndoFailed when something stays, but on a machine that is thrown away: there it returns what stayed.
    """
    try:
        site.host.end_strays(site.uuid)
        journal.undo(
            bench.store,
            site.host,
            attempt,
            cause=cause,
            progress=lambda entry: bench.listener(StepStarted(f"undo: {entry.why}")),
        )
    except UndoFailed as error:
        if not bench.sites.disposable:
            raise UndoFailed(error.failures, error.cause or cause) from error
        return f"the stack could not be removed: {'; '.join(error.failures)}; its lab machine was thrown away."
    if bench.sites.disposable and (left := leaks.look(site.host) - before):
        return f"removing the stack left something behind: {', '.join(sorted(left))}; this is a defect of a layer."
    return None


def _build(bench: Workbench, machines: Machines, plan: layout.Layout) -> None:
    journal.carry_out(bench.store, machines.outer, machines.attempt, "visit", layout.directory_step(plan))
    for level in plan.levels():
        for turn in layout.turns(level):
            bench.interrupts.check()
            bench.listener(StepStarted(turn[0][1].why))
            if len(turn) == 1:
                machines.carry_out(*turn[0])
            else:
                machines.carry_out_together(turn)
        for placed in {id(placed): placed for placed, _ in level}.values():
            machines.started(placed, plan)
    wrong = _differences(bench, machines, plan)
    if wrong:
        raise NotAsAsked("the stack is not as requested: " + "; ".join(wrong))


def _differences(bench: Workbench, machines: Machines, plan: layout.Layout) -> list[str]:
    """Read every layer back and keep what was seen; what is not as the stack was asked for."""
    wrong: list[str] = []
    answers = machines.ask_all([(placed, placed.inspection()) for placed in plan.layers])
    for placed, seen in zip(plan.layers, answers, strict=True):
        bench.store.add_evidence(machines.attempt, placed.node.call.text, seen)
        wrong += placed.driver.differences(placed.node.call, placed.below, placed.place, seen)
    return wrong


Load = tuple[Call, Workload, Metric]


def _measure(
    bench: Workbench, site: Site, machines: Machines, planned: PlannedVisit, stack: Stack, plan: layout.Layout
) -> None:
    shared = _bench(bench, machines, plan)
    if "host" in shared.arcs and not bench.sites.disposable:
        arc = trial_steps.note_arc(plan.directory)
        journal.carry_out(bench.store, machines.outer, machines.attempt, "visit", arc)
    outside = _outside(machines, plan)  # one for all rounds: each watch needs files of its own
    seed = bench.seed + planned.round  # one per round: every stack of a round gets the same sequence of I/O
    number = 0
    for loads in measuring_order.rounds_of(bench.workloads, tenants=bool(plan.shares)):
        bench.interrupts.check()
        if plan.shares:
            parts = _parts(bench, machines, plan, loads, number, outside)
        else:
            parts = [_part(shared, loads[0], None, plan.top, f"{plan.scratch}/{number}")]
        # Before the trial of all in one round and after it in the next: who comes second finds room that was given out.
        apart = TenantsAlone(bench.interrupts, bench.listener, machines, plan, parts, outside, site.uuid, seed, number)
        first = seed % 2 == 0
        number += len(parts)
        if first:
            apart.measure()
        removals = make_directories(parts)
        cleanups = begin_cleanups(machines, parts, seed)
        bench.listener(StepStarted(" + ".join(call.text for call, _, _ in loads)))
        results = _trials(plan, loads, parts, outside, seed)
        strays = [stray for each in machines.every() for stray in each.end_strays(site.uuid)]
        strays += _swept(machines, plan)
        left = clean_up(cleanups)
        if strays:
            note = f"what it left running in the background was ended: {', '.join(strays)}"
            results = [replace(result, notes=(*result.notes, note)) for result in results]
        results = _marked(stack, results)
        results = [model_bounds.judged(plan, site, result) for result in results]
        results = [witness.judged(plan, result, load[2]) for load, result in zip(loads, results, strict=True)]
        told = layer_figures.told(machines, plan) if any(result.figures is not None for result in results) else []
        results = [
            layer_figures.added(bench.machine_metrics, told, plan, load[0].tenant, result)
            for load, result in zip(loads, results, strict=True)
        ]
        wrong = [*left, *_differences(bench, machines, plan)]
        if wrong:
            results = [_changed(result, wrong) for result in results]
        elif not first:
            apart.measure(instead_of=removals)
        results = apart.compared(results)
        for load, result in zip(loads, results, strict=True):
            _store(bench, machines.attempt, planned, load, result)
        if wrong:
            raise NotAsAsked(results[0].reason or "")
        for host, command in removals:
            host.run(command)


def _swept(machines: Machines, plan: layout.Layout) -> list[str]:
    """What the trials left running in containers, ended there."""
    found: set[str] = set()
    for top in plan.tops:
        if top.sweep is not None:
            found.update(machines.of(top.guest).run(top.sweep, check=False).stdout.splitlines())
    return [f"{name} (in the container)" for name in sorted(found)]


def _marked(stack: Stack, results: list[trial.Trial]) -> list[trial.Trial]:
    """With the mark of a stack that is documented to be able to lose acknowledged data, and how it can."""
    losses = tuple(sentence(risk) for risk in loses_acknowledged(stack))
    if not losses:
        return results
    return [replace(result, flags=(*result.flags, "unsafe"), notes=(*result.notes, *losses)) for result in results]


def _part(bench: trial.Bench, load: Load, tenant: int | None, top: Provides, scratch: str) -> together.Part:
    call, workload, _ = load
    return together.Part(tenant or 1, bench, workload, call, trial_steps.target_on(top), scratch, top.guest)


def _parts(
    bench: Workbench, machines: Machines, plan: layout.Layout, loads: Sequence[Load], number: int, outside: Outside
) -> list[together.Part]:
    """Each tenant's part of a trial: with the load that names it, or with the only one, which is everybody's."""
    whose = [(load[0].tenant, load) for load in loads if load[0].tenant is not None]
    everybody = [(tenant, loads[0]) for tenant in range(1, len(plan.tops) + 1)]
    parts: list[together.Part] = []
    for tenant, load in whose or everybody:
        top = plan.tops[tenant - 1]
        devices = tuple(plan.block_devices(top.guest, tenant))
        own = trial.Bench(
            machines.of(top.guest),
            devices,
            bench.memory_bytes,
            bench.machine_metrics,
            rehearsals=top.rehearsals,
            inside=top.inside,
            pid_file=top.pid_file,
            outside=outside,
            meanwhile=_meanwhile(machines, top),
            data_steps=_data_steps(machines, top),
            holders=plan.holders(top.guest),
            above=data_source.above(plan),
        )
        parts.append(_part(own, load, tenant, top, f"{plan.scratch}/{number + len(parts)}"))
    return parts


def _trials(
    plan: layout.Layout, loads: Sequence[Load], parts: Sequence[together.Part], outside: Outside, seed: int
) -> list[trial.Trial]:
    """One for each load."""
    since_s = [kernel_log.uptime_s(part.host) for part in parts]
    if plan.shares:
        found = together.run(parts, outside, seed)
        judged = (
            limits.judged(plan, each, part.tenant, found.figures)
            for part, each in zip(parts, found.trials, strict=True)
        )
        found = replace(found, trials=tuple(judged))
        if len(loads) == len(parts):
            results = [found.whole(number) for number in range(len(parts))]
        else:
            _, workload, primary = loads[0]
            metrics = (primary, *workload.info.metrics)
            results = [merging.merged(found, [part.tenant for part in parts], metrics)]
    else:
        (part,) = parts
        ran = trial.run(part.bench, part.workload, part.call, part.target, part.scratch, seed)
        results = [limits.judged(plan, ran, None, {})]
    if all(result.outcome is not Outcome.FAILED for result in results):
        return results
    blamed: list[str] = []
    for host, guest, since in {
        id(part.host): (part.host, plan.tops[part.tenant - 1].guest, since)
        for part, since in zip(parts, since_s, strict=True)
    }.values():
        here = [(p.node.call.text, p.provides.path) for p in plan.layers if p.provides.guest == guest]
        found_there = kernel_log.io_errors(host, since, here)
        blamed += found_there or kernel_log.unreadable(host, plan.block_devices(guest))
    return [replace(result, reason="; ".join([*filter(None, [result.reason]), *blamed])) for result in results]


def _changed(result: trial.Trial, wrong: Sequence[str]) -> trial.Trial:
    """Measured, but on what? The figures are kept and never ranked."""
    reason = "; ".join([*filter(None, [result.reason]), "the stack changed during the trial", *wrong])
    return replace(result, outcome=Outcome.INVALID if result.figures else Outcome.FAILED, reason=reason)


def _store(bench: Workbench, attempt: int, planned: PlannedVisit, load: Load, result: trial.Trial) -> None:
    call, _, primary = load
    stored = bench.store.add_trial(
        attempt,
        call.text,
        outcome=result.outcome,
        reason=result.reason,
        at=result.at,
        wall_s=result.wall_s,
        argv=result.commands,
        flags=result.flags,
        notes=result.notes,
        figures=result.figures,
        extra=result.extra,
        series=result.series,
        raw=result.raw,
    )
    if result.evidence:
        bench.store.add_evidence(attempt, call.text, result.evidence)
    value = (result.figures or {}).get(primary.name) if stored == result.reason else None
    shown = None if value is None else (primary.name, value, primary.unit)
    bench.listener(TrialEnded(planned.stack, call.text, shown, stored, result.flags))


def _bench(bench: Workbench, machines: Machines, plan: layout.Layout) -> trial.Bench:
    """What is sampled: the devices of the stack, or those that the user's own directory lies on; and for a trial in a
    guest those outside."""
    inside = plan.top.guest
    host = machines.of(inside)
    outside = None if inside is None else _outside(machines, plan)
    devices, filesystem = plan.block_devices(inside), None
    if not devices and plan.top.kind is Kind.DIRECTORY:
        own = directories.look(host, plan.top.path)
        devices, filesystem = [("disk", device) for device in own.devices], own.filesystem
    return trial.Bench(
        host,
        tuple(devices),
        bench.memory_bytes,
        bench.machine_metrics,
        filesystem,
        plan.top.rehearsals,
        plan.top.inside,
        plan.top.pid_file,
        outside,
        _meanwhile(machines, plan.top),
        _data_steps(machines, plan.top),
        plan.holders(inside),
        data_source.above(plan),
    )


def _meanwhile(machines: Machines, top: Provides) -> tuple[tuple[Host, Meanwhile], ...]:
    return tuple((machines.of(each.guest), each) for each in top.meanwhile)


def _data_steps(machines: Machines, top: Provides) -> tuple[tuple[Host, DataStep], ...]:
    return tuple((machines.of(each.guest), each) for each in top.data_steps)


def _outside(machines: Machines, plan: layout.Layout) -> Outside:
    starter = machines.starter(plan.guests[0]) if plan.guests else machines.outer
    another = None if starter is machines.outer else starter
    return Outside(machines.outer, plan.block_devices(), plan.guests, plan.scratch, another, plan.holders())
