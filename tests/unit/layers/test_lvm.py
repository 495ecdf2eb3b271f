"""The layers on LVM: what fits, what is refused, what conditions can do to them, and what goes wrong with them."""

from __future__ import annotations

import dataclasses
import json
from typing import cast

import pytest

from strata.errors import BadInput
from strata.layers import drivers
from strata.model import Call, Command, Completed, Metered, Place, Provides, Step, Value

from .layer_cases import PLACE, below, captured, captured_figures, facts, spec

MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40
LAYERS = ["lvm", "lvmthin", "lvmcache", "vdo"]


def provides(layer: str, values: dict[str, Value], sizes: list[int | None]) -> Provides:
    under = [below(layer, size_bytes=size)[0] for size in sizes]
    return drivers()[layer].provides(spec(layer, values), under, PLACE)


def made(layer: str, values: dict[str, Value] | None = None, count: int = 2) -> list[Step]:
    return drivers()[layer].plan_create(spec(layer, values), below(layer, count, size_bytes=TIB), PLACE)


def undo_of(step: Step) -> Command:
    assert step.undo is not None
    return step.undo


# ---------------------------------------------------------------- what stands where


@pytest.mark.parametrize(
    ("layer", "values", "sizes", "expected"),
    [
        # as LVM made them on disks of this size
        ("lvm", {}, [2 * GIB], 2143289344),
        ("lvm", {"type": "striped"}, [2 * GIB] * 2, 4286578688),
        ("lvm", {"type": "striped", "snapshots": 512 * MIB}, [2 * GIB] * 2, 3749707776),
        ("lvm", {"type": "striped", "snapshots": 100 * MIB}, [GIB] * 2, 2038431744),
        ("lvm", {"type": "raid1", "size": 128 * MIB}, [2 * GIB] * 2, 128 * MIB),
        ("lvmthin", {"size": 4 * GIB}, [2 * GIB], 4 * GIB),
        ("lvmcache", {}, [8 * GIB, 8 * GIB], 8585740288),
        ("lvmcache", {}, [8 * GIB, 8 * GIB, 8 * GIB], 17171480576),
        # upper bounds
        ("lvm", {"type": "raid1"}, [2 * GIB] * 2, 2143289344),
        ("lvm", {"type": "raid10"}, [2 * GIB] * 4, 4286578688),
        ("lvm", {"type": "raid5"}, [2 * GIB] * 3, 4286578688),
        ("lvm", {"type": "raid6"}, [2 * GIB] * 5, 6429868032),
        ("lvmthin", {}, [2 * GIB], 2143289344),
        ("vdo", {}, [8 * GIB], 8585740288 - (2782 << 20)),
        ("vdo", {"virtual": 20 * GIB}, [8 * GIB], 20 * GIB),
        # LVM rounds up: to whole extents of 4 MiB, on every stripe
        ("lvm", {"size": 5 * MIB}, [GIB], 8 * MIB),
        ("lvm", {"size": 9 * MIB, "type": "striped"}, [GIB] * 2, 16 * MIB),
        ("lvm", {}, [GIB, None], None),
        ("lvm", {"size": GIB}, [None], GIB),
        ("lvmcache", {}, [GIB, None], 1069547520),
        ("vdo", {"slab": 2 * GIB}, [None], None),
    ],
    ids=str,
)
def test_room(layer: str, values: dict[str, Value], sizes: list[int | None], expected: int | None) -> None:
    assert provides(layer, values, sizes).size_bytes == expected


