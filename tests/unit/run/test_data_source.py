"""What served a trial, from what its machines counted."""

from __future__ import annotations

import pytest

from strata import campaign as campaigns
from strata import layers
from strata.model import Call, Disk, Measured
from strata.planning import layout
from strata.run.trials import caches, data_source
from strata.run.trials.data_source import Above

LOAD = Call("fio/randread-4k-qd32", "fio/randread-4k-qd32", {"compressible": 0.0, "direct": True})
OTHER = Call("postgres/oltp", "postgres/oltp", {})
BOTH = Measured({}, bytes_read=1 << 30, bytes_written=1 << 30)
HOST = Above(("the page cache below qsd",))


def decided(
    found: dict[str, float], call: Call, stack: Above, *, buffered: bool = False, measured: Measured = BOTH
) -> str | None:
    return data_source.decided(found, call, stack, measured, buffered=buffered)


@pytest.mark.parametrize("name", ["disk.read_ratio", "disk.write_amplification"])
def test_a_cache_that_kept_more_than_half_of_the_bytes_decided_the_figure(name: str) -> None:
    """Also where the load is direct: below qsd(cache=writeback) lies a page cache all the same."""
    said = decided({name: 0.3}, LOAD, HOST, buffered=False)
    assert said is not None and "30.0 %" in said and "the page cache below qsd" in said
    assert decided({name: 0.6}, LOAD, HOST, buffered=False) is None
    assert decided({name: 30.0}, LOAD, HOST, buffered=False) is None
    assert decided({}, LOAD, HOST, buffered=True) is None


def test_few_bytes_of_a_stack_that_makes_data_smaller_are_no_sign_of_a_cache() -> None:
    smaller = Above(smaller=True)
    found = {"disk.write_amplification": 0.3}
    assert decided(found, OTHER, smaller, buffered=False) is None
    assert decided({"disk.write_amplification": 0.04}, OTHER, smaller, buffered=False)
    assert decided(found, LOAD, smaller, buffered=False), "what it writes is random"


@pytest.mark.parametrize("machine", ["host", "guest"])
def test_reads_of_small_parts_of_large_records_do_not_hide_the_arc(machine: str) -> None:
    """4 KiB of records of 128 KiB: with nine of ten reads from the ARC three times their bytes come from the disks."""
    found = {"disk.read_ratio": 3.2, f"{machine}.arc_served_pct": 90.0}
    said = decided(found, LOAD, Above(("the ARC of ZFS",)), buffered=False)
    assert said is not None and "90.0 %" in said
    assert decided(found | {f"{machine}.arc_served_pct": 40.0}, LOAD, Above(), buffered=False) is None


@pytest.mark.parametrize(("compressible", "least"), [(0.0, 0.5), (0.01, 0.495), (0.5, 0.25), (1.0, 0.0)])
def test_the_less_a_load_says_that_can_be_saved_the_more_has_to_reach_the_disks(
    compressible: float, least: float
) -> None:
    load = Call("fio/x", "fio/x", {"compressible": compressible})
    for share, marked in ((max(least - 0.01, 0.0), compressible < 1), (least + 0.01, False)):
        found = {"disk.write_amplification": share}
        assert (decided(found, load, Above(smaller=True)) is not None) is marked
        assert (decided(found, load, Above()) is not None) is (share < 0.5), "of a stack that stores all of it"


@pytest.mark.parametrize(("read", "marked"), [(24, False), (26, True)])
def test_reads_that_are_few_of_all_bytes_decide_no_figure(read: int, marked: bool) -> None:
    """A load that writes and looks at its own files now and then."""
    both = Measured({}, bytes_read=read << 20, bytes_written=(100 - read) << 20)
    for found in ({"disk.read_ratio": 0.1}, {"host.arc_served_pct": 90.0}):
        assert (decided(found, LOAD, Above(), measured=both) is not None) is marked
    alone = Measured({}, bytes_read=1 << 30, bytes_written=None)
    assert decided({"disk.read_ratio": 0.1}, LOAD, Above(), measured=alone), "what else it moved is not known"


def test_disks_that_count_nothing_say_nothing() -> None:
    """With queue/iostats of 0 they show no request and no busy time; a cache of the stack explains as much."""
    idle = {"disk.read_ratio": 0.0, "disk.reads": 0.0, "disk.writes": 0.0, "disk.busy_pct": 0.0}
    assert decided(idle, LOAD, Above()) is None and not data_source.known(idle, Above())
    assert decided(idle, LOAD, HOST) and data_source.known(idle, HOST)
    for name in ("disk.reads", "disk.writes", "disk.busy_pct"):
        busy = {**idle, name: 1.0}
        assert decided(busy, LOAD, Above()) and data_source.known(busy, Above())


