"""One measured run of one workload on a target that was just proven."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from strata.errors import CommandFailed, CommandTimedOut, GuestLost, VisitFailed, WorkloadFailed
from strata.hosts import guest
from strata.hosts.base import Host
from strata.model import (
    AccessPattern,
    Call,
    Command,
    Completed,
    DataStep,
    Meanwhile,
    Measured,
    Metric,
    Outcome,
    Target,
    TrialOutput,
    TrialPlan,
    Workload,
)
from strata.planning import machine_metrics, trial_steps, user_directory
from strata.planning.trial_steps import TrialSteps
from strata.run.trials import caches, clocks, data_source, machine_samples, program_output, records, trial_files
from strata.run.trials.caches import Caches
from strata.run.trials.outside import Outside, Watched
from strata.units import human_size

if TYPE_CHECKING:
    from strata.analysis import steady

# Of a stream or file that a failed trial left; both ends of a longer one.
_KEPT_BYTES = 64 << 10
# What a shell says of a command that could not be started, and `timeout` of one that was stopped.
_NOT_STARTED, _STOPPED = 127, 124
# For the first command in a guest that is busy with what it was told before.
_ANSWER_S = 120.0
_WHOLE = "The figure counts every second; give the workload runtime= to leave its warm-up out."


@dataclass(frozen=True, slots=True)
class Trial:
    """What is stored of a trial."""

    outcome: Outcome
    reason: str | None
    at: float
    wall_s: float | None
    commands: tuple[tuple[str, ...], ...]  # as typed, in order
    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    figures: Mapping[str, float] | None = None
    extra: tuple[Metric, ...] = ()
    series: Mapping[str, Sequence[tuple[float, float]]] | None = None
    evidence: tuple[Completed, ...] = ()  # of a failed trial: what its commands said, and its files
    # Not stored:
    pattern: AccessPattern | None = None
    cut_s: float = 0.0  # the warm-up that the primary figure leaves out
    moved_bytes: int | None = None  # that the program says it read and wrote
    raw: tuple[Mapping[str, Any], ...] = ()  # of each load in it: what the figures were made of


@dataclass(frozen=True, slots=True)
class Bench:
    """What the trials of one visit share."""

    host: Host
    devices: tuple[tuple[str, str], ...]  # (layer, device path), bottom to top
    memory_bytes: int  # what can cache the data
    declared: frozenset[str]  # machine metrics that the store knows
    filesystem: str | None = None  # where no device is known: what the user's directory is on
    rehearsals: int = 0  # unmeasured runs before the measured one
    inside: tuple[str, ...] = ()  # what precedes a command so that it runs where the target is
    pid_file: str | None = None  # of the guest's QEMU, where `inside` goes into one
    outside: Outside | None = None  # `host` is a guest: how the machine that carries it is watched meanwhile
    meanwhile: tuple[tuple[Host, Meanwhile], ...] = ()  # what layers do while it is measured, and where
    data_steps: tuple[tuple[Host, DataStep], ...] = ()  # what layers do to its data before they are measured, and where
    holders: tuple[str, ...] = ()  # what holds data of the stack on `host`, top to bottom
    above: data_source.Above = data_source.Above()  # noqa: RUF009 (frozen): what may keep bytes from the disks

    @property
    def in_guest(self) -> bool:
        """Whether `host` is a guest, carried by the machine of `outside`."""
        return self.outside is not None and self.outside.host is not self.host

    @property
    def arcs(self) -> frozenset[str]:
        """Machines whose ARC may serve it. Others may have ZFS as well, which other programs read from."""
        return self.above.arcs | ({"host"} if self.filesystem == "zfs" else frozenset())


def run(bench: Bench, workload: Workload, call: Call, target: Target, scratch: str, seed: int) -> Trial:
    """Prepare, measure, read; once more and twice as long when the figure did not settle. `target` and `scratch` are
    there. Never raises VisitFailed: a trial without a figure is a failed trial, with its reason and what was seen.
    Raises GuestLost, HostLost, Interrupted."""
    host = bench.host
    at = host.now()
    plan = workload.plan(call, target, scratch, seed)
    about = (host.engine, bench.devices, plan, target, scratch)
    gate = f"{scratch}/gate"
    steps = trial_steps.trial_steps(*about, bench.rehearsals, bench.inside, bench.pid_file, bench.holders, gate)
    typed = steps.until_measured()
    longer = _twice_as_long(call)
    flags: list[str] = []
    ended: list[Completed] = []
    try:
        reset(bench.data_steps)
        prepare(bench, steps)
        change_data([(bench, steps)])
        start = quiesce(bench, steps)
        at = host.now()
        measured, samples, outer = _measure(bench, workload, call, plan, steps, ended)
        settled = settled_of(workload, call, measured)
        if settled is not None and settled.steady is False and longer is not None:
            flags.append("extended")
            plan = workload.plan(longer, target, scratch, seed)
            about = (host.engine, bench.devices, plan, target, scratch)
            gate = f"{scratch}/gate-of-the-longer-run"
            steps = trial_steps.trial_steps(*about, 0, bench.inside, bench.pid_file, bench.holders, gate)
            # On the same data, unless the program would not find the files that it knows of.
            steps = replace(steps, make=(), prepare=steps.prepare if plan.uses_up else ())
            typed += steps.until_measured()
            reset(bench.data_steps)
            prepare(bench, steps)
            change_data([(bench, steps)])
            start = quiesce(bench, steps)
            at = host.now()
            measured, samples, outer = _measure(bench, workload, longer, plan, steps, ended)
            settled = settled_of(workload, call, measured)
    except VisitFailed as error:
        see_that_it_lives(bench, error)
        evidence = evidence_of(host, error, ended, plan, steps)
        commands = (*typed, *(command.argv for command in steps.remove))
        return Trial(Outcome.FAILED, str(error), at, None, commands, tuple(flags), evidence=evidence)
    done = Done(measured, samples, outer, start, looked_again(bench, start))
    return judged(bench, workload, call, plan, done, at, tuple(typed), steps, settled, flags)


@dataclass(frozen=True, slots=True)
class Start:
    """What a trial starts from."""

    cold: bool  # memory forgot what was prepared, on all its machines
    flushes_s: tuple[float, ...]  # of each command that emptied page cache or write caches, or had memory forget
    notes: tuple[str, ...]  # what was not emptied
    caches: Caches  # of the machine of the trial
    outer: Caches | None = None  # of the machine that carries it, where that is another

    @property
    def flush_s(self) -> float:
        return sum(self.flushes_s)


@dataclass(frozen=True, slots=True)
class Done:
    """What a measured command left."""

    measured: Measured
    samples: machine_samples.Samples
    outer: Watched | None  # of the machine outside
    start: Start
    after: Mapping[str, Caches] = field(default_factory=dict)  # of its machines whose ARC may have served it
    # Of several tenants: figures of the machine that carries them all, which are not of this one alone.
    shared: Mapping[str, float] = field(default_factory=dict)


def judged(
    bench: Bench,
    workload: Workload,
    call: Call,
    plan: TrialPlan,
    done: Done,
    at: float,
    typed: tuple[tuple[str, ...], ...],
    steps: TrialSteps,
    settled: steady.Steadiness | None,
    flags: list[str],
) -> Trial:
    """Pure: the figures of a trial that came to its end, with what has to be said of them."""
    measured, samples, outer, start = done.measured, done.samples, done.outer, done.start
    longer = _twice_as_long(call)
    figures = dict(measured.metrics)
    extra = list(measured.extra)
    notes = [*measured.notes, *start.notes]
    if settled is not None and settled.steady is False:
        flags.append("unsteady")
        notes.append(settled.why)
    primary = workload.primary_of(call)
    is_mean = primary.name in measured.series and not measured.groups
    cut_s = 0.0
    if settled is not None and longer is not None and settled.mean is not None and is_mean:
        # One that runs to its end has no warm-up to leave out: what it did at first is part of its work.
        whole = replace(
            primary,
            name=f"{primary.name}_whole_run",
            about=f"{primary.name} with the warm-up, as the other figures",
        )
        figures[whole.name] = figures[primary.name]
        if settled.cut:
            figures[primary.name] = settled.mean
            cut_s = measured.series[primary.name][settled.cut - 1][0]
        extra.append(whole)
    devices = [(layer, f"d{i}") for i, (layer, _) in enumerate(bench.devices)]
    found = {} if plan.earlier else machine_samples.figures(samples, devices, measured)
    watched = {}
    within = bench.outside if bench.in_guest else None
    if within is not None:
        found = machine_samples.as_guest(found)
        if outer is not None and not plan.earlier:
            found |= within.figures(outer, measured)
            watched = within.series(outer)
    found |= arc_figures(bench, start, done.after)
    seen = {**found, **done.shared}
    decided = data_source.decided(seen, call, bench.above, measured, buffered=plan.buffered)
    if decided is not None:
        notes.append(decided)
    if plan.unsynced:
        notes.append(f"{primary.name} ends before the sync: what it says was written may be in the page cache")
    unknown = not data_source.known(seen, bench.above) and (
        not start.cold or (plan.buffered and workload.data_bytes(call) < 2 * bench.memory_bytes)
    )
    if decided is not None or unknown or plan.unsynced or bench.filesystem in user_directory.MEMORY:
        flags.append("cache")
    if not bench.devices and bench.outside is None:
        where = f"this {bench.filesystem}" if bench.filesystem else "this directory"
        notes.append(f"no block device is known below {where}: what of the traffic reached a disk is not known")
    found |= start_figures(bench, start)
    found[machine_metrics.FLUSH.name] = start.flush_s
    figures.update({name: value for name, value in found.items() if name in bench.declared})
    read, written = measured.bytes_read, measured.bytes_written
    return Trial(
        Outcome.OK,
        None,
        at,
        samples.end.get("wall_s"),
        (*typed, *(command.argv for command in steps.remove)),
        tuple(flags),
        tuple(notes),
        figures,
        tuple(extra),
        {
            **machine_samples.rates(samples, devices),
            **watched,
            **measured.series,
            **{f"machine.{name}": points for name, points in machine_samples.series(samples).items()},
        },
        pattern=measured.pattern,
        cut_s=cut_s,
        moved_bytes=None if None in (read, written) else (read or 0) + (written or 0),
        raw=_raw(bench, measured, cut_s, start, done.after),
    )


def _raw(
    bench: Bench, measured: Measured, cut_s: float, start: Start, after: Mapping[str, Caches]
) -> tuple[Mapping[str, Any], ...]:
    if measured.raw is None:
        return ()
    memory = records.of_memory({name: (each, after.get(name)) for name, each in _machines(bench, start).items()})
    kept = records.of_trial(
        measured.raw,
        bench.devices,
        in_guest=bench.in_guest,
        cut_s=cut_s,
        flush_s=start.flushes_s,
        memory=memory,
    )
    return (kept,)


def _machines(bench: Bench, start: Start) -> dict[str, Caches]:
    if not bench.in_guest:
        return {"host": start.caches}
    return {"guest": start.caches} | ({"host": start.outer} if start.outer is not None else {})


def start_figures(bench: Bench, start: Start) -> dict[str, float]:
    """What memory kept on each machine of a trial when its clock started."""
    if not bench.in_guest:
        return start.caches.figures()
    return machine_samples.as_guest(start.caches.figures()) | (start.outer.figures() if start.outer else {})


def looked_again(bench: Bench, start: Start) -> dict[str, Caches]:
    """After a trial, on the machines where its stack has ZFS, by their names."""
    hosts = {"guest" if bench.in_guest else "host": bench.host}
    if bench.outside is not None and start.outer is not None:
        hosts["host"] = bench.outside.host
    return {name: caches.look(host) for name, host in hosts.items() if name in bench.arcs}


def arc_figures(bench: Bench, start: Start, after: Mapping[str, Caches]) -> dict[str, float]:
    """What the ARCs of the machines of a trial served since its start."""
    found: dict[str, float] = {}
    for name, before in _machines(bench, start).items():
        served_there = after[name].since(before) if name in after else {}
        found |= machine_samples.as_guest(served_there) if name == "guest" else served_there
    return found


def prepare(bench: Bench, steps: TrialSteps) -> None:
    """All that the clock does not see, but for the directories and for `quiesce`."""
    host = bench.host
    for path, content in steps.put.items():
        trial_files.write(host, steps.inside, path, content)
    for command in (*steps.prepare, *steps.rehearse):
        host.run(command)


def reset(data_steps: Iterable[tuple[Host, DataStep]]) -> None:
    """Remove what layers did to the data of an earlier trial, the last first."""
    for host, step in reversed(list(data_steps)):
        if step.reset is not None:
            host.run(step.reset)


def change_data(prepared: Sequence[tuple[Bench, TrialSteps]]) -> None:
    """What layers do to the data of all these, once, when they are on the disks."""
    data_steps = dict.fromkeys(each for bench, _ in prepared for each in bench.data_steps)
    if not data_steps:
        return
    for bench, steps in prepared:
        for host, command in write_out(bench, steps):
            host.run(command)
    for host, step in data_steps:
        host.run(step.do)


def write_out(bench: Bench, steps: TrialSteps) -> list[tuple[Host, Command]]:
    """What brings the data of a trial to the disks: of a guest's first there, then on the machine that carries it."""
    own = [(bench.host, command) for command in (*steps.flush, steps.quiesce)]
    if bench.outside is None or not bench.in_guest:
        return own
    return [*own, (bench.outside.host, trial_steps.quiesce(bench.outside.holders))]