@pytest.mark.parametrize(
    ("layer", "values", "sizes", "word"),
    [
        ("lvm", {"size": 2 * GIB}, [GIB], "a volume of 2G does not fit"),
        ("lvm", {"type": "raid1", "size": GIB}, [GIB, GIB], "does not fit"),
        ("lvm", {"snapshots": GIB}, [GIB], "room for snapshots"),
        ("lvmcache", {"size": 2 * GIB}, [4 * GIB, GIB], "a cache of 2G does not fit"),
        ("vdo", {}, [2 * GIB], "too small: VDO keeps 2782M for itself"),
        ("vdo", {"slab": 2 * GIB}, [4 * GIB], "needs at least 4830M"),
        ("vdo", {"size": 5 * GIB}, [4 * GIB], "a pool of 5G does not fit"),
    ],
    ids=str,
)
def test_what_does_not_fit(layer: str, values: dict[str, Value], sizes: list[int | None], word: str) -> None:
    with pytest.raises(BadInput, match=word) as refused:
        provides(layer, values, sizes)
    assert str(refused.value).endswith(".")


@pytest.mark.parametrize("layer", LAYERS)
def test_the_volume_is_known_beforehand(layer: str) -> None:
    found = provides(layer, {}, [8 * GIB, 8 * GIB])
    assert (found.path, found.name) == (f"/dev/{PLACE.name}/volume", f"{PLACE.name}/volume")
    claimed = [*below(layer, 1, size_bytes=8 * GIB), *below(layer, 1, claimed=True, size_bytes=8 * GIB)]
    assert found.ours and not drivers()[layer].provides(spec(layer), claimed, PLACE).ours


@pytest.mark.parametrize(
    ("sizes", "slab_mib"),
    [([3 * GIB], 128), ([4 * GIB], 128), ([8 * GIB], 512), ([18 * GIB], 1024), ([20 * GIB], 2048), ([TIB], 2048)],
    ids=str,
)
def test_slabs_get_smaller_with_the_disk(sizes: list[int], slab_mib: int) -> None:
    under = [below("vdo", size_bytes=size)[0] for size in sizes]
    make = drivers()["vdo"].plan_create(spec("vdo"), under, PLACE)[-1].do.argv
    assert make[make.index("--vdosettings") + 1] == f"slab_size_mb={slab_mib}"


def test_slabs_that_go_by_the_room_need_it_to_be_known() -> None:
    with pytest.raises(BadInput, match=r"--size ROLE=SIZE.*vdo\(slab="):
        drivers()["vdo"].provides(spec("vdo"), below("vdo", size_bytes=None), PLACE)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("layer", "values", "inputs", "word"),
    [
        ("lvm", {"type": "striped"}, 1, "at least 2 devices and here is one"),
        ("lvm", {"type": "striped", "stripes": 4}, 3, "at least 4 devices and here are 3"),
        ("lvm", {"type": "raid10"}, 5, "an even number"),
        ("lvm", {"type": "raid10"}, 2, "at least 4"),
        ("lvm", {"type": "raid6"}, 4, "at least 5"),
        ("lvm", {"type": "raid5"}, 3, ""),
        ("lvm", {}, 3, ""),
        ("lvmcache", {}, 1, "the last is the cache"),
        ("lvmcache", {}, 3, ""),
        ("lvmthin", {}, 3, ""),
    ],
    ids=str,
)
def test_how_many_devices(layer: str, values: dict[str, Value], inputs: int, word: str) -> None:
    reasons = drivers()[layer].arity_reasons(spec(layer, values), inputs)
    assert [word in reason for reason in reasons] == ([True] if word else [])


@pytest.mark.parametrize(
    ("layer", "values", "word"),
    [
        ("lvm", {"stripes": 2}, "belongs to lvm(striped)"),
        ("lvm", {"stripesize": 64 << 10}, "no stripes"),
        ("lvm", {"type": "striped", "stripesize": 96 << 10}, "power of two"),
        ("lvm", {"nosync": True}, "no copies to synchronise"),
        ("lvm", {"type": "raid6", "nosync": True}, "leave nosync out"),
        ("lvm", {"size": GIB, "snapshots": GIB}, "write size= instead"),
        ("lvm", {"type": "raid1", "snapshots": GIB}, "write size= instead"),
        ("lvmthin", {"chunk": 100 << 10}, "multiple of 64K"),
        ("lvmcache", {"chunk": 48 << 10}, "multiple of 32K"),
        ("lvmcache", {"policy": "cleaner", "mode": "writeback"}, "take lvmcache(writethrough, policy=cleaner)"),
        ("vdo", {"slab": 384 * MIB}, "power of two"),
        ("vdo", {"size": 2 * GIB}, "at least 2910M"),
        ("vdo", {"size": 4 * GIB, "slab": 2 * GIB}, "at least 4830M"),
    ],
    ids=str,
)
def test_what_cannot_be_asked_for(layer: str, values: dict[str, Value], word: str) -> None:
    (reason,) = drivers()[layer].reasons_not_to_run(spec(layer, values), facts())
    assert word in reason and reason.endswith(".")