@pytest.mark.parametrize("read", [0, (1 << 20) - 1, None])
def test_what_zfs_reads_for_writes_of_parts_of_records_says_nothing_of_the_load(read: int | None) -> None:
    found = {"disk.write_amplification": 8.0, "host.arc_served_pct": 99.0}
    writes = Measured({}, bytes_read=read, bytes_written=1 << 30)
    assert decided(found, LOAD, Above(("the ARC of ZFS",)), measured=writes) is None


STATS = "demand_data_hits 4 {}\ndemand_data_iohits 4 {}\ndemand_data_misses 4 {}\nprefetch_data_misses 4 {}\n"


def test_what_was_fetched_ahead_came_from_a_disk() -> None:
    """As seen in the lab of a file read in order, of which 15 % were still there."""
    before = caches.parse("", STATS.format(1600, 0, 0, 0))
    after = caches.parse("", STATS.format(3181, 0, 4, 1363))
    assert after.since(before)["host.arc_served_pct"] == pytest.approx(100 * (1 - 1367 / 1585))
    assert before.since(before) == {} == caches.parse("", "").since(caches.parse("", ""))


def above(stack: str) -> Above:
    (parsed,) = campaigns.parse_stacks(stack, layers.catalogue())
    disks = tuple(Disk("disk", 8 << 30, f"/dev/sd{number}") for number in range(4))
    laid_out = layout.lay_out(parsed, layers.drivers(), disks, work_dir="/run", run_uuid="0" * 32, attempt=1)
    return data_source.above(laid_out)


@pytest.mark.parametrize(
    ("stack", "machines"),
    [
        ("disk | ext4", set()),
        ("disk | zfs", {"host"}),
        ("disk | zfs | zvol | vm | ext4", {"host"}),
        ("disk | vm | zfs", {"guest"}),
    ],
)
def test_a_stack_says_on_which_machines_it_has_zfs(stack: str, machines: set[str]) -> None:
    assert above(stack).arcs == machines


@pytest.mark.parametrize(
    ("stack", "smaller"),
    [
        ("disk | ext4", False),
        ("disk | btrfs", False),
        ("disk | btrfs(compress=zstd)", True),
        ("disk | btrfs(compress-force=zstd)", True),
        ("disk | f2fs(compress_algorithm=zstd)", True),
        ("disk | zfs", True),
        ("disk | zfs(compression=off)", False),
        ("disk | zfs(compression=off, dedup=on)", True),
        ("disk | vdo(compression=off)", True),
        ("disk | ext4 | qcow2 | vm | ext4", False),
    ],
)
def test_a_stack_that_makes_data_smaller_is_known_as_one(stack: str, smaller: bool) -> None:
    assert above(stack).smaller is smaller


def test_every_argument_by_which_a_layer_makes_data_smaller_is_known() -> None:
    """One with another name that speaks of compression or deduplication is named here, or in `served`."""
    how = {"compress_log_size", "compress_chksum"}  # f2fs: how, where compress_algorithm says that it does
    params = {param.name for driver in layers.drivers().values() for param in driver.info.params}
    assert {name for name in params if "compress" in name or "dedup" in name} - how == data_source._SMALLER


@pytest.mark.parametrize(
    ("stack", "copies"),
    [
        ("disk | ext4", 1),
        ("3*disk | md(raid1) | ext4", 3),
        ("3*disk | md(raid1, spares=1) | ext4", 2),
        ("4*disk | md(raid10) | ext4", 2),
        ("3*disk | md(raid5) | ext4", 1),
        ("2*disk | lvm(raid1) | ext4", 2),
        ("2*disk | btrfs(profile=raid1)", 2),
        ("2*disk | zfs(mirror=2)", 2),
        ("(2*disk | md(raid1)) + (2*disk | md(raid1)) | md(raid0) | ext4", 2),
        ("(2*disk | md(raid1)) + disk | bcache(writeback) | ext4", 1),
        ("2*disk | md(raid1) | degraded | ext4", 1),
    ],
)
def test_a_stack_says_how_many_copies_it_writes(stack: str, copies: int) -> None:
    assert above(stack).copies == copies


def test_copies_do_not_stand_for_bytes_that_a_cache_kept() -> None:
    mirrored = Above(copies=2)
    said = decided({"disk.write_amplification": 0.9}, LOAD, mirrored)
    assert said is not None and "90.0 % of the bytes written reached the disks as writes, which keep 2 copies" in said
    assert decided({"disk.write_amplification": 1.1, "disk.read_ratio": 0.9}, LOAD, mirrored) is None
