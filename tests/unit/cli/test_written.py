"""What the command line says of the testbed and its disks, alone and over a campaign file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from strata.campaign import Campaign, DiskSpec
from strata.cli.advise import Flags, advise
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


@pytest.fixture
def kinds(tmp_path: Path) -> Path:
    """Files that no campaign is in, and that are no end to read or wait for."""
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: \xff\n")
    with (tmp_path / "huge.yaml").open("wb") as file:
        file.truncate(1 << 40)
    return tmp_path


_SENTENCES = {
    "pipe.yaml": "it is a named pipe, not a regular file",
    "zero.yaml": "it is a character device, not a regular file",
    "folder.yaml": "it is a directory, not a regular file",
    "loop.yaml": "Too many levels of symbolic links",
    "latin.yaml": "it is not UTF-8 text",
    "huge.yaml": "it is larger than 1 MiB",
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", _SENTENCES)
def test_only_a_regular_file_of_bounded_size_is_read(kinds: Path, name: str) -> None:
    """A pipe blocked for ever, /dev/zero and a huge file filled the memory."""
    (kinds / "c.yaml").write_text(f"stacks: [disk | ext4]\nworkloads: ['command:{name}']\n")
    (kinds / "m.yaml").write_text(f"testbed: lab\nstacks: [disk | ext4]\ndisks: {{disk: {{model: {name}}}}}\n")
    linked = name == "zero.yaml"  # what a campaign names lies below its directory, with all links followed
    for by_campaign, attempt in (
        (False, lambda: campaign([str(kinds / name)], [], [])),
        (True, lambda: campaign([str(kinds / "c.yaml")], [], [])),
        (True, lambda: campaign([str(kinds / "m.yaml")], [], [])),
        (False, lambda: campaign(["disk | ext4"], [f"fio:{kinds / name}"], [])),
        (False, lambda: campaign(["disk | ext4"], [], [], Where(on="lab", models=(f"disk={kinds / name}",)))),
        (False, lambda: advise(kinds / name, (), Flags(), as_json=False)),
    ):
        with pytest.raises(BadInput) as caught:
            attempt()
        assert ("does not lie below" if by_campaign and linked else _SENTENCES[name]) in str(caught.value)


def test_a_file_is_utf_8_whatever_the_locale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.yaml").write_bytes("name: größe\r\nstacks: [disk | ext4]\r\n".encode())
    monkeypatch.setattr("locale.getpreferredencoding", lambda *_: "ascii")
    assert campaign([str(tmp_path / "c.yaml")], [], []).name == "größe"
