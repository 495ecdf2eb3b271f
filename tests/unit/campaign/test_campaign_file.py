"""The campaign file: what it may hold, the spelled-out form, exclusion, and every mistake at its line and column."""

from __future__ import annotations

import contextlib
from textwrap import dedent

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strata.campaign import DEFAULT_DISK_BYTES, Campaign, DiskSpec, document, load
from strata.campaign.testbed import FEATURES
from strata.errors import BadInput, Problem
from strata.lab import spec
from strata.model import Rule, Testbed

from .catalogue import LAYERS, WORKLOADS

PATIENT = settings(deadline=None)


def read_file(path: str) -> str:
    if path == "models/mine.yaml":
        return "seek: 8ms"
    if path != "jobs/a.fio":
        raise FileNotFoundError(2, "No such file or directory")
    return "[a]"


def campaign(text: str) -> Campaign:
    return load(dedent(text), where="dir/lab.yaml", layers=LAYERS, workloads=WORKLOADS, read_file=read_file)


def stacks(text: str) -> list[str]:
    return [stack.text for stack in campaign(text).stacks]


def problems(text: str) -> list[Problem]:
    with pytest.raises(BadInput) as caught:
        campaign(text)
    return list(caught.value.problems)


FULL = """\
name: a name
about: why
testbed: local
memory: 2G
disks: {hdd: {size: 8G}, ssd: }
factors:
  fs: [ext4, xfs(noatime)]
  mode: [none, writeback]
stacks:
  - 2*hdd | md | $fs | qcow2 | vm(cache=$mode)
  - ssd | btrfs
exclude:
  - {fs: ext4, mode: [writeback, none]}
  - 2*hdd | md | xfs(noatime) | qcow2 | vm
workloads:
  - fio/randrw-75-25(runtime={10s, 20s})
  - dd/seqwrite-sync: {size: 2G}
  - fio:jobs/a.fio
rule: {rounds: 7, within: 5%, confidence: 99%, budget: 2h}
seed: 11
"""


def test_everything_a_file_can_say() -> None:
    found = campaign(FULL)
    assert (found.name, found.about, found.testbed, found.memory_bytes) == ("a name", "why", Testbed(), 2 << 30)
    assert found.disks == {"hdd": DiskSpec(8 << 30), "ssd": DiskSpec(DEFAULT_DISK_BYTES)}
    assert [stack.text for stack in found.stacks] == [
        "2*hdd | md | xfs(noatime) | qcow2 | vm(cache=writeback)",
        "ssd | btrfs",
    ]
    assert dict(found.stacks[0].factors) == {"fs": "xfs(noatime)", "mode": "writeback"}
    assert [call.text for call in found.workloads] == [
        "fio/randrw-75-25(runtime=10s)",
        "fio/randrw-75-25(runtime=20s)",
        "dd/seqwrite-sync(size=2G)",
        "fio:jobs/a.fio",
    ]
    assert found.rule == Rule(7, 0.05, 0.99, 7200.0)
    assert found.seed == 11
    assert found.text == FULL


def test_what_is_not_said_has_a_default() -> None:
    found = campaign("stacks: [disk | ext4]\nrule:\nseed: ~\nabout:\n")
    assert (found.name, found.about, found.testbed, found.memory_bytes, found.seed) == (
        "lab",
        "",
        Testbed(),
        None,
        None,
    )
    assert found.rule == Rule()
    assert found.disks == {"disk": DiskSpec(DEFAULT_DISK_BYTES)}
    assert [call.text for call in found.workloads] == ["fio/randrw-75-25", "dd/seqwrite-sync"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("local", Testbed()),
        ("{local: }", Testbed()),
        ("ssh:root@server", Testbed("ssh", "root@server")),
        ("{ssh: server}", Testbed("ssh", "server")),
        ("lab", Testbed("lab")),
        ("{lab: }", Testbed("lab")),
        ("{lab: {debian: 12, cpus: 4}}", Testbed("lab", debian=12, cpus=4)),
        (
            "{lab: {kernel: 6.1, features: [zfs, qemu]}}",
            Testbed("lab", kernel="6.1", features=frozenset({"zfs", "qemu"})),
        ),
        ("{lab: {clock: virtual}}", Testbed("lab", clock="virtual", memory_bytes=8 << 30, cpus=1)),
        (
            "{lab: {clock: virtual, memory: 3G, cpus: 2}}",
            Testbed("lab", clock="virtual", memory_bytes=3 << 30, cpus=2),
        ),
    ],
)
def test_testbeds(written: str, meant: Testbed) -> None:
    assert campaign(f"stacks: [disk]\ntestbed: {written}\n").testbed == meant


