"""Disks that were to be brought into a steady state before the trials, and were not."""

from __future__ import annotations

from strata.analysis.cells import usable
from strata.analysis.checks import Caution
from strata.model import View
from strata.text import some_of
from strata.units import count

UNSTEADY = "precondition.unsteady"


def warnings(view: View) -> tuple[Caution, ...]:
    visits: dict[str, set[int]] = {}
    for trial in usable(view):
        if trial.metrics.get(UNSTEADY):
            visits.setdefault(trial.stack, set()).add(trial.visit)
    if not visits:
        return ()
    built = count(sum(map(len, visits.values())), "visit")
    stacks = [stack for stack in view.stacks if stack in visits]
    return (
        Caution(
            "unsteady",
            stacks[0] if len(stacks) == 1 else None,
            None,
            f"In {built} of {some_of(stacks)} the disk still changed its speed after "
            "the last round of preconditioning: the trials began on a disk that was not in a steady state. Give it "
            "more rounds, or longer ones.",
        ),
    )
