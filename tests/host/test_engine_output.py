"""Nothing that the engine prints acts on a terminal or hides from a reader: it escapes what `strata.text` escapes."""

from __future__ import annotations

import json
import os
import subprocess
import unicodedata
from pathlib import Path

import pytest

from strata.hosts.local import engine_path
from strata.text import visible

pytestmark = pytest.mark.host

ACTS = "\x1b]52;c;aGk=\x07\x9b2J\u202e\U000e0041"
ESCAPED = "\\x1b]52;c;aGk=\\x07\\x9b2J\\u202e\\U000e0041"
PROGRAM = """\
set $dir=/tmp
set mode quit firstdone
{before}define fileset name="f{name}",path=$dir,entries=1,filesize=4k,prealloc
define process name="p{name}" {{
  thread name="t{name}" {{
    flowop openfile name="o{name}",filesetname="f{name}",fd=1
    flowop closefile name=c,fd=1
    flowop finishoncount name=done,value=2
  }}
}}
run 1
"""
# Without the ideographs and Hangul syllables, and of the upper planes only the tags and an end. No surrogate is UTF-8;
# a program in filebench's language holds no zero byte, and its strings no quote; lines are distinguished by line feeds.
CODES = (*range(1, 0x3400), *range(0xA000, 0xAC00), *range(0xE000, 0x11000), *range(0xE0000, 0xE0200), 0x10FFFF)
SIGNS = [sign for sign in map(chr, CODES) if sign not in '"\n']


def engine(*argv: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    # As bytes: text would come with its line ends changed.
    done = subprocess.run(
        (engine_path(), *map(str, argv)), input=stdin.encode(), capture_output=True, timeout=60, check=False
    )
    return subprocess.CompletedProcess(argv, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_every_character_is_shown_as_strata_text_shows_it() -> None:
    program = PROGRAM.format(name="", before="".join(f'echo "<{sign}>"\n' for sign in SIGNS))
    done = engine("wml", "check", "-", stdin=program)
    assert done.returncode == 0, done.stderr
    shown = [line[13:-2] for line in done.stdout.split("\n") if line.startswith("first: say '<")]
    assert len(shown) == len(SIGNS)
    otherwise = [sign for sign, text in zip(SIGNS, shown, strict=True) if text != visible(sign)]
    # A Unicode that is newer than this Python's has characters that Python does not know yet.
    assert {unicodedata.category(sign) for sign in otherwise} <= {"Cn"}, otherwise[:20]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / f"{ACTS}.f"
    file.write_text(PROGRAM.format(name=ACTS, before=f'echo "hi {ACTS}"\n'))
    return file


def test_a_program_of_a_stranger_is_run_and_told_of_in_visible_text(program: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    checked = engine("wml", "check", program)
    ran = engine("wml", "run", "--dir", target, program)
    for done in (checked, ran):
        assert done.returncode == 0, done.stderr
        assert visible(done.stdout) == done.stdout and visible(done.stderr) == done.stderr
    assert f"say 'hi {ESCAPED}'" in checked.stdout and f"f{ESCAPED}" in checked.stdout
    # The warnings of `check` come before what the program itself says.
    assert ran.stderr.endswith(f"hi {ESCAPED}\n") and f"o{ESCAPED}" in ran.stdout


def test_its_result_as_json_holds_the_names_and_no_such_character(program: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    done = engine("wml", "run", "--json", "--dir", target, program)
    assert done.returncode == 0, done.stderr
    assert visible(done.stdout) == done.stdout
    assert [files["name"] for files in json.loads(done.stdout)["filesets"]] == [f"f{ACTS}"]


@pytest.mark.parametrize(
    "argv",
    [
        ("wml", "check", f"missing{ACTS}"),
        ("wml", "run", "--dir", f"missing{ACTS}", "builtin:varmail"),
        ("wml", "check", "--seconds", ACTS, "builtin:varmail"),
        ("device", f"missing{ACTS}"),
        ("disk", "bounds", "--model", f"missing{ACTS}"),
        ("blank", "one", f"more{ACTS}"),
        ("batch", "--out", os.devnull, f"missing{ACTS}"),
        ("sample", "--out", os.devnull, "--", f"missing{ACTS}"),
    ],
)
def test_an_error_names_what_it_is_about_in_visible_text(argv: tuple[str, ...]) -> None:
    done = engine(*argv)
    assert done.returncode in (2, 127)
    assert ESCAPED in done.stderr and visible(done.stderr) == done.stderr
    assert done.stdout == ""


def test_findings_about_a_program_are_visible_text() -> None:
    done = engine("wml", "check", "-", stdin=f'set $dir=/tmp\nflowop "{ACTS}"\ndefine fileset "{ACTS}"=1\n{ACTS}\n')
    assert done.returncode == 2
    assert visible(done.stderr) == done.stderr