def test_the_features_of_a_lab_are_those_that_labs_are_built_with() -> None:
    written = campaign(f"stacks: [disk]\ntestbed: {{lab: {{features: [{', '.join(FEATURES)}]}}}}\n").testbed.features
    assert written == set(FEATURES) == set(spec.FEATURES)


def test_disks_of_the_lab() -> None:
    found = campaign(
        """\
        stacks: [hdd + ssd + disk | btrfs]
        testbed: {lab: {clock: virtual}}
        seeds: 3
        disks:
          hdd: {size: 8G, model: hdd-7200, write_cache: volatile}
          ssd: {model: models/mine.yaml, write_cache: none}
        """
    )
    assert found.disks == {
        "hdd": DiskSpec(8 << 30, "hdd-7200", None, "volatile"),
        "ssd": DiskSpec(model="models/mine.yaml", model_text="seek: 8ms", write_cache="none"),
        "disk": DiskSpec(),
    }
    assert (found.seed, found.rule.rounds) == (1, 3), "exact figures are the same for everybody"
    assert campaign("stacks: [disk]\ntestbed: {lab: {clock: virtual}}\nseed: 5\n").seed == 5
    assert campaign("stacks: [disk]\ntestbed: lab\n").seed is None


SPELLED = [
    ("[disk, ext4]", "disk | ext4"),
    ("[disk, ext4: ]", "disk | ext4"),
    ("[disk, {ext4: {}}]", "disk | ext4"),
    ("[disk, {ext4: noatime}]", "disk | ext4(noatime)"),
    ("[disk, {ext4: {noatime: on, mkfs: -b size=4096}}]", 'disk | ext4(noatime, mkfs="-b size=4096")'),
    ("[disk, {ext4: {noatime: true, barrier: off}}]", "disk | ext4(noatime, barrier=off)"),
    ("[disk, {ext4: {mkfs: ''}}]", 'disk | ext4(mkfs="")'),
    ("[disk, {zfs: {mirror: 2}}]", "disk | zfs(mirror=2)"),
    ("[{count: 4, of: hdd}, {md: {level: raid10}}, ext4]", "4*hdd | md(raid10) | ext4"),
    ("[4*hdd, md(raid10), {any: [ext4, xfs]}]", "4*hdd | md(raid10) | {ext4, xfs}"),
    ("[4*hdd | md(raid10), {any: [ext4, [lvmthin, xfs]]}]", "4*hdd | md(raid10) | {ext4, lvmthin | xfs}"),
    (
        "[{join: [[2*hdd, md], ssd]}, {lvmcache: {mode: {any: [writeback, writethrough]}}}, btrfs]",
        "(2*hdd | md) + ssd | lvmcache(mode={writeback, writethrough}) | btrfs",
    ),
    ("[{count: 2, of: [hdd, {scheduler: none}]}, md]", "2*(hdd | scheduler(none)) | md"),
    ("[disk, {ext4: {any: [noatime, barrier]}}]", "disk | ext4({noatime, barrier})"),
    ("[disk, $fs]", "disk | $fs"),
    ("[disk, {$fs: {noatime: on}}]", "disk | $fs(noatime=on)"),
    ("[disk, lvmthin: {chunk: $c}]", "disk | lvmthin(chunk=$c)"),
]


@pytest.mark.parametrize(("spelled", "expression"), SPELLED)
def test_the_spelled_out_form_is_the_same_thing(spelled: str, expression: str) -> None:
    uses = [name for name in ("fs", "c") if f"${name}" in expression]
    levels = {"fs": "[ext4, xfs]", "c": "[64K, 128K]"}
    factors = "factors:\n" + "".join(f"  {name}: {levels[name]}\n" for name in uses) if uses else ""
    one, two = (campaign(f"{factors}stacks:\n  - {text}\n") for text in (spelled, f"'{expression}'"))
    assert one.stacks == two.stacks
    assert [dict(stack.factors) for stack in one.stacks] == [dict(stack.factors) for stack in two.stacks]


