"""The shells themselves accept the completion scripts and complete with them; man accepts the manual page."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SHARE = Path(__file__).parents[2] / "packaging" / "stratabench.data" / "data" / "share"
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
BASH = SHARE / "bash-completion" / "completions" / "strata"
ZSH = SHARE / "zsh" / "site-functions"
FISH = SHARE / "fish" / "vendor_completions.d" / "strata.fish"

# zsh completes only inside its editor: functions that print what they are given take the place of its own.
SCRIPTS = {
    "bash": (
        f"source {BASH}; COMP_WORDS=(strata report --c); COMP_CWORD=2; _strata_completion strata; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    ),
    "zsh": (
        "compdef() { }; _arguments() { print -l -- $* }; _describe() { print -l -- ${(P)2} ${(P)3} }; "
        f"words=(strata report --c); CURRENT=3; fpath=({ZSH} $fpath); autoload -Uz _strata; _strata"
    ),
    "fish": f"source {FISH}; complete --do-complete 'strata report --c'",
}


def run(*argv: str) -> str:
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} is not installed")
    done = subprocess.run(argv, capture_output=True, text=True, env=ENVIRONMENT, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_shell_completes_an_option(shell: str) -> None:
    assert "--csv" in run(shell, "-c", SCRIPTS[shell])


def test_man_reads_the_page_without_a_warning() -> None:
    assert "strata lab build" in run("man", "--warnings", "-l", str(SHARE / "man" / "man1" / "strata.1"))
