"""The environment that commands run in, whatever the caller's is."""

from __future__ import annotations

import pytest

from strata.cli.start import environment


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (":/usr/bin", "/usr/bin"),
        ("/usr/bin:", "/usr/bin"),
        ("/a::/b", "/a:/b"),
        (".:/usr/bin:bin:~/bin", "/usr/bin"),
        ("", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        (".", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ],
)
def test_a_program_is_never_looked_for_in_the_current_directory(given: str, path: str) -> None:
    assert environment({"PATH": given})["PATH"] == path
    assert "/usr/bin" in environment({})["PATH"]


_REMOVED = (
    "LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT GLIBC_TUNABLES BASH_ENV ENV PERL5OPT PERL5LIB PYTHONPATH PYTHONSTARTUP "
    "PYTHONHOME PYTHONIOENCODING IFS CDPATH SHELLOPTS LUA_PATH_5_1 LUA_INIT BASH_FUNC_mount%%"
)


@pytest.mark.parametrize("name", _REMOVED.split())
def test_what_makes_a_program_load_other_code_is_not_passed_on(name: str) -> None:
    assert environment({"PATH": "/bin", name: "x"}) == {"PATH": "/bin"}


def test_the_rest_is_the_user_s() -> None:
    own = {"PATH": "/opt/fio/bin:/bin", "HOME": "/root", "http_proxy": "x", "PGPASSWORD": "y", "LANG": "tr_TR.UTF-8"}
    assert environment(own) == own


@pytest.mark.parametrize(("columns", "kept"), [("80", True), ("0", False), ("-1", False), ("9" * 11, False)])
def test_a_width_that_no_terminal_has_is_not_believed(columns: str, kept: bool) -> None:
    assert ("COLUMNS" in environment({"PATH": "/bin", "COLUMNS": columns})) is kept