def test_a_workload_spelled_out() -> None:
    found = campaign(
        """\
        stacks: [disk | ext4]
        workloads:
          - fio:jobs/a.fio: {runtime: {any: [5s, 6s]}}
          - dd/seqwrite-sync@study:
        """
    )
    assert [call.text for call in found.workloads] == [
        "fio:jobs/a.fio(runtime=5s)",
        "fio:jobs/a.fio(runtime=6s)",
        "dd/seqwrite-sync@study",
    ]


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        ("{fs: ext4}", ["xfs | vm", "xfs | vm(cache=writeback)"]),
        ("{fs: ext4, cache: none}", ["ext4 | vm(cache=writeback)", "xfs | vm", "xfs | vm(cache=writeback)"]),
        ("{fs: [ext4], cache: [none, writeback]}", ["xfs | vm", "xfs | vm(cache=writeback)"]),
        ("disk | {ext4, xfs} | qcow2 | vm", ["ext4 | vm(cache=writeback)", "xfs | vm(cache=writeback)"]),
        ("[disk, $fs, qcow2, vm]", ["ext4 | vm(cache=writeback)", "xfs | vm(cache=writeback)"]),
        (
            "disk | xfs | qcow2 | vm(cache=none)",
            ["ext4 | vm", "ext4 | vm(cache=writeback)", "xfs | vm(cache=writeback)"],
        ),
    ],
)
def test_exclusion(rule: str, left: list[str]) -> None:
    text = "factors: {fs: [ext4, xfs]}\nstacks:\n  - disk | $fs | qcow2 | vm(cache={none, writeback})\nexclude:\n"
    assert stacks(f"{text}  - {rule}\n") == [f"disk | {stack.replace(' | ', ' | qcow2 | ')}" for stack in left]


