"""Two runs of one campaign are the same to the last digit, or it is said where they are not."""

from __future__ import annotations

from dataclasses import replace

from strata.analysis.exactness import compare
from strata.model import View

from .noisy_views import exact


def made() -> View:
    return exact({"a": [100.0, 101.0], "b": [90.0, 91.0]})


def test_a_run_is_the_same_as_itself() -> None:
    found = compare(made(), made())
    assert found.same
    assert found.trials == len(made().trials) > 0
    assert found.figures > 0


def test_the_last_digit_counts() -> None:
    first = made()
    trial = first.trials[0]
    ((name, value), *_) = trial.metrics.items()
    nudged = replace(trial, metrics={**trial.metrics, name: value * (1 + 2**-52)})
    found = compare(first, replace(first, trials=(nudged, *first.trials[1:])))
    assert not found.same
    assert len(found.different) == 1 and name in found.different[0]


def test_a_point_of_a_series_counts() -> None:
    first = made()
    one, other = (
        replace(first, trials=(replace(first.trials[0], series={"iops": ((1.0, value),)}), *first.trials[1:]))
        for value in (5.0, 6.0)
    )
    assert compare(one, one).same
    assert "iops" in compare(one, other).different[0]


def test_a_trial_of_one_run_only_is_a_difference() -> None:
    first = made()
    found = compare(first, replace(first, trials=first.trials[1:]))
    assert not found.same and "only the first run" in found.different[0]


def test_two_empty_runs_prove_nothing() -> None:
    nothing = replace(made(), trials=())
    assert not compare(nothing, nothing).same
