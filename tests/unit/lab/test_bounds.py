"""A trial that did more than its modelled disks can do is found out, and one that did what they can is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strata.lab import bounds, models
from strata.lab.bounds import Above, Counters, ServedDisk
from strata.model import AccessPattern

GIB = 1 << 30
HDD = ServedDisk("hdd0", models.find("hdd-7200"), 2 * GIB)
SERIAL = ServedDisk("hdd0", models.find("serial-8ms"), GIB)
PLAIN = ServedDisk("disk0", models.find("plain"), GIB)
SSD = ServedDisk("ssd0", models.find("ssd-sata"), GIB)

# `strata-engine disk bounds --model hdd-7200 --size 2147483648 --span 1073741824`, random requests of 4 KiB: by the
# formula, and as the model itself does it.
KNOWN = {
    "read": (98.1, 188.3, 273.9),
    "write": (275.5, 275.5, 275.5),
    "fua": (89.6, 158.7, 220.8),
}
DOES = {"read": (99.5, 169.2, 250.5), "write": (268.2, 261.9, 261.9), "fua": (89.5, 144.6, 201.9)}
MIXED = (113.7, 186.5, 230.5)  # three reads a write, as the model does it

EXT4_LIKE = Above(in_place=True, fifo=True, durable=True, caches=())


def rates(disk: ServedDisk, span_bytes: int) -> bounds.Rates:
    assert (disk, span_bytes) == (HDD, GIB)
    return {
        (kind, 4096, depth): per_s
        for kind, all_ in KNOWN.items()
        for depth, per_s in zip((1, 8, 32), all_, strict=True)
    }


def load(reads: float = 0.0, writes: float = 0.0, depth: int = 32, **more: object) -> AccessPattern:
    plain = AccessPattern(True, 4096, GIB, depth, True, False, 60.0, reads, writes)
    return replace(plain, **more)  # type: ignore[arg-type]


def counted(pattern: AccessPattern) -> Counters:
    """What a disk counts that all of it reached."""
    seconds, block = pattern.seconds, pattern.block_bytes
    reads, writes = pattern.reads_per_s * seconds, pattern.writes_per_s * seconds
    return Counters(seconds, reads, writes, reads * block, writes * block)


def found(pattern: AccessPattern, above: Above = EXT4_LIKE, disk: ServedDisk = HDD) -> bounds.Findings:
    seen = counted(pattern)
    assert bounds.of_counters(disk, seen) == []
    return bounds.of_pattern((disk,), (seen,), pattern, above, rates)


# ---------------------------------------------------------------- what was wrong once


@pytest.mark.parametrize("random", [True, False])
def test_durable_writes_that_a_disk_took_for_cached_are_found(random: bool) -> None:
    """XFS under O_DSYNC with FUA never seen: issue R, row 1."""
    (said,) = found(load(writes=2911, depth=1, durable=True, random=random)).excess
    most = {True: "240", False: "120"}[random]
    assert said.startswith("the disk hdd0 did 2,911 durable writes a second, and its model hdd-7200 can do at most ")
    assert said.endswith(most)


def test_durable_writes_at_the_rate_of_the_arm_s_turns_are_still_too_many_at_random() -> None:
    (said,) = found(load(writes=175, depth=1, durable=True)).excess
    assert said.endswith("did 175 random durable writes a second, and its model hdd-7200 can do at most 90")


def test_writes_that_cost_nothing_next_to_reads_are_found() -> None:
    """ext4(nobarrier) with a cache of 16,384 writes that nothing empties: row 4. 324.7 operations a second for 238."""
    for seconds in (60.0, 120.0):
        said = found(load(0.75 * 324.7, 0.25 * 324.7, depth=64, seconds=seconds)).excess
        assert len(said) == 1 and "did 325 random reads and writes a second" in said[0]
        assert int(said[0].rsplit(" ", 1)[1]) in range(270, 280)


def test_the_time_before_and_after_the_load_makes_no_figure_possible() -> None:
    pattern = load(0.75 * 324.7, 0.25 * 324.7, depth=64)
    seen = replace(counted(pattern), seconds=2 * pattern.seconds)
    assert bounds.of_pattern((HDD,), (seen,), pattern, EXT4_LIKE, rates).excess


def test_the_figure_with_writes_charged_is_not_marked() -> None:
    assert found(load(0.75 * 238, 0.25 * 238, depth=64)) == bounds.Findings()


# ---------------------------------------------------------------- what the models do


@pytest.mark.parametrize(("at", "depth"), list(enumerate((1, 8, 32))))
def test_what_the_model_itself_does_is_not_marked(at: int, depth: int) -> None:
    assert found(load(reads=DOES["read"][at], depth=depth)) == bounds.Findings()
    assert found(load(writes=DOES["write"][at], depth=depth)) == bounds.Findings()
    assert found(load(writes=DOES["fua"][at], depth=depth, durable=True)) == bounds.Findings()
    assert found(load(0.75 * MIXED[at], 0.25 * MIXED[at], depth)) == bounds.Findings()


def test_a_burst_into_the_cache_is_not_marked() -> None:
    assert found(load(writes=4000 / 2, depth=1, seconds=2.0)) == bounds.Findings()
    assert found(load(writes=4000, depth=1, seconds=2.0)).excess


def test_reads_that_a_cache_above_served_are_told_with_its_name_and_not_marked() -> None:
    pattern = load(reads=5000)
    seen = Counters(60.0, 100.0 * 60, 0.0, 100.0 * 60 * 4096, 0.0)
    above = replace(EXT4_LIKE, caches=("the ARC of ZFS",))
    findings = bounds.of_pattern((HDD,), (seen,), pattern, above, rates)
    assert findings.excess == ()
    (said,) = findings.served
    assert "5,000 reads a second" in said and "the ARC of ZFS served at least 98 % of them" in said.replace(
        "98%", "98 %"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"above": replace(EXT4_LIKE, in_place=False)},  # a layer may have put what was random in order
        {"pattern": load(400, 100, span_bytes=64 << 20)},  # the disk's own memory may hold it
        {"pattern": load(400, 100, random=False)},
    ],
)
def test_nothing_is_claimed_of_random_i_o_that_may_not_be_so_on_the_disk(change: dict[str, object]) -> None:
    assert found(**{"pattern": load(400, 100), **change}) == bounds.Findings()  # type: ignore[arg-type]
    assert found(load(400, 100)).excess


def test_an_i_o_scheduler_is_allowed_what_it_may_gain() -> None:
    sorted_ = replace(EXT4_LIKE, fifo=False)
    assert found(load(reads=320, depth=64)).excess
    assert found(load(reads=320, depth=64), sorted_) == bounds.Findings()
    assert found(load(reads=340, depth=64), sorted_).excess


def test_without_a_promise_a_write_is_a_cached_one() -> None:
    assert found(load(writes=250, depth=1, durable=True), replace(EXT4_LIKE, durable=False)) == bounds.Findings()
    assert found(load(writes=250, depth=1, durable=True)).excess


# ---------------------------------------------------------------- counters alone


def test_a_disk_of_one_time_is_held_against_its_own_counters() -> None:
    assert bounds.of_counters(SERIAL, Counters(10.0, 1000, 250, 0, 0)) == []
    (said,) = bounds.of_counters(SERIAL, Counters(10.0, 1000, 500, 0, 0))
    assert said == "the disk hdd0 did 150 requests a second, and its model serial-8ms can do at most 125"
    assert bounds.of_counters(PLAIN, Counters(1.0, 320_000, 0, 0, 0)) == []
    assert bounds.of_counters(PLAIN, Counters(1.0, 330_000, 0, 0, 0))


def test_flash_is_held_against_its_interface() -> None:
    assert bounds.of_counters(SSD, Counters(10.0, 900_000, 0, 900_000 * 4096, 0)) == []
    assert bounds.of_counters(SSD, Counters(10.0, 1_400_000, 0, 1_400_000 * 4096, 0))
    (said,) = bounds.of_counters(SSD, Counters(10.0, 20_000, 0, 20_000 * 512 * 1024, 0))
    assert "moved 1000.0 MiB a second" in said and "at most 519.8 MiB" in said


def test_a_disk_with_arms_is_held_against_its_commands_and_its_interface() -> None:
    assert bounds.of_counters(HDD, Counters(1.0, 100_000, 0, 100_000 * 4096, 0)) == []  # all from its memory
    assert bounds.of_counters(HDD, Counters(1.0, 110_000, 0, 110_000 * 4096, 0))
    assert bounds.of_counters(HDD, Counters(10.0, 12_000, 0, 6_000_000_000, 0))


def test_what_its_own_faults_answer_is_not_held_against_a_disk() -> None:
    faulty = replace(SERIAL, model=replace(SERIAL.model, faults={"errors": [{"on": "read"}]}))
    assert bounds.of_counters(faulty, Counters(10.0, 5000, 0, 0, 0)) == []


def test_durable_writes_of_flash_wait_for_its_flushes() -> None:
    pattern = load(writes=300, depth=1, durable=True)
    assert found(pattern, disk=SSD) == bounds.Findings()
    (said,) = found(replace(pattern, writes_per_s=900.0), disk=SSD).excess
    assert "900 durable writes a second" in said


def test_bytes_in_order_are_held_against_the_outer_edge_past_what_memory_holds() -> None:
    sequential = load(depth=8, random=False, block_bytes=1 << 20)
    fast = 175_000_000 / (1 << 20)
    assert found(replace(sequential, reads_per_s=fast)) == bounds.Findings()
    assert found(replace(sequential, writes_per_s=1.1 * fast, seconds=5.0)) == bounds.Findings()  # in its cache
    (said,) = found(replace(sequential, writes_per_s=1.5 * fast)).excess
    assert "MiB a second" in said


def test_several_disks_can_do_as_much_as_all_of_them() -> None:
    pattern = load(0.0, 300, depth=1, durable=True, span_bytes=4 * GIB)
    each = replace(counted(pattern), writes=75.0 * 60)
    four = tuple(replace(HDD, name=f"hdd{n}") for n in range(4))
    assert bounds.of_pattern(four, (each,) * 4, pattern, EXT4_LIKE, rates) == bounds.Findings()
    (said,) = bounds.of_pattern(four, (each,) * 4, replace(pattern, writes_per_s=3000.0), EXT4_LIKE, rates).excess
    assert said.startswith("the disks hdd0, hdd1, hdd2 and hdd3 did 3,000 durable writes a second, and 4 of the model")


def test_the_engine_s_answer_is_read() -> None:
    text = '{"bounds": [{"kind": "read", "random": true, "block_bytes": 4096, "depth": 8, "most_per_s": 2.5},'
    text += '{"kind": "read", "random": false, "block_bytes": 4096, "depth": 8, "most_per_s": 9.0}]}'
    assert bounds.parse_rates(text) == {("read", 4096, 8): 2.5}
