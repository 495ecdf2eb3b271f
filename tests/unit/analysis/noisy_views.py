"""Views made from numbers: exact ones for known answers, noisy ones for rates of error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from benchmarks.research.noise import Noise

from strata.design.rounds import order
from strata.model import FailedVisit, Metric, Outcome, Rule, Skipped, TrialResult, View, WorkloadView

IOPS = WorkloadView(
    "fio/rand", "fio/rand", Metric("iops", "IOPS", "higher"), {"iops": Metric("iops", "IOPS", "higher")}
)
TIME = WorkloadView("build", "build", Metric("run_time", "s", "lower"), {"run_time": Metric("run_time", "s", "lower")})
HOURS_PER_VISIT = 80 / 3600


def trial(
    stack: str,
    round_: int,
    metrics: Mapping[str, float],
    *,
    workload: str = IOPS.text,
    visit: int | None = None,
    order: int = 0,
    outcome: Outcome = Outcome.OK,
    flags: tuple[str, ...] = (),
    reason: str | None = None,
) -> TrialResult:
    return TrialResult(
        visit=hash((stack, round_)) if visit is None else visit,
        stack=stack,
        round=round_,
        order=order,
        workload=workload,
        outcome=outcome,
        reason=reason,
        started_at=0.0,
        wall_s=30.0,
        metrics=metrics,
        series={},
        flags=flags,
        notes=(),
    )


def view(
    stacks: Sequence[str],
    trials: Sequence[TrialResult],
    *,
    workloads: Sequence[WorkloadView] = (IOPS,),
    rule: Rule | None = None,
    skipped: Sequence[Skipped] = (),
    failed: Sequence[FailedVisit] = (),
    seed: int = 1,
    planned: int | None = None,
) -> View:
    done = len({t.visit for t in trials} | {f.visit for f in failed})
    return View(
        campaign="made up",
        about="",
        seed=seed,
        rule=rule or Rule(),
        stacks=tuple(stacks),
        workloads=tuple(workloads),
        trials=tuple(trials),
        steps=(),
        skipped=tuple(skipped),
        failed=tuple(failed),
        events=(),
        visits_planned=done if planned is None else planned,
        visits_done=done,
        facts=None,
        versions={},
        commands={},
        disks=(),
    )


def exact(figures: Mapping[str, Sequence[float | None]], **more: object) -> View:
    """One workload (IOPS, higher is better): stack -> its figure in each round; None: that visit has no figure."""
    trials = [
        trial(stack, number, {"iops": value}, order=number * len(figures) + place)
        for place, (stack, values) in enumerate(figures.items())
        for number, value in enumerate(values)
        if value is not None
    ]
    return view(list(figures), trials, **more)  # type: ignore[arg-type]


def campaign(
    truth: Mapping[str, float],
    seed: int,
    *,
    rounds: int = 5,
    same: bool = False,
    noise: Noise | None = None,
    workloads: Sequence[WorkloadView] = (IOPS,),
    rule: Rule | None = None,
) -> View:
    """A finished campaign. `truth`: stack -> logarithm of how good it is; `same`: all misbehave alike (A/A)."""
    machine = noise or Noise(seed)
    trials = []
    for place, (number, stack) in enumerate(order(list(truth), rounds, seed)):
        for position, workload in enumerate(workloads):
            key = f"{'all' if same else stack} {position}"
            hour = (place + position / len(workloads)) * HOURS_PER_VISIT
            good = truth[stack] + machine.draw(key, hour, visit=place)
            sign = -1 if workload.primary.better == "lower" else 1
            figure = 1000 * math.exp(sign * good)
            trials.append(
                trial(stack, number, {workload.primary.name: figure}, workload=workload.text, visit=place, order=place)
            )
    return view(list(truth), trials, workloads=workloads, rule=rule, seed=seed)
