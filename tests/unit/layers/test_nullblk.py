"""nullblk: a source without inputs."""

from __future__ import annotations

import pytest

from strata.campaign import parse_stacks
from strata.layers import catalogue, drivers
from strata.model import Kind, Value
from strata.planning.layout import lay_out

from .layer_cases import PLACE, captured, facts, spec

NULLBLK = drivers()["nullblk"]


@pytest.mark.parametrize(
    ("values", "changes", "word"),
    [
        ({"size": (1 << 20) + 512}, {}, "not in whole MiB"),
        ({"cache": 1500 << 10}, {}, "not in whole MiB"),
        ({"blocksize": 1536}, {}, "power of two"),
        ({"size": 8 << 30}, {}, "make size= smaller"),
        ({"memory_backed": False, "cache": 64 << 20}, {}, "leave cache= out"),
        ({}, {"kernel": (5, 10, 0)}, "Linux 5.19 or newer"),
        ({}, {"modules": frozenset()}, "no null_blk"),
    ],
    ids=str,
)
def test_what_cannot_be_asked_for(values: dict[str, Value], changes: dict[str, object], word: str) -> None:
    (reason,) = NULLBLK.reasons_not_to_run(spec("nullblk", values), facts(**changes))
    assert word in reason and reason.endswith(".")


def test_a_large_device_that_keeps_nothing_needs_no_memory() -> None:
    call = spec("nullblk", {"size": 1 << 40, "memory_backed": False})
    assert NULLBLK.reasons_not_to_run(call, facts()) == []


def test_it_stands_at_the_start_of_a_chain_and_takes_no_disk() -> None:
    (stack,) = parse_stacks("2*nullblk(size=2G) | md(raid1) | xfs", catalogue())
    assert stack.text == "2*nullblk(size=2G) | md(raid1) | xfs"
    assert stack.disks() == {}
    layout = lay_out(stack, drivers(), (), work_dir="/run/strata", run_uuid="5" * 32, attempt=1)
    first, second = (placed.provides for placed in layout.layers[:2])
    assert (first.kind, first.size_bytes, first.ours) == (Kind.BLOCK, 2 << 30, True)
    assert first.path == "/dev/strata-555555-1-0" and second.path == "/dev/strata-555555-1-1"
    assert [layer for layer, _ in layout.block_devices()] == ["nullblk", "nullblk", "md"]


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("completion_nsec=2000000", "completion_nsec=10000", "completion_nsec of strata-555555-"),
        ("irqmode=2", "irqmode=1", "is 1 instead of 2"),
        ("power=1", "power=0", "power of"),
        ("bytes=536870912", "bytes=512", "bytes of"),
        ("mbps=100", "mbps=0", "is 0 instead of 100"),
    ],
    ids=str,
)
def test_one_thing_that_is_not_so(old: str, new: str, word: str) -> None:
    answers = captured("nullblk", "timer")
    (found,) = answers.differences(answers.with_stdout(1, old, new))
    assert word in found and found.startswith("nullblk: ") and found.endswith(".")


@pytest.mark.parametrize("mbps", [*range(1, 30), 49, 50, 80, 100, 150, 199, 200, 1000, 1 << 20])
def test_with_a_rate_no_request_and_no_discard_is_larger_than_what_the_kernel_lets_pass(mbps: int) -> None:
    """Linux, drivers/block/null_blk/main.c: (1 << 20) / 50 * mbps bytes in each 20 ms; a larger one never completes."""
    created = NULLBLK.plan_create(spec("nullblk", {"mbps": mbps}), [], PLACE)[2].do.argv
    attributes = dict(zip(created[5::2], created[6::2], strict=True))
    budget, largest = (1 << 20) // 50 * mbps, int(attributes["max_sectors"]) * 512
    assert attributes["discard"] == "0"
    assert 4096 <= largest <= budget and largest % 4096 == 0
    assert largest <= budget / 8 or largest == 4096, "what is lost of each 20 ms is less than a request"
    if mbps > 200:
        assert largest == 512 << 10


def test_without_a_rate_it_takes_requests_of_512_kib_and_discards() -> None:
    created = NULLBLK.plan_create(spec("nullblk", {}), [], PLACE)[2].do.argv
    attributes = dict(zip(created[5::2], created[6::2], strict=True))
    assert (attributes["max_sectors"], attributes["discard"]) == ("1024", "1")


def test_the_name_is_the_one_of_the_place() -> None:
    assert NULLBLK.provides(spec("nullblk"), [], PLACE).path == f"/dev/{PLACE.name}"