LAB_WITH = "stacks: [disk]\ntestbed: {lab:"
# Each case: a file, and for each problem its line, its column and a part of its sentence.
MISTAKES: list[tuple[str, list[tuple[int, int, str]]]] = [
    ("", [(1, 1, "a campaign file is a list of keys with values; write at least: stacks: [disk | ext4]")]),
    ("- a", [(1, 1, "a campaign file is a list of keys")]),
    ("stacks: [disk | ext4", [(1, 21, "this is not YAML")]),
    ("stacks:\n  - {disk, hdd} | md\n", [(2, 19, "this is not YAML")]),
    ("a: 1\n---\nb: 2\n", [(2, 1, "this is not YAML")]),
    ("stacks: [disk]\nx: \x07", [(1, 1, "this is not YAML")]),
    ("name: x", [(1, 1, "stacks is missing; write a list of expressions, as stacks: [disk | ext4]")]),
    ("stacks: disk | ext4", [(1, 9, "stacks cannot be 'disk | ext4'; write a list of expressions")]),
    ("stacks: []", [(1, 9, "stacks cannot be what stands here; write a list")]),
    ("stacks: [disk]\nstack: [x]", [(2, 1, "there is no key 'stack' here (did you mean 'stacks'?); use name, about")]),
    ("stacks: [disk]\nseed: 1\nseed: 2", [(3, 1, "'seed' is written twice; keep one of them")]),
    ("stacks: [disk]\n? [a]\n: b", [(2, 3, "a key is a plain word")]),
    ("stacks: [disk]\nname: [a]", [(2, 7, "a single value belongs here")]),
    (
        "stacks: [disk]\ntestbed: lap",
        [(2, 10, "'lap' is no testbed (did you mean 'lab'?); write local, lab or ssh:HOST")],
    ),
    ("stacks: [disk]\ntestbed: {ssh: }", [(2, 15, "'' is no host for ssh")]),
    ("stacks: [disk]\ntestbed: 'ssh:'", [(2, 11, "'' is no host for ssh; write it as in ssh:root@server")]),
    ("stacks: [disk]\ntestbed: ssh:-oProxyCommand=x", [(2, 10, "'-oProxyCommand=x' is no host for ssh")]),
    ("stacks: [disk]\ntestbed: {ssh: a b}", [(2, 16, "'a b' is no host for ssh")]),
    ("stacks: [disk]\ntestbed: {lab: , local: }", [(2, 10, "one testbed belongs here; write local, lab, ssh:HOST or")]),
    ("stacks: [disk]\ntestbed: [lab]", [(2, 10, "one testbed belongs here")]),
    ("stacks: [disk]\ntestbed: {lap: }", [(2, 11, "no key 'lap' here (did you mean 'lab'?); use local, lab and ssh")]),
    ("stacks: [disk]\ntestbed: {lab: 13}", [(2, 16, "lab cannot be '13'; write it as testbed: {lab: {debian: 13")]),
    (
        "stacks: [disk]\ntestbed: {lab: {clck: real}}",
        [(2, 17, "no key 'clck' here (did you mean 'clock'?); use clock")],
    ),
    (
        f"{LAB_WITH}\n\n {{clock: exact,\n debian: x,\n kernel: k,\n memory: 1,\n cpus: 0,\n features: [zfs, xfs]}}}}",
        [
            (4, 10, "clock cannot be 'exact'; write real or virtual"),
            (5, 10, "debian cannot be 'x'; write the number of a release, as 13"),
            (6, 10, "'k' is no version of a kernel; write it as 6.12"),
            (7, 10, "memory cannot be '1'; write a size of at least 256M"),
            (8, 8, "cpus cannot be '0'; write a whole number from 1 to 255"),
            (
                9,
                18,
                "features cannot be 'xfs'; write a list of some of these: containers, install, postgres, qemu, zfs",
            ),
        ],
    ),
    ("stacks: [disk]\ndisks: {disk: {model: x}}", [(2, 23, "only a disk of the lab has a model; write testbed: lab")]),
    (
        "stacks: [disk]\ntestbed: lab\ndisks: {disk: {model: no.yaml}}",
        [(3, 23, "cannot read no.yaml: No such file or directory; check the path")],
    ),
    (
        "stacks: [disk]\ndisks: {disk: {write_cache: big}}",
        [(2, 29, "write_cache cannot be 'big'; write volatile, protected or none")],
    ),
    ("stacks: [disk]\nseeds: 0", [(2, 8, "seeds cannot be '0'; write a whole number from 1 to 10000")]),
    ("stacks: [disk]\ntestbed: lab\nseeds: 3", [(3, 8, "seeds are the replicates of the virtual clock; write rule")]),
    (
        "stacks: [disk]\ntestbed: {lab: {clock: virtual}}\nseeds: 3\nrule: {rounds: 2}",
        [(3, 8, "on the virtual clock a round is a seed; write seeds or rounds, not both")],
    ),
    ("stacks: [disk]\nmemory: 2X", [(2, 9, "'2X' is not a size")]),
    ("stacks: [disk]\nmemory: 2", [(2, 9, "memory cannot be '2'; write a size of at least 1M")]),
    ("stacks: [disk]\nseed: -1", [(2, 7, "seed cannot be '-1'; write a whole number from 0 on")]),
    ("stacks: [disk]\nseed: x", [(2, 7, "seed cannot be 'x'; write a whole number from 0 on")]),
    ("stacks: [disk]\nrule: {rounds: 0}", [(2, 16, "rounds cannot be '0'; write a whole number from 1")]),
    ("stacks: [disk]\nrule: {rounds: 1.5}", [(2, 16, "rounds cannot be '1.5'")]),
    ("stacks: [disk]\nrule: {within: 0%}", [(2, 16, "within cannot be '0%'; write a percentage between")]),
    ("stacks: [disk]\nrule: {within: 3}", [(2, 16, "'3' has no unit; write it as 3%")]),
    ("stacks: [disk]\nrule: {confidence: 100%}", [(2, 20, "confidence cannot be '100%'")]),
    ("stacks: [disk]\nrule: {confidence: 10%}", [(2, 20, "confidence cannot be '10%'")]),
    ("stacks: [disk]\nrule: {budget: 2}", [(2, 16, "'2' is not a time")]),
    (
        "stacks: [disk]\nrule: {bugdet: 2h}",
        [(2, 8, "no key 'bugdet' here (did you mean 'budget'?); use rounds, within")],
    ),
    ("stacks: [disk]\nrule: 5", [(2, 7, "rule cannot be '5'; write it as rule: {rounds: 5}")]),
    ("stacks: [disk]\ndisks: {disk: {sise: 1G}}", [(2, 16, "no key 'sise' here (did you mean 'size'?); use size")]),
    ("stacks: [disk]\ndisks: {disk: 1G}", [(2, 15, "disks cannot be '1G'; write it as disks: {hdd: {size: 8G}}")]),
    ("stacks: [hdd | ext4]\ndisks: {hd: {size: 1G}}", [(2, 9, "no stack uses the disk role hd (did you mean 'hdd'?)")]),
    ("stacks: [disk]\nfactors: {fs: x}", [(2, 15, "factors cannot be 'x'"), (2, 11, "no stack uses the factor fs")]),
    ("stacks: [disk]\nfactors: {fs: []}", [(2, 15, "factors cannot be"), (2, 11, "no stack uses")]),
    ("stacks: [disk]\nfactors: {fs: [ext4]}", [(2, 11, "no stack uses the factor fs; write $fs in one")]),
    ("stacks: [$fs |]\nfactors: {fs: [ext4]}", [(1, 15, "expected a layer name after '|'")]),
    ("stacks: [disk | $fs]\nfactors: {fs: [ext4, ext4]}", [(2, 22, "'ext4' is a level of fs already")]),
    ("stacks: [disk | $fs]\nfactors:\n  fs:\n    - 'xfs(nope)'", [(4, 12, "xfs has no argument 'nope'")]),
    ("stacks:\n  - disk | xfs(nope)", [(2, 16, "xfs has no argument 'nope'")]),
    ('stacks:\n  - "disk | xfs(nope)"', [(2, 17, "xfs has no argument 'nope'")]),
    ("stacks:\n  - [disk, {ext5: {}}]", [(2, 13, "there is no layer 'ext5'")]),
    (
        "stacks:\n  - [disk, {ext4: {noatime: maybe, nope: 1}}]",
        [(2, 29, "'maybe' is neither"), (2, 36, "no argument 'nope'")],
    ),
    ("stacks:\n  - [disk, {ext4: {noatime: [on]}}]", [(2, 29, "alternatives are written {any: [a, b]}")]),
    ("stacks:\n  - [disk, {ext4: {noatime: }}]", [(2, 28, "a value is a single word")]),
    ("stacks:\n  - [disk, {ext4: {}, xfs: {}}]", [(2, 23, "'xfs' is a second layer in one item")]),
    (
        "stacks:\n  - [{count: x, of: hdd}, {zfs: {mirror: 1}}]",
        [(2, 14, "count is a whole number"), (2, 42, "the least is 2")],
    ),
    ("stacks:\n  - [{count: 2}, md]", [(2, 6, "count and of go together; write {count: 4, of: hdd}")]),
    ("stacks:\n  - [disk, {any: []}]", [(2, 18, "a list of layers belongs here")]),
    ("stacks:\n  - [disk, {any: ext4}]", [(2, 18, "a list of layers belongs here")]),
    ("stacks:\n  - []", [(2, 5, "a list of layers belongs here")]),
    ("stacks:\n  - [disk, ]\n  -", [(3, 4, "a stack is an expression, or a list of layers")]),
    ("stacks:\n  - {disk: {}}", [(2, 5, "a stack is an expression, or a list of layers")]),
    ("stacks: [disk]\nworkloads: [nul]", [(2, 13, "there is no workload 'nul' (did you mean 'null'?)")]),
    ("stacks: [disk]\nworkloads: []", [(2, 12, "workloads cannot be")]),
    ("stacks: [disk]\nworkloads: [[null]]", [(2, 13, "a workload is an expression such as")]),
    ("stacks: [disk]\nworkloads: [{null: {x: 1}}]", [(2, 21, "null has no argument 'x'")]),
    ("stacks: [disk]\nworkloads: ['fio:b']", [(2, 14, "cannot read b: No such file or directory; check the path")]),
    ("stacks: [disk]\nexclude: [ssd]", [(2, 11, "this rule removes no stack")]),
    ("stacks: [disk]\nexclude: [disk]", [(2, 1, "these rules leave no stack to run; take one of them out")]),
    ("stacks: [disk]\nexclude: [{fs: ext4}]", [(2, 12, "there is no factor 'fs'; no stack here has a factor")]),
    (
        "stacks: ['{hdd, ssd}']\nexclude: [{layer 2: hdd}]",
        [(2, 12, "'layer 2' (did you mean 'layer 1'?); the factors are layer 1")],
    ),
    (
        "stacks: ['{hdd, ssd}']\nexclude: [{layer 1: hd}]",
        [(2, 21, "'hd' is no level of layer 1 (did you mean 'hdd'?); the levels are")],
    ),
    ("stacks: ['{hdd, ssd}']\nexclude: [{layer 1: [hdd, x]}]", [(2, 27, "'x' is no level of layer 1")]),
    ("stacks: ['{hdd, ssd}']\nexclude: [{}]", [(2, 11, "a rule is a stack expression, or factors with levels")]),
    ("stacks: ['{hdd, ssd}']\nexclude: ['hdd | xsf']", [(2, 18, "there is no layer 'xsf'")]),
    ("stacks: &a [*a]", [(1, 9, "refers to itself")]),
]


