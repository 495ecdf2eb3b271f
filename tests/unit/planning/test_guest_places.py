"""Guests of a lab: where they are started, what that takes of memory, and what their system holds."""

from __future__ import annotations

import pytest

from strata import campaign as campaigns
from strata import layers, workloads
from strata.campaign import Campaign
from strata.errors import BadInput
from strata.model import Disk, Facts, GuestImage, Testbed
from strata.planning import command_lines, guest_places, lab_features, layout
from strata.planning import plan as planning
from strata.planning.resources import GuestResources, Resources

GIB = 1 << 30
FACTS = Facts(
    hostname="h",
    kernel=(6, 12, 0),
    kernel_text="6.12.0",
    os="Debian",
    cpu_model="c",
    cpus=2,
    memory_bytes=2 * GIB,
    root=True,
    filesystems=frozenset({"ext4", "xfs", "btrfs"}),
    tools=dict.fromkeys(planning.tools(layers.drivers().values(), workloads.workloads().values()), "99"),
    schedulers=frozenset({"none"}),
    free_bytes=100 * GIB,
    modules=frozenset({"dm_mod", "dm_thin_pool", "zfs"}),
)
FOUR = "disk | lvmthin(zero=off) | tenants(4) | vm | ext4"
LOAD = "fio/randrw-75-25(runtime=3s, size=32M)"


def campaign(stack: str, testbed: Testbed, load: str = LOAD) -> Campaign:
    read = campaigns.from_expressions(
        [stack], [load], layers=layers.catalogue(), workloads=workloads.catalogue(), read_file=lambda path: ""
    )
    return campaigns.placed(read, testbed)


def test_in_the_lab_the_text_of_a_stack_says_that_its_guests_are_beside() -> None:
    (fitted,) = guest_places.fitted(campaign("disk | vm(cache=writeback) | ext4", Testbed("lab")), nested=False).stacks
    assert fitted.text == "disk | vm(cache=writeback, beside) | ext4"
    (again,) = campaigns.parse_stacks(fitted.text, layers.catalogue())
    assert again == fitted and again.top.inputs[0].call["beside"] is True


@pytest.mark.parametrize(
    ("stack", "nested", "text"),
    [
        ("disk | vm | ext4", True, "disk | vm(nested) | ext4"),
        ("disk | vm(beside) | ext4", True, "disk | vm(beside) | ext4"),
        ("disk | vm(nested) | ext4", False, "disk | vm(nested) | ext4"),
        # What is started within is what the lab machine started, of which such a campaign has several.
        ("disk | kernel(6.1) | vm | ext4", True, "disk | kernel(6.1) | vm(beside) | ext4"),
    ],
)
def test_with_kvm_guests_are_within_the_lab_machine_unless_the_campaign_says_otherwise(
    stack: str, nested: bool, text: str
) -> None:
    (fitted,) = guest_places.fitted(campaign(stack, Testbed("lab")), nested=nested).stacks
    assert fitted.text == text


def test_guests_of_one_campaign_are_in_one_place() -> None:
    both = campaign("{disk | vm(nested), disk | vm(beside)} | ext4", Testbed("lab"))
    with pytest.raises(BadInput, match="say vm"):
        guest_places.fitted(both, nested=True)
    other = campaign("disk | kernel(6.1) | vm(nested) | ext4", Testbed("lab"))
    with pytest.raises(BadInput, match="not the same for all"):
        guest_places.fitted(other, nested=False)


@pytest.mark.parametrize("testbed", [Testbed(), Testbed("ssh", "host"), Testbed("lab", clock="virtual")])
def test_elsewhere_a_guest_is_where_its_disk_is(testbed: Testbed) -> None:
    asked = campaign("disk | vm | ext4", testbed)
    assert guest_places.fitted(asked, nested=True) == asked


@pytest.mark.parametrize(
    ("stack", "count"),
    [("disk | ext4", 0), ("disk | vm | ext4", 1), (FOUR, 4), ("disk | xfs | tenants(3) | dir", 0)],
)
def test_every_guest_is_counted(stack: str, count: int) -> None:
    (read,) = campaigns.parse_stacks(stack, layers.catalogue())
    assert layout.guest_count(read, layers.drivers()) == count


def planned(stack: str, memory_bytes: int) -> planning.Plan:
    asked = guest_places.fitted(campaign(stack, Testbed("lab")), nested=False)
    look = GuestResources((), GuestImage("/guest"), FACTS, memory_bytes, taken_bytes=2 * GIB, ports=True)
    loads = [(call, workloads.find(call)) for call in asked.workloads]
    return planning.make(asked.stacks, loads, layers.drivers(), Resources(FACTS, [Disk("disk", 4 * GIB)], guests=look))


def test_four_guests_of_512_mib_and_the_lab_machine_fit_in_8_gib() -> None:
    assert planned(FOUR, 8 * GIB).skipped == {}


def test_guests_and_the_lab_machine_that_do_not_fit_together_are_refused() -> None:
    ((reason,),) = planned(FOUR, 5 * GIB).skipped.values()
    assert "4 guests and the lab machine take" in reason and "5.0 GiB" in reason


def test_the_commands_say_what_is_typed_beside_the_lab() -> None:
    plan = planned(FOUR, 8 * GIB)
    lines = command_lines.of_visit(plan, plan.runnable[0], layers.drivers(), "/work")
    where = ""
    found: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith("# "):
            where = line.split(",")[0]
        found.setdefault(where, []).append(line)
    assert any("qemu-system-x86_64" in line for line in found["# beside"])
    assert not any("qemu-system-x86_64 -name" in line for line in found["# outside"])
    assert any("qemu-storage-daemon" in line for line in found["# outside"] + found["# build"])


@pytest.mark.parametrize(
    ("stack", "load", "machine", "guests"),
    [
        ("disk | ext4", "postgres/oltp-complex", {"postgres"}, set()),
        ("disk | vm | ext4", "postgres/oltp-complex", {"qemu"}, {"postgres"}),
        ("disk | zfs | raw | vm | ext4", LOAD, {"qemu", "zfs"}, set()),
        ("disk | vm | zfs", LOAD, {"qemu"}, {"zfs"}),
        ("disk | ext4", "guest/install", {"install"}, set()),
        ("disk | vm | ext4", "guest/install", {"qemu"}, {"install"}),
        ("disk | vm | ext4", "guest/boot", {"qemu"}, set()),
        # within, a guest has the system of the lab machine
        ("disk | vm(nested) | zfs", "postgres/oltp-complex", {"postgres", "qemu", "zfs"}, {"postgres", "zfs"}),
    ],
)
def test_what_a_load_or_a_layer_needs_is_where_it_runs(
    stack: str, load: str, machine: set[str], guests: set[str]
) -> None:
    asked = campaign(stack, Testbed("lab"), load)
    assert lab_features.of_machine(asked) == machine and lab_features.of_guests(asked) == guests
