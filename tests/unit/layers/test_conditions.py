"""What conditions do through the layers below them, and what they refuse."""

from __future__ import annotations

import dataclasses
import shlex

import pytest

from strata import campaign
from strata.errors import BadInput
from strata.layers import catalogue, drivers
from strata.model import Completed, Disk, Kind, Provides, Step, Value
from strata.run import layout

from .layer_cases import ABILITIES, PLACE, below, captured, captured_figures, facts, spec

ACTING: dict[str, tuple[str, dict[str, Value]]] = {
    "snapshot": ("snapshot", {"held": 3}),
    "degraded": ("degrade", {"disks": 2}),
    "rebuilding": ("rebuild", {}),
    "balance": ("balance", {}),
    "duperemove": ("dedupe", {}),
}


def steps(layer: str, values: dict[str, Value] | None = None, under: Provides | None = None) -> list[Step]:
    return drivers()[layer].plan_create(spec(layer, values), [under or below(layer)[0]], PLACE)


@pytest.mark.parametrize("layer", ACTING)
def test_it_asks_the_layer_below_as_often_as_it_says(layer: str) -> None:
    ability, values = ACTING[layer]
    assert drivers()[layer].info.needs == ability
    count = int(next(iter(values.values()), 1))
    assert [step.why for step in steps(layer, values)] == [f"{ability} {n + 1}" for n in range(count)]


@pytest.mark.parametrize("layer", ACTING)
def test_what_nothing_below_can_do_is_refused_before_anything_is_built(layer: str) -> None:
    ability, values = ACTING[layer]
    can = {name: able for name, able in ABILITIES.items() if name != ability}
    under = dataclasses.replace(below(layer)[0], can=can)
    with pytest.raises(BadInput, match=f"{layer} needs something below it that offers '{ability}'"):
        drivers()[layer].provides(spec(layer, values), [under], PLACE)


@pytest.mark.parametrize(
    "expression",
    [
        "4*disk | zfs(mirror=2) | degraded(3)",
        "2*disk | zfs | degraded",
        "2*disk | btrfs | degraded",
        "2*disk | btrfs(raid1) | rebuilding | degraded(2)",
        "disk | xfs(reflink=off) | duperemove",
        "disk | ext4 | age(snapshots=1)",
    ],
)
def test_a_layer_says_what_it_cannot_do(expression: str) -> None:
    (stack,) = campaign.parse_stacks(expression, catalogue())
    disks = [Disk("disk", 1 << 30)] * 4
    with pytest.raises(BadInput, match=r"\.$"):
        layout.lay_out(stack, drivers(), disks, work_dir="/run", run_uuid="0" * 32, attempt=1)


def test_what_was_preconditioned_is_not_emptied_by_what_is_put_on_it() -> None:
    """Also with a layer in between, and with arguments for mkfs of the user's own."""
    for expression, words in {
        "disk | precondition | ext4": "nodiscard",
        'disk | precondition | partition | ext4(mkfs="-E stride=16")': "nodiscard,stride=16",
        "disk | precondition | scheduler(none) | xfs": "-K",
        "2*disk | precondition | btrfs(raid1)": "-K",
        "disk | precondition | f2fs": "-t 0",
    }.items():
        (stack,) = campaign.parse_stacks(expression, catalogue())
        disks = tuple(Disk("disk", 1 << 30) for _ in range(2))
        plan = layout.lay_out(stack, drivers(), disks, work_dir="/run/v", run_uuid=PLACE.uuid, attempt=1)
        (make,) = [
            step
            for level in plan.levels()
            for _, step in level
            if "file system" in step.why and "mkfs" in step.do.argv[0]
        ]
        assert words in shlex.join(make.do.argv), make.do.argv
        assert plan.top.in_use
    plain = drivers()["xfs"].plan_create(spec("xfs"), below("xfs"), PLACE)[0]
    assert "-K" not in plain.do.argv


def test_how_preconditioning_went_is_reported() -> None:
    assert captured_figures("precondition", "loop") == {
        "precondition.rounds": 6.0,
        "precondition.iops": pytest.approx((88567 + 98214 + 90895 + 73054 + 79130) / 5),
        "precondition.unsteady": 1.0,
    }


def test_warm_is_told_to_the_run() -> None:
    provides = drivers()["warm"].provides(spec("warm", {"runs": 3}), below("warm"), PLACE)
    assert provides.rehearsals == 3


def engine_calls(planned: list[Step]) -> list[str]:
    return [shlex.join(step.do.argv[5:]) if step.do.argv[0] == "sh" else step.why for step in planned[1:]]


