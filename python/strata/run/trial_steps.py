"""Everything that one trial does to a machine, in order. Pure: what runs, what `plan --commands` shows and what the
store keeps of a trial come from here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from strata.model import Command, Kind, Provides, Target, TrialPlan
from strata.run import machine

# The engine gets this much longer than the workload's own limit before the host gives up on the engine.
_GRACE_S = 60.0
_SAMPLE_INTERVAL = "100ms"

FORGET = Command(("sh", "-c", "echo 3 >/proc/sys/vm/drop_caches"))
_WRITE = 'printf %s "$2" >"$1"'


@dataclass(frozen=True, slots=True)
class TrialSteps:
    """The fields are in the order in which they are carried out."""

    make: tuple[Command, ...]  # the directories
    put: Mapping[str, str]  # path -> content
    prepare: tuple[Command, ...]
    rehearse: tuple[Command, ...]  # what is measured, without being measured: a cache is warm after it
    flush: tuple[Command, ...]  # what was prepared goes to the disk,
    forget: Command  # and out of memory; only root may
    measure: Command  # the engine, and under it the workload: the only one on the clock
    samples: str  # path of what the engine writes
    remove: tuple[Command, ...]

    def until_measured(self) -> list[tuple[str, ...]]:
        """All but the removal, as typed: a file that is written is a command too."""
        written = [("sh", "-c", _WRITE, "sh", path, content) for path, content in self.put.items()]
        commands = (*self.prepare, *self.rehearse, *self.flush, self.forget, self.measure)
        return [*(c.argv for c in self.make), *written, *(c.argv for c in commands)]

    def typed(self) -> list[tuple[str, ...]]:
        return [*self.until_measured(), *(c.argv for c in self.remove)]


def target_on(top: Provides) -> Target:
    """What a workload gets of a stack: a fresh directory, or the device."""
    if top.kind in (Kind.DIRECTORY, Kind.CONTAINER):
        return Target(Kind.DIRECTORY, f"{top.path}/strata-trial", top.size_bytes, top.on_existing)
    return Target(top.kind, top.path, top.size_bytes, top.on_existing)


def trial_steps(
    engine: str,
    devices: Iterable[tuple[str, str]],
    plan: TrialPlan,
    target: Target,
    scratch: str,
    rehearsals: int = 0,
    inside: tuple[str, ...] = (),
    pid_file: str | None = None,
) -> TrialSteps:
    """`devices`: (layer, path) of what is sampled; their names in the samples are d0, d1 ... `pid_file`: of the guest's
    QEMU, where the trial is a command that goes into it.

    `inside`: what precedes the commands of a trial in a container. The engine samples from outside, and `scratch` is
    the same directory in there.
    """
    make, remove = directories(target, scratch, inside)
    samples = f"{scratch}/samples.jsonl"
    sampled = [part for i, (_, path) in enumerate(devices) for part in ("--device", f"d{i}={path}")]
    sampled += ["--process", f"{machine.OWN_QEMU}={pid_file}"] if pid_file else []
    measure = (
        *(engine, "sample", "--out", samples, "--interval", _SAMPLE_INTERVAL),
        *("--timeout", f"{plan.measure.timeout_s:g}s", *sampled, "--", *inside, *plan.measure.argv),
    )
    return TrialSteps(
        make=make,
        put=plan.put,
        prepare=_within(inside, *plan.prepare),
        rehearse=_within(inside, plan.measure, *(plan.prepare if plan.uses_up else ())) * rehearsals,
        flush=_within(inside, *flush(target)),
        forget=FORGET,
        measure=Command(measure, plan.measure.timeout_s + _GRACE_S, plan.measure.stdin),
        samples=samples,
        remove=remove,
    )


def directories(
    target: Target, scratch: str, inside: tuple[str, ...] = ()
) -> tuple[tuple[Command, ...], tuple[Command, ...]]:
    """What makes them, and what removes the target's; what is left in `scratch` goes with the visit."""
    fresh = [target.path] if target.kind is Kind.DIRECTORY else []
    make = [Command((*inside, "mkdir", "--", path)) for path in fresh]
    remove = [Command((*inside, "rm", "--recursive", "--force", "--one-file-system", "--", path)) for path in fresh]
    return (Command(("mkdir", "--", scratch)), *make), tuple(remove)


def _within(inside: tuple[str, ...], *commands: Command) -> tuple[Command, ...]:
    return tuple(replace(command, argv=(*inside, *command.argv)) for command in commands)


def flush(target: Target) -> tuple[Command, ...]:
    if target.kind is Kind.DIRECTORY:
        return (Command(("sync", "--file-system", target.path)),)
    if target.kind is Kind.BLOCK:
        return (Command(("blockdev", "--flushbufs", target.path)),)
    return ()
