"""What the command line says of the testbed and its disks, alone and over a campaign file."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.campaign import Campaign, DiskSpec
from strata.cli.written import Where, campaign, existing, is_file
from strata.errors import BadInput
from strata.model import Testbed

FILE = """\
testbed: {lab: {debian: 12, cpus: 4}}
disks: {hdd: {size: 8G, model: hdd-7200, write_cache: volatile}}
stacks: [2*hdd | btrfs]
rule: {rounds: 7}
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "lab.yaml"
    file.write_text(FILE)
    return str(file)


def said(what: str, where: Where | None = None, sizes: tuple[str, ...] = ()) -> Campaign:
    return campaign([what], ["null"], sizes, where)


def wrong(what: str, where: Where, sizes: tuple[str, ...] = ()) -> list[str]:
    with pytest.raises(BadInput) as caught:
        said(what, where, sizes)
    return [problem.message for problem in caught.value.problems]


def test_expressions_run_here_unless_said_otherwise() -> None:
    assert said("disk | ext4").testbed == Testbed()
    assert said("disk | ext4", Where("ssh:root@server")).testbed == Testbed("ssh", "root@server")
    assert said("disk | ext4", Where("lab", debian=12, kernel="6.1")).testbed == Testbed("lab", debian=12, kernel="6.1")
    exact = said("disk | ext4", Where("lab", "virtual", seeds=3))
    assert exact.testbed == Testbed("lab", clock="virtual", memory_bytes=8 << 30, cpus=1)
    assert (exact.seed, exact.rule.rounds) == (1, 3)


def test_the_command_line_holds_over_the_file(path: str) -> None:
    assert said(path).testbed == Testbed("lab", debian=12, cpus=4)
    assert said(path, Where("lab", kernel="6.12")).testbed == Testbed("lab", debian=12, cpus=4, kernel="6.12")
    exact = said(path, Where(clock="virtual", debian=13)).testbed
    assert exact == Testbed("lab", debian=13, clock="virtual", memory_bytes=8 << 30, cpus=4), "cpus was said"
    assert said(path, Where(clock="virtual")).rule.rounds == 7
    assert said(path, Where("local")).disks == {"hdd": DiskSpec(8 << 30, write_cache="volatile")}
    assert said(path, Where("local")).testbed == Testbed()


def test_models_and_sizes_change_only_what_they_name(path: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("seek: 8ms")
    sized = said(path, sizes=("hdd=9G",)).disks["hdd"]
    assert sized == DiskSpec(9 << 30, "hdd-7200", None, "volatile")
    other = said(path, Where(models=("hdd=ssd-sata",))).disks["hdd"]
    assert other == DiskSpec(8 << 30, "ssd-sata", None, "volatile")
    own = said(path, Where(models=(f"hdd={tmp_path}/mine.yaml",))).disks["hdd"]
    assert (own.model, own.model_text) == (f"{tmp_path}/mine.yaml", "seek: 8ms")
    safe = said(path, Where(write_caches=("hdd=protected",))).disks["hdd"]
    assert safe == DiskSpec(8 << 30, "hdd-7200", None, "protected")


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        (Where("lap"), "'lap' is no testbed (did you mean 'lab'?); write local, lab or ssh:HOST."),
        (Where("local", clock="virtual"), "--clock can only be said of the lab; add --on lab."),
        (Where("local", debian=12, kernel="6.1"), "--debian and --kernel can only be said of the lab; add --on lab."),
        (Where(clock="exact"), "'exact' is no clock; write --clock real or --clock virtual."),
        (Where(kernel="x"), "'x' is no version of a kernel; write it as 6.12."),
        (Where(seeds=3), "--seeds are the replicates of the virtual clock; add --clock virtual, or say --rounds."),
        (Where(models=("hdd",)), "--disk takes ROLE=MODEL or ROLE=FILE.yaml, as in hdd=hdd-7200; 'hdd' is not."),
        (Where(models=("hdd=a", "hdd=b")), "--disk gives the role hdd two models; keep one of them."),
        (
            Where(models=("hd=a",)),
            "--disk: no stack uses the disk role hd (did you mean 'hdd'?); the roles in use are hdd.",
        ),
        (Where(models=("hdd=no.yaml",)), "--disk hdd=no.yaml: cannot read no.yaml: No such file or directory; check"),
        (
            Where(write_caches=("hdd=lost",)),
            "--write-cache takes ROLE=volatile|protected|none, as in hdd=none; 'hdd=lost' is not.",
        ),
        (
            Where(write_caches=("hdd=none", "hdd=none")),
            "--write-cache is said twice of the role hdd; keep one of them.",
        ),
        (Where(write_caches=("hd=none",)), "--write-cache: no stack uses the disk role hd (did you mean 'hdd'?)"),
        (Where("local", models=("hdd=a",)), "--disk gives a disk of the lab its model; add --on lab, or leave it out."),
    ],
)
def test_mistakes(path: str, where: Where, sentence: str) -> None:
    (found,) = wrong(path, where)
    assert found.startswith(sentence)


def test_a_size_for_a_role_that_is_not_there_is_a_mistake(path: str) -> None:
    assert len(wrong(path, Where(models=("hdd",)), ("hd=1G",))) == 2, "both at once"


def test_a_file_is_known_by_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "Vagrantfile").write_text("x")
    (tmp_path / "own" / "c.yaml").write_text(
        "stacks: [disk | ext4 | vagrant(virtualbox)]\nworkloads: ['vagrant:Vagrantfile']\n"
    )
    monkeypatch.chdir(tmp_path)
    stacks = ["disk | ext4 | vagrant(virtualbox)"]
    asked: list[tuple[list[str], list[str]]] = [(stacks, ["vagrant:own/Vagrantfile"]), (["own/c.yaml"], [])]
    for what, loads in asked:
        (call,) = campaign(what, loads, []).workloads
        assert call["file"] == str(tmp_path / "own" / "Vagrantfile")


def test_an_expression_may_be_longer_than_any_name_of_a_file(tmp_path: Path) -> None:
    layers = "disk | " + " | ".join(["lvm"] * 200)
    assert existing(layers) is None and existing("x" * 300) is None, "the file system refuses names of that length"
    assert existing(str(tmp_path)) == tmp_path
    assert said("x" * 300 + " | ext4").stacks and not is_file(["x" * 300])
