"""A campaign written out loads to itself."""

from __future__ import annotations

import pytest

from strata.campaign import Campaign, as_file, differences, from_expressions, load, placed
from strata.errors import BadInput
from strata.model import Testbed

from .catalogue import LAYERS, WORKLOADS


def read(text: str) -> Campaign:
    return load(text, where="x.yaml", layers=LAYERS, workloads=WORKLOADS, read_file=lambda name: f"[{name}]")


WRITTEN = [
    "stacks: ['disk | {ext4, xfs}']\nworkloads: ['fio:a.fio', null]\n",
    (
        "name: n\nabout: 'it: is'\nmemory: 2G\nseed: 9\ndisks: {disk: {size: 5G}}\nstacks: ['disk | xfs']\n"
        "rule: {rounds: 7, within: 2.5%, confidence: 90%, budget: 90m}\n"
    ),
    "testbed: ssh:root@server\nstacks: ['hdd | ext4']\n",
    (
        "testbed: {lab: {clock: virtual, debian: 12, kernel: '6.1', memory: 3G, cpus: 1, features: [zfs]}}\n"
        "disks: {disk: {size: 1G, model: hdd-7200, write_cache: protected}}\nstacks: ['disk | ext4']\n"
    ),
    "testbed: lab\ndisks: {disk: {model: mine.yaml}}\nstacks: ['disk | ext4']\n",
]


@pytest.mark.parametrize("text", WRITTEN)
def test_written_out_and_read_again_it_is_the_same(text: str) -> None:
    first = read(text)
    second = read(as_file(first, 9))
    assert differences(first.describe() | {"seed": 9}, second.describe() | {"seed": 9}) == []
    assert (second.rule, second.name, second.about, second.seed) == (first.rule, first.name, first.about, 9)
    assert second.testbed == first.testbed


@pytest.mark.parametrize("text", [WRITTEN[0], WRITTEN[-1]])
def test_what_it_names_is_in_it_so_that_it_reads_without_the_files(text: str) -> None:
    def gone(name: str) -> str:
        raise FileNotFoundError(2, "No such file or directory", name)

    first = read(text)
    again = load(as_file(first, 9), where="x.yaml", layers=LAYERS, workloads=WORKLOADS, read_file=gone)
    assert again.describe() == first.describe()
    with pytest.raises(BadInput, match=r"files cannot be 'mine.yaml'; write names with texts"):
        read("stacks: ['disk | ext4']\nfiles: mine.yaml\n")


def test_what_the_command_line_said_is_in_it() -> None:
    said = from_expressions(["disk | ext4"], ["null"], layers=LAYERS, workloads=WORKLOADS, read_file=str)
    moved = placed(said, Testbed("lab", clock="virtual", memory_bytes=8 << 30, cpus=1))
    assert read(as_file(moved, 1)).describe() == moved.describe()
