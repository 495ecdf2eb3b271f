"""When two campaigns are the same, how they differ, and campaigns from the command line."""

from __future__ import annotations

import pytest

from strata.campaign import Campaign, DiskSpec, differences, from_expressions, load, placed
from strata.errors import BadInput
from strata.model import Rule, Testbed

from .catalogue import LAYERS, WORKLOADS

FILES = {"a.fio": "[a]"}


def campaign(text: str, content: str = "[a]") -> Campaign:
    return load(text, where="x.yaml", layers=LAYERS, workloads=WORKLOADS, read_file=lambda _: content)


def from_line(*expressions: str, workloads: tuple[str, ...] = ()) -> Campaign:
    return from_expressions(expressions, workloads, layers=LAYERS, workloads=WORKLOADS, read_file=FILES.__getitem__)


BASE = "stacks: ['disk | {ext4, xfs}']\nworkloads: ['fio:a.fio', null]\n"


@pytest.mark.parametrize(
    "other",
    [
        BASE + "# a comment\n",
        BASE + "name: another\nabout: else\nseed: 5\n",
        BASE + "rule: {rounds: 50, budget: 9h, within: 1%, confidence: 90%}\n",
        BASE + "disks: {disk: {size: 4096M}}\n",
        "workloads: [null, 'fio:\"a.fio\"']\nstacks: [[disk, xfs], 'disk | ext4()']\n",
        BASE + "exclude: []\ntestbed: local\n",
    ],
)
def test_the_same_campaign(other: str) -> None:
    assert campaign(other).fingerprint == campaign(BASE).fingerprint
    assert differences(campaign(BASE).describe(), campaign(other).describe()) == []


@pytest.mark.parametrize(
    ("other", "content", "lines"),
    [
        (BASE.replace("xfs", "btrfs"), "[a]", ["- stacks: disk | xfs", "+ stacks: disk | btrfs"]),
        (BASE.replace(", null", ""), "[a]", ["- workloads: null"]),
        (BASE + "disks: {disk: {size: 5G}}\n", "[a]", ["~ disks disk: 4G, now 5G"]),
        (BASE + "memory: 2G\n", "[a]", ["~ memory: not stated, now 2G"]),
        (
            BASE.replace("'disk", "'hdd"),
            "[a]",
            [
                *("- stacks: disk | ext4", "- stacks: disk | xfs", "+ stacks: hdd | ext4", "+ stacks: hdd | xfs"),
                *("~ disks disk: 4G, now not stated", "~ disks hdd: not stated, now 4G"),
            ],
        ),
    ],
)
def test_another_campaign_and_what_is_different(other: str, content: str, lines: list[str]) -> None:
    assert campaign(other, content).fingerprint != campaign(BASE).fingerprint
    assert differences(campaign(BASE).describe(), campaign(other, content).describe()) == lines


LAB = BASE + "testbed: {lab: {clock: virtual}}\ndisks: {disk: {model: a.yaml}}\n"


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "clock: virtual",
            "debian: 13",
            "~ testbed: lab(clock=virtual, cpus=1, debian=13, memory=8G), now lab(clock=real, cpus=2, debian=13, ",
        ),
        ("virtual}", "virtual, debian: 12}", "debian=12, memory=8G)"),
        ("virtual}", "virtual, cpus: 2}", "cpus=2, debian=13, memory=8G)"),
        ("virtual}", "virtual, memory: 4G}", "debian=13, memory=4G)"),
        ("virtual}", "virtual, kernel: 6.1}", "kernel=6.1, memory=8G)"),
        ("virtual}", "virtual, features: [zfs, qemu]}", "features=qemu+zfs, memory=8G)"),
        ("model: a.yaml", "model: hdd", "now 4G, model hdd"),
        ("a.yaml", "a.yaml, write_cache: none", ", write cache none"),
        ("disks", "seed: 2\ndisks", "~ seed: 1, now 2"),
    ],
)
def test_all_that_an_exact_figure_depends_on_is_the_campaign(old: str, new: str, line: str) -> None:
    one, two = campaign(LAB), campaign(LAB.replace(old, new))
    assert one.fingerprint != two.fingerprint
    lines = differences(one.describe(), two.describe())
    assert any(line in each for each in lines), lines


