"""Instruments compare; they are never the choice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strata.advice.advise import advise
from strata.advice.requirements import Requirements
from strata.analysis import modelled
from strata.analysis.instruments import instrument_in
from strata.campaign import parse_stacks
from strata.layers import catalogue, drivers
from strata.model import View
from strata.published.documented import documents

from .noisy_views import trial, view


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("nullblk | ext4", "nullblk"),
        ("disk | dm(delay, read=1ms) | ext4", "dm"),
        ("disk | ext4 | limit(read_iops=100)", "limit"),
        ("2*nullblk | md(raid1) | ext4", "nullblk"),
        ("disk + (nullblk | ext4)", "nullblk"),
        ("disk | ext4", None),
        ("disk | null(nullblk) | ext4", None),
        ('disk | zfs(set="a | nullblk")', None),
        ("disk | dir(limit)", None),
    ],
)
def test_an_instrument_is_known_by_the_name_of_its_layer(text: str, name: str | None) -> None:
    assert instrument_in(text) == name


def test_every_instrument_is_a_layer_that_no_recipe_deploys() -> None:
    for name in documents().instruments:
        assert not catalogue()[name].deployed, name


def renamed(run: View, old: str, new: str) -> View:
    return replace(
        run,
        stacks=tuple(new if text == old else text for text in run.stacks),
        trials=tuple(replace(each, stack=new) if each.stack == old else each for each in run.trials),
    )


@pytest.fixture
def fast() -> View:
    speeds = {"nullblk | ext4": 900.0, "disk | ext4": 100.0, "disk | xfs": 50.0}
    trials = [trial(stack, round_, {"iops": speed + round_}) for round_ in range(5) for stack, speed in speeds.items()]
    return view(list(speeds), trials)


def test_the_fastest_stack_is_not_the_choice_where_it_is_an_instrument(fast: View) -> None:
    found = modelled.ranking(fast)
    assert found.best == "disk | ext4"
    assert [row.stack for row in found.rows] == ["disk | ext4", "disk | xfs"]
    (left,) = found.unranked
    assert left.stack == "nullblk | ext4" and "never the choice" in left.reason
    assert left.metrics["fio/rand"]["iops"].point == pytest.approx(900, rel=0.02)
    assert "never to choose: nullblk | ext4." in found.sentences[-1]


def test_where_every_stack_is_an_instrument_they_are_compared_and_none_is_a_choice(fast: View) -> None:
    run = renamed(renamed(fast, "disk | ext4", "nullblk | xfs"), "disk | xfs", "nullblk | btrfs")
    found = modelled.ranking(run)
    assert len(found.rows) == 3 and "none is a choice" in found.sentences[-1]


def test_advice_rules_an_instrument_out(fast: View) -> None:
    stacks = [stack for text in fast.stacks for stack in parse_stacks(text, catalogue())]
    found = advise(stacks, {"runs/a": fast}, Requirements(), drivers(), documents())
    assert found.choice is not None and found.choice.judged.stack == "disk | ext4"
    assert [each.stack for each in found.ruled_out] == ["nullblk | ext4"]
