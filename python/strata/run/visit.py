"""One fresh build of a stack, the trials on it, and its removal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from strata.errors import BadInput, NotAsAsked, UndoFailed, VisitFailed
from strata.hosts.base import Host
from strata.model import Call, Disk, Kind, LayerDriver, Metric, Outcome, Stack, Workload
from strata.run import directories, journal, layout, trial, trial_steps
from strata.run.progress import Listener, StepStarted, TrialEnded
from strata.run.signals import Interrupts
from strata.store.writer import PlannedVisit, Store


@dataclass(frozen=True, slots=True)
class Workbench:
    """What every visit of a run shares."""

    host: Host
    store: Store
    run_uuid: str
    work_dir: str  # absolute
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

    Raises UndoFailed when something could not be removed and Interrupted on a signal. In both cases the attempt has
    no ending and does not count; after Interrupted nothing of it is left. A signal during the removal
    waits for its end.
    """
    store, host = bench.store, bench.host
    bench.interrupts.check()
    attempt = store.begin(planned.id, host.now())
    failure: str | None = None
    interrupted = True
    try:
        plan = layout.lay_out(
            stack,
            bench.drivers,
            bench.disks,
            work_dir=bench.work_dir,
            run_uuid=bench.run_uuid,
            attempt=attempt,
        )
        _build(bench, attempt, plan)
        _measure(bench, attempt, planned, plan)
        interrupted = False
    except (VisitFailed, BadInput) as error:  # BadInput: a layer that does not fit the device as it is now
        failure = str(error)
        interrupted = False
    finally:
        with bench.interrupts.held():
            _remove(bench, attempt, failure)
            if not interrupted:
                store.end(attempt, failure, host.now())
    return failure


def _remove(bench: Workbench, attempt: int, cause: str | None) -> None:
    """Undo the attempt; first end what its commands left running, which would keep it in use."""
    try:
        bench.host.end_strays(bench.run_uuid)
    except UndoFailed as error:
        raise UndoFailed(error.failures, cause) from error
    journal.undo(
        bench.store,
        bench.host,
        attempt,
        cause=cause,
        progress=lambda entry: bench.listener(StepStarted(f"undo: {entry.why}")),
    )


def _build(bench: Workbench, attempt: int, plan: layout.Layout) -> None:
    journal.carry_out(bench.store, bench.host, attempt, "visit", layout.directory_step(plan))
    for placed in plan.layers:
        for step in placed.steps():
            bench.interrupts.check()
            bench.listener(StepStarted(step.why))
            journal.carry_out(bench.store, bench.host, attempt, placed.node.call.text, step)
    wrong = _differences(bench, attempt, plan)
    if wrong:
        raise NotAsAsked("the stack is not as it was asked for: " + "; ".join(wrong))


def _differences(bench: Workbench, attempt: int, plan: layout.Layout) -> list[str]:
    """Read every layer back and keep what was seen; what is not as the stack was asked for."""
    wrong: list[str] = []
    for placed in plan.layers:
        seen = [bench.host.run(command, check=False) for command in placed.inspection()]
        bench.store.add_evidence(attempt, placed.node.call.text, seen)
        wrong += placed.driver.differences(placed.node.call, placed.below, placed.place, seen)
    return wrong


def _measure(bench: Workbench, attempt: int, planned: PlannedVisit, plan: layout.Layout) -> None:
    shared = _bench(bench, plan)
    for number, (call, workload, primary) in enumerate(bench.workloads):
        bench.interrupts.check()
        scratch = f"{plan.scratch}/{number}"
        target = trial_steps.target_on(plan.top)
        make, remove = trial_steps.directories(target, scratch)
        for command in make:
            bench.host.run(command)
        bench.listener(StepStarted(call.text))
        # one seed per round: every stack of a round gets the same sequence of I/O
        result = trial.run(shared, workload, call, target, scratch, bench.seed + planned.round)
        strays = bench.host.end_strays(bench.run_uuid)
        if strays:
            note = f"what it left running in the background was ended: {', '.join(strays)}"
            result = replace(result, notes=(*result.notes, note))
        wrong = _differences(bench, attempt, plan)
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
            bench.host.run(command)


def _bench(bench: Workbench, plan: layout.Layout) -> trial.Bench:
    """What is sampled: the devices of the stack, or those that the user's own directory lies on."""
    devices, filesystem = plan.block_devices(), None
    if not devices and plan.top.kind is Kind.DIRECTORY:
        own = directories.look(bench.host, plan.top.path)
        devices, filesystem = [("disk", device) for device in own.devices], own.filesystem
    return trial.Bench(bench.host, tuple(devices), bench.memory_bytes, bench.machine_metrics, filesystem)
