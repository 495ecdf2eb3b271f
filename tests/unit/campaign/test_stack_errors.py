"""What is wrong with an expression: the sentence, and the exact column."""

from __future__ import annotations

import re

import pytest

from strata import layers
from strata.campaign import parse_stacks
from strata.errors import BadInput, Problem

from .catalogue import LAYERS


def problems(expression: str, **factors: list[str]) -> tuple[Problem, ...]:
    with pytest.raises(BadInput) as caught:
        parse_stacks(expression, LAYERS, where="here", factors=factors)
    return caught.value.problems


# The column is that of the first ^ under the expression.
CASES = [
    # grammar
    ("", "^", "there is nothing here; write something like: disk | ext4"),
    ("   ", "^", "there is nothing here"),
    ("disk |", "      ^", "expected a layer name after '|', but the text ends there"),
    ("disk | | ext4", "       ^", "expected a layer name after '|', but found '|'"),
    ("| ext4", "^", "expected a layer name at the start, but found '|'"),
    ("disk ext4", "     ^", "expected '|' or the end after 'disk', but found 'ext4'"),
    ("disk | ext4)", "           ^", "expected '|' or the end after 'ext4', but found ')'"),
    ("hdd + | md", "      ^", "expected a layer name after '+'"),
    ("2* | md", "   ^", "expected a layer name after '*'"),
    ("two*hdd | md", "^", "expected a whole number before '*', but found 'two'"),
    ("2*2*hdd | md", "  ^", "only one number can stand before '*'"),
    ("(2*hdd | md", "           ^", "close the '(' of column 1"),
    ("disk | {ext4, xfs", "                 ^", "expected ',' or '}' after 'xfs', but the text ends there"),
    ("disk | {}", "        ^", "expected a layer name after '{'"),
    ("disk | {ext4,}", "             ^", "expected a layer name after ','"),
    ("disk | ext4(noatime", "                   ^", "close the '(' of column 12"),
    ("disk | ext4(noatime,)", "                    ^", "expected an argument after ','"),
    ("disk | ext4(mkfs=)", "                 ^", "expected a value after '='"),
    ("disk | ext4(mkfs=a=b)", "                  ^", "expected ',' or ')' after 'a', but found '='"),
    ("disk | ext4(mkfs={a, b=c})", "                      ^", "expected ',' or '}' after 'b'"),
    ("disk | ext4(mkfs='a b')", "                 ^", "a single quotation mark cannot stand here"),
    ('disk | ext4(mkfs="a)', "                 ^", "this quotation mark is never closed"),
    ('disk | ext4(mkfs="a\\qb")', "                   ^", "\\q means nothing between quotation marks"),
    ('disk | "ext4"', "       ^", "expected a layer name after '|', but found '\"ext4\"'"),
    ("disk | $", "       ^", "expected the name of a factor right after '$'"),
    ("(" * 41 + "disk", " " * 41 + "^", "brackets are nested more than 40 deep"),
    # names
    ("disk | ext5", "       ^", "there is no layer 'ext5' (did you mean 'ext4'?); the layers are age, btrfs"),
    ("ext4 | xfs", "^", "ext4 is a layer and cannot stand at the start; put it on a disk: disk | ext4"),
    ("etx4 | xfs", "^", "looks like the layer ext4; write disk | ext4"),
    ("ext3 | xfs", "^", "looks like the layer ext4"),
    ("XFS", "^", "looks like the layer xfs"),
    ("/srv/vm | docker", "^", "'/srv/vm' cannot be a disk role"),
    ("4hdd | md", "^", "'4hdd' cannot be a disk role"),
    ("hdd(3) | md", "    ^", "a role takes no arguments; remove them"),
    ("exsting(/srv)", "        ^", "did you mean 'existing'"),
    ("disk | existing(/x)", "       ^", "existing stands on nothing, so it can only stand at the start"),
    ("disk | disk", "       ^", "disk is a disk role and can only stand at the start of a chain; join disks with '+'"),
    ('fio:"x" | ext4', "^", "only a workload takes a path"),
    ('disk | fio:"x"', "       ^", "only a workload takes a path"),
    ("disk | $fs", "       ^", "there is no factor 'fs'; list its levels under factors: in a campaign file"),
    # composition
    ("disk | ext4 | md", "              ^", "md sits on a block device, but ext4 gives a directory"),
    (
        "disk | ext4 | scheduler(none)",
        "              ^",
        "scheduler sits on a block device, but ext4 gives a directory",
    ),
    ("disk | ext4 | fill(1%) | md", "                         ^", "but fill gives a directory"),
    (
        "disk | qcow2",
        "       ^",
        "qcow2 sits on a directory, but disk gives a block device; put btrfs, ext4, xfs or zfs",
    ),
    ("4*hdd", "^", "this stack ends in 4 things side by side; join them with a layer that takes several: btrfs, lvm"),
    ("2*hdd | ext4", "        ^", "this stack ends in 2 things side by side; join them lower down"),
    ("hdd + ssd", "^", "this stack ends in 2 things"),
    ("0*hdd | md", "^", "0* takes nothing"),
    ("1001*hdd | md", "^", "more than 1000 disks"),
    ("100*(20*hdd | md) | md", "^", "more than 1000 disks"),
    ("600*hdd + 600*ssd | md", "                    ^", "more than 1000 disks"),
    ("disk" + " | scheduler" * 101, " " * (7 + 99 * 12) + "^", "more than 100 layers high"),
    ("disk | 2*ext4", "       ^", "2* can only multiply what stands at the start of a chain"),
    ("disk | ext4 + xfs", "              ^", "'+' can only join what stands at the start of a chain"),
    ("disk | {ext4, lvmthin | xfs}(noatime)", " " * 29 + "^", "'lvmthin | xfs' is not a single layer"),
    ("disk" + " | odd({1, 2})" * 20, "^", "a matrix of more than 100000 stacks"),
    # abilities
    (
        "disk | xfs | degraded",
        "             ^",
        "degraded needs a layer below that can lose a disk: btrfs, md or zfs",
    ),
    ("disk | lvmthin | ext4 | degraded(2)", "                        ^", "that can lose a disk: btrfs, md or zfs"),
    ("disk | ext4 | snapshot | qcow2", "              ^", "that can hold snapshots: btrfs, lvmthin or zfs"),
    ("hdd + (ssd | lvmthin | snapshot) | lvmcache | xfs | zvol", " " * 52 + "^", "that can carry volumes: zfs"),
    ("(2*hdd | md) + ssd | snapshot | btrfs", " " * 21 + "^", "snapshot needs a layer below that can hold"),
    ("disk | btrfs | duperemove", "               ^", "can be deduplicated: there is none, so take it out"),
    # arguments
    (
        "disk | ext4(noatme)",
        "            ^",
        "ext4 has no argument 'noatme' (did you mean 'noatime'?); ext4 takes noatime,",
    ),
    ("disk | ext4(sise=4)", "            ^", "ext4 has no argument 'sise'; ext4 takes noatime, barrier and mkfs=TEXT"),
    ("disk | ext4(noatime=maybe)", "                    ^", "'maybe' is neither on nor off"),
    ("disk | ext4(noatime, noatime=off)", "                     ^", "ext4 got noatime twice; keep one of them"),
    ("disk | ext4(noatime, noatime)", "                     ^", "ext4 got noatime twice"),
    ("disk | ext4(mkfs)", "            ^", "mkfs needs a value; write mkfs=TEXT"),
    ('disk | ext4("noatime")', "            ^", "noatime is a flag; write it without quotation marks"),
    ("disk | md(raid1, raid0)", "                 ^", "md got level twice"),
    ("disk | md(raid11)", "          ^", "did you mean 'raid1'"),
    (
        "disk | md(level=raid11)",
        "                ^",
        "'raid11' is no level (did you mean 'raid1'?); choose from raid0, raid1 and",
    ),
    ("disk | md(chunk=1K)", "                ^", "chunk cannot be 1K; the least is 4K"),
    ("disk | md(chunk=2G)", "                ^", "chunk cannot be 2G; the most is 1G"),
    ("disk | md(chunk=4X)", "                ^", "'4X' is not a size; write it as 4K, 512M or 10G"),
    ("disk | zfs(mirror=1.5)", "                  ^", "'1.5' is not a whole number"),
    ("disk | zfs(mirror=9)", "                  ^", "mirror cannot be 9; the most is 8"),
    ("disk | ext4 | age(skew=1e999)", "                       ^", "'1e999' is not a number"),
    ("disk | ext4 | age(10)", "                  ^", "'10' is not a time; write it as 100ms, 30s, 20m or 8h"),
    ("disk | fill", "       ^", "fill needs level (the level); write fill(LEVEL)"),
    ("disk | fill(x)", "            ^", "'x' is not a percentage; write it as 80%"),
    ("disk | fill(5%, 6%)", "                ^", "fill got level twice"),
    ("disk | ext4(mkfs=$x)", "                 ^", "there is no factor 'x'"),
]


