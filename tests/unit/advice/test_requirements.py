"""Requirements as a file and as flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.advice import requirements
from strata.advice.advise import advise
from strata.advice.requirements import Requirements
from strata.campaign import parse_stacks
from strata.errors import BadInput
from strata.layers import catalogue, drivers
from strata.published.documented import documents

KNOWN = documents()

READY = sorted((Path(__file__).parents[3] / "campaigns" / "requirements").glob("*.yaml"))


def read(text: str) -> Requirements:
    return requirements.read(text, "required.yaml", KNOWN.features)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("need: [snapshot]", "no key 'need'"),
        ("needs: [teleport]", "no feature 'teleport'"),
        ("max-memory: lots", "max_memory"),
        ("capacity: 0", "0 is no size"),
        ("max_memory: 1G\nmax-memory: 2G", "there twice"),
        ("weights: [oltp]", "as in {oltp: 2, backup: 1}"),
        ("survive: all", "survive"),
        ("disks: [hdd]", "disks"),
        ("disks: {hdd: 1.5}", "a part of a disk"),
        ("no_writeback_risk: yes", "write true or false"),  # a text, by YAML 1.2
        ("weights: {oltp: -1}", "weights"),
        ("- snapshot", "a list of keys with values"),
        ("needs: [", "this is not YAML"),
        ("needs: [a]\nneeds: [b]", "required.yaml:2:1: 'needs' is written twice"),
        ("", "a file of requirements is a list of keys with values"),
    ],
)
def test_a_file_that_says_nothing_sensible(text: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        read(text)


def test_requirements_come_with_strata() -> None:
    assert "proxmox-2019" in {path.stem for path in READY}


@pytest.mark.parametrize("path", READY, ids=lambda path: path.stem)
def test_requirements_that_come_with_strata_can_be_met(path: Path) -> None:
    wanted = requirements.read(path.read_text(), path.name, KNOWN.features)
    stacks = [found for text in wanted.candidates for found in parse_stacks(text, catalogue())]
    found = advise(stacks, {}, wanted, drivers(), KNOWN)
    assert found.unmeasured and found.ruled_out


def test_a_file_is_read_by_value() -> None:
    text = (
        "needs: [snapshot, thin | cow]\nmax-memory: 1G\ncapacity: 2T\nsurvive: 2-disks\nno_writeback_risk: true\n"
        "disks: {hdd: 2, ssd: 1}\nweights: {oltp: 2, backup: 0.5, idle: 0}\ncandidates: [disk | ext4, disk | xfs]\n"
    )
    assert read(text) == Requirements(
        needs=(("snapshot",), ("thin", "cow")),
        max_memory_bytes=1 << 30,
        capacity_bytes=2 << 40,
        survive=2,
        no_writeback_risk=True,
        disks={"hdd": 2, "ssd": 1},
        weights={"oltp": 2.0, "backup": 0.5, "idle": 0.0},
        candidates=("disk | ext4", "disk | xfs"),
    )
    assert not read("no_writeback_risk: false").no_writeback_risk
    assert read("needs: [snapshot]") == Requirements(needs=(("snapshot",),))


def test_flags_replace_the_file_where_there_can_be_one_value_only() -> None:
    base = read("weights: {oltp: 2}\ndisks: {hdd: 4}\ncapacity: 2T\nno_writeback_risk: true")
    assert requirements.with_flags(base, KNOWN.features) == base
    more = requirements.with_flags(
        base, KNOWN.features, weights="oltp=1, fio/rand(bs=4k)=3", disks=["hdd=1", "ssd=2"], capacity="1T", survive="1"
    )
    assert more == Requirements(
        capacity_bytes=1 << 40,
        survive=1,
        no_writeback_risk=True,
        disks={"hdd": 1, "ssd": 2},
        weights={"oltp": 1.0, "fio/rand(bs=4k)": 3.0},
    )
    assert requirements.with_flags(Requirements(), KNOWN.features, no_writeback_risk=True).no_writeback_risk


def test_every_requirement_is_described() -> None:
    wanted = read(
        "needs: [snapshot, thin|cow]\nmax_memory: 1G\ncapacity: 2T\nsurvive: 1\nno_writeback_risk: true\n"
        "disks: {hdd: 2}\nweights: {oltp: 2}"
    )
    assert requirements.described(wanted) == [
        *("snapshot", "thin or cow", "at most 1G of memory", "survives the loss of 1 disk"),
        *("nothing that was flushed can be lost", "stands on 2 hdd"),
    ]
    assert requirements.described(read("survive: 2\ndisks: {hdd: 2, ssd: 1}")) == [
        *("survives the loss of 2 disks", "stands on 2 hdd and 1 ssd"),
    ]
    assert requirements.described(Requirements()) == []


def test_flags_come_beside_the_file() -> None:
    base = read("needs: [snapshot]\nmax-memory: 2G\nsurvive: 2 disks")
    both = requirements.with_flags(base, KNOWN.features, needs="quota,thin|cow", max_memory="1G")
    assert both.needs == (("snapshot",), ("quota",), ("thin", "cow"))
    assert both.max_memory_bytes == 1 << 30
    assert both.survive == 2
