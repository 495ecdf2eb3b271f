"""One measured run of one workload on a target that was just proven."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from strata.errors import VisitFailed
from strata.hosts.base import Host
from strata.model import Call, Command, Kind, Measured, Metric, Outcome, Target, TrialOutput, TrialPlan, Workload
from strata.run import machine

if TYPE_CHECKING:
    from strata.analysis import steady

# The engine gets this much longer than the workload's own limit before the host gives up on the engine.
_GRACE_S = 60.0
_SAMPLE_INTERVAL = "100ms"


@dataclass(frozen=True, slots=True)
class Trial:
    """What is stored of a trial."""

    outcome: Outcome
    reason: str | None
    at: float
    wall_s: float | None
    argv: tuple[str, ...]
    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    figures: Mapping[str, float] | None = None
    extra: tuple[Metric, ...] = ()
    series: Mapping[str, Sequence[tuple[float, float]]] | None = None


@dataclass(frozen=True, slots=True)
class Bench:
    """What the trials of one visit share."""

    host: Host
    devices: tuple[tuple[str, str], ...]  # (layer, device path), bottom to top
    memory_bytes: int  # what can cache the data
    declared: frozenset[str]  # machine metrics that the store knows


def run(bench: Bench, workload: Workload, call: Call, target: Target, scratch: str, seed: int) -> Trial:
    """Prepare, measure, read; once more and twice as long when the figure did not settle. Never raises VisitFailed:
    a trial without a figure is a failed trial, with its reason."""
    host = bench.host
    at = host.now()
    plan = workload.plan(call, target, scratch, seed)
    try:
        for path, content in plan.put.items():
            host.write(path, content)
        for command in plan.prepare:
            host.run(command)
        cold = drop_caches(host, target)
        at = host.now()
        measured, samples = _measure(bench, workload, call, plan, scratch)
        flags: list[str] = []
        settled = _settled(workload, call, measured)
        longer = _twice_as_long(call)
        if settled is not None and settled.steady is False and longer is not None:
            flags.append("extended")
            plan = workload.plan(longer, target, scratch, seed)
            for path, content in plan.put.items():
                host.write(path, content)
            at = host.now()
            measured, samples = _measure(bench, workload, longer, plan, scratch)
            settled = _settled(workload, call, measured)
            if settled is not None and settled.steady is False:
                flags.append("unsteady")
    except VisitFailed as error:
        return Trial(Outcome.FAILED, str(error), at, None, plan.measure.argv)
    figures = dict(measured.metrics)
    if settled is not None and settled.cut and settled.mean is not None:
        figures[workload.primary_of(call).name] = settled.mean
    devices = [(layer, f"d{i}") for i, (layer, _) in enumerate(bench.devices)]
    found = machine.figures(samples, devices, measured)
    if machine.from_memory(found):
        flags.append("memory")
    if plan.buffered and workload.data_bytes(call) < 2 * bench.memory_bytes:
        flags.append("cached")
    figures.update({name: value for name, value in found.items() if name in bench.declared})
    notes = list(measured.notes)
    if settled is not None and "unsteady" in flags:
        notes.append(settled.why)
    if not cold:
        notes.append("memory could not be cleared of what was prepared, which only root may: it may have served reads")
    return Trial(
        Outcome.OK,
        None,
        at,
        samples.end.get("wall_s"),
        plan.measure.argv,
        tuple(flags),
        tuple(notes),
        figures,
        measured.extra,
        {
            **machine.rates(samples, devices),
            **measured.series,
            **{f"machine.{name}": points for name, points in machine.series(samples).items()},
        },
    )


def drop_caches(host: Host, target: Target) -> bool:
    """Put what was prepared on the disk and forget it, so that a trial starts from there; whether it was forgotten."""
    if target.kind is Kind.DIRECTORY:
        host.run(Command(("sync", "--file-system", target.path)))
    elif target.kind is Kind.BLOCK:
        host.run(Command(("blockdev", "--flushbufs", target.path)))
    # an ordinary user may measure existing(PATH), and may not do this
    return host.run(Command(("sh", "-c", "echo 3 >/proc/sys/vm/drop_caches")), check=False).exit_code == 0


def _measure(
    bench: Bench, workload: Workload, call: Call, plan: TrialPlan, scratch: str
) -> tuple[Measured, machine.Samples]:
    out = f"{scratch}/samples.jsonl"
    devices = [part for i, (_, path) in enumerate(bench.devices) for part in ("--device", f"d{i}={path}")]
    argv = (
        *(bench.host.engine, "sample", "--out", out, "--interval", _SAMPLE_INTERVAL),
        *("--timeout", f"{plan.measure.timeout_s:g}s", *devices, "--", *plan.measure.argv),
    )
    done = bench.host.run(Command(argv, plan.measure.timeout_s + _GRACE_S, plan.measure.stdin), check=False)
    samples = machine.parse(bench.host.read(out))
    files = {name: bench.host.read(path) for name, path in plan.collect.items()}
    output = TrialOutput(
        exit_code=done.exit_code,
        wall_s=samples.end["wall_s"],
        stdout=done.stdout,
        stderr=done.stderr,
        files={name: content for name, content in files.items() if content is not None},
    )
    return workload.read(call, output), samples


def _settled(workload: Workload, call: Call, measured: Measured) -> steady.Steadiness | None:
    """The window test on the primary metric's 1 s series; None where it does not apply."""
    points = measured.series.get(workload.primary_of(call).name)
    if call.variant is not None or "runtime" not in call.values or not points:
        return None
    from strata.analysis import steady  # numpy: `strata plan` must not wait for it

    return steady.assess([value for _, value in points])


def _twice_as_long(call: Call) -> Call | None:
    runtime = call.values.get("runtime")
    if not isinstance(runtime, (int, float)):
        return None
    return replace(call, values={**call.values, "runtime": 2 * runtime})
