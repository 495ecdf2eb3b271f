"""Two runs of one campaign are bit-identical, or it is said where they are not."""

from __future__ import annotations

from dataclasses import replace

from strata.analysis.exactness import compare, only_of
from strata.model import FailedVisit, StepTime, View

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


def test_how_long_it_takes_to_remove_a_stack_counts() -> None:
    first = made()
    trial = first.trials[0]
    step = StepTime(trial.visit, trial.stack, "ext4", "make the ext4 file system", 0.5, 0.25)
    with_step = replace(first, steps=(step,))
    assert compare(with_step, with_step).same
    found = compare(with_step, replace(first, steps=(replace(step, remove_s=0.26),)))
    assert len(found.different) == 1 and "remove_s was 0.25 and is 0.26" in found.different[0]


def test_a_mark_counts() -> None:
    first = made()
    marked = replace(first, trials=(replace(first.trials[0], flags=("memory",)), *first.trials[1:]))
    assert "mark memory" in compare(first, marked).different[0]


def test_a_visit_that_failed_once_only_is_a_difference() -> None:
    first = made()
    gone = first.trials[0]
    failed = FailedVisit(gone.visit, gone.stack, gone.round, "mkfs ended with exit code 1")
    once = replace(first, trials=first.trials[1:], failed=(failed,))
    found = compare(once, only_of(first, once))
    assert not found.same and any("the whole visit" in sentence for sentence in found.different)
    # for another reason: the run's name stands in the words
    again = replace(once, failed=(replace(failed, reason="another run's words"),))
    assert compare(once, only_of(again, once)).same


def test_what_the_first_run_did_not_come_to_is_left_out() -> None:
    whole = made()
    stopped = replace(whole, trials=whole.trials[1:])
    assert compare(stopped, only_of(whole, stopped)).same
