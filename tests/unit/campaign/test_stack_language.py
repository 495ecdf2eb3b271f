"""What stack expressions mean: every example of the design page, precedence, canonical text, factors."""

from __future__ import annotations

import pytest

from strata.campaign import canonical, parse_stacks
from strata.model import Node

from .catalogue import LAYERS


def texts(expression: str, **factors: list[str]) -> list[str]:
    return [stack.text for stack in parse_stacks(expression, LAYERS, factors=factors)]


DESIGN_PAGE = {
    "disk | xfs(noatime)": ["disk | xfs(noatime)"],
    "4*hdd | md(raid10, chunk=512K) | lvmthin(zero=off) | {ext4, xfs}": [
        "4*hdd | md(raid10) | lvmthin(zero=off) | ext4",
        "4*hdd | md(raid10) | lvmthin(zero=off) | xfs",
    ],
    "4*hdd | {btrfs(raid10), btrfs(raid10, nodatacow), zfs(mirror=2, compression=lz4)}": [
        "4*hdd | btrfs(raid10)",
        "4*hdd | btrfs(raid10, nodatacow)",
        "4*hdd | zfs(mirror=2, compression=lz4)",
    ],
    "(2*hdd | md(raid1)) + ssd | lvmcache({writeback, writethrough}) | btrfs | {qcow2, raw} "
    "| vm(cache={none, writeback}) | ext4": [
        f"(2*hdd | md) + ssd | lvmcache({mode}) | btrfs | {image} | {vm} | ext4"
        for mode in ("writeback", "writethrough")
        for image in ("qcow2", "raw")
        for vm in ("vm", "vm(cache=writeback)")
    ],
    "disk | {ext4, xfs} | docker(overlay2)": ["disk | ext4 | docker(overlay2)", "disk | xfs | docker(overlay2)"],
    "disk | lvmthin | containerd(devmapper, base_size={25G, 100G})": [
        "disk | lvmthin | containerd(devmapper, base_size=25G)",
        "disk | lvmthin | containerd(devmapper, base_size=100G)",
    ],
    "disk | scheduler({none, mq-deadline, bfq}) | ext4": [
        "disk | scheduler(none) | ext4",
        "disk | scheduler(mq-deadline) | ext4",
        "disk | scheduler(bfq) | ext4",
    ],
    "existing(/srv/vm)": ["existing(/srv/vm)"],
    "disk | ext4 | fill(80%)": ["disk | ext4 | fill(80%)"],
}


@pytest.mark.parametrize("expression", DESIGN_PAGE)
def test_the_examples_of_the_design_page(expression: str) -> None:
    assert texts(expression) == DESIGN_PAGE[expression]


@pytest.mark.parametrize(
    "text",
    [
        "disk",
        "4*hdd | md(raid10) | ext4",
        "(2*hdd | md) + ssd | lvmcache(writeback)",
        "4*(hdd | scheduler(none)) | md(raid10)",
        "2*(2*hdd | md) + 2*ssd + hdd | md(raid0)",
        "2*((2*hdd | md) + ssd | lvmcache) | md(raid0)",
        'disk | ext4(mkfs="-b size=4096")',
        'disk | ext4(barrier=off, mkfs="a\\\\b \\"c\\"\\n")',
        'disk | ext4(mkfs="")',
        'disk | ext4(mkfs="$x")',
        "disk | ext4(mkfs=a$x)",
        "disk | ext4 | age(90s, skew=2.5)",
        "disk | ext4 | fill(33.3%)",
        "disk | lvmthin(chunk=64K)",
        "disk | odd(depth=5)",  # bare, 5 would be the count
        "disk | odd(label=quick)",  # bare, quick would be the flag
        "disk | odd(7, 5, x, quick)",
        "disk | odd(label=7)",
    ],
)
def test_canonical_text_is_its_own_canonical_text(text: str) -> None:
    (stack,) = parse_stacks(text, LAYERS)
    assert stack.text == text
    assert canonical(stack.top) == text


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (" disk|xfs ( noatime ) ", "disk | xfs(noatime)"),
        ("disk\n| xfs(\n  noatime)", "disk | xfs(noatime)"),
        ("disk | xfs()", "disk | xfs"),
        ("((disk)) | (xfs)", "disk | xfs"),
        ("disk | (scheduler(none) | xfs)", "disk | scheduler(none) | xfs"),
        ("(disk | scheduler(none)) | xfs", "disk | scheduler(none) | xfs"),
        ("hdd + hdd + ssd | md", "2*hdd + ssd | md"),
        ("hdd + ssd + hdd | md", "hdd + ssd + hdd | md"),
        ("2*2hdd | md".replace("2hdd", "hdd"), "2*hdd | md"),
        ("2*(2*hdd) | md", "4*hdd | md"),
        ("1*hdd | md", "hdd | md"),
        ("2*hdd + 2*hdd | md", "4*hdd | md"),
        ("4*hdd | scheduler(none) | md(raid10)", "4*(hdd | scheduler(none)) | md(raid10)"),
        ("2*hdd + ssd | scheduler(none) | md", "2*(hdd | scheduler(none)) + (ssd | scheduler(none)) | md"),
        ("disk | md(chunk=524288, level=raid1)", "disk | md"),
        ("disk | md(chunk=64KiB, raid0, bitmap=no)", "disk | md(raid0, chunk=64K, bitmap=off)"),
        ("disk | ext4(noatime=yes, barrier=on)", "disk | ext4(noatime)"),
        ("disk | ext4(noatime=off)", "disk | ext4"),
        ("disk | lvmthin(zero=true)", "disk | lvmthin(zero)"),
        ("disk | lvmthin(chunk=0.5M)", "disk | lvmthin(chunk=512K)"),
        ("disk | ext4 | fill(0.8)", "disk | ext4 | fill(80%)"),
        ("disk | ext4 | fill(level=80%)", "disk | ext4 | fill(80%)"),
        ("disk | ext4 | age(60000ms, skew=1e0)", "disk | ext4 | age(1m)"),
        ('disk | ext4(mkfs="plain")', "disk | ext4(mkfs=plain)"),
        ('existing("/srv/vm")', "existing(/srv/vm)"),
        ("existing(path=/srv/my-vm)", "existing(/srv/my-vm)"),
        ("disk | odd(quick, 7, 5)", "disk | odd(7, 5, quick)"),
        ("disk | odd(count=3, depth=5)", "disk | odd(depth=5)"),
        ("disk | odd(5, count=3)", "disk | odd(depth=5)"),  # named ones are settled first
    ],
)
def test_one_stack_has_one_text_however_it_is_written(written: str, text: str) -> None:
    assert texts(written) == [text]