@pytest.mark.parametrize(
    ("layer", "values", "modules"),
    [
        ("lvm", {}, ("dm_mod",)),
        ("lvm", {"snapshots": GIB}, ("dm_mod", "dm_snapshot")),
        ("lvm", {"type": "raid5"}, ("dm_mod", "dm_raid", "raid456")),
        ("lvmthin", {}, ("dm_mod", "dm_thin_pool")),
        ("lvmcache", {}, ("dm_mod", "dm_cache", "dm_cache_smq")),
        ("vdo", {}, ("dm_mod", "dm_vdo")),
    ],
    ids=str,
)
def test_modules_that_the_kernel_lacks(layer: str, values: dict[str, Value], modules: tuple[str, ...]) -> None:
    driver, call = drivers()[layer], spec(layer, values)
    assert driver.reasons_not_to_run(call, facts(modules=frozenset(modules))) == []
    for missing in modules:
        (reason,) = driver.reasons_not_to_run(call, facts(modules=frozenset(modules) - {missing}))
        assert f"has no {missing}, which {layer} needs" in reason


def test_a_kernel_from_before_vdo_is_told_from_one_built_without_it() -> None:
    (reason,) = drivers()["vdo"].reasons_not_to_run(
        spec("vdo"), facts(kernel=(6, 1, 0), kernel_text="6.1.0-40-amd64", modules=frozenset({"dm_mod"}))
    )
    assert reason == "Linux has VDO (dm_vdo) since 6.9 and this is 6.1.0-40-amd64; boot a newer kernel."


# ---------------------------------------------------------------- plans


@pytest.mark.parametrize("layer", LAYERS)
def test_every_command_of_lvm_is_cut_off_from_the_machine(layer: str) -> None:
    driver, under = drivers()[layer], below(layer, 2, size_bytes=8 * GIB)
    steps = driver.plan_create(spec(layer), under, PLACE)
    undos = [undo for step in steps if (undo := step.undo) is not None]
    tools = {tool for tool, package in driver.info.tools.items() if package == "lvm2"}
    for command in (*(step.do for step in steps), *undos, *driver.plan_inspect(spec(layer), under, PLACE)):
        if tools & set(command.argv) or any(f"{tool} " in command.argv[2] for tool in tools if len(command.argv) > 2):
            assert command.argv[2].startswith("LVM_SYSTEM_DIR=$1") and command.argv[4] == PLACE.dir
            assert "use_devicesfile=0" in command.argv[command.argv.index("--config") + 1]
            seen = [command.argv[at + 1] for at, word in enumerate(command.argv) if word == "--devices"]
            assert seen and set(seen) <= {each.path for each in under}


@pytest.mark.parametrize("layer", LAYERS)
def test_physical_volumes_have_uuids_of_the_place_and_are_wiped_by_them(layer: str) -> None:
    one, two, group = made(layer)[:3]
    uuids = ["0b7e5d-1c54-a84d-6f9a-513f-2c6d-7e8f90", "0b7e5d-1c54-a84d-6f9a-513f-2c6d-7e8f91"]
    for step, uuid, number in zip((one, two), uuids, range(2), strict=True):
        assert step.do.argv[step.do.argv.index("--uuid") + 1] == uuid
        assert undo_of(step).argv[-2:] == (uuid, f"/run/visit/{number}/device")
    assert "--setautoactivation" in group.do.argv and PLACE.name in group.do.argv
    assert PLACE.name in undo_of(group).argv and PLACE.name.replace("-", "--") in undo_of(group).argv


