"""Whether two runs of one campaign gave the same figures, digit by digit. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from strata.model import TrialResult, View

Place = tuple[str, int, str]  # stack, round (its seed), workload or another part of the visit

_STEPS = "building and removing"
_VISIT = "the whole visit"


@dataclass(frozen=True, slots=True)
class ExactComparison:
    trials: int  # that both runs have
    figures: int  # that were compared, in them and in how their stacks were built and removed
    different: tuple[str, ...]  # a sentence for every figure that is not the same, and for what only one run has

    @property
    def same(self) -> bool:
        return self.trials > 0 and not self.different


def compare(first: View, second: View) -> ExactComparison:
    """Of every trial each figure, each point of a series and each mark counts; of every visit whether it failed, and
    how long each step of building and removing took.
    """
    ours, theirs = _by_place(first), _by_place(second)
    different = [
        f"{_shown(place)}: only the {'first' if place in ours else 'second'} run has it"
        for place in sorted(ours.keys() ^ theirs.keys())
    ]
    both = sorted(ours.keys() & theirs.keys())
    figures = 0
    for place in both:
        one, other = ours[place], theirs[place]
        figures += len(one.keys() | other.keys())
        different += [
            f"{_shown(place)}: {name} was {one.get(name, 'missing')} and is {other.get(name, 'missing')}"
            for name in sorted(one.keys() | other.keys())
            if one.get(name) != other.get(name)
        ]
    return ExactComparison(sum(place[2] not in (_STEPS, _VISIT) for place in both), figures, tuple(different))


def only_of(view: View, other: View) -> View:
    """`view` with nothing but the visits that `other` has carried out, were they well or not."""
    visits = {(trial.stack, trial.round) for trial in other.trials}
    visits |= {(visit.stack, visit.round) for visit in other.failed}
    return replace(
        view,
        trials=tuple(each for each in view.trials if (each.stack, each.round) in visits),
        failed=tuple(each for each in view.failed if (each.stack, each.round) in visits),
    )


def _by_place(view: View) -> dict[Place, dict[str, object]]:
    found = {(trial.stack, trial.round, trial.workload): _figures(trial) for trial in view.trials}
    # why it failed may name the run, which is another
    found |= {(visit.stack, visit.round, _VISIT): {"outcome": "failed"} for visit in view.failed}
    rounds = {trial.visit: trial.round for trial in view.trials}
    rounds |= {visit.visit: visit.round for visit in view.failed}
    seen: Counter[tuple[int, str, str]] = Counter()  # a layer may be there twice, and have a step of one name twice
    for step in view.steps:
        if step.visit in rounds:
            seen[step.visit, step.layer, step.why] += 1
            name = f"{step.layer}, {step.why} ({seen[step.visit, step.layer, step.why]})"
            place = found.setdefault((step.stack, rounds[step.visit], _STEPS), {})
            place |= {f"{name}, create_s": step.create_s, f"{name}, remove_s": step.remove_s}
    return found


def _shown(place: Place) -> str:
    stack, seed, part = place
    return f"{stack}, {part}, seed {seed}"


def _figures(trial: TrialResult) -> dict[str, object]:
    series = {f"{name} at {at!r} s": value for name, points in trial.series.items() for at, value in points}
    flags = {f"mark {flag}": True for flag in trial.flags}
    return {"outcome": trial.outcome.value, "wall_s": trial.wall_s, **trial.metrics, **series, **flags}
