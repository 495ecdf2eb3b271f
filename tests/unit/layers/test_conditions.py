"""What conditions do through the layers below them, and what they refuse."""

from __future__ import annotations

import dataclasses
import shlex
from typing import cast

import pytest

from strata import campaign
from strata.errors import BadInput
from strata.layers import catalogue, drivers
from strata.layers._on_data import OnData
from strata.model import Completed, Disk, Kind, Metered, Provides, Step, Value
from strata.planning import layout

from .layer_cases import ABILITIES, PLACE, below, captured, captured_figures, facts, spec

ACTING: dict[str, tuple[str, dict[str, Value]]] = {
    "degraded": ("degrade", {"disks": 2}),
    "rebuilding": ("rebuild", {}),
}
ON_DATA = {"balance": "balance", "duperemove": "dedupe"}
NEEDS = {**{layer: ability for layer, (ability, _) in ACTING.items()}, **ON_DATA, "snapshot": "snapshot"}


def steps(layer: str, values: dict[str, Value] | None = None, under: Provides | None = None) -> list[Step]:
    return drivers()[layer].plan_create(spec(layer, values), [under or below(layer)[0]], PLACE)


@pytest.mark.parametrize("layer", ACTING)
def test_it_asks_the_layer_below_as_often_as_it_says(layer: str) -> None:
    ability, values = ACTING[layer]
    assert drivers()[layer].info.needs == ability
    count = int(next(iter(values.values()), 1))
    assert [step.why for step in steps(layer, values)] == [f"{ability} {n + 1}" for n in range(count)]


@pytest.mark.parametrize("layer", NEEDS)
def test_what_nothing_below_can_do_is_refused_before_anything_is_built(layer: str) -> None:
    ability, values = NEEDS[layer], ACTING[layer][1] if layer in ACTING else {}
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
    with pytest.raises(BadInput, match=r"\.$"):
        laid(expression)


def laid(expression: str) -> layout.Layout:
    (stack,) = campaign.parse_stacks(expression, catalogue())
    disks = [Disk("disk", 1 << 30)] * 4
    return layout.lay_out(stack, drivers(), disks, work_dir="/run", run_uuid="0" * 32, attempt=1)


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


def held(values: dict[str, Value], under: Provides | None = None) -> Provides:
    return drivers()["snapshot"].provides(spec("snapshot", values), [under or below("snapshot")[0]], PLACE)


def test_held_snapshots_are_taken_of_the_data_of_a_workload_and_dropped_before_the_next_one() -> None:
    """Taken before, they would share nothing with what is measured."""
    provides = held({"held": 3})
    (step,) = provides.data_steps
    assert [*step.do.argv[-5:]] == [PLACE.dir, "look", "hold 1", "hold 2", "hold 3"]
    assert step.reset is not None and step.reset.argv == ("drop",)
    assert provides.held and steps("snapshot", {"held": 3}) == []


def test_no_snapshot_is_held_by_the_stack_that_others_are_compared_with() -> None:
    (step,) = held({"held": 0}).data_steps
    assert [*step.do.argv[-2:]] == [PLACE.dir, "look"], "it is counted alike"
    call = spec("snapshot", {"held": 0, "every": 1.0})
    assert any("leave every= out" in reason for reason in drivers()["snapshot"].reasons_not_to_run(call, facts()))


def test_snapshots_of_one_layer_are_held_once() -> None:
    under = held({"held": 1})
    with pytest.raises(BadInput, match=r"write one snapshot\(held=N\)"):
        held({"held": 2}, under)
    held({"held": 2, "every": 1.0}, under)


def test_what_snapshots_came_to() -> None:
    driver, call = drivers()["snapshot"], spec("snapshot", {"held": 2})
    taken, after = "held=2\nshared=4096\nroom=8192\ntook_ns=1500000000\n", "held=2\nshared=1\nroom=12288\n"
    seen = [Completed((), 0, text, "", 0.1) for text in (taken, after)]
    asked = (call, below("snapshot"), PLACE)
    assert cast("Metered", driver).figures(*asked, seen) == {
        "snapshot.held": 2.0,
        "snapshot.shared_bytes": 4096.0,
        "snapshot.kept_bytes": 4096.0,
        "snapshot.take_s": 1.5,
    }
    assert cast("Metered", driver).figures(*asked, []) == {}
    assert driver.differences(*asked, seen) == []
    assert driver.differences(spec("snapshot", {"held": 3}), *asked[1:], seen) == ["snapshot: 2 are held instead of 3."]


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("disk | zfs | snapshot(held=3) | zvol", "put snapshot above zvol"),
        ("disk | zfs | snapshot | docker(zfs)", "a snapshot of what is below has none of them"),
        ("disk | zfs | docker(zfs) | snapshot", "a snapshot of what is below has none of them"),
        ("disk | btrfs | snapshot | incus(btrfs)", "a snapshot of what is below has none of them"),
        ("disk | btrfs | podman(btrfs) | snapshot(every=5s)", "a snapshot of what is below has none of them"),
        ("disk | lvmthin | snapshot | tenants(2) | ext4", "put snapshot above tenants"),
        ("disk | btrfs | tenants(2) | snapshot", "nothing does"),
    ],
)
def test_snapshots_that_have_nothing_of_what_is_measured_are_refused(expression: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        laid(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "disk | zfs | zvol | snapshot(held=3) | ext4",
        "disk | btrfs | snapshot | docker(overlay2)",
        "disk | btrfs | docker(overlay2) | snapshot",
        "disk | lvmthin | tenants(2) | snapshot | ext4",
        "disk | lvm(snapshots=64M) | xfs | snapshot",
        "disk | xfs | qcow2 | qsd | snapshot | ext4",
    ],
)
def test_snapshots_that_have_what_is_measured(expression: str) -> None:
    for top in laid(expression).tops:
        assert len(top.data_steps) == 1


@pytest.mark.parametrize("layer", ON_DATA)
def test_what_changes_data_acts_when_they_exist(layer: str) -> None:
    driver = drivers()[layer]
    (step,) = driver.provides(spec(layer), below(layer), PLACE).data_steps
    assert step.do.argv[-1] == f"{ON_DATA[layer]} 1" and steps(layer) == []
    name, metric = cast("OnData", driver).names[0]
    seen = [Completed((), 0, f"{name}=1000\n", "", 0.1)]
    assert cast("Metered", driver).figures(spec(layer), below(layer), PLACE, seen) == {metric: 1000.0}


def test_how_full_it_was_is_compared_with_what_was_asked_for() -> None:
    told = Completed(("cat",), 0, '{"bytes":10,"duplicate_bytes":0,"files":1}', "", 0.0)
    df = Completed(("cat",), 0, "50 50\n", "", 0.0)
    under = [Provides(Kind.DIRECTORY, "/run/visit/1/mnt", 100)]
    fill = drivers()["fill"]
    assert fill.differences(spec("fill", {"share": 0.55}), under, PLACE, [told, told, df]) == []
    assert fill.differences(spec("fill", {"share": 0.8}), under, PLACE, [told, told, df]) == [
        "fill: df counted 50.0 % as used after it instead of 80.0 %."
    ]
    assert cast("Metered", fill).figures(spec("fill", {"share": 0.5}), under, PLACE, [df]) == {"fill.used_pct": 50.0}


def test_how_fragmented_it_is_is_reported() -> None:
    seen = [Completed((), 0, "aged=3.500000\n", "", 0.0)]
    found = cast("Metered", drivers()["age"]).figures(spec("age"), below("age"), PLACE, seen)
    assert found == {"age.extents": 3.5}


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
