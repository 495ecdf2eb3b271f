"""The figures of a trial once more, from its raw record alone (strata/store/raw.py), to hold the stored ones against.

It shares no code with what made them: what programs wrote (raw_programs.py) and machines counted (raw_machines.py) is
read here by other means. Keep it so: a mistake that both had in common would not be seen. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from strata.analysis import raw_machines, raw_programs
from strata.model import TrialResult

# Both ways are sums of the same numbers, in another order.
_WITHIN = 1e-9
_WHOLE = "_whole_run"


@dataclass(slots=True)
class Recomputation:
    figures: dict[str, float] = field(default_factory=dict)
    settled: dict[str, list[float]] = field(default_factory=dict)  # the mean of one without it; several: any of them


@dataclass(frozen=True, slots=True)
class Held:
    """One trial."""

    same: int
    different: tuple[str, ...]  # a sentence each
    untried: tuple[str, ...]  # names of figures that the record does not give


def hold(trial: TrialResult, parts: Sequence[Mapping[str, Any]]) -> Held:
    """The stored figures of a trial against those of its record. Raises ValueError where that has another shape."""
    try:
        found = _of_all(parts, trial.metrics)
    except (KeyError, TypeError, AttributeError, IndexError, ArithmeticError) as problem:
        raise ValueError(f"its raw record has another shape than Strata writes ({problem!r})") from problem
    same, different, untried = 0, [], []
    for name, stored in trial.metrics.items():
        cut = any(f"{prefix}{name}{_WHOLE}" in trial.metrics for prefix in ("", "worst_tenant."))
        given = _given(found, name, settled=cut)
        if not given:
            untried.append(name)
        elif any(_alike(stored, each) for each in given):
            same += 1
        else:
            different.append(f"{name} is stored as {stored!r}, and the raw record gives {given[0]!r}")
    return Held(same, tuple(different), tuple(untried))


def _alike(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_WITHIN, abs_tol=1e-12)


def _given(found: Recomputation, name: str, *, settled: bool) -> list[float]:
    """`settled`: a figure of the whole run stands beside it, so that it may lack its warm-up."""
    whole = found.figures.get(name.removesuffix(_WHOLE))
    if whole is None:
        return []
    return found.settled.get(name) or [whole] if settled else [whole]


def _means(part: Mapping[str, Any], whole: float | None, course: Sequence[float]) -> list[float]:
    """Of a figure that may lack the warm-up which its record names. Records of older versions name none: there it may
    be the mean of all seconds after any of at most half of them."""
    cut_s = part.get("cut_s")
    kept = [] if cut_s or whole is None else [whole]
    cuts = range(len(course) // 2 + 1) if cut_s is None else [round(cut_s)] if cut_s else []
    return kept + [math.fsum(course[cut:]) / len(course[cut:]) for cut in cuts if course[cut:]]


def recompute(part: Mapping[str, Any]) -> Recomputation:
    """The figures of one load."""
    program = raw_programs.of_load(part)
    figures = {**program.figures, **raw_machines.of_load(part, (program.read_bytes, program.written_bytes))}
    settled = {name: _means(part, figures.get(name), course) for name, course in program.courses.items()}
    flush_s = raw_machines.flush_s(part)
    if flush_s is not None and part["tenant"] is None:
        figures["host.flush_s"] = flush_s
    return Recomputation(figures, settled)


# ---------------------------------------------------------------- several tenants


def _of_all(parts: Sequence[Mapping[str, Any]], stored: Mapping[str, float]) -> Recomputation:
    loads = [part for part in parts if "workload" in part]
    shared = next((part for part in parts if "workload" not in part), None)
    each = {part["tenant"]: recompute(part) for part in loads}
    if shared is not None:
        for part in loads:
            each[part["tenant"]].figures |= _of_its_guest(shared, part)
    if len(loads) == 1:
        (found,) = each.values()
    else:
        found = Recomputation()
        for tenant, one in each.items():
            found.figures |= {f"tenant{tenant}.{name}": value for name, value in one.figures.items()}
            found.settled |= {f"tenant{tenant}.{name}": means for name, means in one.settled.items()}
        if shared is not None:
            whole, settled = _merged(list(each.values()), shared["rules"], stored)
            found.figures |= whole
            found.settled |= {name: [value] for name, value in settled.items()}
    if shared is not None:
        found.figures |= _shared(shared, loads)
    return found


def _of_its_guest(shared: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, float]:
    outer, guest = shared["outside"], shared["guests"].get(str(part["tenant"]))
    return {} if outer is None or guest is None else raw_machines.of_guest(outer, guest, _span(shared))


def _span(shared: Mapping[str, Any]) -> list[float]:
    """From the begin of the first load to the end of the last one, by the controller's clock."""
    times = [at - load["ahead_s"] for load in shared["loads"] for at in load["gate"]]
    return [min(times), max(times)]


