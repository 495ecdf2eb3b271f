"""How long a visit may take: a first estimate, before any has ended. Pure.

What single layers and loads take they say themselves (`BuildNeeds.work`, `TrialPlan.work` and `expect_s`). What is
added here was measured too (benchmarks/results): what Strata adds to a visit, the visits of kvm-storage's host stacks
in an emulated lab, those of vm-cache-modes in emulated guests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strata.model import Call, Facts, Kind, LayerDriver, Stack, Target, TrialPlan, Work, Workload
from strata.planning import layout, measuring_order, skip_reasons

_VISIT = Work(native_s=2.0, emulated_s=20.0)  # making, reading back and removing file systems and what they stand on
_TRIAL = Work(native_s=2.0, emulated_s=6.0)  # laying out a data set, dropping caches
_UNKNOWN_S = 10.0  # of a load that does not say how long it takes


def planned(workloads: Sequence[tuple[Call, Workload]]) -> list[tuple[Call, TrialPlan]]:
    nowhere = Target(Kind.DIRECTORY, "/nowhere", None)
    return [(call, workload.plan(call, nowhere, "/nowhere", 0)) for call, workload in workloads]


def visit_s(
    stack: Stack,
    loads: Sequence[tuple[Call, TrialPlan]],
    drivers: Mapping[str, LayerDriver],
    facts: Facts,
    inside: Facts | None,
    rehearsals: int,
) -> float:
    """`loads`: as `planned` has them. `facts`: of the machine that carries it, `inside`: of its guests.

    Raises BadInput for a stack with several forks.
    """
    cpus, guest = max(facts.cpus, 1), inside or facts
    takes_s = _seconds(_VISIT, facts)
    for node, count in layout.copies(stack, drivers):
        # How long a guest takes to boot is a matter of how it is run, not of what runs it.
        where = guest if skip_reasons.starts_guest(node, drivers) else facts
        takes_s += _seconds(drivers[node.call.name].info.build.work, where) * max(count / cpus, 1)
    carrier = guest if skip_reasons.starts_guest(stack.top, drivers) else facts
    fork = next((node.call for node in stack.top.walk() if drivers[node.call.name].info.forks), None)
    tenants = int(fork["count"] or 1) if fork else 1
    runs = 1 + rehearsals
    if fork:
        runs += len(list(measuring_order.groups_of(str(fork["neighbours"]), range(1, tenants + 1))))
    for at_once in measuring_order.rounds_of(loads, tenants=fork is not None):
        plans = [(plan, tenants if call.tenant is None else 1) for call, plan in at_once]
        longest_s = max(_fixed_s(plan) + _seconds(plan.work, carrier) for plan, _ in plans)
        work_s = sum(_seconds(plan.work, carrier) * count for plan, count in plans)
        takes_s += runs * (_seconds(_TRIAL, carrier) + max(longest_s, work_s / cpus))
    return takes_s


def _seconds(work: Work, facts: Facts) -> float:
    return work.emulated_s if facts.emulated else work.native_s


def _fixed_s(plan: TrialPlan) -> float:
    if plan.expect_s is not None:
        return plan.expect_s
    return _UNKNOWN_S if plan.work == Work() else 0.0
