"""Whether a verdict stands without flagged trials, and where figures are none of speed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from strata.analysis.objective import weights_of
from strata.analysis.rank import Ranking
from strata.analysis.verdict import of_flagged
from strata.model import TrialResult, View, WorkloadView
from strata.model.flags import FLAGS
from strata.units import count

_DISTRUSTED = [flag.name for flag in FLAGS if flag.distrusted]


def _distrusted(trial: TrialResult) -> bool:
    return not set(_DISTRUSTED).isdisjoint(trial.flags)


def checked(
    found: Ranking, view: View, weights: Sequence[float] | None, again: Callable[[View, Sequence[float]], Ranking]
) -> Ranking:
    """Return `found`, or that nothing is settled where leaving out flagged trials takes the best stack away.

    `again` ranks a view with weights of its workloads.
    """
    flagged = [trial for trial in view.trials if _distrusted(trial)]
    if found.best is None or not flagged:
        return found
    kept = _without(view, weights_of(view) if weights is None else weights)
    thin = None if kept is None else again(*kept)
    marked = of_flagged(len(flagged), len(view.trials), _flags_of(flagged))
    # A tie has a best score too: the group that may be chosen must not have grown.
    if thin is not None and thin.best == found.best and set(thin.tied) <= set(found.tied):
        said = f"{marked} are flagged; without them the verdict is the same."
        return replace(found, sentences=(found.sentences[0], said, *found.sentences[1:]))
    rest = "Nothing is left without them" if thin is None or not thin.rows else f"Without them: {thin.sentences[0]}"
    sentences = (
        f"Not settled: {found.leader} has the best score, but flagged trials decide that.",
        f"{marked} are flagged. {rest.rstrip('.')}. The warnings say what to change before the next run.",
        *found.sentences[1:],
    )
    return replace(found, best=None, undecided=True, rounds_needed=None, sentences=sentences)


def functional(found: Ranking) -> Ranking:
    """Return `found` without an order by speed: figures of an emulated machine show what works, and no more."""
    said = "No ranking: figures of an emulated machine (QEMU without KVM) show what works, and not how fast it is."
    rows = tuple(
        replace(row, ratio=None, decision="undecided", tied=False, against_leader={}, best=None) for row in found.rows
    )
    works = f"{count(len(rows), 'stack')} ran with figures under every workload." if rows else "No stack has figures."
    how = "Rank them by speed with --clock virtual, or on a machine with KVM."
    return replace(
        found,
        rows=rows,
        leader=None,
        best=None,
        tied=(),
        undecided=True,
        rounds_needed=None,
        sentences=(said, works, how),
        sure=None,
    )


def _flags_of(trials: Sequence[TrialResult]) -> list[str]:
    return [flag for flag in _DISTRUSTED if any(flag in trial.flags for trial in trials)]


def _without(view: View, weights: Sequence[float]) -> tuple[View, Sequence[float]] | None:
    """Return the view without flagged trials and the weights of the workloads that are left; None: none is left."""
    trials = tuple(trial for trial in view.trials if not _distrusted(trial))
    left = list(_left(view, weights, {trial.workload for trial in trials}))
    if not left:
        return None
    # The objective may name workloads that are gone; the weights say the same of those that are left.
    rule = replace(view.rule, objective="")
    loads = tuple(load for load, _ in left)
    names = {load.text for load in loads}
    kept = tuple(trial for trial in trials if trial.workload in names)
    return replace(view, trials=kept, workloads=loads, rule=rule), tuple(weight for _, weight in left)


def _left(view: View, weights: Sequence[float], measured: set[str]) -> Iterator[tuple[WorkloadView, float]]:
    for load, weight in zip(view.workloads, weights, strict=True):
        if weight > 0 and load.text in measured:
            yield load, weight
