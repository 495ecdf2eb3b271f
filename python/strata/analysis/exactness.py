"""Whether two runs of one campaign gave the same figures, digit by digit. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from strata.model import TrialResult, View


@dataclass(frozen=True, slots=True)
class Compared:
    trials: int  # that both runs have
    figures: int  # that were compared in them
    different: tuple[str, ...]  # a sentence for every figure that is not the same, and for every trial of one run only

    @property
    def same(self) -> bool:
        return self.trials > 0 and not self.different


def compare(first: View, second: View) -> Compared:
    """Trials are paired by stack, round (its seed) and workload; every figure and every point of a series counts."""
    ours, theirs = _by_place(first), _by_place(second)
    different = [
        f"{_shown(place)}: only the {'first' if place in ours else 'second'} run has it"
        for place in sorted(ours.keys() ^ theirs.keys())
    ]
    both = sorted(ours.keys() & theirs.keys())
    figures = 0
    for place in both:
        one, other = _figures(ours[place]), _figures(theirs[place])
        figures += len(one.keys() | other.keys())
        different += [
            f"{_shown(place)}: {name} was {one.get(name, 'missing')} and is {other.get(name, 'missing')}"
            for name in sorted(one.keys() | other.keys())
            if one.get(name) != other.get(name)
        ]
    return Compared(len(both), figures, tuple(different))


def _by_place(view: View) -> dict[tuple[str, int, str], TrialResult]:
    return {(trial.stack, trial.round, trial.workload): trial for trial in view.trials}


def _shown(place: tuple[str, int, str]) -> str:
    stack, seed, workload = place
    return f"{stack}, {workload}, seed {seed}"


def _figures(trial: TrialResult) -> dict[str, object]:
    series = {f"{name} at {at!r} s": value for name, points in trial.series.items() for at, value in points}
    return {"outcome": trial.outcome.value, "wall_s": trial.wall_s, **trial.metrics, **series}
