"""One trial of several tenants, measured at the same time.

On one machine a shell there starts all of them; guests are asked from a thread each, and told a time by their own
clock.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePosixPath

from strata.errors import VisitFailed
from strata.hosts.base import Host
from strata.model import Call, Command, Completed, Measured, Metric, Outcome, Target, TrialPlan, Workload
from strata.run import machine, trial, trial_steps
from strata.run.at_once import at_once
from strata.run.outside import Outside, Watched
from strata.run.trial import Bench, Done, Trial
from strata.run.trial_steps import TrialSteps

# The share of the shortest tenant's time in which all of them have to be under way.
LEAST_OVERLAP_PCT = 99.0

OVERLAP = Metric(
    "tenants.overlap_pct", "%", "higher", "share of the shortest tenant's time in which all were under way"
)

# How long after it was said a start is: longer than it takes to tell all of them.
_LEAD_S = 3.0
_CLOCK_LOOKS = 3
_GRACE_S = 60.0
_INTERVAL = "100ms"

# Each of $@ is a directory that holds `measure`, a script, and gets what it said and its exit code.
_ALL = """\
for part; do sh "$part/measure" > "$part/out" 2> "$part/err" < /dev/null & echo $! > "$part/pid"; done
for part; do wait "$(cat "$part/pid")"; echo $? > "$part/code"; done"""

# $1 when to start, in ms of Unix time by the clock of this machine; the rest: what.
_AT = """\
left=$(($1 - $(date +%s%3N))); shift
if [ "$left" -gt 0 ]; then sleep "$(printf %d.%03d $((left / 1000)) $((left % 1000)))"; fi
exec "$@\""""


@dataclass(slots=True)
class Part:
    """One tenant with its load."""

    tenant: int
    bench: Bench  # its host, its own devices
    workload: Workload
    call: Call
    target: Target
    scratch: str
    plan: TrialPlan = field(init=False)
    steps: TrialSteps = field(init=False)
    cold: bool = False
    ended: list[Completed] = field(default_factory=list)
    began: float = 0.0  # Unix time by the controller's clock
    took_s: float = 0.0
    read: tuple[Measured, machine.Samples] | None = None
    failed: VisitFailed | None = None

    @property
    def host(self) -> Host:
        return self.bench.host


@dataclass(frozen=True, slots=True)
class Together:
    trials: tuple[Trial, ...]  # of the parts, in their order, with the figures of each alone; when one failed all have
    figures: Mapping[str, float]  # of the machine that carries them all
    series: Mapping[str, Sequence[tuple[float, float]]]

    def whole(self, number: int) -> Trial:
        """The trial of one part, with the figures that belong to all."""
        own = self.trials[number]
        if own.figures is None:
            return own
        return replace(own, figures={**own.figures, **self.figures}, series={**(own.series or {}), **self.series})


def run(parts: Sequence[Part], outside: Outside, seed: int) -> Together:
    """`outside`: the machine that carries all. Raises GuestLost, HostLost, Interrupted."""
    at = outside.host.now()
    for part in parts:
        part.plan = part.workload.plan(part.call, part.target, part.scratch, seed)
        part.steps = trial_steps.trial_steps(
            part.host.engine,
            part.bench.devices,
            part.plan,
            part.target,
            part.scratch,
            part.bench.rehearsals,
            part.bench.inside,
        )
    inside = parts[0].host is not outside.host
    watched: Watched | None = None
    try:
        _prepare(parts, inside)
        at = outside.host.now()
        with trial.under_way(dict.fromkeys(each for part in parts for each in part.bench.meanwhile)):
            watched = _from_threads(parts, outside) if inside else _from_a_shell(parts, outside)
    except VisitFailed as error:
        if all(part.failed is None for part in parts):
            parts[0].failed = error
    else:
        for part in parts:
            _read(part)
    failed = [part for part in parts if part.failed is not None]
    if failed:
        return Together(tuple(_failed(part, failed, at) for part in parts), {}, {})
    overlap = _overlap_pct(parts)
    shared = {OVERLAP.name: overlap}
    if watched is not None:
        found = outside.figures(watched, _total([part.read[0] for part in parts if part.read]))
        shared |= {name: value for name, value in found.items() if name in parts[0].bench.declared}
    trials = [_ended(part, inside, shared, at) for part in parts]
    return Together(tuple(trials), shared, outside.series(watched) if watched is not None else {})


