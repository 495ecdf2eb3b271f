"""A limit that did not hold is told of, by the devices that it is for; one that held is not."""

from __future__ import annotations

import pytest

from strata import campaign as campaigns
from strata import layers
from strata.model import Disk, GuestImage, Outcome
from strata.planning import layout
from strata.run.trials import limits
from strata.run.trials.trial import Trial

DISKS = (Disk("disk", 8 << 30), Disk("disk", 8 << 30))


def laid_out(expression: str) -> layout.Layout:
    (stack,) = campaigns.parse_stacks(expression, layers.catalogue())
    image = GuestImage("/guests")
    return layout.lay_out(
        stack, layers.drivers(), DISKS, work_dir="/run", run_uuid="0" * 32, attempt=1, guest_image=image
    )


def notes(
    expression: str, figures: dict[str, float], tenant: int | None = None, shared: dict[str, float] | None = None
) -> tuple[str, ...]:
    trial = Trial(Outcome.OK, None, 0.0, 10.0, (), figures=figures)
    judged = limits.judged(laid_out(expression), trial, tenant, shared or {})
    assert ("limit" in judged.flags) == bool(judged.notes)
    return judged.notes


@pytest.mark.parametrize(
    ("expression", "counter"),
    [
        ("disk | vm(write_iops=100) | ext4", "vm.writes"),
        ("disk | xfs | qcow2 | qsd(read_iops=100) | ext4", "qsd.reads"),
        ("disk | ext4 | limit(write_iops=100)", "disk.writes"),
        ("disk | partition | limit(write_iops=100)", "partition.writes"),
        ("disk | ext4 | docker | container(write_iops=100)", "disk.writes"),
        ("disk | lvm | xfs | podman | container(read_iops=100)", "lvm.reads"),
    ],
)
def test_what_the_device_counted_is_compared_with_the_limit(expression: str, counter: str) -> None:
    assert notes(expression, {counter: 1100.0}) == ()
    (said,) = notes(expression, {counter: 3000.0})
    assert said.startswith("limit not held: 300 ") and said.endswith("allows 100") and f" {counter[:2]}" in said


def test_bytes_are_said_as_such() -> None:
    (said,) = notes("disk | vm(write_bps=1M) | ext4", {"vm.write_bytes": 50 << 20})
    assert "5.0 MiB of writes a second" in said and "allows 1.0 MiB" in said


def test_a_device_of_all_tenants_sees_the_limits_of_all() -> None:
    stack = "disk | ext4 | tenants(3) | limit(write_iops=100)"
    assert notes(stack, {}, 2, {"disk.writes": 3300.0}) == ()
    (said,) = notes(stack, {}, 2, {"disk.writes": 9000.0})
    assert "900 writes" in said and "allows 300" in said


def test_a_limit_below_the_fork_is_of_all_together() -> None:
    stack = "disk | ext4 | limit(write_iops=100) | tenants(3)"
    (said,) = notes(stack, {}, 2, {"disk.writes": 3300.0})
    assert "allows 100" in said


def test_a_tenant_with_a_device_of_its_own_is_judged_by_that() -> None:
    stack = "disk | xfs | tenants(2) | raw | vm(write_iops=100) | ext4"
    assert notes(stack, {"vm.writes": 1000.0}, 2, {"disk.writes": 90000.0}) == ()
    assert len(notes(stack, {"vm.writes": 3000.0}, 2)) == 1


def test_an_engine_limits_each_device_of_its_containers() -> None:
    stack = "2*disk | btrfs(raid1) | podman(btrfs) | container(write_iops=100)"
    assert notes(stack, {"disk.writes": 2200.0}) == ()
    (said,) = notes(stack, {"disk.writes": 6000.0})
    assert "allows 200" in said
    tenants = "disk | lvm | tenants(2) | ext4 | docker | container(write_iops=100)"
    assert len(notes(tenants, {"lvm.writes": 2000.0}, 1)) == 1
    assert notes("disk | ext4 | tenants(2) | docker | container(write_iops=100)", {}, 1, {"disk.writes": 2200.0}) == ()


def test_of_what_is_not_known_nothing_is_said() -> None:
    assert notes("disk | vm(write_iops=100) | ext4", {}) == ()
    failed = Trial(Outcome.FAILED, "why", 0.0, None, ())
    assert limits.judged(laid_out("disk | vm(write_iops=10) | ext4"), failed, None, {}) is failed
