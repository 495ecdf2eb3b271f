"""btrfs: what can be done to it, and what it says of itself on a real machine."""

from __future__ import annotations

from typing import cast

import pytest

from strata.errors import BadInput
from strata.layers import drivers
from strata.model import Completed, Metered, Step, Value

from .layer_cases import PLACE, below, captured, captured_figures, spec

BTRFS = drivers()["btrfs"]


def ability(name: str, values: dict[str, Value], disks: int, count: int) -> list[Step]:
    return BTRFS.provides(spec("btrfs", values), below("btrfs", disks), PLACE).can[name](count)


@pytest.mark.parametrize(
    ("values", "disks", "most"),
    [
        ({}, 2, 0),
        ({"profile": "raid0"}, 2, 0),
        ({"profile": "raid1"}, 2, 1),
        ({"profile": "raid1", "metadata": "single"}, 2, 0),
        ({"profile": "raid1c3"}, 3, 1),  # metadata are only kept twice
        ({"profile": "raid1c3", "metadata": "raid1c3"}, 3, 2),
        ({"profile": "raid1c4", "metadata": "raid1c4"}, 4, 3),
        ({"profile": "raid10", "metadata": "raid10"}, 4, 1),
        ({"profile": "raid6", "metadata": "raid1c3"}, 4, 2),
    ],
    ids=str,
)
def test_how_many_devices_can_be_lost(values: dict[str, Value], disks: int, most: int) -> None:
    for name in ("degrade", "rebuild"):
        for count in range(1, most + 1):
            gone = ability(name, values, disks, count)[1].do.argv[8:]
            assert gone == tuple(f"/run/visit/{disks - 1 - n}/device" for n in range(count))
        with pytest.raises(BadInput, match=r"cannot lose a disk|can lose \d of its disks"):
            ability(name, values, disks, most + 1)


def test_it_is_mounted_again_as_it_was() -> None:
    steps = ability("degrade", {"profile": "raid1", "noatime": True, "compress": "zstd"}, 2, 1)
    assert "degraded,noatime,compress=zstd" in steps[1].do.argv


def test_devices_are_put_back_by_their_numbers() -> None:
    steps = ability("rebuild", {"profile": "raid1c3", "metadata": "raid1c3"}, 3, 2)
    assert steps[-1].do.argv[5:] == ("3", "/run/visit/2/device", "2", "/run/visit/1/device")


@pytest.mark.parametrize(
    ("case", "index", "old", "new", "sentence"),
    [
        ("raid1", 4, "devices/loop2\n", "", "btrfs: the file system lost loop2."),
        ("raid1", 5, "/dev/loop2].write_io_errs    0", "/dev/loop2].write_io_errs    12",
         "btrfs: /dev/loop2 had 12 write errors."),
        ("raid1", 5, "/dev/loop1].corruption_errs  0", "/dev/loop1].corruption_errs  3",
         "btrfs: /dev/loop1 had 3 corruption errors."),
        ("degraded", 6, "lost=1", "", "btrfs: the file system lost vdb."),
        ("degraded", 4, "devices/vda", "devices/vda\ndevices/vdb", "The file system is on vda and vdb instead of vda."),
        ("degraded", 4, "data/raid1", "data/raid0", "The data profile is raid0 instead of raid1."),
    ],
)  # fmt: skip
def test_one_thing_that_is_not_so(case: str, index: int, old: str, new: str, sentence: str) -> None:
    answers = captured("btrfs", case)
    assert sentence in answers.differences(answers.with_stdout(index, old, new))


def test_a_disk_that_broke_is_named() -> None:
    assert captured("btrfs", "write-errors", folder="broken").differences() == [
        "btrfs: /dev/mapper/strata-012345-5-3 had 8 write errors."
    ]


def test_what_is_written_to_a_degraded_mirror_may_be_single() -> None:
    answers = captured("btrfs", "degraded")
    both = answers.with_stdout(4, "allocation/data/raid1", "allocation/data/raid1\nallocation/data/single")
    assert answers.differences(both) == []


@pytest.mark.parametrize(
    ("said", "figure"),
    [
        ("Never started\n", {}),
        ("29.4% done, 0 write errs, 0 uncorr. read errs\n", {"btrfs.sync_pct": 29.4}),
        ("Started on 21.Nov 07:02:33, finished on 21.Nov 07:02:33, 0 write errs, 0 uncorr. read errs\n",
         {"btrfs.sync_pct": 100.0}),
    ],
)  # fmt: skip
def test_how_far_a_rebuild_is(said: str, figure: dict[str, float]) -> None:
    seen = [Completed(("x",), 0, text, "", 0.0) for text in ("", "", said)]
    assert cast(Metered, drivers()["btrfs"]).figures(spec("btrfs"), below("btrfs"), PLACE, seen) == figure


def test_figures() -> None:
    assert captured_figures("btrfs", "deduplicated") == {
        "btrfs.logical_bytes": 473956352.0,
        "btrfs.data_bytes": 289406976.0,
        "btrfs.physical_bytes": 290783232.0,
    }
    assert captured_figures("xfs", "deduplicated") == {
        "xfs.logical_bytes": 549457920.0,
        "xfs.physical_bytes": 354770944.0,
    }