# ---------------------------------------------------------------- at the same time


def _prepare(parts: Sequence[Part], inside: bool) -> None:
    """What comes before the clock starts: in guests at the same time, on one machine, which takes one command at a
    time, one after the other. Then memory forgets all of it. Raises VisitFailed, GuestLost, Interrupted."""

    def prepare(part: Part) -> None:
        try:
            trial.prepare(part.bench, part.steps)
        except VisitFailed as error:
            part.failed = error

    if inside:
        at_once({f"prepare tenant {part.tenant}": partial(prepare, part) for part in parts})
    else:
        for part in parts:
            prepare(part)
            if part.failed is not None:
                break
    for part in parts:
        if part.failed is not None:
            raise part.failed
        part.cold = trial.forget(part.bench, part.steps)


def _from_a_shell(parts: Sequence[Part], outside: Outside) -> Watched | None:
    host = outside.host
    for part in parts:
        host.write(f"{part.scratch}/measure", f"exec {shlex.join(part.steps.measure.argv)}\n")
    longest_s = max(part.steps.measure.timeout_s for part in parts)
    samples = str(PurePosixPath(parts[0].scratch).with_name("together.jsonl"))
    sampled = [word for i, (_, path) in enumerate(outside.devices) for word in ("--device", f"d{i}={path}")]
    argv = (
        *(host.engine, "sample", "--out", samples, "--interval", _INTERVAL, "--timeout", f"{longest_s:g}s", *sampled),
        *("--", "sh", "-c", _ALL, "sh", *(part.scratch for part in parts)),
    )
    done = host.run(Command(argv, longest_s + _GRACE_S), check=False)
    for part in parts:
        code = (host.read(f"{part.scratch}/code") or "").strip()
        said = [host.read(f"{part.scratch}/{name}") or "" for name in ("out", "err")]
        argv = part.steps.measure.argv
        part.ended.append(Completed(argv, int(code) if code else 124, said[0], said[1], done.duration_s))
    return Watched(machine.parse(host.read(samples), done.stderr), None)


def _from_threads(parts: Sequence[Part], outside: Outside) -> Watched | None:
    ahead_s = [_clock_ahead_s(part.host) for part in parts]

    def measure(part: Part, start: float) -> None:
        command = part.steps.measure
        argv = ("sh", "-c", _AT, "sh", str(round(start * 1000)), *command.argv)
        try:
            part.ended.append(part.host.run(replace(command, argv=argv), check=False))
        except VisitFailed as error:
            part.failed = error

    with outside.watch(max(part.steps.measure.timeout_s for part in parts)) as watch:
        start = time.time() + _LEAD_S
        at_once(
            {
                f"tenant {part.tenant}": partial(measure, part, start + ahead)
                for part, ahead in zip(parts, ahead_s, strict=True)
            }
        )
    for part, ahead in zip(parts, ahead_s, strict=True):
        part.began = -ahead  # added to what its own clock says
    return watch.seen()


def _clock_ahead_s(host: Host) -> float:
    """How far the clock of a guest is ahead of ours: of some looks the one that took least."""
    looks = []
    for _ in range(_CLOCK_LOOKS):
        before = time.time()
        said = host.run(Command(("date", "+%s.%N"), timeout_s=_GRACE_S)).stdout
        after = time.time()
        looks.append((after - before, float(said) - (before + after) / 2))
    return min(looks)[1]


def _overlap_pct(parts: Sequence[Part]) -> float:
    # Since the first began: seconds since 1970 have no digits left for what is compared here.
    first = min(part.began for part in parts)
    began = [part.began - first for part in parts]
    together_s = min(at + part.took_s for at, part in zip(began, parts, strict=True)) - max(began)
    shortest_s = min(part.took_s for part in parts)
    return 100.0 * min(max(together_s, 0.0) / shortest_s, 1.0) if shortest_s > 0 else 0.0


# ---------------------------------------------------------------- what came of it


