"""The manual page and the completion scripts of the command line, from its own parser.

`python -m strata.cli.manual DIR` writes them below DIR, as they lie below a prefix such as /usr.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer import _completion_shared as completion

from strata.cli import page_file
from strata.cli.app import app

_COMPLETIONS = {
    "bash": "share/bash-completion/completions/strata",
    "zsh": "share/zsh/site-functions/_strata",
    "fish": "share/fish/vendor_completions.d/strata.fish",
}
_MANUAL = "share/man/man1/strata.1"
_EXIT_CODES = (
    (0, "Success."),
    (1, "A visit or a trial failed, or something could not be removed."),
    (2, "Bad input; every problem is printed with its place."),
    (3, "Refused: it could cost data, or another run is at work here."),
    (4, "Nothing can run here, or no stack meets all requirements; every reason is printed."),
    (130, "Interrupted, after cleaning up."),
)


def files() -> dict[str, str]:
    """Return path below a prefix -> text of every file that the package installs for the shell and for man."""
    return {_MANUAL: page()} | {path: _completion(shell) for shell, path in _COMPLETIONS.items()}


def _completion(shell: str) -> str:
    script = completion.get_completion_script(prog_name="strata", complete_var="_STRATA_COMPLETE", shell=shell)
    # zsh reads the file as the body of the function when it is asked for the first time: that time must answer, too.
    return f'{script}\n\n_strata_completion "$@"\n' if shell == "zsh" else f"{script}\n"


def page() -> str:
    """Return the manual page in the macros of man(7)."""
    top = typer.main.get_command(app)
    lines = [
        '.\\" Generated from the command line by `make docs`; do not edit.',
        '.TH STRATA 1 "" "Strata" "User Commands"',
        ".SH NAME",
        "strata \\- build, measure and compare storage stacks",
        ".SH SYNOPSIS",
        ".B strata",
        "\\fICOMMAND\\fR [\\fIOPTION\\fR...] [\\fIARGUMENT\\fR...]",
        ".SH DESCRIPTION",
        _text(top.help or ""),
        ".SH OPTIONS",
        *_options(top),
        ".SH COMMANDS",
    ]
    for words, command in commands(top):
        lines += [f".SS strata {_text(' '.join(words))}", _text(command.help or ""), ".PP", *_usage(words, command)]
        lines += _options(command)
    lines += [".SH EXIT STATUS"]
    for code, about in _EXIT_CODES:
        lines += [".TP", f".B {code}", _text(about)]
    return "\n".join(lines) + "\n"


def commands(group: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the words and the parser of every command, those of a group (`lab build`) one by one."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*above, name))
        else:
            yield (*above, name), command


def _usage(words: tuple[str, ...], command: Any) -> list[str]:
    arguments = [_text(_metavar(param)) for param in command.params if param.param_type_name == "argument"]
    return [f".B strata {_text(' '.join(words))}", " ".join(["[\\fIOPTION\\fR...]", *arguments])]


def _options(command: Any) -> list[str]:
    lines: list[str] = []
    for param in command.params:
        if param.param_type_name == "argument":
            if param.help:
                lines += [".TP", f"\\fI{_text(_metavar(param))}\\fR", _text(param.help)]
            continue
        names = ", ".join(f"\\fB{_text(name)}\\fR" for name in [*param.opts, *param.secondary_opts])
        value = "" if param.is_flag else f" \\fI{_text(_metavar(param))}\\fR"
        lines += [".TP", f"{names}{value}", _text(param.help or "")]
    return lines


def _metavar(param: Any) -> str:
    return str(param.metavar or param.name.upper())


def _text(text: str) -> str:
    """Return `text` for roff: its signs escaped, on one line, never a line that begins with a control character."""
    escaped = re.sub(r"\s+", " ", text.strip()).replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


if __name__ == "__main__":
    for path, text in files().items():
        target = Path(sys.argv[1]) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        page_file.write(target, text)
