"""What was tried of stacks in runs, by the workloads `feature/...`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from strata.model import Node, Outcome, Stack, TrialResult, View
from strata.probes import PREFIX


@dataclass(frozen=True, slots=True)
class Tried:
    holds: bool
    why: str
    figures: Mapping[str, float] = field(default_factory=dict)  # what the probe measured


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


def reason(name: str, trial: TrialResult) -> str:
    """What showed it; the note behind it holds what the probe printed."""
    return trial.notes[0].removeprefix(f"{name}: ") if trial.notes else ""


def printed(trial: TrialResult) -> str:
    """NAME=VALUE, by which it was judged; "" in runs of earlier versions."""
    return trial.notes[1] if len(trial.notes) > 1 else ""


def tried(runs: Mapping[str, View], stacks: Sequence[Stack]) -> Mapping[str, Mapping[str, Tried]]:
    """stack -> feature -> what showed; of several runs the last one that knows. `runs` by name.

    What a stack can do is not a matter of what its disks are called: one that differs in nothing else counts, unless
    the stack itself was tried.
    """
    alike: dict[_Shape, list[str]] = {}
    for stack in stacks:
        alike.setdefault(_shape(stack.top), []).append(stack.text)
    found: dict[str, dict[str, Tried]] = {stack.text: {} for stack in stacks}
    itself: set[tuple[str, str]] = set()
    others = {text: group for group in alike.values() for text in group}
    for run, view in runs.items():
        for on, features in trials(view).items():
            for name, trial in features.items():
                answer = holds(trial)
                if answer is None:
                    continue
                why = reason(name, trial)
                for text in others.get(on, []):
                    if text == on:
                        itself.add((text, name))
                        found[text][name] = Tried(answer, f"{why} (tried in {run})", trial.metrics)
                    elif (text, name) not in itself:
                        found[text][name] = Tried(answer, f"{why} (tried on {on}, in {run})", trial.metrics)
    return found


_Shape = tuple[str, tuple["_Shape", ...]]


def _shape(node: Node) -> _Shape:
    return node.call.name if node.call.name == "disk" else node.call.text, tuple(map(_shape, node.inputs))
