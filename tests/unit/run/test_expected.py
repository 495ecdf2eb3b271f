"""The plan's estimate of a visit's time: guests' boots, installations and the lab are in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from strata import campaign as campaigns
from strata import layers, workloads
from strata.model import GuestImage
from strata.run import beside
from strata.run import plan as planning
from strata.run.sites import GuestLook

from .test_plan import FACTS, plan

EMULATED = replace(FACTS, emulated=True)
KVM, TCG = (GuestLook((), GuestImage("/guests"), facts, 64 << 30) for facts in (FACTS, EMULATED))
CAMPAIGNS = Path(__file__).parents[3] / "campaigns"


def takes_s(expression: str, *loads: str, guests: GuestLook | None = KVM) -> float:
    made = plan(expression, *loads, disk_bytes=16 << 30, guests=guests)
    assert made.runnable, made.skipped
    return made.seconds_per_visit


def test_a_guest_s_boot_is_in_it_once_for_a_visit() -> None:
    boot_s = takes_s("disk | vm") - takes_s("disk")
    assert boot_s == 10.0
    assert takes_s("disk | vm", "null", "null") - takes_s("disk", "null", "null") == boot_s
    assert takes_s("disk | vm", guests=TCG) > takes_s("disk | vm")


@pytest.mark.parametrize(("count", "boots"), [(1, 1), (2, 1), (4, 2), (6, 3)])
def test_guests_boot_at_the_same_time_on_as_many_processors_as_there_are(count: int, boots: float) -> None:
    assert FACTS.cpus == 2
    stack = f"disk | ext4 | tenants({count})"
    assert takes_s(f"{stack} | raw(size=1G) | vm") - takes_s(f"{stack} | raw(size=1G)") == 10.0 * boots


@pytest.mark.parametrize(
    ("load", "native_s", "emulated_s"),
    [
        ("guest/boot", 0, 0),
        ("guest/install(extract)", 10, 60),
        ("guest/install(minimal)", 32, 180),
        ("guest/install@2(minimal)", 32, 180),
        ("fio/randrw-75-25(runtime=20s)", 20, 20),
    ],
)
def test_a_load_takes_what_it_says_on_such_a_machine(load: str, native_s: float, emulated_s: float) -> None:
    stack = "disk | xfs | tenants(2) | raw | vm | ext4"
    nothing = load.replace(load.partition("@")[0].partition("(")[0], "null").partition("(")[0]
    for guests, seconds in ((KVM, native_s), (TCG, emulated_s)):
        assert takes_s(stack, load, guests=guests) - takes_s(stack, nothing, guests=guests) == seconds


def test_installations_at_once_share_the_processors_and_loads_at_once_their_time() -> None:
    stack = "disk | xfs | tenants(4) | raw(size=2G) | vm | ext4"
    assert takes_s(stack, "guest/install(minimal)") - takes_s(stack, "null") == 64
    both = ("fio/randrw-75-25@1(runtime=20s)", "filebench/varmail@2(runtime=20s)")
    assert takes_s(stack, *both) == takes_s(stack, both[0])


def test_an_installer_and_containers_take_their_time() -> None:
    assert takes_s("disk | xfs | qcow2(size=4G)", "guest/debian-installer") > 3600
    one, hundred = (takes_s("disk | btrfs | podman(btrfs)", f"container/lifecycle({count})") for count in (1, 100))
    assert 60 < hundred - one < 100


def test_what_is_rehearsed_takes_its_time_as_well() -> None:
    once, thrice = (takes_s(f"disk | ext4{warm}", "fio/randrw-75-25(runtime=20s)") for warm in ("", " | warm(2)"))
    assert thrice - once == 2 * (20 + 2)


@pytest.mark.parametrize(
    ("name", "profile", "least_s", "most_s"),
    [("kvm-storage", "quick", 213, 255), ("vm-cache-modes", "quick", 57, 82), ("kvm-storage", "host", 40, 60)],
)
def test_the_estimate_is_near_to_what_was_measured(name: str, profile: str, least_s: float, most_s: float) -> None:
    """Seconds of a visit in the emulated lab on two quiet processors, from benchmarks/results."""
    campaign = beside.fitted(
        campaigns.load(
            (CAMPAIGNS / f"{name}.yaml").read_text(),
            where=name,
            read_file=lambda path: "",
            profile=profile,
            layers=layers.catalogue(),
            workloads=workloads.catalogue(),
        ),
        nested=False,
    )
    modules = frozenset({"raid1", "raid10", "md_mod", "dm_mod", "dm_thin_pool", "dm_cache", "dm_cache_smq", "zfs"})
    facts = replace(EMULATED, modules=modules)
    made = planning.make(
        campaign.stacks,
        [(call, workloads.find(call)) for call in campaign.workloads],
        layers.drivers(),
        facts,
        planning.disks_for(campaign.stacks, campaign.disks, ()),
        None,
        guests=GuestLook((), GuestImage("/guests"), facts, 64 << 30, ports=True),
    )
    assert not made.skipped
    assert least_s / 2 < made.seconds_per_visit < most_s * 2