def test_a_model_is_what_its_file_says() -> None:
    assert campaign(LAB, "seek: 8ms").fingerprint != campaign(LAB, "seek: 9ms").fingerprint
    renamed = load(
        LAB.replace("model: a.yaml", "model: b.yaml"),
        where="x.yaml",
        layers=LAYERS,
        workloads=WORKLOADS,
        read_file=lambda _: "[a]",
    )
    assert renamed.fingerprint == campaign(LAB).fingerprint
    assert campaign(LAB + "seeds: 9\n").fingerprint == campaign(LAB).fingerprint, "more seeds are more of the same"


def test_moving_a_campaign_out_of_the_lab_leaves_the_models_behind() -> None:
    there = campaign(LAB + "seeds: 3\n")
    here = placed(there, Testbed())
    assert here.disks == {"disk": DiskSpec()}
    assert (here.testbed, here.rule.rounds) == (Testbed(), 3)
    again = placed(there, Testbed("lab"))
    assert again.disks == there.disks


def test_a_changed_workload_file_is_another_campaign() -> None:
    one, two = campaign(BASE, "[a]"), campaign(BASE, "[b]")
    assert one.fingerprint != two.fingerprint
    (line,) = differences(one.describe(), two.describe())
    assert line.startswith("~ content fio:a.fio: ")


def test_differences_take_what_others_add_to_a_description() -> None:
    assert differences({}, {"devices": ["disk=/dev/x"]}) == ["+ devices: disk=/dev/x"]
    assert differences({"devices": ["a"]}, {"devices": []}) == ["- devices: a"]


def test_the_fingerprint_does_not_change_between_versions() -> None:
    """A run directory made today must be found to be the same campaign tomorrow."""
    assert campaign(BASE).fingerprint == "38fc29aedbb255650a6ebb3f2d42c9186c87dc65ff8534ddacd221e172a39e9c"


def test_a_command_line() -> None:
    found = from_line("hdd | {ext4,  xfs}", "4*ssd | zfs", workloads=("fio:a.fio(runtime={5s, 6s})", "null", "null"))
    assert [stack.text for stack in found.stacks] == ["hdd | ext4", "hdd | xfs", "4*ssd | zfs"]
    assert [call.text for call in found.workloads] == ["fio:a.fio(runtime=5s)", "fio:a.fio(runtime=6s)", "null"]
    assert found.name == "hdd | {ext4, xfs} and 1 more"
    assert found.disks == {"hdd": DiskSpec(), "ssd": DiskSpec()}
    assert (found.rule, found.seed, found.testbed, found.memory_bytes) == (Rule(), None, Testbed(), None)
    assert [call.text for call in from_line("disk | ext4").workloads] == ["fio/randrw-75-25", "dd/seqwrite-sync"]


def test_the_text_of_a_command_line_is_a_file_of_the_same_campaign() -> None:
    for expressions in (["disk | ext4"], ['disk\n| ext4(mkfs="a \\"b\\" é\\n")', "hdd | {ext4, xfs}"]):
        found = from_line(*expressions, workloads=("fio:a.fio(runtime=5s)",))
        again = campaign(found.text)
        assert again.fingerprint == found.fingerprint
        assert (again.name, again.stacks, again.workloads) == (found.name, found.stacks, found.workloads)


def test_mistakes_on_the_command_line_come_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        from_line("disk | ext5", "disk |", workloads=("nul", "fio:"))
    assert [(problem.where, problem.column) for problem in caught.value.problems] == [
        ("stack 2", 7),
        ("stack 1", 8),
        ("workload 1", 1),
        ("workload 2", 1),
    ]
    with pytest.raises(BadInput, match="no stack is given"):
        from_line()


def test_the_name_of_a_long_expression_is_a_heading_and_not_the_whole_of_it() -> None:
    tags = ", ".join(f"xfs(mkfs=v{number})" for number in range(200))
    made = from_expressions(
        [f"disk | {{{tags}}}"], ["null"], layers=LAYERS, workloads=WORKLOADS, read_file=lambda name: ""
    )
    assert len(made.stacks) == 200
    assert len(made.name) == 120 and made.name.startswith("disk | {xfs(mkfs=v0)") and made.name.endswith("…")
