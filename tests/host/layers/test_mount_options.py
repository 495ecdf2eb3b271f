"""Every mount option on a real kernel: mounted with it, the file system is as requested; without it, that is
noticed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from strata.hosts.local import LocalHost
from strata.layers import drivers
from strata.layers._filesystem import FileSystem
from strata.layers._options import Option
from strata.model import Command, ParamType, Value

from .layer_bench import Bench, Built, call, do, execute, undo

COMPANIONS: dict[tuple[str, str], dict[str, Value]] = {
    ("ext4", "journal_async_commit"): {"data": "writeback"},
}
"""Options that an option cannot do without."""

NEEDS_CONFIG = dict.fromkeys(("uquota", "gquota", "pquota"), "xfs quotas") | {"prjquota": "ext4 quotas"}
"""Quotas are an option of the kernel's build; the fact that says that they were left out."""

VALUES: dict[str, list[Value]] = {
    "compress": ["zstd", "zstd:9", "lzo", "zlib", "zlib:1"],
    "compress-force": ["zstd", "lzo"],
    "commit": [1, 5, 30, 77],
    "min_batch_time": [0, 100],
    "max_batch_time": [0, 15000, 100],
    "inode_readahead_blks": [1, 32, 64],
    "stripe": [16],
    "logbufs": [2, 8],
    "logbsize": [32 << 10, 256 << 10],
    "allocsize": [4096, 1 << 30],
    "max_inline": [0, 2048, 1024],
    "thread_pool": [*range(1, 10), 32],
    "metadata_ratio": [3],
    "journal_ioprio": [0, 7],
    "mb_optimize_scan": [0, 1],
}


def values(option: Option) -> list[Value]:
    if option.param.type is ParamType.FLAG:
        return [True]
    return list(option.param.choices) or VALUES[option.param.name]


def filesystem(name: str) -> FileSystem:
    driver = drivers()[name]
    assert isinstance(driver, FileSystem)
    return driver


def cases() -> Iterator[tuple[str, str, Value]]:
    for name in ("ext4", "xfs", "btrfs"):
        for option in filesystem(name).options:
            if option.gone is None:
                for value in values(option):
                    yield name, option.param.name, value


@pytest.fixture(scope="module")
def without() -> frozenset[str]:
    return LocalHost("test").facts([], "/").without


@pytest.fixture
def disk(bench: Bench) -> Built:
    made = bench.disk()
    do(made.steps)
    return made


@pytest.mark.parametrize(("name", "option", "value"), list(cases()), ids=str)
def test_an_option_is_in_force(
    bench: Bench, disk: Built, without: frozenset[str], name: str, option: str, value: Value
) -> None:
    asked = COMPANIONS.get((name, option), {}) | {option: value}
    built = bench.put_values(name, [disk], asked)
    *before, mount = built.steps
    do(before)
    done = execute(mount.do)
    needed = NEEDS_CONFIG.get(option)
    assert needed not in without or done.exit_code, f"the facts say that there are no {needed}"
    if done.exit_code and needed:
        pytest.skip(f"this kernel is built without {needed}")
    assert done.exit_code == 0, done
    assert built.differences() == []
    undo(built.steps)


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("ext4", {"nobarrier": True}),
        ("ext4", {"data": "journal"}),
        ("ext4", {"commit": 30}),
        ("ext4", {"strictatime": True}),
        ("xfs", {"logbsize": 128 << 10}),
        ("xfs", {"noatime": True}),
        ("btrfs", {"compress": "lzo"}),
        ("btrfs", {"nodatacow": True}),
        ("btrfs", {"autodefrag": True, "quotas": True}),
    ],
    ids=str,
)
def test_a_mount_without_what_was_asked_is_noticed(
    bench: Bench, disk: Built, name: str, asked: dict[str, Value]
) -> None:
    built = bench.put_values(name, [disk], asked)
    plain = Built(call(name), built.below, built.place)
    do(plain.steps)
    assert plain.differences() == []
    assert len(built.differences()) == len(asked)


def test_a_later_remount_is_noticed(bench: Bench, disk: Built) -> None:
    built = bench.put("ext4", disk, noatime=True)
    do(built.steps)
    assert execute(Command(("mount", "-o", "remount,strictatime", built.provides.path))).exit_code == 0
    assert any("noatime" in sentence for sentence in built.differences())


@pytest.mark.parametrize(
    ("name", "asked", "word"),
    [
        ("ext4", {"journal": False}, "journal"),
        ("xfs", {"reflink": False}, "reflink"),
        ("xfs", {"logsize": 80 << 20}, "log"),
        ("btrfs", {"metadata": "single"}, "metadata"),
    ],
    ids=str,
)
def test_a_file_system_made_otherwise_is_noticed(
    bench: Bench, disk: Built, name: str, asked: dict[str, Value], word: str
) -> None:
    built = bench.put_values(name, [disk], asked)
    do(built.steps)
    assert built.differences() == []
    undo(built.steps)
    do(Built(call(name), built.below, built.place).steps)
    (sentence,) = built.differences()
    assert word in sentence
