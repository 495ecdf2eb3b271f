"""Which lab machine carries a stack: its kernel and its release may be factors of the stack itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

import pytest
from tests.fake_host import FakeHost
from tests.machine_facts import FACTS

from strata import campaign as campaigns
from strata import layers, workloads
from strata.errors import BadInput, Refused
from strata.lab.machine import SavedState
from strata.lab.qemu import MachineSpec
from strata.model import Disk, GuestImage, Testbed
from strata.planning.resources import GuestResources
from strata.run import session
from strata.run.sites import in_lab
from strata.run.sites.in_lab import EXACT, NOT_QUITE, SEVERAL, LabSites, as_there, unbuilt


@pytest.mark.parametrize(
    ("stack", "variant"),
    [
        ("disk | ext4", "13"),
        ("disk | kernel(6.1) | ext4", "13/6.1"),
        ("disk | debian(12) | ext4", "12"),
        ("disk | debian(12) | kernel(6.1) | ext4", "12/6.1"),
    ],
)
def test_a_stack_names_its_machine(stack: str, variant: str) -> None:
    sites = LabSites(Testbed("lab"), frozenset(), {}, Path("/work"), "uuid", None, lambda line: None)
    (read,) = campaigns.parse_stacks(stack, layers.catalogue())
    assert sites.variant(read) == variant


def test_a_stack_has_one_kernel() -> None:
    sites = LabSites(Testbed("lab"), frozenset(), {}, Path("/work"), "uuid", None, lambda line: None)
    (read,) = campaigns.parse_stacks("disk | kernel(6.1) | kernel(6.12) | ext4", layers.catalogue())
    with pytest.raises(BadInput, match=r"names kernel\(6.1\) and kernel\(6.12\); keep one"):
        sites.variant(read)


@pytest.mark.parametrize(
    ("cpus", "caveats"), [(1, (EXACT.format(1000),)), (2, (NOT_QUITE.format(cpus=2, mips=1000), SEVERAL))]
)
def test_figures_of_several_processors_are_not_promised_to_repeat(cpus: int, caveats: tuple[str, ...]) -> None:
    """QEMU records no such machine, so that its threads do not wait for each other (decision 39)."""
    testbed = Testbed("lab", clock="virtual", cpus=cpus)
    state = SavedState(cast("MachineSpec", None), Path("/state"), "key", "QEMU 10.0", 1.0, 1.0, 1)
    sites = LabSites(testbed, frozenset(), {}, Path("/work"), "uuid", None, lambda line: None, _saved={"13": state})
    assert sites.describe(FACTS).caveats == caveats


@pytest.mark.parametrize(
    "stack", ["2*scsi_debug(size=6G) | md(raid1) | ext4", "4*nullblk(memory_backed=on, size=3G) | md(raid0) | ext4"]
)
def test_what_layers_keep_in_memory_is_refused_before_boot(stack: str, tmp_path: Path) -> None:
    asked = campaigns.from_expressions(
        [stack], ["null"], layers=layers.catalogue(), workloads=workloads.catalogue(), read_file=str
    )
    with pytest.raises(Refused, match="lie in the memory of the lab machine") as refused:
        in_lab.opened(replace(asked, testbed=Testbed("lab", clock="virtual")), tmp_path, "u", None, lambda line: None)
    assert refused.value.exit_code == 4, "no data are in danger"
    large = replace(asked, testbed=Testbed("lab", clock="virtual", memory_bytes=64 << 30))
    in_lab.opened(large, tmp_path, "u", None, lambda line: None)


def test_every_lab_that_is_not_built_is_told_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    stacks = ["disk | zfs", "disk | debian(12) | ext4"]
    asked = campaigns.from_expressions(
        stacks, ["null"], layers=layers.catalogue(), workloads=workloads.catalogue(), read_file=str
    )
    first, second = unbuilt(replace(asked, testbed=Testbed("lab")))
    assert (
        "`strata lab build --debian 13 --with zfs`" in first and "`strata lab build --debian 12 --with zfs`" in second
    )


def opened(stack: str, clock: Literal["real", "virtual"]) -> LabSites:
    asked = campaigns.from_expressions(
        [stack], ["null"], layers=layers.catalogue(), workloads=workloads.catalogue(), read_file=str
    )
    testbed = Testbed("lab", clock=clock, memory_bytes=8 << 30)
    small = {role: replace(disk, size_bytes=1 << 30) for role, disk in asked.disks.items()}
    placed = replace(asked, testbed=testbed, disks=small)
    return in_lab.opened(placed, Path("/work"), "uuid", None, lambda line: None)


def test_disks_of_which_nothing_was_said_have_a_model_by_the_virtual_clock_and_it_is_told() -> None:
    sites = opened("hdd + disk | bcache | ext4", "virtual")
    assert {role: model.name for role, model in sites.models.items()} == {"hdd": "hdd-7200", "disk": "plain"}
    assert list(sites.versions()) == ["lab disk disk", "lab disk hdd"]
    assert opened("hdd + disk | bcache | ext4", "real").models == {}


def test_a_visit_knows_the_models_that_its_disks_are_held_against() -> None:
    sites = opened("hdd + disk | bcache | ext4", "virtual")
    disks = (Disk("hdd", 1 << 30, "/dev/disk-hdd0", write_cache="none"), Disk("disk", 2 << 30, "/dev/disk-disk1"))
    served = sites.served_disks(disks)
    assert [(each.name, each.model.name, each.size_bytes) for each in served.values()] == [
        ("hdd0", "hdd-7200", 1 << 30),
        ("disk1", "plain", 2 << 30),
    ]
    assert served["/dev/disk-hdd0"].model.write_cache == "none"
    assert opened("hdd | ext4", "real").served_disks(disks) == {}


@pytest.mark.parametrize("stack", ["disk | vm | ext4", "disk | ext4 | qcow2 | vm | xfs", "disk | ext4 | vagrant"])
def test_guests_by_the_virtual_clock_are_refused_with_what_stands_for_them(stack: str) -> None:
    with pytest.raises(Refused, match=r"counts the instructions of one machine.*put qsd in the place of vm"):
        opened(stack, "virtual")


def test_guests_beside_other_stacks_ask_for_no_other_lab_by_the_virtual_clock() -> None:
    assert opened("disk | {ext4, vm | ext4}", "virtual").features == frozenset()
    assert opened("disk | {ext4, ext4 | qcow2 | qsd | xfs}", "virtual").features == {"qemu"}


@pytest.mark.parametrize(
    ("clock", "paths"),
    [
        ("real", ["/dev/disk/by-id/virtio-hdd0", "/dev/disk/by-id/virtio-hdd1", "/dev/disk/by-id/virtio-ssd2"]),
        ("virtual", ["/dev/disk-hdd0", "/dev/disk-hdd1", "/dev/disk-ssd2"]),
    ],
)
def test_commands_are_shown_as_typed_in_the_machine(clock: Literal["real", "virtual"], paths: list[str]) -> None:
    (read,) = campaigns.parse_stacks("2*hdd + ssd | lvmcache | ext4", layers.catalogue())
    given = [Disk(role, 1 << 30) for role in ("hdd", "hdd", "hdd", "ssd")]
    disks, work = as_there(Testbed("lab", clock=clock), read, given)
    assert [disk.device for disk in disks] == paths
    assert work.startswith("/run/")


@pytest.mark.parametrize(("clock", "next_thing"), [("virtual", "strata disk probe"), ("real", "--on local")])
def test_a_lab_has_no_disk_of_the_users(clock: Literal["virtual", "real"], next_thing: str) -> None:
    given = ["hdd=/dev/disk/by-id/ata-A1"]
    with pytest.raises(Refused, match=next_thing):
        session.devices(given, ["/dev/disk/by-id/ata-A1"], Testbed("lab", clock=clock))
    assert session.devices([], [], Testbed("lab", clock=clock)) == session.Devices()
    assert len(session.devices(given, [], Testbed()).claimed) == 1


def test_guests_beside_a_lab_machine_share_what_it_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = GuestResources((), GuestImage("/guests"), FACTS, 64 << 30)
    monkeypatch.setattr(in_lab, "look_at_guests", lambda *about: seen)
    sites = opened("disk | ext4", "real")
    look = sites.guests((), frozenset())
    assert seen.facts is not None
    assert look == replace(
        seen,
        facts=replace(seen.facts, caveats=(in_lab.BESIDE,)),
        taken_bytes=sites.testbed.memory_bytes + in_lab._OVERHEAD_BYTES,
        ports=True,
    )
    none = GuestResources(("no QEMU",))
    monkeypatch.setattr(in_lab, "look_at_guests", lambda *about: none)
    assert sites.guests((), frozenset()) == none


def test_the_rates_of_a_model_are_those_that_the_engine_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"kind": "read", "block_bytes": 4096, "depth": 1, "most_per_s": 120, "random": True}
    computed = json.dumps({"bounds": [entry, entry | {"depth": 32, "random": False}]})
    host = FakeHost(respond=lambda command: computed)
    monkeypatch.setattr(in_lab, "LocalHost", lambda mark: host)
    (disk,) = opened("hdd | ext4", "virtual").served_disks([Disk("hdd", 1 << 30, "/dev/disk-hdd0")]).values()
    for _ in range(2):
        assert in_lab.random_rates(disk, 5 << 30) == {("read", 4096, 1): 120.0}
    (command,) = host.commands
    assert command.argv[-2:] == (f"--size={1 << 30}", f"--span={1 << 30}"), "no more than the disk has, and once"
    assert json.loads(command.stdin or "") == disk.model.document
