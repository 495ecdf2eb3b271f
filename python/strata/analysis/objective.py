"""What the user wants to be best, as written: `oltp=2,backup=1`, weights of the workloads, or `pareto:iops,lat_p99_ms`,
stacks that no other beats in all of these metrics at once. Nothing written: the workloads weigh the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from strata.errors import BadInput
from strata.model import Metric, View, WorkloadView

PARETO = "pareto:"
PROVISIONING = Metric("create_s", "s", "lower", "time to build the stack, from the bare disks to the target")
SPACE = Metric("space_bytes", "bytes", "lower", "what the lowest layer that tells says the data take")
OF_VISITS = {metric.name: metric for metric in (PROVISIONING, SPACE)}
"""Figures of a visit that no workload reports."""


@dataclass(frozen=True, slots=True)
class Objective:
    weights: tuple[float, ...]  # of the workloads, in their order
    front: tuple[str, ...] = ()  # metrics; empty: the weights decide


@dataclass(frozen=True, slots=True)
class FrontMetric:
    """One metric of a front."""

    name: str  # as the user wrote it
    workload: str | None  # its text; None: a figure of the machine or of the visit, over all workloads
    metric: Metric


def objective_of(view: View) -> Objective:
    """Raises BadInput when what is stored does not fit the run, which `parse` has seen before it was stored."""
    return parse(view.rule.objective, view.workloads, view.machine_metrics)


def weights_of(view: View) -> tuple[float, ...]:
    """Of the workloads; a front weighs them alike."""
    return objective_of(view).weights


def counted(view: View, weights: Sequence[float] | None = None) -> tuple[WorkloadView, ...]:
    """Workloads that weigh anything. `weights`: None: those of the run's objective."""
    given = weights_of(view) if weights is None else weights
    return tuple(load for load, weight in zip(view.workloads, given, strict=True) if weight > 0)


def parse(text: str, workloads: Sequence[WorkloadView], machine: Mapping[str, Metric]) -> Objective:
    """Raises BadInput."""
    equal = (1.0,) * len(workloads)
    if not text:
        return Objective(equal)
    if not text.startswith(PARETO):
        return Objective(parse_weights(text, workloads))
    names = split(text.removeprefix(PARETO))
    if len(names) < 2:
        raise BadInput(f"a front is of two metrics or more; write {PARETO}METRIC,METRIC,... as pareto:iops,lat_p99_ms.")
    seen: set[tuple[str | None, str]] = set()
    for name in names:
        chosen = find(name, workloads, machine)
        # One metric may go by several names, so these are no measure.
        if (chosen.workload, chosen.metric.name) in seen:
            raise BadInput(f"a front: '{name}' is there already; name each metric once.")
        seen.add((chosen.workload, chosen.metric.name))
    return Objective(equal, tuple(names))


def parse_weights(text: str, workloads: Sequence[WorkloadView]) -> tuple[float, ...]:
    """From `WORKLOAD=N,...`, in the order of `workloads`; one that is not named has 0. Raises BadInput.

    A workload goes by its whole text, or by any part of it that no other has.
    """
    found = dict.fromkeys((workload.text for workload in workloads), 0.0)
    named: set[str] = set()
    for part in split(text):
        name, separator, number = part.rpartition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = -1.0
        if not separator or not 0 <= weight < float("inf"):
            raise BadInput(f"weights are WORKLOAD=NUMBER,..., as oltp=2,backup=1; '{part}' is not that.")
        exact = [known for known in found if known == name]
        match = exact or [known for known in found if name in known]
        if len(match) != 1:
            raise BadInput(
                f"weights: '{name}' is {'no workload' if not match else 'several workloads'} of this run; "
                f"they are {', '.join(found)}."
            )
        if match[0] in named:
            raise BadInput(f"weights: '{name}' is a second weight of {match[0]}; give each workload one.")
        named.add(match[0])
        found[match[0]] = weight
    if not any(found.values()):
        raise BadInput("all weights are 0; give one workload more.")
    return tuple(found.values())


def find(name: str, workloads: Sequence[WorkloadView], machine: Mapping[str, Metric]) -> FrontMetric:
    """`name`: a metric, or WORKLOAD:METRIC where several workloads have it. Raises BadInput."""
    prefix, _, last = name.rpartition(":")
    found: list[tuple[str | None, Metric]] = [
        (workload.text, workload.metrics[last])
        for workload in workloads
        if last in workload.metrics and prefix in workload.text
    ]
    others = {**machine, **OF_VISITS}
    if not found and not prefix and last in others:
        found = [(None, others[last])]
    if not found:
        known = sorted({metric for workload in workloads for metric in workload.metrics} | {*others})
        raise BadInput(f"a front: '{name}' is no metric of this run; they are {', '.join(known)}.")
    if len(found) > 1:
        texts = ", ".join(f"{text}:{last}" for text, _ in found)
        raise BadInput(f"a front: '{name}' is a metric of several workloads; write one of {texts}.")
    if found[0][1].better == "neither":
        raise BadInput(f"a front: of '{name}' neither more nor less is better; leave it out.")
    return FrontMetric(name, *found[0])


def split(text: str) -> list[str]:
    """At commas that are not inside brackets: workloads have arguments."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]
