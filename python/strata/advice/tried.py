"""What was tried of stacks in runs, by the workloads `feature/...`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from strata.model import Outcome, TrialResult, View
from strata.probes import PREFIX


@dataclass(frozen=True, slots=True)
class Tried:
    holds: bool
    why: str


def trials(view: View) -> dict[str, dict[str, TrialResult]]:
    """stack -> feature -> the trial that tried it; the last one counts."""
    found: dict[str, dict[str, TrialResult]] = {}
    for trial in view.trials:
        if trial.workload.startswith(PREFIX):
            found.setdefault(trial.stack, {})[trial.workload.removeprefix(PREFIX)] = trial
    return found


def holds(trial: TrialResult) -> bool | None:
    """None: nothing is known of it, because it could not be tried or failed."""
    value = trial.metrics.get("holds")
    return None if trial.outcome is not Outcome.OK or value is None else value > 0


def tried(views: Iterable[View]) -> Mapping[str, Mapping[str, Tried]]:
    """stack -> feature -> what showed; of several runs the last one that knows."""
    found: dict[str, dict[str, Tried]] = {}
    for view in views:
        for stack, features in trials(view).items():
            for name, trial in features.items():
                answer = holds(trial)
                if answer is not None:
                    why = "; ".join(trial.notes).removeprefix(f"{name}: ")
                    found.setdefault(stack, {})[name] = Tried(answer, f"{why} (tried in {view.campaign})")
    return found