@pytest.mark.parametrize(("expression", "marker", "message"), CASES)
def test_one_mistake_gives_one_problem_at_its_column(expression: str, marker: str, message: str) -> None:
    (problem,) = problems(expression)
    assert message in problem.message
    assert (problem.where, problem.line, problem.column) == ("here", 1, marker.index("^") + 1)
    assert problem.excerpt == expression.rstrip()


@pytest.mark.parametrize("role", ["hdd", "ssd", "nvme", "disk1", "cache", "fast-disk", "zfsx", "md0"])
def test_roles_that_are_no_slip(role: str) -> None:
    assert parse_stacks(role, LAYERS)[0].disks() == {role: 1}


def test_lines_are_counted() -> None:
    (problem,) = problems("disk\n  | md(raid1,\n\t chunk=1X)\n  | ext4")
    assert (problem.line, problem.column, problem.excerpt) == (3, 9, "  chunk=1X)")
    assert str(problem).splitlines()[-1] == "  " + " " * 8 + "^"


def test_everything_wrong_is_said_at_once_in_the_order_of_writing() -> None:
    expression = "disk | ext5(x) | {md(chunk=1K, bogus), xfs(nope=1)} | {zfs, ext4(noatime=2)} | fill"
    found = [(problem.column, problem.message.split(";")[0]) for problem in problems(expression)]
    assert found == [
        (8, "there is no layer 'ext5' (did you mean 'ext4'?)"),
        (28, "chunk cannot be 1K"),
        (32, "md has no argument 'bogus'"),
        (44, "xfs has no argument 'nope'"),
        (74, "'2' is neither on nor off"),
        (80, "fill needs level (the level)"),
    ]


