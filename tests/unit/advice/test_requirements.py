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


def test_flags_come_beside_the_file() -> None:
    base = read("needs: [snapshot]\nmax-memory: 2G\nsurvive: 2 disks")
    both = requirements.with_flags(base, KNOWN.features, needs="quota,thin|cow", max_memory="1G")
    assert both.needs == (("snapshot",), ("quota",), ("thin", "cow"))
    assert both.max_memory_bytes == 1 << 30
    assert both.survive == 2
