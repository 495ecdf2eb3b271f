"""bcache: its sizes, its tunables, and how the kernel writes numbers."""

from __future__ import annotations

import pytest

from strata.layers import drivers
from strata.layers.bcache import _as_shown, _number
from strata.model import Completed, Value

from .layer_cases import PLACE, below, captured, captured_figures, facts, spec

BCACHE = drivers()["bcache"]


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [(0, "0.0k"), (512, "0.5k"), (4096, "4.0k"), (512 << 10, "512.0k"), (1000 << 10, "0.9M"), (4 << 20, "4.0M"),
     (1536 << 20, "1.5G"), (1 << 40, "1.0T")],
)  # fmt: skip
def test_sizes_as_the_kernel_shows_them(size_bytes: int, shown: str) -> None:
    assert _as_shown(size_bytes) == shown


@pytest.mark.parametrize(
    ("shown", "number"),
    [("0.0k", 0.0), ("0.5k", 512.0), ("17.2M", 17.2 * 2**20), ("4325", 4325.0), ("", None), (None, None), ("k", None),
     ("-1", None), ("1.x", None), ("9" * 99, None), ("\u00b2k", None)],
)  # fmt: skip
def test_numbers_as_the_kernel_shows_them(shown: str | None, number: float | None) -> None:
    assert _number(shown) == (None if number is None else pytest.approx(number))


def test_room_is_that_of_the_backing_device() -> None:
    backing, cache = below("bcache", size_bytes=2 << 30)[0], below("bcache", size_bytes=1 << 30)[0]
    assert BCACHE.provides(spec("bcache"), [backing, cache], PLACE).size_bytes == 2147475456  # as seen


@pytest.mark.parametrize("inputs", [1, 3])
def test_it_takes_two_devices(inputs: int) -> None:
    (reason,) = BCACHE.arity_reasons(spec("bcache"), inputs)
    assert "hdd + ssd | bcache" in reason


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"block": 1536}, "round block="),
        ({"block": 8192}, "make block= smaller"),
        ({"bucket": 32 << 20}, "change bucket="),
        ({"bucket": 96 << 10}, "round bucket="),
        ({"writeback_percent": 0.105}, "whole percent"),
    ],
    ids=str,
)
def test_what_cannot_be_asked_for(values: dict[str, Value], word: str) -> None:
    (reason,) = BCACHE.reasons_not_to_run(spec("bcache", values), facts())
    assert word in reason and reason.endswith(".")


def test_the_last_device_is_the_cache() -> None:
    make = BCACHE.plan_create(spec("bcache"), below("bcache", 2), PLACE)[0].do.argv
    assert make[-4:] == ("--bdev", "/run/visit/0/device", "--cache", "/run/visit/1/device")
    assert make[1:3] == ("--cset-uuid", PLACE.uuid)


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("[writeback]", "writeback [writearound]", "instead of writeback"),
        ("sequential_cutoff=0.0k", "sequential_cutoff=4.0M", "sequential_cutoff over vda is 4.0M instead of 0.0k"),
        ("writeback_percent=20", "writeback_percent=10", "is 10 instead of 20"),
        ("congested_read_threshold_us=0", "congested_read_threshold_us=2000", "is 2000 instead of 0"),
        ("\nset=", "\nunset=", "the cache vdb is not attached to vda any more"),
        ("\nset=", "\nset=f", "vda belongs to the cache set f"),
        ("cache_set=", "cache_set=f", "vdb belongs to the cache set f"),
        ("device=bcache0", "device=bcache1", "bcache1 is not the device that caches vda"),
        ("state=", "state=in", "the state of vda is in"),
    ],
    ids=str,
)
def test_one_thing_that_is_not_so(old: str, new: str, word: str) -> None:
    answers = captured("bcache", "writeback")
    (found,) = answers.differences(answers.with_stdout(0, old, new))
    assert word in found and found.startswith("bcache: ") and found.endswith(".")


def test_figures() -> None:
    found = captured_figures("bcache", "writeback")
    assert set(found) == {metric.name for metric in BCACHE.info.metrics}
    assert found["bcache.hits"] > 0 and found["bcache.dirty_bytes"] > 0


def test_figures_that_could_not_be_read_are_left_out() -> None:
    seen = [Completed(("sh",), 0, "dirty=\ncache_hits=12\ncache_misses=x\n", "", 0.0)]
    assert BCACHE.figures(spec("bcache"), below("bcache", 2), PLACE, seen) == {"bcache.hits": 12.0}
