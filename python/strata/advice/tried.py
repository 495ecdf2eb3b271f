"""What was tried of stacks in runs, by the workloads `feature/...`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from strata.model import Kind, Node, Outcome, Stack, TrialResult, View
from strata.probes import PREFIX, probes


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


def tried(
    runs: Mapping[str, View], stacks: Sequence[Stack], engines: Collection[str] = ()
) -> Mapping[str, Mapping[str, Tried]]:
    """stack -> feature -> what showed; of several runs the last one that knows. `runs` by name.

    What a stack can do is not a matter of what its disks are called: one that differs in nothing else counts, unless
    the stack itself was tried. `engines`: stacks, by text, that end in a container engine: of what no probe asks an
    engine, the storage right below it answers.
    """
    shapes = {stack.text: _shape(stack.top) for stack in stacks}
    below = {stack.text: _shape(stack.top.inputs[0]) for stack in stacks if stack.text in engines and stack.top.inputs}
    found: dict[str, dict[str, Tried]] = {stack.text: {} for stack in stacks}
    itself: set[tuple[str, str]] = set()
    for run, view in runs.items():
        for on, features in trials(view).items():
            for name, trial in features.items():
                answer, why = holds(trial), reason(name, trial)
                if answer is None or on not in shapes:
                    continue
                itself.add((on, name))
                found[on][name] = Tried(answer, f"{why} (tried in {run})", trial.metrics)
                for text in _alike(on, name, shapes, below):
                    if (text, name) not in itself:
                        found[text][name] = Tried(answer, f"{why} (tried on {on}, in {run})", trial.metrics)
    return found


def _alike(on: str, feature: str, shapes: Mapping[str, _Shape], below: Mapping[str, _Shape]) -> list[str]:
    """Other stacks that what was tried `on` one says something of."""
    same = [text for text, shape in shapes.items() if shape == shapes[on] and text != on]
    of_storage = feature in probes() and Kind.ENGINE not in probes()[feature].accepts
    return same + [text for text, shape in below.items() if of_storage and shape == shapes[on]]


_Shape = tuple[str, tuple["_Shape", ...]]


def _shape(node: Node) -> _Shape:
    return node.call.name if node.call.name == "disk" else node.call.text, tuple(map(_shape, node.inputs))