def test_a_layer_for_one_input_is_put_on_each_and_a_joining_one_takes_them_all() -> None:
    (stack,) = parse_stacks("2*hdd + ssd | scheduler(none) | md", LAYERS)
    assert [node.call.text for node in stack.top.inputs] == ["scheduler(none)"] * 3
    assert [node.inputs[0].call["role"] for node in stack.top.inputs] == ["hdd", "hdd", "ssd"]
    assert stack.disks() == {"hdd": 2, "ssd": 1}


def test_times_binds_tighter_than_plus_and_plus_tighter_than_the_pipe() -> None:
    (stack,) = parse_stacks("2*hdd + ssd | md", LAYERS)
    assert len(stack.top.inputs) == 3
    (stack,) = parse_stacks("ssd + (2*hdd | md) | lvmcache", LAYERS)
    assert [node.call.text for node in stack.top.inputs] == ["ssd", "md"]


def test_every_parameter_has_its_value() -> None:
    (stack,) = parse_stacks("disk | md(chunk=64K) | ext4(mkfs=x, barrier=off)", LAYERS)
    assert dict(stack.top.call.values) == {"noatime": False, "barrier": False, "mkfs": "x"}
    assert dict(stack.top.inputs[0].call.values) == {"level": "raid1", "chunk": 65536, "bitmap": True}
    assert dict(stack.top.inputs[0].inputs[0].call.values) == {"role": "disk"}
    (stack,) = parse_stacks("disk | lvmthin", LAYERS)
    assert dict(stack.top.call.values) == {"zero": None, "chunk": None}


def test_the_first_alternative_varies_slowest() -> None:
    assert texts("{hdd, ssd} | scheduler({none, bfq}) | {ext4, xfs}") == [
        f"{role} | scheduler({name}) | {fs}"
        for role in ("hdd", "ssd")
        for name in ("none", "bfq")
        for fs in ("ext4", "xfs")
    ]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("disk | ext4({noatime, barrier=off})", ["disk | ext4(noatime)", "disk | ext4(barrier=off)"]),
        ("disk | ext4(noatime={on, off})", ["disk | ext4(noatime)", "disk | ext4"]),
        ("disk | ext4({mkfs={a, b}, noatime})", [f"disk | ext4({a})" for a in ("mkfs=a", "mkfs=b", "noatime")]),
        ("disk | {{ext4, xfs}, btrfs}", ["disk | ext4", "disk | xfs", "disk | btrfs"]),
        ("disk | {ext4, lvmthin | xfs}", ["disk | ext4", "disk | lvmthin | xfs"]),
        ("{disk | ext4, existing(/x)} | docker", ["disk | ext4 | docker", "existing(/x) | docker"]),
        ("{2*hdd, hdd + ssd} | md", ["2*hdd | md", "hdd + ssd | md"]),
        ("2*{hdd, ssd} | md", ["2*hdd | md", "2*ssd | md"]),
        ("2*(hdd | scheduler({none, bfq})) | md", [f"2*(hdd | scheduler({n})) | md" for n in ("none", "bfq")]),
        ("disk | {ext4, xfs}(noatime)", ["disk | ext4(noatime)", "disk | xfs(noatime)"]),
        (
            "disk | {ext4, xfs(nobarrier)}(noatime={on, off})",
            ["disk | ext4(noatime)", "disk | ext4", "disk | xfs(noatime, nobarrier)", "disk | xfs(nobarrier)"],
        ),
        ("disk | {ext4, ext4(barrier=on), xfs}", ["disk | ext4", "disk | xfs"]),
        ("disk | {ext4}", ["disk | ext4"]),
    ],
)
def test_alternatives_stand_anywhere(expression: str, expected: list[str]) -> None:
    assert texts(expression) == expected