def _shared(shared: Mapping[str, Any], loads: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What belongs to all of them. The bytes of those whose load is not in this record are in it as numbers."""
    moved = {load["tenant"]: (load["read_bytes"], load["written_bytes"]) for load in shared["loads"]}
    for part in loads:
        program = raw_programs.of_load(part)
        moved[part["tenant"]] = (program.read_bytes, program.written_bytes)
    read, written = ([each[way] for each in moved.values()] for way in (0, 1))
    total = (None if None in read else sum(read)), (None if None in written else sum(written))
    figures = _windows(shared["loads"])
    figures["host.flush_s"] = math.fsum(math.fsum(load["flush_s"]) for load in shared["loads"])
    if shared["outside"] is not None:
        figures |= raw_machines.of_carrier({**shared["outside"], "guests": []}, _span(shared), total)
    return figures | dict(raw_machines.remembered(shared["memory"]))


def _windows(loads: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    # A gate notes whole milliseconds: times since 1970 have no digits left for less.
    took = [(round(1000 * load["gate"][1]) - round(1000 * load["gate"][0])) / 1000 for load in loads]
    times = [load["gate"][0] - load["ahead_s"] for load in loads]
    begins = [at - min(times) for at in times]
    unsure = [load["within_s"] for load in loads]
    pairs = [(one, two) for one in range(len(loads)) for two in range(len(loads))]
    both = min(begins[one] + took[one] - begins[two] - (unsure[one] + unsure[two]) * (one != two) for one, two in pairs)
    shortest, longest = min(took), max(took)
    if shortest <= 0:
        return {"tenants.overlap_pct": 0.0, "tenants.apart_pct": 100.0}
    share = max(both, 0.0) / shortest
    return {
        "tenants.overlap_pct": min(share, 1.0) * 100,
        "tenants.apart_pct": max(1.0 - max(both, 0.0) / longest, 0.0) * 100,
    }


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


_WAYS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "sum": math.fsum,
    "mean": _mean,
    "largest": max,
    "smallest": min,
}


def _merged(
    each: Sequence[Recomputation], rules: Mapping[str, Sequence[str]], stored: Mapping[str, float]
) -> tuple[dict[str, float], dict[str, float]]:
    """Figures of all tenants by the rules that their record names: (of the whole run, without the warm-up). A rule is
    how, then which way is better, then "decides" for the figure that keeps its name under every rule."""
    whole: dict[str, float] = {}
    settled: dict[str, float] = {}
    for name, (how, better, *decides) in rules.items():
        base = name.removesuffix(_WHOLE)
        if any(base not in one.figures for one in each):
            continue
        own = [one.figures[base] for one in each]
        steady = [
            (one.settled.get(base) or [value])[0] if f"tenant1.{base}{_WHOLE}" in stored else value
            for one, value in zip(each, own, strict=True)
        ]
        worst: Callable[[Sequence[float]], float] = min if better == "higher" else max
        if how in _WAYS:
            label, way = base, _WAYS[how]
        elif better == "neither" or not (decides or how == "worst"):
            continue
        else:
            label, way = base if decides else f"worst_tenant.{base}", worst
        whole[label], settled[label] = way(own), way(steady)
    return whole, settled
