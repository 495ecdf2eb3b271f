"""md: what fits where, which members can be lost, and what a lost one is called."""

from __future__ import annotations

import dataclasses
from itertools import combinations

import pytest

from strata.errors import BadInput
from strata.layers import drivers
from strata.model import Provides, Step, Value

from .layer_cases import PLACE, below, captured, captured_figures, facts, spec

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
MD = drivers()["md"]


def on(sizes: list[int | None]) -> list[Provides]:
    return [below("md", size_bytes=size)[0] for size in sizes]


def ability(name: str, values: dict[str, Value], disks: int, count: int) -> list[Step]:
    return MD.provides(spec("md", values), below("md", disks), PLACE).can[name](count)


@pytest.mark.parametrize(
    ("values", "sizes", "usable"),
    # as mdadm 4.4 made them on sparse files
    [
        ({"level": "raid1"}, [8 * MIB] * 2, 7340032),
        ({"level": "raid1"}, [GIB] * 2, 1071644672),
        ({"level": "raid1"}, [5 * GIB] * 2, 5363466240),
        ({"level": "raid1"}, [50 * GIB] * 2, 53652488192),
        ({"level": "raid1"}, [8192 * GIB] * 2, 8795957755904),
        ({"level": "raid0", "chunk": 64 << 10}, [GIB] * 2, 2143289344),
        ({"level": "raid0", "chunk": 64 << 10}, [10 * GIB] * 2, 21455962112),
        ({"level": "raid0", "chunk": 4 * MIB}, [64 * MIB] * 2, 109051904),
        ({"level": "raid0", "chunk": 4 * MIB}, [50 * GIB] * 2, 107298684928),
        ({"level": "raid5"}, [8 * MIB] * 2, 6291456),
        ({"level": "raid5"}, [2 * GIB] * 3, 4288675840),
        ({"level": "raid10"}, [2 * GIB] * 4, 4288675840),
        # by the same rule
        ({"level": "raid6", "spares": 1}, [2 * GIB] * 5, 4288675840),
        ({"level": "raid10"}, [2 * GIB] * 3, 3216506880),
        # an odd number of chunks each: half of all, rounded down
        ({"level": "raid10"}, [GIB + 512 * KIB] * 3, 1607991296),
        ({"level": "raid10", "layout": "far"}, [GIB + 512 * KIB] * 3, 1607467008),
        ({"level": "raid10", "layout": "far"}, [2 * GIB] * 3, 3216506880),
        ({"level": "raid1"}, [GIB, 5 * GIB], 1071644672),
        ({"level": "raid1"}, [GIB, None], None),
    ],
    ids=str,
)
def test_room(values: dict[str, Value], sizes: list[int | None], usable: int | None) -> None:
    assert MD.provides(spec("md", values), on(sizes), PLACE).size_bytes == usable


@pytest.mark.parametrize(
    ("values", "inputs", "word"),
    [
        ({"level": "raid1"}, 1, "needs at least 2 disks besides spares; got 1. Give it 2"),
        ({"level": "raid1", "spares": 1}, 2, "at least 2"),
        ({"level": "raid6"}, 3, "at least 4 disks"),
        ({"level": "raid10", "copies": 3}, 2, "at least 3 disks"),
        ({"level": "raid1", "write_mostly": 2}, 2, "leaves no disk"),
        ({"level": "raid5"}, 3, ""),
        ({"level": "raid6", "spares": 1}, 5, ""),
        ({"level": "raid1", "write_mostly": 1}, 2, ""),
    ],
    ids=str,
)
def test_how_many_disks(values: dict[str, Value], inputs: int, word: str) -> None:
    reasons = MD.arity_reasons(spec("md", values), inputs)
    assert [word in reason for reason in reasons] == ([True] if word else [])


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"level": "raid1", "layout": "far"}, "only raid10 has it"),
        ({"level": "raid0", "copies": 2}, "only raid10 has it"),
        ({"level": "raid10", "write_mostly": 1}, "only raid1 has it"),
        ({"level": "raid1", "chunk": 64 << 10}, "no chunks"),
        ({"level": "raid5", "chunk": 96 << 10}, "96K is none"),
        ({"level": "raid0", "spares": 1}, "cannot use a spare"),
        ({"level": "raid1", "spares": 1, "write_mostly": 1}, "write-mostly beside spares"),
        ({"level": "raid0", "assume_clean": False}, "nothing to bring in sync"),
    ],
    ids=str,
)
def test_what_cannot_be_asked_for(values: dict[str, Value], word: str) -> None:
    (reason,) = MD.reasons_not_to_run(spec("md", values), facts())
    assert word in reason and reason.endswith(".")


def test_a_level_that_the_kernel_lacks() -> None:
    call = spec("md", {"level": "linear"})
    for module in ("linear", "md_linear"):
        assert MD.reasons_not_to_run(call, facts(modules=frozenset({module}))) == []
    (reason,) = MD.reasons_not_to_run(call, facts(modules=frozenset({"raid0"})))
    assert "no linear, which md(linear) needs" in reason