def test_a_place_at_the_end_of_its_numbers_gives_other_uuids_all_the_same() -> None:
    place = Place(PLACE.name, PLACE.dir, PLACE.uuid[:-4] + "ffff")
    steps = drivers()["lvm"].plan_create(spec("lvm"), below("lvm", 2), place)
    assert [undo_of(step).argv[-2][-6:] for step in steps[:2]] == ["7effff", "7e0000"]


def test_the_last_device_is_the_cache_and_the_others_are_what_it_caches() -> None:
    volume, cache, attach = made("lvmcache", {"mode": "writeback"}, 3)[-3:]
    assert volume.do.argv[-2:] == ("/run/visit/0/device", "/run/visit/1/device")
    assert cache.do.argv[-2:] == (PLACE.name, "/run/visit/2/device")
    assert attach.do.argv[-1] == f"{PLACE.name}/volume" and "writeback" in attach.do.argv
    assert "--splitcache" in undo_of(attach).argv[2]
    assert undo_of(attach).timeout_s >= 7200  # it writes out what is dirty


def test_a_raid_is_in_sync_before_it_is_measured_unless_that_is_not_wanted() -> None:
    assert "synchronised" in made("lvm", {"type": "raid1"})[-1].why
    steps = made("lvm", {"type": "raid1", "nosync": True})
    assert "--nosync" in steps[-1].do.argv and "volume" in steps[-1].why


def test_a_pool_that_is_full_fails_writes_at_once() -> None:
    assert any(step.do.argv[-3:-1] == ("--errorwhenfull", "y") for step in made("lvmthin"))


# ---------------------------------------------------------------- what conditions do


def ability(layer: str, name: str, values: dict[str, Value], disks: int, count: int) -> list[Step]:
    under = below(layer, disks)
    return list(drivers()[layer].provides(spec(layer, values), under, PLACE).can[name](count))


def test_thin_snapshots() -> None:
    steps = ability("lvmthin", "snapshot", {}, 1, 3)
    assert len(steps) == 3
    names = [step.do.argv[step.do.argv.index("--name") + 1] for step in steps]
    assert len(set(names)) == 3
    for step, name in zip(steps, names, strict=True):
        assert undo_of(step).argv[5:7] == (PLACE.name, name)
        assert "--size" not in step.do.argv and "--extents" not in step.do.argv


def test_classic_snapshots_share_the_room_that_was_left() -> None:
    steps = ability("lvm", "snapshot", {"snapshots": 512 * MIB}, 1, 3)
    shares = [step.do.argv[step.do.argv.index("--extents") + 1] for step in steps]
    assert shares == ["33%FREE", "50%FREE", "100%FREE"]


def test_a_volume_that_takes_all_has_no_room_for_snapshots() -> None:
    with pytest.raises(BadInput, match="write lvm\\(snapshots=SIZE\\)"):
        ability("lvm", "snapshot", {}, 1, 1)


@pytest.mark.parametrize(
    ("kind", "disks", "count", "lost"),
    [("raid1", 3, 2, [2, 1]), ("raid10", 4, 2, [3, 1]), ("raid10", 6, 3, [5, 3, 1]), ("raid5", 3, 1, [2]),
     ("raid6", 5, 2, [4, 3])],
)  # fmt: skip
def test_members_that_can_be_lost(kind: str, disks: int, count: int, lost: list[int]) -> None:
    note, *steps = ability("lvm", "degrade", {"type": kind, "size": 64 * MIB}, disks, count)
    assert note.do.argv[-1 - count :] == ("lost", *map(str, lost))
    assert [step.do.argv[-1] for step in steps] == [str(member) for member in lost]
    mapped = f"{PLACE.name.replace('-', '--')}-volume"
    assert steps[0].do.argv[-4:-1] == (mapped, f"{mapped}_rimage_{lost[0]}", f"{mapped}_rmeta_{lost[0]}")


