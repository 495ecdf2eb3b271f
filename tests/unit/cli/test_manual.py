"""The manual page and the completion scripts are those of the command line, and name all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from strata import errors
from strata.cli import manual
from strata.cli.app import app

DATA = Path(__file__).parents[3] / "packaging" / "stratabench.data" / "data"
FILES = manual.files()
TOP = typer.main.get_command(app)
COMMANDS = list(manual.commands(TOP))


@pytest.mark.parametrize("path", FILES)
def test_the_installed_files_are_not_stale(path: str) -> None:
    assert (DATA / path).read_text() == FILES[path], "run make docs"


def test_no_other_file_is_installed() -> None:
    assert {str(path.relative_to(DATA)) for path in DATA.rglob("*") if path.is_file()} == set(FILES)


@pytest.mark.parametrize(("words", "command"), COMMANDS, ids=[" ".join(words) for words, _ in COMMANDS])
def test_the_manual_page_names_every_command_and_option(words: tuple[str, ...], command: Any) -> None:
    heading = f".SS strata {' '.join(words)}"
    section = manual.page().partition(f"{heading}\n")[2].partition("\n.SS ")[0]
    assert section
    for param in command.params:
        if param.param_type_name == "option":
            for name in param.opts:
                assert rf"\fB{manual._text(name)}\fR" in section


def test_the_manual_page_has_every_exit_code() -> None:
    codes = {kind.exit_code for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "exit_code")}
    assert {code for code, _ in manual._EXIT_CODES} == codes | {0}


@pytest.mark.parametrize("text", [".SH not a heading", "a \\ and a 'quoted' -w"])
def test_text_never_drives_roff(text: str) -> None:
    escaped = manual._text(text)
    assert not escaped.startswith((".", "'")) and "\\ " not in escaped


def complete(line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What bash is told at the end of `line`."""
    monkeypatch.setenv("_STRATA_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
    with pytest.raises(SystemExit):
        TOP.main([], prog_name="strata")
    return set(capsys.readouterr().out.split())


@pytest.mark.parametrize(("words", "command"), COMMANDS, ids=[" ".join(words) for words, _ in COMMANDS])
def test_completion_offers_every_command_and_option(
    words: tuple[str, ...], command: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    *above, last = words
    assert last in complete(" ".join(["strata", *above, ""]), capsys, monkeypatch)
    options = {name for param in command.params if param.param_type_name == "option" for name in param.opts}
    offered = complete(" ".join(["strata", *words, "--"]), capsys, monkeypatch)
    assert {name for name in options if name.startswith("--")} <= offered
