"""A run against a published study: ratios to a common stack, findings as pairs, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from strata.analysis import studies
from strata.analysis.studies import Printed, StudyClaim
from strata.errors import BadInput
from strata.model import Metric, Rule

from .noisy_views import IOPS, exact, trial, view


def printed(**figures: float) -> list[Printed]:
    return [Printed(stack, "fio/rand", "iops", math.log(value)) for stack, value in figures.items()]


def test_a_study_is_ratios_to_a_common_stack_and_no_figures() -> None:
    here = exact({"a": [1000.0, 1010.0, 990.0], "b": [500.0, 505.0, 495.0], "c": [1.0, 1.1, 0.9]})
    (held,) = studies.held(here, printed(a=92.0, b=46.0, x=1.0))
    assert (held.stack, held.other) == ("b", "a")
    assert held.published == pytest.approx(0.5)
    assert held.here.point == pytest.approx(0.5, rel=0.01)
    assert held.agreement == "same"


@pytest.mark.parametrize(
    ("values", "agreement"),
    [
        ([2000.0, 2010.0, 1990.0], "turned"),
        ([1000.0, 1010.0, 990.0], "as good here"),
        ([100.0, 9000.0, 1000.0], "not shown here"),
        ([500.0], "not shown here"),
    ],
)
def test_how_a_published_ratio_fares_here(values: list[float], agreement: str) -> None:
    here = exact({"a": [1000.0, 1001.0, 999.0], "b": values}, rule=Rule(within=0.05))
    (held,) = studies.held(here, printed(a=2.0, b=1.0))
    assert held.agreement == agreement


@pytest.mark.parametrize(
    ("values", "agreement"),
    [
        ([1000.0, 1001.0, 999.0], "same"),
        ([1200.0, 1201.0, 1199.0], "no direction there"),
        ([800.0, 801.0, 799.0], "no direction there"),
        ([100.0, 9000.0, 1000.0], "not shown here"),
    ],
)
@pytest.mark.parametrize("other", [92.0, 93.0])
def test_a_published_tie_has_no_direction(values: list[float], agreement: str, other: float) -> None:
    here = exact({"a": [1000.0, 1001.0, 999.0], "b": values}, rule=Rule(within=0.03))
    (held,) = studies.held(here, printed(a=92.0, b=other))
    assert held.agreement == agreement


def test_what_the_study_cannot_separate_has_no_direction_either() -> None:
    here = exact({"a": [1000.0, 1001.0, 999.0], "b": [1200.0, 1201.0, 1199.0]}, rule=Rule(within=0.01))
    for resolution, agreement in ((0.0, "same"), (0.016, "no direction there")):
        (held,) = studies.held(here, printed(a=1.0, b=1.015), resolution)
        assert held.agreement == agreement


def test_ratios_of_one_comparison_hold_together() -> None:
    """Bonferroni: one pair alone is shown, and the same pair among ten is not."""
    values = {"a": [1000.0, 1010.0, 990.0], "b": [950.0, 970.0, 935.0]}
    (alone,) = studies.held(exact(values), printed(a=2.0, b=1.0))
    assert alone.agreement == "same"
    more = {chr(ord("c") + number): [500.0, 505.0, 495.0] for number in range(9)}
    among = studies.held(exact(values | more), printed(a=2.0, b=1.0, **dict.fromkeys(more, 1.0)))
    (pair,) = [each for each in among if each.stack == "b"]
    assert len(among) == 10 and pair.agreement == "not shown here"
    assert alone.here.low is not None and pair.here.low is not None and pair.here.low < alone.here.low


def test_one_common_stack_gives_no_ratio() -> None:
    with pytest.raises(BadInput, match="two are needed"):
        studies.held(exact({"a": [1.0, 1.0]}), printed(a=1.0, x=2.0))


def test_a_family_of_scripts_is_any_script() -> None:
    workload = replace(IOPS, text="command:provision.sh(size=2G)", name="command:provision.sh")
    trials = [trial(stack, 0, {"iops": 1.0}, workload=workload.text) for stack in ("a", "b")]
    here = view(["a", "b"], trials, workloads=[workload])
    study = [replace(each, workload="command:") for each in printed(a=1.0, b=2.0)]
    assert len(studies.held(here, study)) == 1


# ---------------------------------------------------------------- findings without figures

ZFS_FIRST = StudyClaim("fio/rand", None, "zfs", "all others", r"\| zfs", r"^(?!.*zfs)", "10")


def test_a_finding_is_tried_on_every_pair_that_it_is_about() -> None:
    here = exact({"d | zfs": [90.0, 91.0, 89.0], "d | xfs": [10.0, 10.1, 9.9], "d | ext4": [900.0, 901.0, 899.0]})
    found = studies.claim_results(here, [ZFS_FIRST])
    assert [(each.stack, each.other, each.agreement) for each in found] == [
        ("d | zfs", "d | xfs", "same"),
        ("d | zfs", "d | ext4", "turned"),
    ]
    assert found[0].here.point == pytest.approx(9.0, rel=0.01)


def test_a_finding_may_be_about_another_figure_than_the_one_that_decides() -> None:
    decides = exact({"d | zfs": [90.0, 91.0], "d | xfs": [10.0, 10.1]})
    slow = Metric("stop_s", "s", "lower", "")
    took = {"d | zfs": 8.0, "d | xfs": 2.0}
    trials = tuple(replace(each, metrics={**each.metrics, "stop_s": took[each.stack]}) for each in decides.trials)
    (workload,) = decides.workloads
    here = replace(decides, trials=trials, workloads=(replace(workload, metrics={**workload.metrics, "stop_s": slow}),))
    (found,) = studies.claim_results(here, [replace(ZFS_FIRST, metric="stop_s")])
    assert found.here.point == pytest.approx(0.25)
    with pytest.raises(BadInput, match="under fio/rand, start_s"):
        studies.claim_results(here, [replace(ZFS_FIRST, metric="start_s")])


def test_pairs_of_all_findings_hold_together() -> None:
    values = {"d | zfs": [1000.0, 1010.0, 990.0], "d | xfs": [950.0, 970.0, 935.0]}
    (alone,) = studies.claim_results(exact(values), [ZFS_FIRST])
    more = {f"d | other{number}": [500.0, 505.0, 495.0] for number in range(9)}
    among = studies.claim_results(exact(values | more), [ZFS_FIRST])
    assert (alone.agreement, among[0].agreement) == ("same", "not shown here")
    assert (among[0].stack, among[0].other) == ("d | zfs", "d | xfs")


def test_a_finding_about_stacks_that_are_not_here() -> None:
    with pytest.raises(BadInput, match="zfs before all others under fio/rand"):
        studies.claim_results(exact({"d | xfs": [1.0, 1.0]}), [ZFS_FIRST])


def test_a_stack_that_both_kinds_match_is_of_the_narrower_one() -> None:
    both = replace(ZFS_FIRST, worse_like="d")
    here = exact({"d | zfs": [1.0, 1.0], "d | xfs": [1.0, 1.0]})
    assert [(each.stack, each.other) for each in studies.claim_results(here, [both])] == [("d | zfs", "d | xfs")]
    with pytest.raises(BadInput):
        studies.claim_results(exact({"d | zfs": [1.0, 1.0], "d | zfs | dir": [1.0, 1.0]}), [both])