def test_a_rebuild_names_the_device() -> None:
    step, see = ability("lvm", "rebuild", {"type": "raid1", "size": 64 * MIB}, 2, 1)
    assert step.do.argv[-3:] == ("--rebuild", "/run/visit/1/device", f"{PLACE.name}/volume")
    assert see.do.argv[-1] == f"{PLACE.name.replace('-', '--')}-volume"


@pytest.mark.parametrize(
    ("kind", "disks", "count"),
    [("linear", 2, 1), ("striped", 2, 1), ("raid1", 2, 2), ("raid10", 4, 3), ("raid5", 3, 2)],
)
@pytest.mark.parametrize("name", ["degrade", "rebuild"])
def test_more_than_can_be_lost(kind: str, disks: int, count: int, name: str) -> None:
    with pytest.raises(BadInput) as refused:
        ability("lvm", name, {"type": kind, "size": 64 * MIB}, disks, count)
    assert f"lvm({kind})" in str(refused.value) and str(refused.value).endswith(".")


# ---------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("layer", "case", "index", "old", "new", "word"),
    [
        ("lvm", "striped-with-snapshots", 0, "/dev/vdb\n", "", "cannot be found"),
        ("lvm", "striped-with-snapshots", 1, '"pv_missing":""', '"pv_missing":"missing"', "has lost vd"),
        ("lvm", "striped-with-snapshots", 1, "a41288", "a41289", "is also on /dev/vdb, which is not ours"),
        ("lvm", "striped-with-snapshots", 1, "pvseg", "pv", "the devices of the volume group on vda and vdb"),
        ("lvm", "striped-with-snapshots", 2, '"striped"', '"linear"', "the type of"),
        ("lvm", "striped-with-snapshots", 2, '"131072"', '"65536"', "the stripe size of"),
        ("lvm", "striped-with-snapshots", 2, '"stripes":"2"', '"stripes":"3"', "is 3 instead of 2"),
        ("lvm", "striped-with-snapshots", 2, '"1073741824"', '"1069547520"', "has 1069547520 bytes"),
        ("lvm", "striped-with-snapshots", 2, '"volume"', '"valume"', "there is no volume"),
        (
            "lvm",
            "striped-with-snapshots",
            3,
            "snapshot-origin",
            "error",
            "runs strata-012345-3-2/volume on vda and vdb as error",
        ),
        ("lvm", "raid1-degraded", 3, "raid raid1", "linear raid1", "as linear instead of raid"),
        ("lvm", "raid1-degraded", 5, "AD", "DA", "has lost vda"),
        ("lvm", "raid1-degraded", 5, "AD", "AA", "still has vdb, which it was to lose"),
        ("lvm", "raid1-degraded", 5, "raid raid1", "error", "the members of"),
        ("lvm", "raid1-degraded", 6, "lost=1", "lost=0", "has lost vdb"),
        ("lvm", "raid1-degraded-under-a-snapshot", 6, "lost=1", "", "has lost vdb"),
        ("lvmthin", "with-snapshots", 2, '"524288"', '"65536"', "the chunk size of"),
        ("lvmthin", "with-snapshots", 2, '"passdown"', '"ignore"', "the way of discards"),
        ("lvmthin", "with-snapshots", 2, '"error"', '"queue"', "is queue instead of error"),
        ("lvmthin", "with-snapshots", 2, '"thin"', '"linear"', "volume on vda is linear instead of thin"),
        ("lvmthin", "with-snapshots", 4, " rw ", " ro ", "does not take writes any more"),
        ("lvmthin", "with-snapshots", 4, "thin-pool", "thin-pool Fail", "has failed"),
        ("lvmthin", "with-snapshots", 4, "thin-pool", "error", "does not say how much"),
        ("lvmthin", "with-snapshots", 4, "/1024 ", "/114 ", "has no room left for metadata"),
        ("lvmcache", "writeback", 1, "[cache_cpool_cdata]", "[volume_corig]", "volume_corig lies on vdc"),
        ("lvmcache", "writeback", 2, '"writeback"', '"writethrough"', "the mode of"),
        ("lvmcache", "writeback", 2, '"smq"', '"cleaner"', "the policy of"),
        ("lvmcache", "writeback", 4, " rw ", " ro ", "does not cache any more"),
        ("lvmcache", "writeback", 4, "cache 8", "cache Fail", "has failed"),
        ("lvmcache", "vol", 2, '"1073741824"', '"1069547520"', "the cache on vdc has 1069547520 bytes"),
        ("vdo", "small", 2, '"vdo_compression":"enabled"', '"vdo_compression":""', "compression of"),
        ("vdo", "small", 2, '"vdo_deduplication":"enabled"', '"vdo_deduplication":""', "deduplication of"),
        ("vdo", "small", 2, '"134217728"', '"268435456"', "the slab size of"),
        ("vdo", "small", 4, "normal", "read-only", "is in the mode read-only"),
        ("vdo", "small", 4, "online", "error", "its index is error"),
        ("vdo", "small", 4, " normal", "", "does not say how it is"),
        ("vdo", "small", 4, "2096128", "1", "is full"),
    ],
)
def test_one_thing_that_is_not_so(layer: str, case: str, index: int, old: str, new: str, word: str) -> None:
    answers = captured(layer, case)
    found = answers.differences(answers.with_stdout(index, old, new))
    assert len(found) <= 2 and any(word in sentence for sentence in found), found
    assert all(sentence.startswith(f"{layer}: ") and sentence.endswith(".") for sentence in found)


