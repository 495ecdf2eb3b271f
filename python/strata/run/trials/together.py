"""One trial of several tenants, measured at the same time.

Every load begins at a gate (strata/gate.py): when all have been started and say so, all are told one instant. On one
machine a shell there does that; guests are asked from a thread each, and told a time by their own clock. When one fails
the others are ended.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from strata.errors import VisitFailed, WorkloadFailed
from strata.gate import GONE, PART
from strata.hosts.base import Host
from strata.model import Call, Command, Completed, Guest, Measured, Outcome, Target, TrialPlan, Workload
from strata.planning import machine_metrics, trial_steps
from strata.planning.machine_metrics import APART, OVERLAP
from strata.planning.trial_steps import TrialSteps
from strata.run.trials import clocks, machine_samples, records, trial
from strata.run.trials.caches import Caches
from strata.run.trials.clocks import Clock
from strata.run.trials.concurrently import run_concurrently
from strata.run.trials.outside import QEMU, Outside, Watched
from strata.run.trials.trial import Bench, Done, Start, Trial
from strata.units import human_time

# The share of the shortest tenant's time in which all of them have to be under way.
LEAST_OVERLAP_PCT = 99.0

# The share of the longest tenant's time that it may be without some of the others before that is said.
_APART_PCT = 10.0

# How long after it was said a start is: longer than it takes to tell all of them, also guests that are emulated.
_LEAD_S = 3.0
_GRACE_S = 60.0
_INTERVAL = "100ms"
# A guest is asked this often whether its load has ended, to end it when another tenant's has failed. Looking costs it
# what a command costs.
_LOOK_S = 10.0

# Each of $@ is a directory that holds `measure`, a script, and gets what it said. All of them are told the instant when
# all are at their gate; when one ends before that, or fails, the others are ended.
_ALL = (
    GONE
    + """\
for part; do
  { sh "$part/measure" >"$part/out" 2>"$part/err" </dev/null; gone "$part" $?; } &
done
at=
for part; do
  until [ -e "$part/gate/ready" ] || [ -e "$part/gate/gone" ]; do sleep 0.05; done
  [ ! -e "$part/gate/gone" ] || at=never
done
[ -n "$at" ] || at=$(($(date +%s%3N) + 200))
for part; do
  [ "$at" != never ] || [ -e "$part/gate/gone" ] || : >"$part/gate/stopped"
  echo "$at" >"$part/gate/go.new" && mv -- "$part/gate/go.new" "$part/gate/go"
done
ended=
while :; do
  left= failed=
  for part; do
    if [ ! -e "$part/gate/gone" ]; then left=yes
    elif [ "$(cat "$part/gate/gone")" != 0 ]; then failed=yes; fi
  done
  [ -n "$left" ] || break
  if [ -n "$failed" ] && [ -z "$ended" ]; then
    for part; do
      if [ ! -e "$part/gate/gone" ]; then : >"$part/gate/stopped"; kill -TERM "$(cat "$part/gate/pid")"; fi
    done
    ended=yes
  fi
  sleep 0.1
done
wait"""
)

# In a guest. $1 the directory of the trial, the rest: a command behind its gate, which goes on when this has ended.
_START = (
    GONE
    + """\
dir=$1; shift
{ "$@" >"$dir/out" 2>"$dir/err"; gone "$dir" $?; } </dev/null >/dev/null 2>&1 &
until [ -e "$dir/gate/ready" ] || [ -e "$dir/gate/gone" ]; do sleep 0.1; done
[ ! -e "$dir/gate/gone" ]"""
)

# $1 the directory of the trial, $2 when to go, by the clock of this machine, or never.
_GO = """\
[ "$2" != never ] || [ -e "$1/gate/gone" ] || : >"$1/gate/stopped"
echo "$2" >"$1/gate/go.new" && mv -- "$1/gate/go.new" "$1/gate/go\""""

