"""One fresh build of a stack, the trials on it, and its removal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from strata.errors import BadInput, HostLost, NotAsAsked, UndoFailed, VisitFailed
from strata.hosts.base import Host
from strata.model import Call, Disk, Kind, LayerDriver, Metered, Metric, Outcome, Stack, Workload
from strata.run import directories, journal, kernel_log, layout, leaks, trial, trial_steps
from strata.run.progress import Listener, Noted, StepStarted, TrialEnded
from strata.run.signals import Interrupts
from strata.run.sites import Site, Sites
from strata.store.writer import PlannedVisit, Store

# A machine that breaks down once may do so by chance; one that does so every time says something about the stack.
_RETRIES = 2
_ADDED_UP = frozenset({"bytes", "count", "s"})


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


def visit(bench: Workbench, planned: PlannedVisit, stack: Stack) -> str | None:
    """Returns why the visit failed, None when it did not; it is stored either way.

    Raises UndoFailed when something could not be removed, Interrupted on a signal, Refused (a device in use) and
    HostLost. In all these cases the attempt has no ending and does not count; after Interrupted nothing of it is left.
    A signal during the removal waits for its end. A disposable machine that is lost is tried again, at most twice.
    """
    store, sites = bench.store, bench.sites
    while True:
        bench.interrupts.check()
        attempt = store.begin(planned.id, sites.now())
        try:
            with sites.site(stack, bench.disks, attempt, bench.seed + planned.round) as site:
                return _carry_out(bench, site, attempt, planned, stack)
        except HostLost as error:
            if not sites.disposable:
                raise
            store.lose(attempt, str(error), sites.now(), error.console)
            losses = store.losses(planned.id)
            bench.listener(Noted(f"the machine was lost ({losses}): {error}"))
            if losses > _RETRIES:
                failure = f"the machine was lost {losses} times, the last time so: {error}"
                store.end(attempt, failure, sites.now())
                return failure
        finally:
            if sites.disposable:
                store.discard(attempt, sites.now())


def _carry_out(bench: Workbench, site: Site, attempt: int, planned: PlannedVisit, stack: Stack) -> str | None:
    failure: str | None = None
    ended = False
    gone = False  # the machine
    before: frozenset[str] = frozenset()
    try:
        plan = layout.lay_out(
            stack, bench.drivers, site.disks, work_dir=site.work_dir, run_uuid=site.uuid, attempt=site.attempt
        )
        if bench.sites.disposable:
            before = leaks.look(site.host)
        _build(bench, site.host, attempt, plan)
        _measure(bench, site, attempt, planned, plan)
        ended = True
    except (VisitFailed, BadInput) as error:  # BadInput: a layer that does not fit the device as it is now
        failure = str(error)
        ended = True
    except HostLost:
        gone = True
        raise
    finally:
        with bench.interrupts.held():
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
        return str(error)
    if bench.sites.disposable and (left := leaks.look(site.host) - before):
        return f"removing the stack left something behind: {', '.join(sorted(left))}; this is a defect of a layer."
    return None


def _build(bench: Workbench, host: Host, attempt: int, plan: layout.Layout) -> None:
    journal.carry_out(bench.store, host, attempt, "visit", layout.directory_step(plan))
    for placed in plan.layers:
        for step in placed.steps():
            bench.interrupts.check()
            bench.listener(StepStarted(step.why))
            journal.carry_out(bench.store, host, attempt, placed.node.call.text, step)
    wrong = _differences(bench, host, attempt, plan)
    if wrong:
        raise NotAsAsked("the stack is not as it was asked for: " + "; ".join(wrong))


def _differences(bench: Workbench, host: Host, attempt: int, plan: layout.Layout) -> list[str]:
    """Read every layer back and keep what was seen; what is not as the stack was asked for."""
    wrong: list[str] = []
    for placed in plan.layers:
        seen = [host.run(command, check=False) for command in placed.inspection()]
        bench.store.add_evidence(attempt, placed.node.call.text, seen)
        wrong += placed.driver.differences(placed.node.call, placed.below, placed.place, seen)
    return wrong


def _measure(bench: Workbench, site: Site, attempt: int, planned: PlannedVisit, plan: layout.Layout) -> None:
    host = site.host
    shared = _bench(bench, host, plan)
    for number, (call, workload, primary) in enumerate(bench.workloads):
        bench.interrupts.check()
        scratch = f"{plan.scratch}/{number}"
        target = trial_steps.target_on(plan.top)
        make, remove = trial_steps.directories(target, scratch)
        for command in make:
            host.run(command)
        bench.listener(StepStarted(call.text))
        # one seed per round: every stack of a round gets the same sequence of I/O
        since_s = kernel_log.uptime_s(host)
        result = trial.run(shared, workload, call, target, scratch, bench.seed + planned.round)
        if result.outcome is Outcome.FAILED:
            blamed = kernel_log.io_errors(host, since_s, [(p.node.call.text, p.provides.path) for p in plan.layers])
            blamed = blamed or kernel_log.unreadable(host, plan.block_devices())
            result = replace(result, reason="; ".join([*filter(None, [result.reason]), *blamed]))
        strays = host.end_strays(site.uuid)
        if strays:
            note = f"what it left running in the background was ended: {', '.join(strays)}"
            result = replace(result, notes=(*result.notes, note))
        result = _with_layers(bench, host, plan, result)
        wrong = _differences(bench, host, attempt, plan)
        if wrong:
            # measured, but on what? The figures are kept and never ranked.
            reason = "; ".join([*filter(None, [result.reason]), "the stack changed during the trial", *wrong])
            result = replace(result, outcome=Outcome.INVALID if result.figures else Outcome.FAILED, reason=reason)
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
        )
        if result.evidence:
            bench.store.add_evidence(attempt, call.text, result.evidence)
        value = (result.figures or {}).get(primary.name) if stored == result.reason else None
        bench.listener(
            TrialEnded(
                planned.stack,
                call.text,
                None if value is None else (primary.name, value, primary.unit),
                stored,
                result.flags,
            )
        )
        if wrong:
            raise NotAsAsked(result.reason or "")
        for command in remove:
            host.run(command)


def _with_layers(bench: Workbench, host: Host, plan: layout.Layout, result: trial.Trial) -> trial.Trial:
    """With what the layers say of themselves: bytes before and after compression, hits of a cache. Of several layers
    of one kind bytes and counts are added up, and of shares the mean is taken."""
    if result.figures is None:
        return result
    found: dict[str, list[float]] = {}
    metered = [placed for placed in plan.layers if placed.driver.info.metrics]
    for placed in metered:
        driver = cast("Metered", placed.driver)
        asked = (placed.node.call, placed.below, placed.place)
        seen = [host.run(command, check=False) for command in driver.plan_figures(*asked)]
        for name, value in driver.figures(*asked, seen).items():
            found.setdefault(name, []).append(value)
    units = {metric.name: metric.unit for placed in metered for metric in placed.driver.info.metrics}
    figures = {
        name: sum(values) if units[name] in _ADDED_UP else sum(values) / len(values)
        for name, values in found.items()
        if name in bench.machine_metrics
    }
    return replace(result, figures={**result.figures, **figures})


def _bench(bench: Workbench, host: Host, plan: layout.Layout) -> trial.Bench:
    """What is sampled: the devices of the stack, or those that the user's own directory lies on."""
    devices, filesystem = plan.block_devices(), None
    if not devices and plan.top.kind is Kind.DIRECTORY:
        own = directories.look(host, plan.top.path)
        devices, filesystem = [("disk", device) for device in own.devices], own.filesystem
    return trial.Bench(host, tuple(devices), bench.memory_bytes, bench.machine_metrics, filesystem, plan.top.rehearsals)
