"""`strata` started as root in a directory, an environment and with streams that somebody else prepared."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from strata.store import reader

ROOT = Path(__file__).parents[2]
# The command as it is installed, read from here: an installed one may be of another tree.
STRATA = (sys.executable, str(ROOT / "packaging" / "stratabench.data" / "scripts" / "strata"))
TREE = str(ROOT / "python")
PROGRAMS = ("sh", "mkfs.ext4", "wipefs", "mount", "losetup", "findmnt", "blkid", "fio", "python", "strata-engine")
MODULES = ("json", "libvirt", "sitecustomize", "numpy", "typer", "strata/__init__")

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(os.geteuid() != 0, reason="builds a stack on a loop device"),
]


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A directory whose programs and modules leave a file `ran-NAME` when they are executed."""
    place = tmp_path / "trap"
    (place / "strata").mkdir(parents=True)
    for name in PROGRAMS:
        (place / name).write_text(f"#!/bin/bash\n: >'{place}/ran-{name}'\nexit 1\n")
        (place / name).chmod(0o755)
    for name in MODULES:
        code = f"open('{place}/ran-{name.replace('/', '.')}', 'w').close()\n"
        (place / f"{name}.py").write_text(code)
    return place


def strata(*arguments: str, cwd: Path, redirect: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """`redirect`: redirections as a shell writes them."""
    argv: tuple[str, ...] = (*STRATA, *arguments)
    if redirect:
        argv = ("/bin/sh", "-c", f'exec "$@" {redirect}', "sh", *argv)
    own: Mapping[str, str] = {**os.environ, "PYTHONPATH": TREE, **environment}
    return subprocess.run(argv, cwd=cwd, env=own, capture_output=True, text=True, check=False)


def build(directory: Path, *more: str) -> tuple[str, ...]:
    return ("run", "disk | ext4", "-w", "null", "--rounds", "1", "--size", "disk=256M", "--out", str(directory), *more)


def ran(trap: Path) -> list[str]:
    return sorted(path.name for path in trap.glob("ran-*"))


def test_no_program_of_the_current_directory_is_run(trap: Path, tmp_path: Path) -> None:
    """Seen: with an empty element in PATH, root ran `./sh`, `./mkfs.ext4` and whatever else lay there."""
    done = strata(*build(tmp_path / "run"), cwd=trap, PATH=f":.:../trap:{os.environ['PATH']}")
    assert ran(trap) == []
    assert done.returncode == 0, done.stderr


def test_no_module_of_the_current_directory_is_imported(trap: Path) -> None:
    """Seen: `strata doctor` ran the system's Python with `import libvirt`, which found `./libvirt.py`."""
    done = strata("doctor", cwd=trap, PYTHONSTARTUP=str(trap / "json.py"))
    assert ran(trap) == []
    assert done.returncode == 0, done.stderr


def test_a_relative_element_of_the_module_path_does_not_lead_to_the_current_directory(trap: Path) -> None:
    (trap / "sitecustomize.py").unlink()  # Python itself imports that one, before any line of ours
    done = strata("show", "layers", cwd=trap, PYTHONPATH=f":{TREE}")
    assert ran(trap) == []
    assert done.returncode == 0 and "ext4" in done.stdout, done.stderr


def test_a_preloaded_library_does_not_serve_the_measured_program(tmp_path: Path) -> None:
    """eatmydata turns fsync off in whatever is started below it; a figure under it is not the stack's."""
    script = tmp_path / "seen.sh"
    script.write_text(f"#!/bin/sh\nenv >{tmp_path}/environment\n")
    more = ("-w", f"command:{script}")
    done = strata(*build(tmp_path / "run", *more), cwd=tmp_path, LD_PRELOAD="libc.so.6", BASH_ENV="/nonexistent")
    assert done.returncode == 0, done.stderr
    assert "LD_PRELOAD='libc.so.6' is not passed on" in done.stderr
    seen = (tmp_path / "environment").read_text()
    assert "LD_PRELOAD" not in seen and "BASH_ENV" not in seen and "STRATA_TARGET=" in seen


@pytest.mark.parametrize("mask", [0, pytest.param(0o077, marks=pytest.mark.slow)])
def test_nobody_else_may_write_what_a_run_makes(tmp_path: Path, mask: int) -> None:
    directory = tmp_path / "run"
    before = os.umask(mask)
    try:
        done = strata(*build(directory), cwd=tmp_path)
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stderr
    loose = [path for path in (directory, *directory.rglob("*")) if stat.S_IMODE(path.stat().st_mode) & 0o022]
    assert loose == []


@pytest.mark.parametrize(
    "redirect", ["<&- >&- 2>&-", *(pytest.param(one, marks=pytest.mark.slow) for one in ("<&-", ">&-", "2>&-"))]
)
def test_closed_streams_are_not_mistaken_for_files(tmp_path: Path, redirect: str) -> None:
    """The next file opened gets the number of a closed stream: what is printed would be written into a database."""
    directory = tmp_path / "run"
    done = strata(*build(directory), cwd=tmp_path, redirect=redirect)
    assert done.returncode == 0, done.stderr
    assert reader.view(directory).visits_done == 1


def test_a_full_output_is_named(tmp_path: Path) -> None:
    done = strata("show", "layers", cwd=tmp_path, redirect=">/dev/full")
    assert done.returncode == 2
    assert "standard output: No space left on device" in done.stderr and "Traceback" not in done.stderr


ODD = (
    {"LC_ALL": "tr_TR.UTF-8"},
    {"LC_ALL": "de_DE.UTF-8"},
    {"LC_ALL": "POSIX"},
    {"LC_ALL": "xx_YY.none", "LANGUAGE": "xx"},
    {"PYTHONIOENCODING": "ascii:strict"},
    {"HOME": ""},
    {"HOME": "relative", "XDG_CACHE_HOME": "relative"},
    {"TERM": "\x1b[31m", "COLUMNS": "9" * 11},
    {"TMPDIR": "/proc", "TERM": ""},
)


@pytest.mark.slow
def test_figures_do_not_depend_on_locale_home_and_terminal(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    assert strata(*build(directory), cwd=tmp_path).returncode == 0
    usual = strata("verdict", str(directory), "--json", cwd=tmp_path)
    for odd in ODD:
        done = strata("verdict", str(directory), "--json", cwd=tmp_path, **odd)
        assert (done.returncode, done.stdout) == (0, usual.stdout), f"{odd}: {done.stderr}"
        plain = strata("verdict", str(directory), cwd=tmp_path, **odd)
        assert plain.returncode == 0 and "Traceback" not in plain.stderr, f"{odd}: {plain.stderr}"
        if "PYTHONIOENCODING" not in odd:
            built = strata(*build(tmp_path / "odd"), cwd=tmp_path, **odd)
            assert built.returncode == 0, f"{odd}: {built.stderr}"
            subprocess.run(["rm", "-rf", tmp_path / "odd"], check=True)
