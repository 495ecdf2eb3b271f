"""One fresh build of a stack, the trials on it, and its removal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from strata.errors import NotAsAsked, VisitFailed
from strata.hosts.base import Host
from strata.model import Call, Command, Disk, Kind, LayerDriver, Metric, Outcome, Stack, Target, Workload
from strata.run import journal, layout, trial
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
    no ending and does not count; after Interrupted nothing of it is left.
    """
    store, host = bench.store, bench.host
    attempt = store.begin(planned.id, host.now())
    plan = layout.lay_out(
        stack,
        bench.drivers,
        bench.disks,
        directory=f"{bench.work_dir}/{attempt}",
        run_uuid=bench.run_uuid,
        attempt=attempt,
    )
    failure: str | None = None
    interrupted = True
    try:
        _build(bench, attempt, plan)
        _measure(bench, attempt, planned, plan)
        interrupted = False
    except VisitFailed as error:
        failure = str(error)
        interrupted = False
    finally:
        with bench.interrupts.held():
            journal.undo(
                store,
                host,
                attempt,
                cause=failure,
                progress=lambda entry: bench.listener(StepStarted(f"undo: {entry.why}")),
            )
            if not interrupted:
                store.end(attempt, failure, host.now())
    return failure


def _build(bench: Workbench, attempt: int, plan: layout.Layout) -> None:
    journal.carry_out(bench.store, bench.host, attempt, "visit", layout.directory_step(plan))
    for placed in plan.layers:
        for step in placed.steps():
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
    shared = trial.Bench(bench.host, tuple(plan.block_devices()), bench.memory_bytes, bench.machine_metrics)
    for number, (call, workload, primary) in enumerate(bench.workloads):
        scratch = f"{plan.scratch}/{number}"
        target = Target(plan.top.kind, plan.top.path, plan.top.size_bytes)
        bench.host.run(Command(("mkdir", "--", scratch)))
        if target.kind is Kind.DIRECTORY:
            target = Target(target.kind, f"{plan.top.path}/strata-trial", target.size_bytes)
            bench.host.run(Command(("mkdir", "--", target.path)))
        bench.listener(StepStarted(call.text))
        # one seed per round: every stack of a round gets the same sequence of I/O
        result = trial.run(shared, workload, call, target, scratch, bench.seed + planned.round)
        wrong = _differences(bench, attempt, plan)
        if wrong:
            # measured, but on what? The figures are kept and never ranked.
            reason = "the stack changed during the trial: " + "; ".join(wrong)
            result = replace(result, outcome=Outcome.INVALID, reason=reason)
        bench.store.add_trial(
            attempt,
            call.text,
            outcome=result.outcome,
            reason=result.reason,
            at=result.at,
            wall_s=result.wall_s,
            argv=result.argv,
            flags=result.flags,
            notes=result.notes,
            figures=result.figures,
            extra=result.extra,
            series=result.series,
        )
        value = (result.figures or {}).get(primary.name)
        bench.listener(
            TrialEnded(
                planned.stack,
                call.text,
                None if value is None else (primary.name, value, primary.unit),
                result.reason,
                result.flags,
            )
        )
        if wrong:
            raise NotAsAsked(result.reason or "")
        if target.kind is Kind.DIRECTORY:
            bench.host.run(Command(("rm", "--recursive", "--force", "--one-file-system", "--", target.path)))
