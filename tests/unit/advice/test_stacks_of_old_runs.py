"""Stacks of runs that were made before."""

from __future__ import annotations

import dataclasses

import pytest

from strata.cli import kept
from strata.errors import BadInput

from .views import empty


def test_the_stacks_of_a_run_are_read_as_this_version_does() -> None:
    view = dataclasses.replace(empty(), stacks=("disk | ext4", "disk | xfs"))
    assert [stack.text for stack in kept.stacks(view, "runs/a")] == ["disk | ext4", "disk | xfs"]
    assert [stack.text for stack in kept.stacks(view, "runs/a", ["disk | xfs"])] == ["disk | xfs"]


def test_stacks_that_mean_nothing_here_are_all_told_with_their_run_and_its_version() -> None:
    view = dataclasses.replace(
        empty(), stacks=("disk | ext4", "disk | ext9", "disk | xfs(gone=1)"), versions={"strata": "0.0.9"}
    )
    with pytest.raises(BadInput) as caught:
        kept.stacks(view, "runs/old")
    told = [str(problem) for problem in caught.value.problems]
    assert len(told) == 2 and all(each.startswith("runs/old: ") and "0.0.9" in each for each in told)
    assert "disk | ext9: there is no layer 'ext9'" in told[0] and "run the campaign again" in told[1]