@pytest.mark.parametrize(
    ("rounds", "snapshots", "parts"),
    [
        (3, 0, [(0, 4)]),
        (0, 0, [(0, 1)]),
        (1, 1, [(0, 1), (1, 1)]),
        (3, 1, [(0, 2), (2, 2)]),
        (3, 3, [(0, 1), (1, 1), (2, 1), (3, 1)]),
        (4, 2, [(0, 2), (2, 1), (3, 2)]),
    ],
)
def test_snapshots_are_taken_between_rounds(rounds: int, snapshots: int, parts: list[tuple[int, int]]) -> None:
    planned = engine_calls(steps("age", {"rounds": rounds, "snapshots": snapshots, "files": 10, "size": 1 << 20}))
    where = f"age --dir /run/visit/1/mnt/.{PLACE.name}-aged --seed 1 --files 10 --bytes 1048576"
    expected = []
    for number, (first, count) in enumerate(parts):
        expected += [f"snapshot {number}"] if number else []
        expected.append(f"{where} --first {first} --rounds {count}")
    assert planned == expected


def test_a_directory_of_the_users_is_not_filled() -> None:
    under = Provides(Kind.DIRECTORY, "/srv/vm/fresh", ours=False)
    with pytest.raises(BadInput, match="a file system of your own"):
        drivers()["fill"].provides(spec("fill", {"share": 0.5}), [under], PLACE)


def test_ageing_a_directory_of_unknown_room_takes_a_size() -> None:
    under = Provides(Kind.DIRECTORY, "/srv/vm/fresh", ours=False)
    with pytest.raises(BadInput, match=r"write age\(size=\.\.\.\)"):
        drivers()["age"].provides(spec("age"), [under], PLACE)


@pytest.mark.parametrize(
    ("layer", "values", "word"),
    [
        ("age", {"rounds": 1, "snapshots": 2}, "add rounds=2"),
        ("age", {"files": 100, "size": 1 << 19}, "give it 800K"),
        ("kernel", {"version": "6"}, "write it as in kernel(6.12)"),
        ("kernel", {"version": "6.1"}, "runs kernel 6.12.0-1-amd64"),
        ("kernel", {"version": "6.12.1"}, "add --on lab"),
        ("debian", {"release": 12}, "runs Debian GNU/Linux 13"),
    ],
    ids=str,
)
def test_what_cannot_be_asked_for(layer: str, values: dict[str, Value], word: str) -> None:
    given = {name: value for name, value in values.items() if value is not None}
    reasons = drivers()[layer].reasons_not_to_run(spec(layer, given), facts())
    assert len(reasons) == bool(word) and all(word in reason and reason.endswith(".") for reason in reasons)


@pytest.mark.parametrize("version", ["6.12", "6.12.0"])
def test_the_kernel_that_runs(version: str) -> None:
    assert drivers()["kernel"].reasons_not_to_run(spec("kernel", {"version": version}), facts()) == []


def test_no_machine_is_taken_for_a_debian_that_it_is_not() -> None:
    asked = spec("debian", {"release": 1})
    for system in ("Debian GNU/Linux 12 (bookworm)", "Ubuntu 1.0", ""):
        assert drivers()["debian"].reasons_not_to_run(asked, facts(os=system)) != []


@pytest.mark.parametrize(
    ("layer", "case", "index", "old", "new", "word"),
    [
        ("fill", "xfs", 1, '"files":', '"files":1', "fill: there are 1"),
        ("age", "snapshots", 1, '"bytes":', '"bytes":1', "age: there are 100 files of 1"),
        ("kernel", "lab", 0, "6.12", "6.1", "instead of 6.12"),
        ("debian", "lab", 0, "13", "12", "instead of Debian 13"),
    ],
)
def test_one_thing_that_is_not_so(layer: str, case: str, index: int, old: str, new: str, word: str) -> None:
    answers = captured(layer, case)
    (found,) = answers.differences(answers.with_stdout(index, old, new))
    assert word in found and found.endswith(".")


def test_a_filled_device_is_only_known_by_what_was_told() -> None:
    told = Completed(("cat",), 0, '{"bytes":1048576,"duplicate_bytes":0,"files":0}', "", 0.0)
    asked = (spec("fill", {"share": 0.5}), below("fill"), PLACE)
    assert drivers()["fill"].differences(*asked, [told]) == []
    assert drivers()["fill"].differences(*asked, []) != []


def test_snapshots_that_are_taken_while_it_is_measured_are_no_step_before() -> None:
    values: dict[str, Value] = {"held": 3, "every": 2.0}
    assert steps("snapshot", values) == []
    (meanwhile,) = drivers()["snapshot"].provides(spec("snapshot", values), below("snapshot"), PLACE).meanwhile
    assert [*meanwhile.begin.argv[-4:]] == ["2", "snapshot 1", "snapshot 2", "snapshot 3"]


@pytest.mark.parametrize(
    ("shown", "wrong"),
    [("2\n", []), ("2\nno space left\n", ["snapshot: the one after 2 could not be taken: no space left."])],
)
def test_a_snapshot_that_could_not_be_taken_is_a_difference(shown: str, wrong: list[str]) -> None:
    driver, call = drivers()["snapshot"], spec("snapshot", {"held": 3, "every": 2.0})
    seen = [Completed((), 0, shown, "", 0.1)]
    assert driver.differences(call, below("snapshot"), PLACE, seen) == wrong