@pytest.mark.parametrize(
    ("layer", "case", "said"),
    [
        ("lvm", "lost-a-disk", "lvm: the volume group strata-012345-3-2 has lost vdb."),
        ("lvm", "raid1-lost-a-disk", "lvm: strata-012345-3-2/volume has lost vdb."),
        (
            "lvm",
            "snapshot-overflowed",
            (
                "lvm: the snapshot strata-012345-3-2/held-1-1 on dm-0 ran out of room and is lost; "
                "leave more room free with snapshots= or a smaller size=."
            ),
        ),
        (
            "lvmthin",
            "full",
            (
                "lvmthin: the pool strata-012345-3-2/pool on dm-0 is full: 1408 of 1408 blocks are used; "
                "give it size= smaller than the disk."
            ),
        ),
        ("lvmcache", "lost-its-cache", "lvmcache: the volume group strata-012345-3-2 has lost dm-0."),
    ],
)
def test_a_real_machine_on_which_something_went_wrong(layer: str, case: str, said: str) -> None:
    answers = captured(layer, case, folder="broken")
    assert answers.differences() == [said]
    commands = answers.driver.plan_inspect(answers.spec, answers.below, answers.place)
    assert [command.argv for command in commands] == [seen.argv for seen in answers.seen]


def test_the_old_name_of_the_policy_is_the_policy() -> None:
    """LVM 2.03.31 loads smq as "mq" with a cachevol; the captured machine shows it."""
    answers = captured("lvmcache", "vol")
    assert '"mq"' in answers.seen[2].stdout and answers.differences() == []
    cleaner = Call("lvmcache", "lvmcache", {**answers.spec.values, "policy": "cleaner"})
    found = answers.driver.differences(cleaner, answers.below, answers.place, answers.seen)
    assert [sentence for sentence in found if "is mq instead of cleaner" in sentence]


def test_a_report_with_nothing_in_it_is_a_difference() -> None:
    answers = captured("lvm", "striped-with-snapshots")
    empty = json.dumps({"report": [{"lv": [], "pvseg": []}]})
    seen = [
        dataclasses.replace(answer, stdout=empty if index in {1, 2} else answer.stdout)
        for index, answer in enumerate(answers.seen)
    ]
    found = answers.differences(seen)
    assert [word for word in ("lost vda", "lost vdb", "no volume") if any(word in said for said in found)] == [
        "lost vda",
        "lost vdb",
        "no volume",
    ]


# ---------------------------------------------------------------- figures