def levels(expression: str, **factors: list[str]) -> list[dict[str, str]]:
    return [dict(stack.factors) for stack in parse_stacks(expression, LAYERS, factors=factors)]


def test_factors_are_called_after_what_they_vary() -> None:
    assert levels("{hdd, ssd} | {ext4, xfs(noatime=on)} | qcow2 | vm(cache={none, writeback})")[-1] == {
        "layer 1": "ssd",
        "layer 2": "xfs(noatime)",
        "cache": "writeback",
    }
    assert levels("disk | lvmthin(chunk={64k, 0.5M}) | ext4")[1] == {"chunk": "512K"}
    assert levels("disk | lvmcache({writeback, writethrough})")[0] == {"mode": "writeback"}
    assert levels("disk | ext4({noatime, barrier=off})") == [
        {"ext4 argument": "noatime"},
        {"ext4 argument": "barrier=off"},
    ]
    assert levels("disk | {ext4, lvmthin | {xfs, btrfs}}")[1:] == [
        {"layer 2": "lvmthin | {xfs, btrfs}", "layer 2.2.2": "xfs"},
        {"layer 2": "lvmthin | {xfs, btrfs}", "layer 2.2.2": "btrfs"},
    ]
    assert levels("disk | ext4") == [{}]


def test_factors_that_would_share_a_name_are_told_apart() -> None:
    assert levels("disk | lvmthin(chunk={1M, 2M}) | md(chunk={4K, 8K})")[0] == {"lvmthin chunk": "1M", "md chunk": "4K"}
    assert levels("disk | lvmthin(chunk={1M, 2M}) | lvmthin(chunk={4M, 8M})")[0] == {"chunk": "1M", "chunk 2": "4M"}
    assert levels("disk | $chunk | lvmthin(chunk={4M, 8M})", chunk=["md", "lvmthin"])[0] == {
        "chunk": "md",
        "lvmthin chunk": "4M",
    }


def test_a_named_factor_has_one_level_everywhere() -> None:
    expression = "disk | lvmthin(chunk=$c) | {ext4, xfs} | qcow2 | vm | md(chunk=$c)"
    assert texts(expression, c=["64K", "128K"]) == [
        f"disk | lvmthin(chunk={c}) | {fs} | qcow2 | vm | md(chunk={c})"
        for c in ("64K", "128K")
        for fs in ("ext4", "xfs")
    ]
    assert levels(expression, c=["64K", "128K"])[0] == {"c": "64K", "layer 3": "ext4"}


def test_a_named_factor_is_read_as_what_its_place_asks_for() -> None:
    assert texts("disk | $fs(noatime)", fs=["ext4", "xfs"]) == ["disk | ext4(noatime)", "disk | xfs(noatime)"]
    assert texts("$d | md", d=["2*hdd", "hdd + ssd"]) == ["2*hdd | md", "hdd + ssd | md"]
    assert texts("disk | $s", s=["lvmthin | ext4", "{xfs, btrfs}"]) == [
        "disk | lvmthin | ext4",
        "disk | xfs",
        "disk | btrfs",
    ]
    assert texts("disk | ext4($o)", o=["noatime", "mkfs=x"]) == ["disk | ext4(noatime)", "disk | ext4(mkfs=x)"]
    assert texts("disk | {$fs, btrfs}", fs=["ext4", "xfs"]) == ["disk | ext4", "disk | xfs", "disk | btrfs"]


def test_a_factor_used_often_does_not_multiply_with_itself() -> None:
    expression = "disk" + " | lvmthin(chunk=$c)" * 6
    assert len(texts(expression, c=[f"{n}K" for n in range(1, 11)])) == 10


def test_canonical_needs_no_catalogue() -> None:
    (stack,) = parse_stacks("(2*hdd | md) + ssd | lvmcache(writeback)", LAYERS)
    again = Node(stack.top.call, (Node(stack.top.inputs[0].call, stack.top.inputs[0].inputs), stack.top.inputs[1]))
    assert canonical(again) == stack.text
