"""A trial on modelled disks is held against what they can do, through the stack that was on them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strata import campaign as campaigns
from strata import layers
from strata.lab import bounds, models
from strata.model import AccessPattern, Disk, Outcome
from strata.planning import layout
from strata.run.sites.site import Site
from strata.run.trials import model_bounds
from strata.run.trials.trial import Trial

from .test_trial import Machine

GIB = 1 << 30
NODES = tuple(f"/dev/disk-hdd{number}" for number in range(2))
DURABLE = AccessPattern(True, 4096, GIB, 1, False, True, 30.0, 0.0, 2911.0)
RATES = {
    (kind, 4096, depth): per_s
    for kind, each in {"read": (98, 188, 274), "write": (276, 276, 276), "fua": (90, 159, 221)}.items()
    for depth, per_s in zip((1, 8, 32), each, strict=True)
}


def judged(
    stack: str,
    pattern: AccessPattern | None = None,
    model: str = "hdd-7200",
    counted: tuple[int, ...] = (87_330,),
    way: str = "write",
) -> Trial:
    """`counted`: the reads or writes of each disk in 30 s."""
    (parsed,) = campaigns.parse_stacks(stack, layers.catalogue())
    disks = tuple(Disk("hdd", 2 * GIB, node) for node in NODES)
    served = {node: bounds.ServedDisk(node[10:], models.find(model), 2 * GIB) for node in NODES}
    site = Site(Machine(), disks, "/run", "0" * 32, 1, None, (), served, lambda disk, span: RATES)
    laid_out = layout.lay_out(parsed, layers.drivers(), disks, work_dir="/run", run_uuid="0" * 32, attempt=1)
    series = {
        f"machine.device.d{number}.{name}": ((0.0, 50.0), (30.0, 50.0 + (count if way in name else 0)))
        for number, count in enumerate(counted)
        for name in ("reads", "writes", "read_bytes", "write_bytes", "flushes")
    }
    trial = Trial(Outcome.OK, None, 0.0, 30.0, (), figures={"iops": 2911.0}, series=series, pattern=pattern)
    return model_bounds.judged(laid_out, site, trial)


def test_a_figure_beyond_the_disk_is_kept_and_invalid_and_says_what_to_do() -> None:
    result = judged("hdd | xfs", DURABLE)
    assert result.outcome is Outcome.INVALID and result.figures == {"iops": 2911.0}
    assert result.reason is not None
    assert result.reason.startswith("the disk hdd0 did 2,911 durable writes a second, and its model hdd-7200 can do at")
    assert "do not use this figure" in result.reason and "report it" in result.reason


def test_a_figure_that_the_disk_can_do_is_left_alone() -> None:
    result = judged("hdd | xfs", replace(DURABLE, writes_per_s=85.0), counted=(2550,))
    assert (result.outcome, result.reason, result.notes) == (Outcome.OK, None, ())


@pytest.mark.parametrize("stack", ["hdd | ext4(nobarrier)", "hdd | zfs(sync=disabled)", "hdd | f2fs(nobarrier)"])
def test_of_a_stack_that_may_lose_an_fsync_none_is_expected_to_be_durable(stack: str) -> None:
    assert judged(stack, replace(DURABLE, writes_per_s=5000.0), counted=(7500,)).outcome is Outcome.OK
    assert judged("hdd | xfs", replace(DURABLE, writes_per_s=5000.0), counted=(7500,)).outcome is Outcome.INVALID


def test_the_counters_of_each_disk_are_judged_without_any_pattern() -> None:
    assert judged("2*hdd | btrfs(raid1)", model="serial-8ms", counted=(3700, 3700)).outcome is Outcome.OK
    result = judged("2*hdd | btrfs(raid1)", model="serial-8ms", counted=(3700, 5000))
    assert result.outcome is Outcome.INVALID
    assert result.reason is not None and result.reason.startswith("the disk hdd1 did 167 requests a second")


@pytest.mark.parametrize(
    ("stack", "outcome"),
    [
        ("hdd | scheduler(none) | ext4", Outcome.INVALID),
        ("hdd | scheduler(mq-deadline) | ext4", Outcome.OK),
        ("hdd | ext4", Outcome.OK),
        ("hdd | scheduler(none) | btrfs", Outcome.OK),
        ("hdd | scheduler(none) | ext4(data=journal)", Outcome.OK),
    ],
)
def test_more_is_allowed_where_requests_may_be_sorted_or_moved(stack: str, outcome: Outcome) -> None:
    reads = replace(DURABLE, reads_per_s=300.0, writes_per_s=0.0, depth=64, direct=True, durable=False)
    assert judged(stack, reads, counted=(9000,), way="read").outcome is outcome


def test_the_cache_that_served_what_the_disk_could_not_is_named() -> None:
    reads = replace(DURABLE, reads_per_s=9000.0, writes_per_s=0.0, durable=False)
    result = judged("hdd | xfs", reads, counted=(300,), way="read")
    assert result.outcome is Outcome.OK
    assert len(result.notes) == 1 and "the page cache served at least 100%" in result.notes[0]


def test_outside_the_exact_lab_nothing_is_judged() -> None:
    (parsed,) = campaigns.parse_stacks("hdd | xfs", layers.catalogue())
    disks = (Disk("hdd", GIB),)
    laid_out = layout.lay_out(parsed, layers.drivers(), disks, work_dir="/run", run_uuid="0" * 32, attempt=1)
    trial = Trial(Outcome.OK, None, 0.0, 30.0, (), figures={"iops": 1e9}, series={}, pattern=DURABLE)
    assert model_bounds.judged(laid_out, Site(Machine(), disks, "/run", "0" * 32, 1), trial) is trial
