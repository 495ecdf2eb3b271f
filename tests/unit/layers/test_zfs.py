"""ZFS: how disks make a pool, what a pool says of itself, and what is refused."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import BadInput
from strata.layers import drivers
from strata.layers._zpool import read
from strata.model import Completed, Metered, Provides, Step, Value

from .layer_cases import PLACE, below, captured, captured_figures, facts, spec

GIB = 1 << 30
ZFS = drivers()["zfs"]
ZVOL = drivers()["zvol"]


def created(values: dict[str, Value], disks: int) -> str:
    (create,) = [
        step for step in ZFS.plan_create(spec("zfs", values), below("zfs", disks), PLACE) if "pool" in step.why
    ]
    words = create.do.argv[4:]
    return " ".join(words[words.index(PLACE.name) + 1 :]).replace("/run/visit/", "").replace("/device", "")


@pytest.mark.parametrize(
    ("values", "disks", "layout", "usable"),
    [
        ({}, 1, "0", 1),
        ({}, 3, "0 1 2", 3),
        ({"mirror": 2}, 4, "mirror 0 1 mirror 2 3", 2),
        ({"mirror": 3}, 3, "mirror 0 1 2", 1),
        ({"layout": "raidz1"}, 3, "raidz1 0 1 2", 2),
        ({"layout": "raidz2", "slog": 1}, 5, "raidz2 0 1 2 3 log 4", 2),
        ({"layout": "raidz3", "slog": 2, "l2arc": 1}, 7, "raidz3 0 1 2 3 log mirror 4 5 cache 6", 1),
        ({"mirror": 2, "l2arc": 2}, 4, "mirror 0 1 cache 2 3", 1),
    ],
    ids=str,
)
def test_what_becomes_of_the_inputs(values: dict[str, Value], disks: int, layout: str, usable: int) -> None:
    assert ZFS.arity_reasons(spec("zfs", values), disks) == []
    assert created(values, disks) == layout
    provides = ZFS.provides(spec("zfs", values), below("zfs", disks), PLACE)
    assert provides.size_bytes == usable * GIB
    assert provides.name == PLACE.name


def test_the_smallest_disk_of_a_mirror_counts() -> None:
    under = [below("zfs", size_bytes=size * GIB)[0] for size in (1, 3, 5, 7)]
    assert ZFS.provides(spec("zfs", {"mirror": 2}), under, PLACE).size_bytes == 6 * GIB
    assert ZFS.provides(spec("zfs"), [*under, below("zfs", size_bytes=None)[0]], PLACE).size_bytes is None


@pytest.mark.parametrize(
    ("values", "disks", "word"),
    [
        ({"mirror": 2}, 3, "3 are left for data; give it a multiple"),
        ({"mirror": 2, "slog": 1}, 2, "one is left"),
        ({"layout": "raidz2"}, 2, "wants 3 or more disks"),
        ({"slog": 1, "l2arc": 1}, 2, "none are left"),
        ({"layout": "raidz1", "mirror": 2}, 4, "cannot be both raidz1 and mirror=2"),
    ],
    ids=str,
)
def test_too_few_disks(values: dict[str, Value], disks: int, word: str) -> None:
    (reason,) = ZFS.arity_reasons(spec("zfs", values), disks)
    assert word in reason and reason.endswith(".")


@pytest.mark.parametrize(
    ("layer", "values", "word"),
    [
        ("zfs", {"compression": "zstd-20"}, "ZFS knows no compression=zstd-20"),
        ("zfs", {"compression": "lz5"}, "lz4"),
        ("zfs", {"recordsize": 96 << 10}, "powers of two for recordsize, not 96K"),
        ("zfs", {"arc_max": 4 << 30}, "no less than the machine's memory"),
        ("zfs", {"pool": "cachefile=none"}, "pool= may not set cachefile"),
        ("zfs", {"pool": "ashift=12"}, "write zfs(ashift=...)"),
        ("zfs", {"pool": "autotrim"}, "'autotrim' is none"),
        ("zfs", {"set": "mountpoint=none"}, "set= may not set mountpoint"),
        ("zfs", {"set": "compression=lz4"}, "write zfs(compression=...)"),
        ("zfs", {"set": "sharenfs=on"}, "share the file system"),
        ("zfs", {"set": "keylocation=file:///root/key"}, "without '/'"),
        ("zfs", {"set": "a='b"}, "close the quotes"),
        ("zvol", {"volblocksize": 24 << 10}, "powers of two for volblocksize"),
        ("zvol", {"volblocksize": 16 << 10, "size": (1 << 20) + 512}, "not a multiple of volblocksize=16K"),
        ("zvol", {"compression": "none"}, "compression=none"),
    ],
    ids=str,
)
def test_what_cannot_be_asked_for(layer: str, values: dict[str, Value], word: str) -> None:
    (reason,) = drivers()[layer].reasons_not_to_run(spec(layer, values), facts())
    assert word in reason and reason.endswith(".")


@pytest.mark.parametrize("name", ["on", "off", "lz4", "zstd", "zstd-19", "zstd-fast-1", "gzip-9", "zle"])
def test_compressions(name: str) -> None:
    assert ZFS.reasons_not_to_run(spec("zfs", {"compression": name}), facts()) == []


@pytest.mark.parametrize("layer", ["zfs", "zvol"])
def test_a_kernel_without_zfs(layer: str) -> None:
    (reason,) = drivers()[layer].reasons_not_to_run(spec(layer), facts(modules=frozenset()))
    assert "has no zfs module" in reason and "zfs-dkms" in reason and "--on lab" in reason


def ability(name: str, values: dict[str, Value], disks: int, count: int) -> list[Step]:
    return ZFS.provides(spec("zfs", values), below("zfs", disks), PLACE).can[name](count)


@pytest.mark.parametrize(
    ("values", "disks", "lost"),
    [
        ({"mirror": 2}, 4, [1, 3]),
        ({"mirror": 3}, 6, [2, 5, 1, 4]),
        ({"layout": "raidz2", "slog": 1}, 5, [3, 2]),
        ({}, 2, []),
    ],
    ids=str,
)
def test_which_disks_are_lost(values: dict[str, Value], disks: int, lost: list[int]) -> None:
    for name in ("degrade", "rebuild"):
        for count in range(1, len(lost) + 1):
            offline = ability(name, values, disks, count)[1].do.argv
            assert offline[5:] == tuple(f"/run/visit/{member}/device" for member in lost[:count])
        with pytest.raises(BadInput, match=r"cannot lose a disk|can lose \d of its disks"):
            ability(name, values, disks, len(lost) + 1)


def test_a_volume_stands_on_a_pool() -> None:
    pool = below("zvol")[0]
    provides = ZVOL.provides(spec("zvol"), [pool], PLACE)
    assert (provides.path, provides.name) == (f"/dev/zvol/tank/{PLACE.name}", f"tank/{PLACE.name}")
    assert provides.size_bytes == 3 * GIB // 4
    with pytest.raises(BadInput, match="right on the pool"):
        ZVOL.provides(spec("zvol"), [dataclasses.replace(pool, name=None)], PLACE)
    with pytest.raises(BadInput, match=r"write zvol\(size=\.\.\.\)"):
        ZVOL.provides(spec("zvol"), [dataclasses.replace(pool, size_bytes=None)], PLACE)


# ---------------------------------------------------------------- what a real pool said

POOL = "strata-012345-1-4"


@pytest.mark.parametrize(
    ("layer", "case", "index", "old", "new", "words"),
    [
        (
            "zfs",
            "mirrors-dedup",
            0,
            "vdb1      ONLINE ",
            "vdb1      FAULTED",
            f"zfs: the pool {POOL} is degraded, it lost /dev/vdb1,",
        ),
        ("zfs", "mirrors-dedup", 0, "vdb1      ONLINE       0", "vdb1      ONLINE       7", "had 7 read, 0 write"),
        ("zfs", "mirrors-dedup", 0, "state: ONLINE", "state: SUSPENDED", f"the pool {POOL} is SUSPENDED."),
        ("zfs", "mirrors-dedup", 0, "No known data errors", "3 data errors", "has lost data: 3 data errors."),
        ("zfs", "mirrors-dedup", 0, "mirror-1", "raidz1-1", "raidz1 of /dev/vdc1 and /dev/vdd1"),
        ("zfs", "mirrors-dedup", 0, "config:", "", "report this as a bug"),
        ("zfs", "mirrors-dedup", 1, "/dev/vdd", "/dev/vde", "which was not asked for"),
        ("zfs", "mirrors-dedup", 3, "zfs", "ext4", "not that of the pool"),
        ("zfs", "mirrors-dedup", 5, "dedup\ton", "dedup\toff", "has dedup=off instead of on."),
        ("zfs", "mirrors-dedup", 5, "compression\tlz4", "compression\tlzjb", "has compression=lzjb"),
        ("zfs", "raidz1-slog", 4, "ashift\t12", "ashift\t9", "has ashift=9 instead of 12"),
        ("zfs", "raidz1-slog", 4, "autotrim\t", "autoexpand\t", "does not know autotrim"),
        ("zfs", "raidz1-slog", 6, "zfs_arc_max=1", "zfs_arc_max=2", "The parameter zfs_arc_max of ZFS is 2"),
        ("zfs", "raidz1-slog", 6, "disable=1", "disable=0", "zfs_prefetch_disable of ZFS is 0 instead of 1"),
        ("zfs", "degraded", 2, "lost=1\n", "", "lost /dev/vdb1, which is OFFLINE"),
        ("zfs", "degraded", 0, "vdb1      OFFLINE", "vdb1      ONLINE", "should be lost and is ONLINE"),
        ("zvol", "under-ext4", 0, "volsize\t", "volsize\t9", "instead of"),
        ("zvol", "under-ext4", 0, "volblocksize\t16384", "volblocksize\t8192", "blocks of 8192 bytes instead of 16384"),
        ("zvol", "under-ext4", 0, "refreservation\t", "refreservation\t0\nother\t", "which was not asked for"),
        ("zvol", "under-ext4", 1, "1", "2", "The device of"),
        ("zvol", "under-ext4", 2, "/dev/zd", "/dev/vd", "no device of ZFS"),
    ],
)
def test_one_thing_that_is_not_so(layer: str, case: str, index: int, old: str, new: str, words: str) -> None:
    answers = captured(layer, case)
    found = answers.differences(answers.with_stdout(index, old, new))
    assert any(words in sentence for sentence in found), found
    assert all(sentence.endswith(".") for sentence in found)


def test_a_disk_that_broke_is_named() -> None:
    assert captured("zfs", "faulted", folder="broken").differences() == [
        "zfs: the pool strata-012345-3-4 is degraded, it lost /dev/dm-1, which is FAULTED (too many errors)."
    ]


def test_a_rebuild_that_was_not_asked_for_names_the_disk() -> None:
    answers = captured("zfs", "rebuilding")
    found = answers.differences(answers.with_stdout(2, "rebuilt", "other"))
    assert found == ["zfs: the pool strata-012345-2-3 is degraded, it lost /dev/vdc1, which is OFFLINE."]


def test_figures_of_a_pool() -> None:
    assert captured_figures("zfs", "mirrors-dedup") == {
        "zfs.logical_bytes": 33630208.0,
        "zfs.physical_bytes": 17000448.0,
        "zfs.compress_ratio": 1.0,
        "zfs.dedup_ratio": 2.0,
        "zfs.ddt_bytes": 18432.0,
        "zfs.arc_bytes": 20383344.0,
    }
    assert captured_figures("zfs", "raidz1-slog")["zfs.ddt_bytes"] == 0.0


def figures(*texts: str) -> dict[str, float]:
    seen = [Completed(("x",), 0, text, "", 0.0) for text in texts]
    driver: Metered = ZFS  # type: ignore[assignment]
    return driver.figures(spec("zfs"), below("zfs"), PLACE, seen)


def test_what_could_not_be_read_is_left_out() -> None:
    assert figures() == {}
    assert figures("x y", "logicalused", "", "-") == {}
    assert figures("4096\t1.50x", "logicalused\t-\ncompressratio\t2.00x") == {
        "zfs.physical_bytes": 4096.0, "zfs.dedup_ratio": 1.5, "zfs.compress_ratio": 2.0,
    }  # fmt: skip


def test_how_far_a_rebuild_is() -> None:
    status = captured("zfs", "rebuilding").seen[0].stdout
    assert figures("", "", status) == {"zfs.sync_pct": 29.48}
    begun = "  scan: resilver in progress since Sat Nov 21 00:19:35 2026\n\t0B / 5M scanned, 0B / 5M issued\n"
    assert figures("", "", f"{begun}\t0B resilvered, 0.00% done, no estimated completion time\n") == {"zfs.sync_pct": 0}
    over = "  scan: resilvered 181M in 00:00:38 with 0 errors on Sat Nov 21 00:20:13 2026\nconfig:\n"
    assert figures("", "", over) == {"zfs.sync_pct": 100.0}
    assert figures("", "", "  scan: scrub in progress since Sat\n\t5M scanned\n\t0B repaired, 7.00% done\n") == {}


def test_before_2_3_the_table_is_told_by_the_entry() -> None:
    assert figures("", "", " dedup: DDT entries 128, size 512B on disk, 144B in core\n") == {"zfs.ddt_bytes": 18432.0}


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(["\t", " ", "config:\n", "\n", "9" * 30, "/a", "ONLINE"])).map("".join)
)
def test_rubbish_is_no_pool(text: str) -> None:
    read(text)
    read(f" state: ONLINE\nconfig:\n\n\tNAME\n\tp  ONLINE\n{text}\nerrors: none\n")


def test_a_device_that_is_gone_is_known_by_what_it_was() -> None:
    pool = read(
        " state: DEGRADED\nconfig:\n\n\tNAME  STATE READ WRITE CKSUM\n\tp  DEGRADED 0 0 0\n"
        "\t  mirror-0  DEGRADED 0 0 0\n"
        "\t    /dev/vda1  ONLINE 0 0 0\n\t    1234567  UNAVAIL 0 0 0  was /dev/vdb1\n\nerrors: No known data errors\n"
    )
    assert pool is not None
    assert [(leaf.device, leaf.state) for leaf in pool.vdevs[0].leaves] == [
        ("/dev/vda1", "ONLINE"), ("/dev/vdb1", "UNAVAIL"),
    ]  # fmt: skip


def on(devices: list[str]) -> list[Provides]:
    return [dataclasses.replace(below("zfs")[0], path=device) for device in devices]


def test_the_undo_names_the_pool_and_its_devices_only() -> None:
    steps = ZFS.plan_create(spec("zfs"), on(["/dev/a", "/dev/b"]), PLACE)
    (undo,) = [step.undo for step in steps if step.undo and "/dev/a" in step.undo.argv]
    assert undo.argv[4:] == (PLACE.name, f"{PLACE.dir}/bare", "/dev/a", "/dev/b")