def test_a_wrong_composition_does_not_hide_what_is_wrong_above_it() -> None:
    assert [p.column for p in problems("disk | ext4 | md | ext4 | md(bogus)")] == [15, 27, 30]


def test_a_mistake_in_a_condition_does_not_hide_that_nothing_below_can_do_it() -> None:
    found = [(p.column, p.message.split(";")[0]) for p in problems("disk | ext4 | degraded(x)")]
    assert found[0] == (15, "degraded needs a layer below that can lose a disk: btrfs, md or zfs")
    assert found[1][0] == 24


def test_a_matrix_does_not_repeat_a_problem() -> None:
    assert len(problems("disk | scheduler({none, bfq, kyber}) | {ext4, btrfs} | {docker, fill(2%)} | ext4(nope)")) == 3


def test_a_mistake_in_a_level_points_into_the_level() -> None:
    (problem,) = problems("disk | $fs", fs=["ext4", "xfs(nope)"])
    assert (problem.where, problem.column, problem.excerpt) == ("factor fs", 5, "xfs(nope)")
    (problem,) = problems("disk | $fs", fs=["ext4", "xfs("])
    assert (problem.where, problem.column) == ("factor fs", 5)
    (problem,) = problems("disk | $fs", fs=["ext4", "$other"])
    assert "a level cannot use another factor" in problem.message
    (problem,) = problems("disk | $hosts", host=["ext4"])
    assert problem.message == "there is no factor 'hosts' (did you mean 'host'?); the factors are host"


def refusal(expression: str) -> str:
    """What the catalogue of Strata itself has against it; "" for nothing."""
    try:
        parse_stacks(expression, layers.catalogue())
    except BadInput as error:
        return str(error)
    return ""


@pytest.mark.parametrize("below", ["disk", "disk | ext4", "disk | xfs", "disk | zfs", "disk | lvm", "disk | vm"])
def test_a_layer_to_put_between_can_stand_there(below: str) -> None:
    for above in sorted(layers.catalogue()):
        advice = re.search("put (.*) between them", refusal(f"{below} | {above}"))
        for name in re.split(", | or ", advice[1]) if advice else ():
            said = refusal(f"{below} | {name} | {above}")
            assert " sits on " not in said and "needs a layer below" not in said, said


def test_a_volume_of_zfs_is_suggested_on_zfs_alone() -> None:
    assert "zvol" not in refusal("disk | ext4 | bcache")
    assert "put zvol between them" in refusal("disk | zfs | bcache")