def quiesce(bench: Bench, steps: TrialSteps) -> Start:
    """Write out what is left of the preparation and of earlier trials, then make memory forget it. Of a guest's trial
    first in the guest and then on the machine that carries it, where disks may be cached as well."""
    host, outside = bench.host, bench.outside
    flushed = [host.run(command) for command in steps.flush]
    cold, problems = True, []
    below: list[tuple[Host, Command, Command]] = []
    if outside is not None and outside.host is not host:
        about = trial_steps.quiesce(outside.holders), trial_steps.forget(outside.holders)
        below.append((outside.host, *about))
    for each, empty, forget in ((host, steps.quiesce, steps.forget), *below):
        flushed.append(each.run(empty))
        problems += flushed[-1].stdout.splitlines()
        # an ordinary user may measure existing(PATH), and may not do this
        forgot = each.run(forget, check=False)
        flushed.append(forgot)  # it begins with a sync
        cold = forgot.exit_code == 0 and cold
    notes: tuple[str, ...] = ()
    if problems:
        notes += (f"the trial did not start with empty write caches: {'; '.join(problems)}",)
    if not cold:
        notes += ("memory could not be cleared of what was prepared, which only root may: it may have served reads",)
    seen = [caches.look(each) for each in (host, *(each for each, _, _ in below))]
    names = ("guest", "host") if below else ("host",)
    warm = [each for name, each in zip(names, seen, strict=True) if name in bench.arcs and each.arc_is_warm]
    for left in warm:
        size = human_size(left.arc_data_bytes or 0)
        notes += (f"the ARC of ZFS was not empty at the start: {size} of data were left in it",)
    cold = cold and not warm
    took_s = tuple(each.duration_s for each in flushed)
    return Start(cold, took_s, notes, seen[0], seen[1] if below else None)