def devices_of(steps: list[Step], word: str) -> list[str]:
    return [step.do.argv[-1] for step in steps if word in step.why]


@pytest.mark.parametrize(
    ("values", "disks", "count", "lost"),
    [
        ({"level": "raid1"}, 3, 2, [2, 1]),
        ({"level": "raid5"}, 3, 1, [2]),
        ({"level": "raid6"}, 4, 2, [3, 2]),
        ({"level": "raid10"}, 4, 2, [3, 1]),
        ({"level": "raid10"}, 3, 1, [2]),
        ({"level": "raid10", "copies": 3}, 6, 4, [5, 4, 2, 1]),
        ({"level": "raid10", "layout": "far"}, 4, 2, [3, 1]),
        ({"level": "raid10", "layout": "offset"}, 5, 2, [4, 2]),
    ],
    ids=str,
)
def test_members_that_can_be_lost(values: dict[str, Value], disks: int, count: int, lost: list[int]) -> None:
    steps = ability("degrade", values, disks, count)
    assert devices_of(steps, "out of the array") == [f"/run/visit/{place}/device" for place in lost]
    assert steps[0].do.argv[4:] == (f"{PLACE.dir}/lost", "lost", *map(str, lost))
    assert steps[0].undo is not None and steps[0].undo.argv[-1] == f"{PLACE.dir}/lost"
    assert [step.undo for step in steps[1:]] == [None] * count


@pytest.mark.parametrize(
    ("values", "disks", "count", "word"),
    [
        ({"level": "raid0"}, 2, 1, "can lose none"),
        ({"level": "linear"}, 2, 1, "can lose none"),
        ({"level": "raid1"}, 2, 2, "no more than 1"),
        ({"level": "raid5"}, 3, 2, "no more than 1"),
        ({"level": "raid10"}, 4, 3, "no more than 2"),
        ({"level": "raid10", "layout": "far"}, 3, 2, "no more than 1"),
    ],
    ids=str,
)
def test_more_than_can_be_lost(values: dict[str, Value], disks: int, count: int, word: str) -> None:
    for name in ("degrade", "rebuild"):
        with pytest.raises(BadInput, match=word):
            ability(name, values, disks, count)


def stored(layout: str, copies: int, disks: int) -> list[set[int]]:
    """Where md puts the copies of each block, written out (md(4)): near copies go on along the disks, far and offset
    ones are one disk further in the next zone or stripe."""
    blocks = []
    for block in range(disks * copies):
        if layout == "near":
            blocks.append({(block * copies + copy) % disks for copy in range(copies)})
        else:
            blocks.append({(block + copy) % disks for copy in range(copies)})
    return blocks


@pytest.mark.parametrize("layout", ["near", "far", "offset"])
@pytest.mark.parametrize("copies", [2, 3])
@pytest.mark.parametrize("disks", [3, 4, 5, 6])
def test_what_is_lost_of_a_raid10_leaves_every_block(layout: str, copies: int, disks: int) -> None:
    values: dict[str, Value] = {"level": "raid10", "layout": layout, "copies": copies}
    blocks = stored(layout, copies, disks)
    most = max(
        count
        for count in range(disks + 1)
        for lost in combinations(range(disks), count)
        if not any(block <= set(lost) for block in blocks)
    )
    for count in range(1, disks + 1):
        try:
            steps = ability("degrade", values, disks, count)
        except BadInput:
            assert count > most
        else:
            lost = {int(device.split("/")[3]) for device in devices_of(steps, "out of the array")}
            assert len(lost) == count
            assert not any(block <= lost for block in blocks)


def test_a_spare_would_take_the_place_of_what_was_lost() -> None:
    values: dict[str, Value] = {"level": "raid5", "spares": 1}
    with pytest.raises(BadInput, match="puts a spare in the place"):
        ability("degrade", values, 4, 1)
    assert devices_of(ability("rebuild", values, 4, 1), "put the lost disk back") == ["/run/visit/2/device"]


def test_an_array_that_udev_holds_inactive_for_want_of_a_member_is_assembled_without_it() -> None:
    steps = MD.plan_create(spec("md", {"level": "raid1"}), below("md", 2), PLACE)
    assert steps[0].again is not None
    script = steps[0].again.argv[2]
    assert "= inactive ]" in script
    assert script.index("mdadm --quiet --stop") < script.index("exec mdadm --quiet --assemble")


def test_a_member_that_comes_back() -> None:
    steps = ability("rebuild", {"level": "raid6"}, 4, 2)
    assert steps[0].do.argv[5:] == ("rebuilding", "3", "2")
    assert steps[-1].do.argv[4:] == (f"/dev/md/{PLACE.name}", "/run/visit/3/device", "/run/visit/2/device")


# ---------------------------------------------------------------- what a real machine said


