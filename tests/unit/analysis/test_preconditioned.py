"""A disk that was not brought into a steady state is spoken of."""

from __future__ import annotations

from strata.analysis.preconditioned import warnings

from .noisy_views import trial, view


def test_only_visits_that_were_not_steady_are_counted() -> None:
    steady = {"iops": 100.0, "precondition.unsteady": 0.0}
    unsteady = steady | {"precondition.unsteady": 2.0}
    trials = [
        trial("a", 0, steady, visit=1),
        trial("b", 0, unsteady, visit=2),
        trial("b", 0, unsteady, visit=2, order=1),
        trial("b", 1, unsteady, visit=3),
        trial("c", 0, {"iops": 1.0}, visit=4),
    ]
    (caution,) = warnings(view(["a", "b", "c"], trials))
    assert (caution.kind, caution.stack) == ("unsteady", "b")
    assert "In 2 visits of b " in caution.text
    assert warnings(view(["a"], trials[:1])) == ()