@pytest.mark.parametrize(("text", "expected"), MISTAKES)
def test_mistakes(text: str, expected: list[tuple[int, int, str]]) -> None:
    found = problems(text)
    assert [(p.line, p.column) for p in found] == sorted((line, column) for line, column, _ in expected)
    for line, column, message in expected:
        (problem,) = (p for p in found if (p.line, p.column) == (line, column))
        assert message in problem.message
        assert problem.where == "dir/lab.yaml"
        assert problem.excerpt == text.split("\n")[line - 1].rstrip()


def test_a_text_over_several_lines_counts_its_own_places() -> None:
    (problem,) = problems("stacks:\n  - |\n    disk\n    | xfs(nope)\n")
    assert (problem.where, problem.line, problem.column) == ("dir/lab.yaml (the text that begins on line 2)", 2, 7)
    assert problem.excerpt == "| xfs(nope)"


def test_all_mistakes_of_a_file_at_once() -> None:
    found = problems(
        """\
        nmae: x
        stacks:
          - disk | xfs(nope)
          - disk | $fx
          - [disk, {ext4: {sise: 4}}]
        factors: {fs: [xfz, ext4]}
        workloads: [nul]
        rule: {rounds: 0}
        """
    )
    assert [problem.line for problem in found] == [1, 3, 4, 5, 6, 7, 8]


