"""What `strata plan` says of disks, with the look at the machine replaced."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fake_host import FakeHost

from strata import layers, workloads
from strata.campaign import Campaign
from strata.cli.plan import plan
from strata.cli.written import Where, campaign
from strata.run import plan as planning
from strata.run import session, testbeds

SENTENCE = "hdd: the campaign's size 10G is not used: its disks are the devices given"


@pytest.fixture(autouse=True)
def _no_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def sites(*arguments: object) -> Iterator[None]:
        yield None

    def look(sites: object, campaign: Campaign, given: session.Devices) -> session.Look:
        facts = FakeHost().facts((), "/")
        claimed = [replace(disk, size_bytes=20 << 30) for disk in given.claimed]
        disks = planning.disks_for(campaign.stacks, campaign.disks, claimed)
        loads = [(call, workloads.find(call)) for call in campaign.workloads]
        return session.Look(planning.make(campaign.stacks, loads, layers.drivers(), facts, disks, None), facts, {})

    monkeypatch.setattr(testbeds, "sites", sites)
    monkeypatch.setattr(session, "look", look)


def planned(tmp_path: Path, disks: str, devices: list[str], as_json: bool = False) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(f"stacks: ['ssd + hdd | lvmcache | ext4']\nworkloads: ['null']\n{disks}")
    plan([str(file)], [], [], devices, [], Where(), commands=False, as_json=as_json)


def test_a_size_that_a_given_device_overrides_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    devices = ["hdd=/dev/disk/by-id/A"]
    planned(tmp_path, "disks: {hdd: {size: 10G}, ssd: {size: 5G}}", devices)
    assert [line.strip() for line in capsys.readouterr().out.splitlines() if "is not used" in line] == [SENTENCE]
    planned(tmp_path, "disks: {hdd: {size: 10G}}", devices, as_json=True)
    assert json.loads(capsys.readouterr().out)["unused_sizes"] == [SENTENCE]


@pytest.mark.parametrize("disks", ["disks: {ssd: {size: 10G}, hdd: {write_cache: none}}", ""])
def test_a_size_that_is_used_or_not_stated_is_not_named(
    disks: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned(tmp_path, disks, ["hdd=/dev/disk/by-id/A"])
    said = capsys.readouterr().out
    assert "hdd: /dev/disk/by-id/A" in said and "is not used" not in said


def test_a_stated_size_that_is_the_default_is_named_too(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("stacks: ['hdd | ext4']\ndisks: {hdd: {size: 4G}}\nworkloads: ['null']\n")
    written = campaign([str(file)], [], [])
    given = session.devices(["hdd=/dev/disk/by-id/A"], [], written.testbed)
    assert session.unused_sizes(written, given) == [SENTENCE.replace("10G", "4G")]
    assert session.unused_sizes(written, session.Devices()) == []