# $1 the directory of the trial, $2 seconds to wait for its end at most. Prints the exit code, or nothing yet.
_LOOK = """\
dead=
[ -e "$1/gate/gone" ] || timeout "$2" tail --pid="$(cat "$1/gate/pid")" -f /dev/null
[ -d "/proc/$(cat "$1/gate/pid")" ] || dead=yes
# Whoever waits for it notes its exit code a moment later.
[ -z "$dead" ] || [ -e "$1/gate/gone" ] || sleep 1
if [ -e "$1/gate/gone" ]; then cat "$1/gate/gone"; elif [ -n "$dead" ]; then echo 137; fi"""

_STOP = 'if [ ! -e "$1/gate/gone" ]; then : >"$1/gate/stopped"; kill -TERM "$(cat "$1/gate/pid")"; fi'


@dataclass(slots=True)
class Part:
    """One tenant with its load."""

    tenant: int
    bench: Bench  # its host, its own devices
    workload: Workload
    call: Call
    target: Target
    scratch: str
    guest: Guest | None = None  # the guest that it is in
    plan: TrialPlan = field(init=False)
    own_gate: bool = field(init=False)
    steps: TrialSteps = field(init=False)
    start: Start = field(init=False)
    after: Mapping[str, Caches] = field(default_factory=dict)  # of the machines whose ARC may have served it
    ended: list[Completed] = field(default_factory=list)
    clock: Clock = clocks.SAME  # of its machine
    began: float = 0.0  # its load, Unix time by the controller's clock
    took_s: float = 0.0
    read: tuple[Measured, machine_samples.Samples] | None = None
    failed: VisitFailed | None = None
    stopped: bool = False  # because another had failed

    @property
    def host(self) -> Host:
        return self.bench.host


@dataclass(frozen=True, slots=True)
class Together:
    trials: tuple[Trial, ...]  # of the parts, in their order, with the figures of each alone; when one failed all have
    figures: Mapping[str, float]  # of the machine that carries them all
    series: Mapping[str, Sequence[tuple[float, float]]]
    raw: tuple[Mapping[str, Any], ...] = ()  # what the figures of all were made of

    def whole(self, number: int) -> Trial:
        """The trial of one part, with the figures that belong to all."""
        own = self.trials[number]
        if own.figures is None:
            return own
        figures, series = {**own.figures, **self.figures}, {**(own.series or {}), **self.series}
        return replace(own, figures=figures, series=series, raw=(*own.raw, *self.raw))


def run(parts: Sequence[Part], outside: Outside, seed: int) -> Together:
    """`outside`: the machine that carries all. Raises GuestLost, HostLost, Interrupted."""
    at = outside.host.now()
    for part in parts:
        _plan(part, seed)
    inside = parts[0].host is not outside.host
    watched: Watched | None = None
    clock = clocks.SAME
    try:
        _prepare(parts, inside)
        at = outside.host.now()
        if inside:
            clock = clocks.look(outside.host)
        with trial.under_way(dict.fromkeys(each for part in parts for each in part.bench.meanwhile)):
            watched = _from_threads(parts, outside) if inside else _from_a_shell(parts, outside)
        _look_again(parts)
    except VisitFailed as error:
        if all(part.failed is None for part in parts):
            parts[0].failed = error
    else:
        for part in parts:
            _read(part)
    failed = [part for part in parts if part.failed is not None]
    for part in failed:
        if part.failed is not None:
            trial.see_that_it_lives(part.bench, part.failed)
    if failed or any(part.stopped for part in parts):
        return Together(tuple(_failed(part, failed, at) for part in parts), {}, {})
    shared = {
        **_windows(parts),
        machine_metrics.FLUSH.name: sum(part.start.flush_s for part in parts),
        **_carrier(parts),
    }
    raw = (_record(parts, outside, watched, clock.ahead_s),)
    if watched is not None:
        # It was watched from before the loads began until their programs had ended.
        began_s, ended_s = min(part.began for part in parts), max(part.began + part.took_s for part in parts)
        watched = watched.between(began_s, ended_s, clock.ahead_s)
        found = outside.figures(watched, _total([part.read[0] for part in parts if part.read]))
        shared |= {name: v for name, v in found.items() if name in parts[0].bench.declared and name != QEMU}
    trials = [_ended(part, inside, shared, at) for part in parts]
    if watched is None:
        return Together(tuple(trials), shared, {}, raw)
    trials = [
        replace(each, figures={**(each.figures or {}), **outside.of_guest(watched, part.guest)}) if part.guest else each
        for part, each in zip(parts, trials, strict=True)
    ]
    return Together(tuple(trials), shared, outside.series(watched), raw)