def test_a_file_that_multiplies_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_VALUES", 1000)
    text = "a: &a [x, x]\n" + "".join(f"c{n}: &a [*a, *a, *a, *a]\n" for n in range(20))
    assert "too long or refers to itself" in problems(text)[0].message


LINES = st.sampled_from(
    [
        *(
            "stacks:",
            "stacks: [disk | ext4]",
            "  - disk | $fs",
            "  - [disk, {any: [ext4, xfs]}]",
            "  - {count: 4, of: hdd}",
        ),
        *("factors: {fs: [ext4, xfs]}", "exclude:", "  - {fs: ext4}", "  - disk | xfs", "rule: {rounds: 3}", "rule: x"),
        *(
            "workloads:",
            "  - null",
            "  - {null: {}}",
            "disks: {disk: {size: 1G}}",
            "disks: {x: }",
            "disks: {disk: {model: hdd-7200, write_cache: none}}",
            "testbed: {lab: {clock: virtual}}",
            "seeds: 2",
            "seed: 3",
            "seed: &a 3",
        ),
        *(
            "  - *a",
            "  x: y",
            "!!python/object:os.system x",
            "%YAML 1.1",
            "---",
            "\t- x",
            "name: |",
            "'",
            "? a",
            "<<: *a",
        ),
        *("memory: 010", "about: 2020-01-01", "testbed: !!int local", "  - !!null x", "seed: 1e400", "&a stacks: *a"),
    ]
)


@PATIENT
@given(st.one_of(st.text(), st.lists(LINES).map("\n".join)))
@example("a: " + "[" * 3000)
@example("a: " + "{a: " * 3000)
@example("stacks: [" + "[" * 60 + "disk" + "]" * 60 + "]")
@example("stacks: [disk]\nseed: " + "9" * 5000)
@example("\ud800")
@example("\x00")
@example("? \n: x")
def test_any_file_is_a_campaign_or_bad_input(text: str) -> None:
    with contextlib.suppress(BadInput):
        assert campaign(text).stacks