def _read(part: Part) -> None:
    if part.failed is not None:
        return
    try:
        part.read = trial.read(part.host, part.workload, part.call, part.plan, part.steps, part.ended[-1])
    except VisitFailed as error:
        part.failed = error
        return
    samples = part.read[1]
    part.began += samples.header["started_unix_s"]
    part.took_s = samples.end["wall_s"]


def _failed(part: Part, failed: Sequence[Part], at: float) -> Trial:
    reason = "; ".join(f"tenant {each.tenant}: {each.failed}" for each in failed)
    evidence = []
    if part.failed is not None:
        evidence = list(trial.evidence_of(part.host, part.failed, part.ended, part.plan))
    else:
        evidence = part.ended
    return Trial(Outcome.FAILED, reason, at, None, _typed(part), evidence=tuple(evidence))


def _ended(part: Part, inside: bool, shared: Mapping[str, float], at: float) -> Trial:
    assert part.read is not None
    measured, samples = part.read
    settled = trial.settled_of(part.workload, part.call, measured)
    done = Done(measured, samples, None, part.cold)
    own = trial.judged(part.bench, part.workload, part.call, part.plan, done, at, _typed(part), part.steps, settled, [])
    figures = own.figures or {}
    if not inside:  # the machine is everybody's
        figures = {name: value for name, value in figures.items() if not name.startswith(("host.", "psi."))}
    flags = own.flags
    if machine.from_memory(shared) and "memory" not in flags:
        flags = (*flags, "memory")
    overlap = shared[OVERLAP.name]
    if overlap >= LEAST_OVERLAP_PCT:
        return replace(own, figures=figures, flags=flags)
    reason = (
        f"the tenants ran together for {overlap:.1f} % of the shortest one's time, and at least "
        f"{LEAST_OVERLAP_PCT:g} % is asked for; measure longer (runtime=), with loads of the same length."
    )
    return replace(own, outcome=Outcome.INVALID, reason=reason, figures=figures, flags=flags)


def _total(measured: Sequence[Measured]) -> Measured:
    """What all applications moved; None when one does not say."""
    read = [each.bytes_read for each in measured]
    written = [each.bytes_written for each in measured]
    return Measured(
        {},
        bytes_read=sum(filter(None, read)) if None not in read else None,
        bytes_written=sum(filter(None, written)) if None not in written else None,
    )


def _typed(part: Part) -> tuple[tuple[str, ...], ...]:
    return (*part.steps.until_measured(), *(command.argv for command in part.steps.remove))


def merged(together: Together, tenants: Sequence[int], metrics: Sequence[Metric]) -> Trial:
    """One trial out of those of all tenants under the same load: of what is better when higher the sum, of the rest
    the mean; and every tenant's own figures beside. `metrics`: those of the load."""
    trials = list(zip(tenants, together.trials, strict=True))
    first = replace(
        together.trials[0],
        commands=tuple(argv for _, each in trials for argv in each.commands),
        evidence=tuple(seen for _, each in trials for seen in each.evidence),
        flags=tuple(dict.fromkeys(flag for _, each in trials for flag in each.flags)),
        notes=tuple(f"tenant {tenant}: {note}" for tenant, each in trials for note in each.notes),
    )
    if first.figures is None:
        return first
    known = {metric.name: metric for metric in (*metrics, *(more for _, each in trials for more in each.extra))}
    figures: dict[str, float] = {}
    extra = list(first.extra)
    series: dict[str, Sequence[tuple[float, float]]] = {}
    for name in dict.fromkeys(name for _, each in trials for name in each.figures or {}):
        values = [(tenant, each.figures[name]) for tenant, each in trials if each.figures and name in each.figures]
        if name in known:
            added_up = known[name].better == "higher"
            extra += [replace(known[name], name=f"tenant{tenant}.{name}") for tenant, _ in values]
            figures |= {f"tenant{tenant}.{name}": value for tenant, value in values}
        else:  # of its guest and its devices
            added_up = not name.endswith(("_pct", "_mean"))
        figures[name] = sum(value for _, value in values) / (1 if added_up else len(values))
    for tenant, each in trials:
        series |= {f"tenant{tenant}.{name}": points for name, points in (each.series or {}).items() if name in known}
    return replace(
        first,
        figures={**figures, **together.figures},
        extra=tuple(extra),
        series={**series, **together.series},
    )