def changed(case: str, *changes: tuple[str, str]) -> list[str]:
    answers = captured("md", case)
    text = answers.seen[1].stdout
    for old, new in changes:
        assert old in text, text
        text = text.replace(old, new)
    return answers.differences([answers.seen[0], dataclasses.replace(answers.seen[1], stdout=text)])


def test_a_member_that_was_lost_is_named() -> None:
    lost = "md: the array is degraded, it lost vdc (member 3 of 4)"
    assert changed("raid10", ("member=vdc in_sync", "member=vdc faulty")) == [f"{lost}: the kernel found it faulty."]
    assert changed("raid10", ("member=vdc in_sync\n", ""), ("degraded=0", "degraded=1")) == [
        f"{lost}: it is not in the array any more."
    ]


def test_a_spare_that_was_lost_is_called_one() -> None:
    answers = changed("raid1-spare-rebuilding", ("member=vdc spare", "member=vdc faulty,spare"))
    assert answers == ["md: the array is degraded, it lost vdc (a spare): the kernel found it faulty."]


def test_a_failing_mirror_half_was_seen_so_by_a_real_kernel() -> None:
    answers = captured("md", "raid1-flakey", folder="broken")
    lost = "md: the array is degraded, it lost dm-0 (member 2 of 2): the kernel found it faulty."
    assert answers.differences() == [lost]


def test_what_was_lost_on_purpose_is_no_difference_and_what_is_lost_beside_it_is() -> None:
    assert changed("raid5-degraded") == []
    assert changed("raid5-degraded", ("lost=2\n", "")) == [
        "md: the array is degraded, it lost vdc (member 3 of 3): it is not in the array any more."
    ]
    assert changed("raid5-degraded", ("member=vdb in_sync", "member=vdb faulty")) == [
        "md: the array is degraded, it lost vdb (member 2 of 3): the kernel found it faulty."
    ]
    assert changed("raid5-degraded", ("lost=2", "lost=1")) != []


def test_a_rebuild_may_run_or_be_over() -> None:
    assert changed("raid6-rebuilding") == []
    over = ("sync_action=recover", "sync_action=idle"), ("degraded=1", "degraded=0"), ("vdd spare", "vdd in_sync")
    assert changed("raid6-rebuilding", *over) == []
    assert changed("raid6-rebuilding", ("rebuilding=3\n", "")) == [
        "md: vdd (member 4 of 4) is not in sync with the array.",
        "md: the kernel does a recover of the array, which was not asked for.",
    ]
    assert changed("raid6-rebuilding", ("vdd spare", "vdd faulty,spare")) == [
        "md: the array is degraded, it lost vdd (member 4 of 4): the kernel found it faulty."
    ]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("sync_action=idle", "sync_action=check"), "does a check of the array"),
        (("array_state=clean", "array_state=broken"), "it is broken"),
        (("bitmap/location=+8", "bitmap/location=none"), "has no bitmap"),
        (("level=raid10", "level=raid0"), "level of the array is raid0 instead of raid10"),
        (("raid_disks=4", "raid_disks=5"), "number of members of the array is 5 instead of 4"),
        (("chunk_size=524288", "chunk_size=65536"), "chunk in bytes of the array is 65536"),
        (("layout=258", "layout=513"), "layout of the array is 513 instead of 258"),
        (("degraded=0", "degraded=1"), "misses 1 of its 4 members"),
        (("member=vda in_sync", "member=vda in_sync\nmember=sda in_sync"), "also holds sda"),
        (("below=vdd\n", ""), "3 devices below are there instead of 4"),
    ],
    ids=str,
)
def test_one_thing_that_is_not_so(change: tuple[str, str], sentence: str) -> None:
    found = changed("raid10", change)
    assert any(sentence in each for each in found), found


def test_a_member_that_is_not_marked() -> None:
    answers = captured("md", "raid1-write-mostly")
    found = answers.differences(answers.with_stdout(1, "in_sync,write_mostly", "in_sync"))
    assert found == ["md: vdb (member 2 of 2) is not marked write-mostly."]


def test_an_array_of_somebody_elses() -> None:
    answers = captured("md", "raid10")
    found = answers.differences(answers.with_stdout(0, "MD_UUID=", "MD_UUID=f"))
    assert len(found) == 1 and "which is not ours" in found[0]


@pytest.mark.parametrize(
    ("case", "figures"),
    [
        ("raid10", {"md.degraded_members": 0.0, "md.sync_pct": 100.0}),
        ("raid5-degraded", {"md.degraded_members": 1.0}),
        ("raid0", {}),
    ],
)
def test_figures(case: str, figures: dict[str, float]) -> None:
    assert captured_figures("md", case) == figures


def test_how_far_a_rebuild_is() -> None:
    found = captured_figures("md", "raid6-rebuilding")
    assert found["md.degraded_members"] == 1.0
    assert 0 < found["md.sync_pct"] < 100
