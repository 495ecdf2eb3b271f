"""What holds for the plan of every layer with any arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import BadInput
from strata.layers import drivers
from strata.model import Kind, Param, ParamType, Place, Step, Value

from .layer_cases import BESIDE, LAYERS, PLACE, below, facts, spec

NASTY = "a b;'\"$(reboot) *"
"""What a shell would trip over."""


def value_of(param: Param) -> st.SearchStrategy[Value | None]:
    low = int(param.minimum or 0)
    high = int(param.maximum or max(1 << 24, 4 * low))
    values: st.SearchStrategy[Value | None]
    match param.type:
        case ParamType.FLAG:
            values = st.booleans()
        case ParamType.CHOICE:
            values = st.sampled_from(param.choices)
        case ParamType.INT:
            values = st.integers(low, high)
        case ParamType.SIZE:
            values = st.integers(low // 512, high // 512).map(lambda n: max(n, 1) * 512)
        case ParamType.TIME:
            values = st.sampled_from([50e-6, 0.02, 0.0205, 1.0, 30.0])
        case ParamType.PERCENT:
            values = st.floats(param.minimum or 0.0, param.maximum or 1.0)
        case _:
            values = st.sampled_from(["/srv/vm", "a", NASTY, "zstd:3", "-L x"])
    return values if param.required else st.just(param.default) | values


def calls(layer: str) -> st.SearchStrategy[Mapping[str, Value | None]]:
    return st.fixed_dictionaries({param.name: value_of(param) for param in drivers()[layer].info.params})


def placed_in(directory: str) -> Place:
    return Place(PLACE.name, directory, PLACE.uuid, beside=BESIDE)


@pytest.mark.parametrize("layer", LAYERS)
@given(data=st.data())
def test_any_arguments_give_a_plan_or_reasons(layer: str, data: st.DataObject) -> None:
    place = placed_in(PLACE.dir)
    driver, values = drivers()[layer], data.draw(calls(layer))
    call = spec(layer, values)
    claimed, count = data.draw(st.booleans()), data.draw(st.integers(1, 4 if driver.info.many else 1))
    reasons = driver.reasons_not_to_run(call, facts()) + driver.arity_reasons(call, count)
    for reason in reasons:
        assert reason.endswith(".")
    if any(isinstance(value, str) and "'" in value for name, value in values.items() if name == "mkfs"):
        return  # not closed: a reason, and BadInput if planned all the same
    under = below(layer, count, claimed=claimed, size_bytes=1 << 40)
    try:
        steps = driver.plan_create(call, under, place)
    except BadInput:
        # it was said before; but what an engine needs below it is said where that is known
        assert reasons or driver.info.provides is Kind.ENGINE
        return
    assert steps == driver.plan_create(call, under, place)
    for step in steps:
        check_step(step)
    provides = driver.provides(call, under, place)
    if driver.info.provides is None:
        same = dataclasses.replace(provides, rehearsals=0, in_use=False, meanwhile=(), inside=())
        assert dataclasses.replace(same, data_steps=(), held=False) == under[0]
    elif layer == "vm" and values["image"] is not None:
        assert provides.kind is Kind.GUEST  # nothing is built in a guest of the user's own; the plan says so
    else:
        assert provides.kind is driver.info.provides
    for command in driver.plan_inspect(call, under, place):
        assert command.argv and all(isinstance(word, str) for word in command.argv)


def check_step(step: Step) -> None:
    assert step.why and not step.why.endswith(".")
    for command in (step.do, step.undo):
        if command is None:
            continue
        assert command.argv[0] and command.timeout_s > 0
        if command.argv[:2] == ("sh", "-c"):
            assert NASTY not in command.argv[2], "an argument was pasted into a script"
            assert command.argv[3] == "sh"


@pytest.mark.parametrize("layer", LAYERS)
def test_everything_lies_in_the_place(layer: str) -> None:
    """Apart from devices below and `existing`, no path outside place.dir is written; a path may hold anything."""
    required: dict[str, dict[str, Value]] = {
        "disk": {"role": "d"}, "scheduler": {"name": "bfq"}, "existing": {"path": "/srv"},
        "md": {"level": "raid1"}, "dm": {"target": "flakey", "up": 30.0, "down": 5.0},
        "fill": {"share": 0.5}, "warm": {"runs": 3}, "kernel": {"version": "6.1"}, "debian": {"release": 12},
        "tenants": {"count": 3}, "sysctl": {"name": "vm.swappiness", "value": 10},
    }  # fmt: skip
    driver, call = drivers()[layer], spec(layer, required.get(layer))
    here, there = placed_in("/run/a"), placed_in("/run/b, c 'd'")
    under = below(layer)
    for one, other in zip(driver.plan_create(call, under, here), driver.plan_create(call, under, there), strict=True):
        for command, moved in ((one.do, other.do), (one.undo, other.undo)):
            if command is not None and moved is not None:
                assert tuple(word.replace("/run/a", "/run/b, c 'd'") for word in command.argv) == moved.argv


@pytest.mark.parametrize("layer", ["ext4", "xfs", "btrfs", "f2fs"])
@pytest.mark.parametrize("claimed", [False, True])
def test_a_file_system_is_made_with_our_uuid_and_wiped_by_it(layer: str, claimed: bool) -> None:
    driver, under = drivers()[layer], below(layer, claimed=claimed)
    make = driver.plan_create(spec(layer), under, PLACE)[0]
    assert any(PLACE.uuid in word for word in make.do.argv)
    assert make.do.argv[-2:] == ("--", under[0].path)
    assert make.undo is not None and PLACE.uuid in make.undo.argv and under[0].path in make.undo.argv


def test_users_extended_options_join_ours_and_come_last() -> None:
    asked = spec("ext4", {"mkfs": "-Estride=16 -b 4096 -E lazy_itable_init=1"})
    argv = drivers()["ext4"].plan_create(asked, below("ext4"), PLACE)[0].do.argv
    assert argv.count("-E") == 1
    assert argv[argv.index("-E") + 1] == "lazy_itable_init=0,lazy_journal_init=0,stride=16,lazy_itable_init=1"
    assert argv[argv.index("-b") + 1] == "4096"


@pytest.mark.parametrize(
    ("values", "sizes", "usable"),
    [
        ({}, [8, 8], 16),
        ({"profile": "raid0"}, [8, 8], 16),
        ({"profile": "raid1"}, [8, 8], 8),
        ({"profile": "dup"}, [8], 4),
        ({"profile": "raid10"}, [8, 8, 8, 8], 16),
        ({"profile": "raid1c3"}, [9, 9, 9], 9),
        ({"profile": "raid5"}, [8, 8, 8], 16),
        ({"profile": "raid6"}, [8, 8, 8, 8], 16),
        ({}, [8, None], None),
    ],
    ids=str,
)
def test_room_on_btrfs(values: dict[str, Value], sizes: list[int | None], usable: int | None) -> None:
    under = [below("btrfs", size_bytes=None if size is None else size << 30)[0] for size in sizes]
    expected = None if usable is None else usable << 30
    assert drivers()["btrfs"].provides(spec("btrfs", values), under, PLACE).size_bytes == expected


@pytest.mark.parametrize(
    ("values", "size_bytes", "expected"),
    [
        ({}, 1 << 30, (1 << 30) - (2 << 20)),
        ({}, (1 << 30) + 512, (1 << 30) - (2 << 20)),
        ({"size": 512 << 20}, 1 << 30, 512 << 20),
        ({"start": 63 * 512}, 1 << 30, (1 << 30) - (2 << 20)),
        ({}, None, None),
        ({"size": 512 << 20}, None, 512 << 20),
    ],
    ids=str,
)
def test_room_on_a_partition(values: dict[str, Value], size_bytes: int | None, expected: int | None) -> None:
    under = below("partition", size_bytes=size_bytes)
    provides = drivers()["partition"].provides(spec("partition", values), under, PLACE)
    assert (provides.kind, provides.size_bytes) == (Kind.BLOCK, expected)


@pytest.mark.parametrize("layer", ["disk", "partition", "scheduler", "null"])
@pytest.mark.parametrize("claimed", [False, True])
def test_what_is_not_ours_stays_so(layer: str, claimed: bool) -> None:
    asked: dict[str, dict[str, Value]] = {"disk": {"role": "d"}, "scheduler": {"name": "none"}}
    under = below("partition" if layer == "null" else layer, claimed=claimed)
    assert drivers()[layer].provides(spec(layer, asked.get(layer)), under, PLACE).ours is not claimed
