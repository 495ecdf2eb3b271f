"""A rate that decides is held against what else was counted: the bytes of the program, and those of the disks. Pure.

fio's figure can come from its log and not from its totals; a log that holds more than the measured run made figures of
several times the truth. Only too high a figure is looked for: what reaches the disks may well be more.
"""

from __future__ import annotations

from dataclasses import replace

from strata.model import Metric, Outcome
from strata.planning.layout import Layout
from strata.run.trials import model_bounds
from strata.run.trials.trial import Trial
from strata.units import human_number

# A figure may be this many times what was counted.
_MOST = 1.05
_MIB = 1 << 20
_ACTIVITY = ("reads", "writes", "busy_ms")
_RATES = frozenset({"iops", "read_iops", "write_iops"})
_THEN = "do not use this figure, and report it with its run directory."


def judged(layout: Layout, trial: Trial, primary: Metric) -> Trial:
    """The trial as it is, or invalid with the reason.

    Where a load is one plain pattern of fio. The disks are only asked of stacks that write a block where they read it,
    bypassing the page cache, with no cache that has a name between them and the load. Tenants are not judged: what is
    stored of them may be a sum, and they share their disks.
    """
    pattern, figures = trial.pattern, trial.figures or {}
    if trial.outcome is not Outcome.OK or pattern is None or primary.name not in figures or layout.shares:
        return trial
    rate = figures[primary.name]
    if primary.name in _RATES:
        rate *= pattern.block_bytes
    elif primary.unit == "MiB/s":
        rate *= _MIB
    else:
        return trial
    claimed = rate * max(pattern.seconds - trial.cut_s, 0.0)
    if trial.moved_bytes is not None and claimed > _MOST * trial.moved_bytes:
        return _invalid(trial, primary, claimed, trial.moved_bytes, "its own program counted")
    counted = _at_the_disks(layout, trial) if pattern.direct else None
    if counted is not None and claimed > _MOST * counted and model_bounds.in_place(layout):
        return _invalid(trial, primary, claimed, counted, "the disks counted")
    return trial


def _at_the_disks(layout: Layout, trial: Trial) -> float | None:
    """Bytes read and written there from the end of the warm-up on; None where one of them was not sampled, or counts
    nothing: no request and no busy time in the whole trial (queue/iostats of 0)."""
    total = 0.0
    for number, (layer, _) in enumerate(layout.block_devices()):
        if layer == "disk" and not any(_grew(trial, f"device.d{number}.{name}") for name in _ACTIVITY):
            return None
        for name in ("read_bytes", "write_bytes") if layer == "disk" else ():
            points = (trial.series or {}).get(f"machine.device.d{number}.{name}")
            if not points:
                return None
            before = [value for at_s, value in points if at_s <= trial.cut_s] or [points[0][1]]
            total += points[-1][1] - before[-1]
    return total


def _grew(trial: Trial, counter: str) -> bool:
    points = (trial.series or {}).get(f"machine.{counter}") or ((0.0, 0.0),)
    return points[-1][1] > points[0][1]


def _invalid(trial: Trial, primary: Metric, claimed: float, counted: float, who: str) -> Trial:
    times = f"{claimed / counted:.2f} times as many" if counted else "more"
    reason = (
        f"{primary.name} {human_number((trial.figures or {})[primary.name], 6)} {primary.unit} would be "
        f"{claimed / _MIB:.1f} MiB in "
        f"{(trial.pattern.seconds if trial.pattern else 0) - trial.cut_s:.1f} s, {times} as the "
        f"{counted / _MIB:.1f} MiB that {who}; {_THEN}"
    )
    return replace(trial, outcome=Outcome.INVALID, reason=reason)