def _plan(part: Part, seed: int) -> None:
    plan = part.workload.plan(part.call, part.target, part.scratch, seed)
    # A command in a container does not see the gate, so it cannot pass it itself.
    part.own_gate = plan.gated is not None and not part.bench.inside
    part.plan = replace(plan, measure=plan.gated) if plan.gated and part.own_gate else plan
    part.steps = trial_steps.trial_steps(
        part.host.engine,
        part.bench.devices,
        part.plan,
        part.target,
        part.scratch,
        part.bench.rehearsals,
        part.bench.inside,
        part.bench.pid_file,
        part.bench.holders,
    )


# ---------------------------------------------------------------- at the same time


def _prepare(parts: Sequence[Part], inside: bool) -> None:
    """What comes before the clock starts: in guests at the same time, on one machine, which takes one command at a
    time, one after the other. Then it is written out, and memory forgets all of it; the last part finds what those
    before it left on the machine that carries all. Raises VisitFailed, GuestLost, Interrupted."""

    def prepare(part: Part) -> None:
        try:
            trial.prepare(part.bench, part.steps)
        except VisitFailed as error:
            part.failed = error

    trial.reset(dict.fromkeys(each for part in parts for each in part.bench.data_steps))
    if inside:
        run_concurrently({f"prepare tenant {part.tenant}": partial(prepare, part) for part in parts})
    else:
        for part in parts:
            prepare(part)
            if part.failed is not None:
                break
    for part in parts:
        if part.failed is not None:
            raise part.failed
    trial.change_data([(part.bench, part.steps) for part in parts])
    for part in parts:
        try:
            part.start = trial.quiesce(part.bench, part.steps)
        except VisitFailed as error:
            part.failed = error
            raise


def _gated(part: Part) -> tuple[str, ...]:
    own = "yes" if part.own_gate else "no"
    return ("sh", "-c", PART, "sh", f"{part.scratch}/gate", own, *part.steps.measure.argv)


def _from_a_shell(parts: Sequence[Part], outside: Outside) -> Watched | None:
    host = outside.host
    for part in parts:
        host.write(f"{part.scratch}/measure", f"exec {shlex.join(_gated(part))}\n")
    longest_s = max(part.steps.measure.timeout_s for part in parts)
    samples = str(PurePosixPath(parts[0].scratch).with_name("together.jsonl"))
    sampled = [word for i, (_, path) in enumerate(outside.devices) for word in ("--device", f"d{i}={path}")]
    argv = (
        *(host.engine, "sample", "--out", samples, "--interval", _INTERVAL, "--timeout", f"{longest_s:g}s", *sampled),
        *("--", "sh", "-c", _ALL, "sh", *(part.scratch for part in parts)),
    )
    done = host.run(Command(argv, longest_s + _GRACE_S), check=False)
    for part in parts:
        part.ended.append(_completed(part, done.duration_s))
    found = machine_samples.parse(host.read(samples), done.stderr)
    return Watched(found, found)


