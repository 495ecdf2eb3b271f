"""The one list of documented risks, of a stack as it is written."""

from __future__ import annotations

import pytest

from strata.campaign import parse_stacks
from strata.judge.risks import documented_risks
from strata.layers import catalogue
from strata.model import Stack
from strata.published.documented import documents


def stack(text: str) -> Stack:
    (found,) = parse_stacks(text, catalogue())
    return found


@pytest.mark.parametrize(
    ("text", "words", "loses"),
    [
        ("disk | ext4(journal=off)", "without a journal", "power"),
        ("disk | ext4(journal_async_commit, data=writeback)", "without waiting", ""),
        ("disk | ext4(noauto_da_alloc)", "can be empty", ""),
        ("3*disk | lvm(raid5) | ext4", "write hole", ""),
        ("4*disk | lvm(raid6) | ext4", "write hole", ""),
        ("3*disk | btrfs(raid1, metadata=raid5)", "write hole", "power"),
        ("2*disk | btrfs(raid1, nodatasum)", "no checksums", ""),
        ('disk | zfs(set="checksum=off")', "no checksums", ""),
        ('disk | zfs(set="sync=disabled")', "before it is on any disk", "power"),
        ("disk + ssd | lvmcache(writeback) | ext4", "lost with that device", "device"),
        ("nullblk | ext4", "no disk", "power"),
    ],
)
def test_arguments_that_weaken_a_stack_have_a_documented_risk(text: str, words: str, loses: str) -> None:
    first = next(risk for risk in documented_risks(stack(text)) if words in risk.text)
    assert first.loses == loses
    assert first.source and first.remedy


def test_the_gravest_risk_comes_first() -> None:
    found = documented_risks(stack("disk | lvmthin(zero=off) | ext4(nobarrier, data=writeback)"))
    assert "may destroy the file system" in found[0].text
    assert [risk.severity for risk in found] == sorted((risk.severity for risk in found), reverse=True)


def test_writeback_on_a_mirrored_cache_is_not_lost_with_one_device() -> None:
    single = documented_risks(stack("disk + ssd | lvmcache(writeback) | ext4"))
    mirrored = documented_risks(stack("disk + (2*ssd | md(raid1)) | lvmcache(writeback) | ext4"))
    assert any(risk.loses for risk in single)
    assert not any(risk.loses for risk in mirrored)
    assert any("newest data are on the cache alone" in risk.text for risk in mirrored)


def test_a_plain_stack_loses_nothing_by_the_documents() -> None:
    for text in ("disk | ext4", "2*disk | zfs(mirror=2)", "hdd + ssd | lvmcache | xfs"):
        assert not [risk for risk in documented_risks(stack(text)) if risk.loses], text


def test_every_row_of_the_risks_names_arguments_that_its_layer_takes() -> None:
    for risk in documents().risks:
        known = {param.name for param in catalogue()[risk.layer].params}
        assert {name for name, _ in (*risk.terms.when, *risk.terms.unless)} <= known, risk
        assert risk.severity in range(1, 6) and risk.loses in ("", "power", "device")
        assert not risk.loses or risk.severity == 5, "what loses acknowledged data is the gravest"