@contextmanager
def under_way(what: Iterable[tuple[Host, Meanwhile]]) -> Iterator[None]:
    """For `with`: begun before the block and ended after it, in the same order. Raises VisitFailed where one cannot."""
    begun: list[tuple[Host, Meanwhile]] = []
    try:
        for host, each in what:
            begun.append((host, each))
            host.run(each.begin)
        yield
    except VisitFailed:
        for host, each in begun:
            host.run(each.end, check=False)
        raise
    for host, each in begun:
        host.run(each.end)


def see_that_it_lives(bench: Bench, failed: VisitFailed) -> None:
    """After a trial in a guest of another system than ours: no connection of ours is cut off when that ends.

    Raises GuestLost when it does not carry out a command any more, and so is what failed.
    """
    if bench.pid_file is None:
        return
    try:
        bench.host.run(Command((*bench.inside, "exit"), timeout_s=_ANSWER_S))  # every shell knows it
    except VisitFailed:
        said = guest.console(str(PurePosixPath(bench.pid_file).parent), bench.host)
        raise GuestLost(f"the guest was lost: {guest.last_words(said) or failed}", said) from failed


def _measure(
    bench: Bench, workload: Workload, call: Call, plan: TrialPlan, steps: TrialSteps, ended: list[Completed]
) -> tuple[Measured, machine_samples.Samples, Watched | None]:
    """What the measured command left is put into `ended` before anything of it is believed."""
    host = bench.host
    watch = None if bench.outside is None else bench.outside.watch(steps.measure.timeout_s)
    with under_way(bench.meanwhile), watch or nullcontext():
        done = host.run(steps.measure, check=False)
    ended.append(done)
    measured, samples = read(host, workload, call, plan, steps, done)
    outer = watch.seen() if watch else None
    window = _window(host, steps)
    ahead_s, kept, cut = 0.0, None, outer
    if outer is not None and bench.outside is not None:
        outer_ahead_s = 0.0
        if window is not None:
            ahead_s, outer_ahead_s = clocks.look(host).ahead_s, clocks.look(bench.outside.host).ahead_s
            cut = outer.between(window[0] - ahead_s, window[1] - ahead_s, outer_ahead_s)
        kept = records.of_outside(bench.outside, outer, outer_ahead_s)
    measured = replace(measured, raw=records.of_load(measured.raw, window, ahead_s, kept))
    return measured, samples if window is None else machine_samples.between(samples, *window), cut