def _from_threads(parts: Sequence[Part], outside: Outside) -> Watched | None:
    for part in parts:
        part.clock = clocks.look(part.host)
    failing = threading.Event()
    limit_s = {part.tenant: part.steps.measure.timeout_s for part in parts}

    def start(part: Part) -> None:
        argv = ("sh", "-c", _START, "sh", part.scratch, *_gated(part))
        if part.host.run(Command(argv, limit_s[part.tenant]), check=False).exit_code != 0:
            failing.set()

    def measure(part: Part, at: float) -> None:
        when = "never" if failing.is_set() else str(round((at + part.clock.ahead_s) * 1000))
        part.host.run(Command(("sh", "-c", _GO, "sh", part.scratch, when)))
        began, stopped = time.monotonic(), False
        while not (code := _say(part, _LOOK, f"{_LOOK_S:g}").stdout.strip()):
            if time.monotonic() - began > limit_s[part.tenant] and part.failed is None:
                part.failed = WorkloadFailed(f"it did not end within {human_time(limit_s[part.tenant])}")
                failing.set()
            if failing.is_set() and not stopped:
                _say(part, _STOP)
                stopped = True
        if code != "0":
            failing.set()
        part.ended.append(_completed(part, time.monotonic() - began))

    run_concurrently({f"start tenant {part.tenant}": partial(_told, start, part, failing) for part in parts})
    with outside.watch(max(limit_s.values())) as watch:
        at = time.time() + _LEAD_S
        alive = [part for part in parts if part.failed is None]
        run_concurrently(
            {f"tenant {part.tenant}": partial(_told, partial(measure, at=at), part, failing) for part in alive}
        )
    if not failing.is_set():
        for part in parts:
            part.clock = clocks.kept(part.clock, clocks.look(part.host))
    return watch.seen()


def _told(what: Callable[[Part], None], part: Part, failing: threading.Event) -> None:
    """`failing`: set when it fails, for the others."""
    try:
        what(part)
    except VisitFailed as error:
        part.failed = error
        failing.set()
    except BaseException:  # the guest was lost, or somebody pressed ^C: the others need not go on
        failing.set()
        raise


def _say(part: Part, script: str, *arguments: str) -> Completed:
    return part.host.run(Command(("sh", "-c", script, "sh", part.scratch, *arguments), _GRACE_S), check=False)


def _completed(part: Part, took_s: float) -> Completed:
    code = (part.host.read(f"{part.scratch}/gate/gone") or "").strip()
    said = [part.host.read(f"{part.scratch}/{name}") or "" for name in ("out", "err")]
    return Completed(part.steps.measure.argv, int(code) if code else 124, said[0], said[1], took_s)


def _windows(parts: Sequence[Part]) -> dict[str, float]:
    """How the times of the loads lie to each other, from their gate to their end: no better than their clocks allow."""
    # Since the first began: seconds since 1970 have no digits left for what is compared here.
    first = min(part.began for part in parts)
    together_s = min(
        (one.began - first)
        + one.took_s
        - (two.began - first)
        - (0.0 if one is two else one.clock.within_s + two.clock.within_s)
        for one in parts
        for two in parts
    )
    together_s = max(together_s, 0.0)
    shortest_s, longest_s = min(part.took_s for part in parts), max(part.took_s for part in parts)
    if shortest_s <= 0:
        return {OVERLAP.name: 0.0, APART.name: 100.0}
    return {
        OVERLAP.name: 100.0 * min(together_s / shortest_s, 1.0),
        APART.name: 100.0 * max(1.0 - together_s / longest_s, 0.0),
    }


# ---------------------------------------------------------------- results


def _read(part: Part) -> None:
    if part.failed is not None:
        return
    if part.host.read(f"{part.scratch}/gate/stopped") is not None:
        part.stopped = True
        return
    try:
        part.read = trial.read(part.host, part.workload, part.call, part.plan, part.steps, part.ended[-1])
    except VisitFailed as error:
        part.failed = error
        return
    if code := part.ended[-1].exit_code:
        part.failed = WorkloadFailed(f"its command ended with exit code {code}")
        return
    times = [(part.host.read(f"{part.scratch}/gate/{name}") or "").strip() for name in ("began", "ended")]
    if not all(time.isdecimal() for time in times):
        part.failed = WorkloadFailed("the gate of its load does not say when it began and ended")
        return
    began_ms, ended_ms = map(int, times)
    measured, samples = part.read
    window = began_ms / 1000, ended_ms / 1000
    raw = records.of_load(measured.raw, window, part.clock.ahead_s)
    part.read = replace(measured, raw=raw), machine_samples.between(samples, *window)
    part.began = began_ms / 1000 - part.clock.ahead_s
    part.took_s = (ended_ms - began_ms) / 1000


