"""The process as every command needs it, whoever started it and wherever: environment, standard streams, umask."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from strata.cli import output

# What makes a program load code or change its meaning, as sudo removes it (env_delete of sudoers(5)): the loader, the
# start-up files and search paths of interpreters, exported functions of shells. A measured program that loads a
# library of its caller's (eatmydata turns fsync off) would also give a figure that is not the stack's.
_REMOVED = re.compile(
    r"LD_.*|_RLD.*|GCONV_PATH|GLIBC_TUNABLES|GETCONF_DIR|LOCPATH|NLSPATH|PATH_LOCALE|HOSTALIASES|LOCALDOMAIN|RES_OPTIONS"
    r"|IFS|CDPATH|ENV|BASH_ENV|BASHOPTS|SHELLOPTS|PS4|FPATH|NULLCMD|READNULLCMD|ZDOTDIR|BASH_FUNC_.*"
    r"|PERLIO_DEBUG|PERLLIB|PERL5LIB|PERL5OPT|PERL5DB|PYTHON.*|RUBYLIB|RUBYOPT|LUA_(PATH|CPATH|INIT).*|JAVA_TOOL_OPTIONS"
    r"|TERMCAP|TERMINFO|TERMINFO_DIRS|TERMPATH"
)
# A width beyond this is no terminal's, and a table as wide fills the memory.
_WIDTH = re.compile(r"[1-9][0-9]{0,3}")
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def prepare() -> None:
    """Make this process independent of who started it. Says on standard error which library it does not pass on."""
    _open_standard_streams()
    os.umask(os.umask(0o022) | 0o022)  # nobody else may write what we make, whatever the caller's umask
    cleaned = environment(os.environ)
    if preloaded := os.environ.get("LD_PRELOAD"):
        output.err(f"strata: LD_PRELOAD={preloaded!r} is not passed on: the programs that are measured run without it.")
    for name in os.environ.keys() - cleaned.keys():
        del os.environ[name]
    os.environ.update(cleaned)


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Pure: `given` without what makes programs run other code; PATH names programs by absolute directories alone."""
    kept = {name: value for name, value in given.items() if not _REMOVED.fullmatch(name)}
    kept = {name: v for name, v in kept.items() if name not in ("COLUMNS", "LINES") or _WIDTH.fullmatch(v)}
    # An empty element and a relative one stand for the current directory, which may be a stranger's.
    absolute = [each for each in given.get("PATH", "").split(":") if each.startswith("/")]
    return {**kept, "PATH": ":".join(absolute) or _SYSTEM_PATH}


def _open_standard_streams() -> None:
    """Streams that the caller closed lead nowhere: the next file opened would get that number, and be printed to."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, so this one
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        # In a locale of another encoding a sign that it lacks is shown by its number.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
