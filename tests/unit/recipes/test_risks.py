"""Every format shows the documented risks of a stack; one that can lose acknowledged data wants a word of its own."""

from __future__ import annotations

import pytest

from strata.campaign import parse_stacks
from strata.errors import BadInput
from strata.judge.risks import documented_risks, loses_acknowledged, sentence
from strata.layers import catalogue, drivers
from strata.model import Stack
from strata.recipes import plan, shell
from strata.recipes.formats import formats
from strata.recipes.plan import Recipe

LOSING = {
    "disk | ext4(nobarrier)": ["disk"],
    "disk | zfs(sync=disabled)": ["disk"],
    "hdd + ssd | lvmcache(writeback) | ext4": ["hdd", "ssd"],
    "disk | ext4 | qcow2(size=4G) | vm(cache=unsafe)": ["disk"],
}
RISKY = {**LOSING, "disk | lvmthin(size=10T) | xfs": ["disk"], "disk | lvmthin(size=10T)": ["disk"]}


def one(text: str) -> Stack:
    (stack,) = parse_stacks(text, catalogue())
    return stack


def made(text: str, accept_loss: bool = True) -> Recipe:
    given = plan.mapped([f"{role}=/dev/disk/by-id/{role}" for role in RISKY[text]], {})
    return plan.recipe(one(text), drivers(), given, accept_loss=accept_loss)


@pytest.mark.parametrize("text", LOSING)
def test_a_stack_that_can_lose_acknowledged_data_wants_accept_loss(text: str) -> None:
    with pytest.raises(BadInput) as raised:
        made(text, accept_loss=False)
    said = str(raised.value)
    assert "can lose data that it acknowledged" in said and "add --accept-loss to `strata recipe`" in said
    for risk in loses_acknowledged(one(text)):
        assert sentence(risk) in said
    assert made(text)


@pytest.mark.parametrize(
    "text",
    [
        'disk | btrfs(mkfs="/dev/sda")',
        'disk | ext4(mkfs="/dev/sda")',
        'disk | xfs(mkfs="-l logdev=/dev/sda1")',
        'disk | ext4(mkfs="-O ^has_journal")',
        'disk | btrfs(mkfs="-m raid5")',
    ],
)
def test_words_for_mkfs_that_no_run_takes_are_in_no_recipe(text: str) -> None:
    """A text may come from somebody else's run; mkfs.btrfs -f would take /dev/sda into the file system."""
    with pytest.raises(BadInput, match="mkfs="):
        plan.recipe(one(text), drivers(), plan.mapped(["disk=/dev/disk/by-id/disk"], {}), accept_loss=True)


def test_other_risks_are_told_and_want_no_word() -> None:
    assert documented_risks(one("disk | lvmthin(size=10T) | xfs"))
    assert made("disk | lvmthin(size=10T) | xfs", accept_loss=False)


@pytest.mark.parametrize("form", formats())
@pytest.mark.parametrize("text", RISKY)
def test_every_format_shows_every_risk_first(text: str, form: str) -> None:
    recipe, risks = made(text), documented_risks(one(text))
    try:
        files = formats()[form].write(recipe)
    except BadInput:
        return  # this format has no word for the stack
    assert risks
    for file in files:
        if file.name == "daemon.json":  # takes no comments; what is written beside it says so
            continue
        lines = [line.removeprefix("# ").replace("- -", "--") for line in file.text.splitlines()]
        lines = [line for line in lines if line not in ("#!/bin/sh", "<!--")]
        shown = lines[1 : 1 + len(risks)]
        assert lines[0] == f"data: {text}"
        for line, risk in zip(shown, risks, strict=True):
            assert line.endswith(sentence(risk)) and risk.source in line and risk.remedy in line
            assert line.startswith("CAN LOSE ACKNOWLEDGED DATA") is risk.loses_acknowledged


def test_some_format_shows_each_of_them() -> None:
    for text in RISKY:
        shown = 0
        for form in formats().values():
            try:
                shown += bool(form.write(made(text)))
            except BadInput:
                continue
        assert shown >= 3, text


def test_a_script_that_was_accepted_is_judged_without_asking_again() -> None:
    script = shell.render(made("disk | ext4(nobarrier)"))
    assert "--accept-loss --seen" in script
    assert "--accept-loss" not in shell.render(made("disk | lvmthin(size=10T) | xfs"))