def _failed(part: Part, failed: Sequence[Part], at: float) -> Trial:
    reason = "; ".join(f"tenant {each.tenant}: {each.failed}" for each in failed)
    if part.failed is not None:
        evidence = trial.evidence_of(part.host, part.failed, part.ended, part.plan, part.steps)
    else:
        evidence = trial.logs_of(part.host, part.ended, part.plan, part.steps)
    return Trial(Outcome.FAILED, reason, at, None, _typed(part), evidence=evidence)


def _look_again(parts: Sequence[Part]) -> None:
    for part in parts:
        part.after = trial.looked_again(part.bench, part.start)


def _carrier(parts: Sequence[Part]) -> dict[str, float]:
    """What the machine that carries all kept in memory when the last of them was made ready, and what its ARC served
    from then on. Of a guest both are of its part."""
    last = parts[-1]
    found = trial.start_figures(last.bench, last.start) | trial.arc_figures(last.bench, last.start, last.after)
    return {name: v for name, v in found.items() if name.startswith("host.") and name in last.bench.declared}


def _record(parts: Sequence[Part], outside: Outside, watched: Watched | None, ahead_s: float) -> Mapping[str, Any]:
    loads = []
    for part in parts:
        assert part.read is not None
        measured, _ = part.read
        about = {"tenant": part.tenant, "gate": (measured.raw or {}).get("gate")}
        clock = {"ahead_s": part.clock.ahead_s, "within_s": part.clock.within_s}
        moved = {"read_bytes": measured.bytes_read, "written_bytes": measured.bytes_written}
        loads.append({**about, **clock, **moved, "flush_s": list(part.start.flushes_s)})
    last = parts[-1]
    caches = last.start.outer or last.start.caches
    return records.of_tenants(
        loads,
        None if watched is None else records.of_outside(outside, watched, ahead_s),
        {part.tenant: part.guest.name for part in parts if part.guest},
        records.of_memory({"host": (caches, last.after.get("host"))}),
    )


def _ended(part: Part, inside: bool, shared: Mapping[str, float], at: float) -> Trial:
    assert part.read is not None
    measured, samples = part.read
    settled = trial.settled_of(part.workload, part.call, measured)
    done = Done(measured, samples, None, part.start, part.after, shared)
    own = trial.judged(part.bench, part.workload, part.call, part.plan, done, at, _typed(part), part.steps, settled, [])
    own = replace(own, raw=tuple({**each, "tenant": part.tenant} for each in own.raw))
    figures = {name: value for name, value in (own.figures or {}).items() if name != machine_metrics.FLUSH.name}
    if not inside:  # the machine is everybody's
        figures = {name: value for name, value in figures.items() if not name.startswith(("host.", "psi."))}
    overlap, apart = shared[OVERLAP.name], shared[APART.name]
    notes = own.notes
    if apart > _APART_PCT:
        notes = (*notes, f"for {apart:.0f} % of the longest tenant's load not all others were under way")
    if overlap >= LEAST_OVERLAP_PCT:
        return replace(own, figures=figures, notes=notes)
    reason = (
        f"the tenants ran together for {overlap:.1f} % of the shortest one's load, and at least "
        f"{LEAST_OVERLAP_PCT:g} % is asked for; measure longer (runtime=), with loads of the same length."
    )
    return replace(own, outcome=Outcome.INVALID, reason=reason, figures=figures, notes=notes)


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