def _window(host: Host, steps: TrialSteps) -> tuple[float, float] | None:
    """When the load began and ended, Unix time of its machine; None where it has no gate. Raises WorkloadFailed."""
    if not steps.gate:
        return None
    times = [(host.read(f"{steps.gate}/{name}") or "").strip() for name in ("began", "ended")]
    if not all(time.isdecimal() for time in times):
        raise WorkloadFailed("the gate of its load does not say when it began and ended; report it with its commands")
    return int(times[0]) / 1000, int(times[1]) / 1000


def read(
    host: Host, workload: Workload, call: Call, plan: TrialPlan, steps: TrialSteps, done: Completed
) -> tuple[Measured, machine_samples.Samples]:
    """What a measured command left behind. Raises VisitFailed when there is no figure to trust."""
    sampled = host.read(steps.samples)
    samples = machine_samples.parse(sampled, done.stderr)
    if samples.end.get("timed_out"):
        raise WorkloadFailed(
            f"{call.text} did not end within its limit of {plan.measure.timeout_s:g} s and was stopped; see what it "
            "waits for (a device that hangs, a process that was stopped), or give it more time where it has a timeout="
        )
    files = {name: trial_files.read(host, steps.inside, path) for name, path in plan.collect.items()}
    left = TrialOutput(
        exit_code=done.exit_code,
        wall_s=samples.end["wall_s"],
        stdout=done.stdout,
        stderr=done.stderr,
        files={name: content for name, content in files.items() if content is not None},
    )
    measured = program_output.measured(workload, call, left)
    return replace(measured, raw=records.of_program(call, left, sampled)), samples


