from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from strata.errors import Refused
from strata.lab import modules

NEEDS = modules.parse(
    """\
kernel/fs/xfs/xfs.ko.xz: kernel/lib/libcrc32c.ko.xz
kernel/fs/xfs-not/other.ko.xz:
kernel/lib/libcrc32c.ko.xz:
kernel/drivers/md/dm-thin-pool.ko.xz: kernel/drivers/md/dm-persistent-data.ko.xz kernel/drivers/md/dm-bufio.ko.xz
kernel/drivers/md/dm-persistent-data.ko.xz: kernel/drivers/md/dm-bufio.ko.xz
kernel/drivers/md/dm-bufio.ko.xz:
kernel/drivers/block/nbd.ko.xz:
kernel/drivers/block/drbd/nbd-like.ko.xz:
kernel/drivers/gpu/drm/big.ko.xz: kernel/lib/libcrc32c.ko.xz
"""
)


def test_a_folder_is_taken_whole_and_with_what_it_needs() -> None:
    assert modules.chosen(NEEDS, ["fs/xfs/"]) == {"kernel/fs/xfs/xfs.ko.xz", "kernel/lib/libcrc32c.ko.xz"}


def test_a_pattern_stays_in_its_folder() -> None:
    assert modules.chosen(NEEDS, ["drivers/block/nbd*"]) == {"kernel/drivers/block/nbd.ko.xz"}
    assert modules.chosen(NEEDS, ["drivers/block/*"]) == {"kernel/drivers/block/nbd.ko.xz"}


def test_what_nobody_asked_for_is_left_out() -> None:
    assert modules.chosen(NEEDS, ["drivers/net/none*"]) == frozenset()


def test_modules_are_loaded_after_what_they_need_and_once() -> None:
    """modules.dep lists the nearest need first (depmod.d, man modules.dep)."""
    assert modules.order(NEEDS, ["dm_thin_pool", "dm_bufio", "xfs"]) == [
        "kernel/drivers/md/dm-bufio.ko.xz",
        "kernel/drivers/md/dm-persistent-data.ko.xz",
        "kernel/drivers/md/dm-thin-pool.ko.xz",
        "kernel/lib/libcrc32c.ko.xz",
        "kernel/fs/xfs/xfs.ko.xz",
    ]


def test_a_module_that_is_built_in_is_not_loaded() -> None:
    assert modules.order(NEEDS, ["squashfs"]) == []


def test_names_are_as_lsmod_says_them() -> None:
    assert modules.name("kernel/drivers/md/dm-thin-pool.ko.xz") == "dm_thin_pool"
    assert modules.name("updates/zfs.ko") == "zfs"


def test_modules_are_stored_as_the_kernel_loads_them(tmp_path: Path) -> None:
    (tmp_path / "a.ko").write_bytes(b"module")
    (tmp_path / "b.ko.xz").write_bytes(lzma.compress(b"module"))
    (tmp_path / "c.ko.zst").write_bytes(b"?")
    assert modules.unpacked(tmp_path / "a.ko") == modules.unpacked(tmp_path / "b.ko.xz") == b"module"
    with pytest.raises(Refused, match=r"c\.ko\.zst"):
        modules.unpacked(tmp_path / "c.ko.zst")
