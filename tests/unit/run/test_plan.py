"""What can run and what cannot is said before anything is touched, with every reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strata import campaign as campaigns
from strata import layers, workloads
from strata.errors import BadInput
from strata.model import Disk, Facts
from strata.run import plan as planning

FACTS = Facts(
    hostname="h",
    kernel=(6, 18, 0),
    kernel_text="6.18.0",
    os="Debian",
    cpu_model="c",
    cpus=2,
    memory_bytes=8 << 30,
    root=True,
    filesystems=frozenset({"ext4", "xfs", "btrfs"}),
    tools=dict.fromkeys(planning.tools(layers.drivers().values(), workloads.workloads().values()), "99")
    | {"fio": "fio-3.33"},
    schedulers=frozenset({"none", "bfq"}),
    free_bytes=100 << 30,
)


def plan(
    expression: str, *loads: str, facts: Facts = FACTS, disk_bytes: int = 4 << 30, claimed: tuple[Disk, ...] = ()
) -> planning.Plan:
    campaign = campaigns.from_expressions(
        [expression],
        list(loads) or ["null"],
        layers=layers.catalogue(),
        workloads=workloads.catalogue(),
        read_file=lambda name: "",
    )
    roles = {role for stack in campaign.stacks for role in stack.disks()}
    disks = planning.disks_for(campaign.stacks, dict.fromkeys(roles, disk_bytes), claimed)
    found = [(call, workloads.find(call)) for call in campaign.workloads]
    return planning.make(campaign.stacks, found, layers.drivers(), facts, disks, campaign.memory_bytes)


def test_a_stack_that_cannot_run_is_skipped_with_every_reason_and_the_rest_goes_on() -> None:
    made = plan("disk | scheduler({none, nonesuch}) | {ext4, f2fs}")
    assert [stack.text for stack in made.runnable] == ["disk | scheduler(none) | ext4"]
    both = made.skipped["disk | scheduler(nonesuch) | f2fs"]
    assert any("nonesuch" in reason for reason in both)
    assert any("f2fs" in reason for reason in both)


def test_a_kernel_that_lost_an_option_skips_that_stack() -> None:
    made = plan("disk | xfs({noatime, nobarrier})")
    assert [stack.text for stack in made.runnable] == ["disk | xfs(noatime)"]


def test_without_root_nothing_that_builds_can_run() -> None:
    made = plan("disk | ext4", facts=replace(FACTS, root=False))
    assert not made.runnable
    assert any("root" in reason for reason in made.skipped["disk | ext4"])


def test_a_missing_fio_is_bad_input_for_every_workload_that_wants_it() -> None:
    without = replace(FACTS, tools={name: text for name, text in FACTS.tools.items() if name != "fio"})
    with pytest.raises(BadInput) as caught:
        plan("disk | ext4", "fio/randrw-75-25", "fio/randread-4k-qd32", facts=without)
    assert len(caught.value.problems) == 2


def test_sparse_files_that_could_outgrow_the_disk_are_refused() -> None:
    plan("2*disk | btrfs", facts=replace(FACTS, free_bytes=9 << 30))
    with pytest.raises(BadInput, match=r"grow to 8\.0 GiB"):
        plan("2*disk | btrfs", facts=replace(FACTS, free_bytes=8 << 30))


def test_one_visit_s_files_count_not_the_whole_matrix() -> None:
    made = plan("{disk | {ext4, xfs}, 2*disk | btrfs}")
    assert made.growth_bytes == 8 << 30


def test_claimed_devices_grow_nothing_and_too_few_are_a_reason() -> None:
    made = plan("{disk | ext4, 2*disk | btrfs}", claimed=(Disk("disk", 1 << 40, "/dev/disk/by-id/x"),))
    assert made.growth_bytes == 0
    assert [stack.text for stack in made.runnable] == ["disk | ext4"]
    assert "2 disks" in made.skipped["2*disk | btrfs"][0]


def test_a_data_set_larger_than_the_disk_is_a_reason() -> None:
    made = plan("disk | ext4", "fio/randrw-75-25(size=1G)", disk_bytes=1 << 30)
    assert "larger" in made.skipped["disk | ext4"][0]


def test_a_workload_that_cannot_run_on_what_the_stack_ends_in_is_a_reason() -> None:
    assert plan("disk", "fio/randrw-75-25").runnable
    made = plan("disk", "dd/seqwrite-sync")
    assert made.skipped and "directory" in made.skipped["disk"][0]


def test_a_raid_level_wants_its_devices() -> None:
    made = plan("{disk, 2*disk} | btrfs(raid1)")
    assert [stack.text for stack in made.runnable] == ["2*disk | btrfs(raid1)"]


def test_commands_are_listed_as_typed_in_order() -> None:
    made = plan("disk | ext4", "fio/randrw-75-25")
    lines = planning.commands(made, made.runnable[0], layers.drivers(), "DIR/work")
    order = [
        next(i for i, line in enumerate(lines) if part in line) for part in ("truncate", "mkfs.ext4", "mount ", "fio ")
    ]
    assert order == sorted(order)
    assert lines[-1].startswith("rm --recursive")
    assert any(line.startswith("# measure fio/randrw-75-25") for line in lines)