@pytest.mark.parametrize(
    ("layer", "case"), [("lvmthin", "with-snapshots"), ("lvmcache", "writeback"), ("vdo", "small")]
)
def test_figures(layer: str, case: str) -> None:
    assert set(captured_figures(layer, case)) == {metric.name for metric in drivers()[layer].info.metrics}


def test_figures_are_in_bytes() -> None:
    assert captured_figures("lvmthin", "with-snapshots")["lvmthin.physical_bytes"] % (512 << 10) == 0
    cache = captured_figures("lvmcache", "writeback")
    assert cache["lvmcache.used_bytes"] >= cache["lvmcache.dirty_bytes"] > 0
    vdo = captured_figures("vdo", "small")
    assert vdo["vdo.savings_pct"] == pytest.approx(100 * (1 - vdo["vdo.physical_bytes"] / vdo["vdo.logical_bytes"]))


@pytest.mark.parametrize(("state", "pct"), [("aA 32768/131072 recover", 25.0), ("AA 131072/131072 idle", 100.0)])
def test_how_far_a_rebuild_is(state: str, pct: float) -> None:
    driver = cast(Metered, drivers()["lvm"])
    seen = [Completed(("dmsetup",), 0, f"0 131072 raid raid1 2 {state} 2688 0 -\n", "", 0.0)]
    assert driver.figures(spec("lvm", {"type": "raid1"}), below("lvm", 2), PLACE, seen) == {"lvm.sync_pct": pct}
    assert driver.plan_figures(spec("lvm", {"type": "striped"}), below("lvm", 2), PLACE) == []


def test_figures_of_a_full_pool() -> None:
    answers = captured("lvmthin", "full", folder="broken", answers="figures")
    driver = drivers()["lvmthin"]
    found = driver.figures(answers.spec, answers.below, answers.place, answers.seen)  # type: ignore[attr-defined]
    assert found["lvmthin.physical_bytes"] == 1408 * 65536


@pytest.mark.parametrize("layer", ["lvm", "lvmthin", "lvmcache", "vdo"])
def test_figures_that_cannot_be_read_are_left_out(layer: str) -> None:
    driver = drivers()[layer]
    assert driver.figures(spec(layer), below(layer, 2), PLACE, []) == {}  # type: ignore[attr-defined]


# ---------------------------------------------------------------- tenants


@pytest.mark.parametrize(
    ("values", "sizes", "count"),
    [({}, [8 * GIB], 4), ({}, [GIB], 3), ({"type": "striped", "stripesize": 65536}, [2 * GIB] * 2, 5)],
)
def test_tenants_get_equal_volumes_that_fit_into_the_room_of_the_one(
    values: dict[str, Value], sizes: list[int | None], count: int
) -> None:
    whole = provides("lvm", values, sizes)
    assert whole.split is not None and whole.size_bytes is not None
    steps, shares = whole.split(count)
    assert len({share.path for share in shares}) == len(shares) == count
    (size,) = {share.size_bytes for share in shares}
    assert size is not None
    unit = 4 * MIB * len(sizes)
    assert size % unit == 0
    assert whole.size_bytes - (count + 2) * unit < count * size <= whole.size_bytes - 2 * unit
    assert steps[0].undo is None and "lvreduce" in steps[0].do.argv
    assert all(undo_of(step) for step in steps[1:]) and len(steps) == count + 1


@pytest.mark.parametrize(
    ("values", "sizes", "words"),
    [
        ({"type": "raid1"}, [GIB] * 2, "put md below it"),
        ({"size": 512 * MIB}, [GIB], "linear or striped"),
        ({"snapshots": 512 * MIB}, [GIB], "linear or striped"),
        ({}, [None], "lvmthin(size=...)"),
        ({}, [24 * MIB], "more room"),
    ],
)
def test_what_tenants_cannot_share_is_refused(values: dict[str, Value], sizes: list[int | None], words: str) -> None:
    split = provides("lvm", values, sizes).split
    assert split is not None
    with pytest.raises(BadInput, match=words.replace("(", r"\(").replace(")", r"\)")):
        split(4)