def evidence_of(
    host: Host, error: VisitFailed, ended: Sequence[Completed], plan: TrialPlan, steps: TrialSteps
) -> tuple[Completed, ...]:
    """What the measured commands and the one that failed said, and the files, each as if it had been typed out."""
    seen = list(ended)
    if isinstance(error, CommandFailed):
        silent = _STOPPED if isinstance(error, CommandTimedOut) else _NOT_STARTED
        status = silent if error.status is None else error.status
        seen.append(Completed(error.argv, status, error.stdout, error.stderr, 0.0))
    return logs_of(host, seen, plan, steps)


def logs_of(host: Host, ended: Sequence[Completed], plan: TrialPlan, steps: TrialSteps) -> tuple[Completed, ...]:
    """What commands said, and the files of a trial."""
    seen = list(ended)
    for path in plan.collect.values():
        try:
            content = trial_files.read(host, steps.inside, path)
        except VisitFailed as unreadable:
            seen.append(Completed(("cat", path), 1, "", str(unreadable), 0.0))
        else:
            if content is not None:
                seen.append(Completed(("cat", path), 0, content, "", 0.0))
    return tuple(replace(each, stdout=_cut(each.stdout), stderr=_cut(each.stderr)) for each in seen)


def _cut(text: str) -> str:
    raw = text.encode(errors="replace")
    if len(raw) <= _KEPT_BYTES:
        return text
    head, tail = raw[: _KEPT_BYTES // 2], raw[-_KEPT_BYTES // 2 :]
    left_out = f"\n[{len(raw) - len(head) - len(tail)} bytes left out]\n"
    return head.decode(errors="ignore") + left_out + tail.decode(errors="ignore")


def settled_of(workload: Workload, call: Call, measured: Measured) -> steady.Steadiness | None:
    """The window test on the 1 s series of the primary metric, or of the workload's usual one where that has none; None
    where it does not apply. Groups of jobs that follow each other are judged one by one, the worst counts."""
    points = measured.series.get(workload.primary_of(call).name) or measured.series.get(workload.info.primary)
    if call.variant is not None or "runtime" not in call.values or not points:
        return None
    from strata.analysis import steady  # numpy: `strata plan` must not wait for it

    values = [value for _, value in points]
    if measured.groups:
        starts = (0, *measured.groups)
        groups = [values[begin:end] for begin, end in zip(starts, (*measured.groups, None), strict=True)]
        judged = [steady.assess(group, warm_up=False) for group in groups]
        return min(judged, key=lambda group: {False: 0, None: 1, True: 2}[group.steady])
    timed = call.values["runtime"] is not None
    found = steady.assess(values, warm_up=timed and workload.primary_of(call).name in measured.series)
    return found if timed or found.steady is not False else replace(found, why=f"{found.why} {_WHOLE}")


def _twice_as_long(call: Call) -> Call | None:
    runtime = call.values.get("runtime")
    if not isinstance(runtime, (int, float)):
        return None
    return replace(call, values={**call.values, "runtime": 2 * runtime})
