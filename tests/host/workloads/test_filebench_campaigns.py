"""filebench's workloads and a program of the user's own in a campaign: built, run, and their figures kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from strata.model import Outcome
from strata.store import reader

pytestmark = [pytest.mark.host, pytest.mark.timeout(600)]

STRATA = str(Path(sys.executable).with_name("strata"))
LOADS = (
    "filebench/fileserver(runtime=1s, nfiles=4000, nthreads=4)",
    "filebench/varmail(runtime=1s, nfiles=1000, nthreads=4)",
    "filebench/webserver(runtime=1s, nfiles=200, nthreads=4)",
    "filebench/webproxy(runtime=1s, nfiles=1000, nthreads=4)",
    "filebench/oltp(runtime=1s, nfiles=2, nshadows=4)",
)
SHIPPED_LIKE = """\
set $dir=/tmp
set $nfiles=100
define fileset name=files,path=$dir,entries=$nfiles,filesize=4k,dirwidth=20,prealloc
define process name=reader {
  thread name=t,memsize=1m,instances=2 {
    flowop openfile name=open,filesetname=files,fd=1
    flowop readwholefile name=read,fd=1
    flowop closefile name=close,fd=1
  }
}
create files
system "sync"
run 60
"""


@pytest.fixture(autouse=True)
def needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("building stacks needs root")


def run(directory: Path, *loads: str) -> subprocess.CompletedProcess[str]:
    given = [part for load in loads for part in ("-w", load)]
    argv = [STRATA, "run", "disk | ext4", *given, "--rounds", "1", "--size", "disk=2G", "--out", str(directory)]
    return subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def test_every_workload_of_filebench_measures(tmp_path: Path) -> None:
    done = run(tmp_path / "run", *LOADS)
    assert done.returncode == 0, done.stderr
    trials = reader.view(tmp_path / "run").trials
    assert [(trial.workload, trial.outcome, trial.reason) for trial in trials] == [
        (load, Outcome.OK, None) for load in LOADS
    ]
    for trial in trials:
        assert trial.metrics["ops"] > 0 and trial.metrics["lat_p99_ms"] > 0, trial


def test_a_program_of_ones_own_with_commands_runs_when_these_are_allowed(tmp_path: Path) -> None:
    program = tmp_path / "mine.f"
    program.write_text(SHIPPED_LIKE)
    refused = run(tmp_path / "refused", f"wml:{program}(runtime=1s)")
    assert refused.returncode != 0 and "--system skip" in refused.stderr, refused
    done = run(tmp_path / "run", f'wml:{program}(runtime=1s, set="nfiles=50", system=run)')
    assert done.returncode == 0, done.stderr
    (trial,) = reader.view(tmp_path / "run").trials
    assert trial.outcome is Outcome.OK, trial.reason
    assert trial.metrics["ops"] > 0 and trial.metrics["read_ops"] > 0


# Each is a program from a stranger, and what is said of it. OUT is a directory that is not the target.
HOSTILE = {
    "system": ('system "touch OUT/owned"', "--system skip"),
    "load": ('load "/etc/passwd"', "load reads another file"),
    "cvar": ("define cvar name=cvar1,type=OUT/evil.so", "'cvar' cannot be defined"),
    "posset": ("define posset name=x,type=rnd", "posset"),
}
ESCAPING = {
    "absolute": "define fileset name=more,path=OUT,entries=2,filesize=1k,dirwidth=20,prealloc",
    "variable": "set $dir=OUT\ndefine fileset name=more,path=$dir/below,entries=2,filesize=1k,dirwidth=20,prealloc",
    "link": "define fileset name=more,path=$dir/../../link,entries=2,filesize=1k,dirwidth=20,prealloc",
    "name": 'define fileset name="../../more",path=$dir,entries=2,filesize=1k,dirwidth=20,prealloc',
}


def hostile(tmp_path: Path, line: str) -> Path:
    out = tmp_path / "elsewhere"
    out.mkdir(exist_ok=True)
    program = tmp_path / f"{abs(hash(line))}.f"
    text = SHIPPED_LIKE.replace('system "sync"\n', "").replace("create files\n", f"{line}\ncreate files\n")
    program.write_text(text.replace("OUT", str(out)))
    return program


def test_programs_that_would_do_more_than_io_are_refused_together(tmp_path: Path) -> None:
    loads = [f"wml:{hostile(tmp_path, line)}(runtime=1s)" for line, _ in HOSTILE.values()]
    refused = run(tmp_path / "run", *loads)
    assert refused.returncode != 0
    for _, words in HOSTILE.values():
        assert words in refused.stderr, (words, refused.stderr)
    assert not list((tmp_path / "elsewhere").iterdir())


def existing(tmp_path: Path, program: Path) -> subprocess.CompletedProcess[str]:
    argv = [STRATA, "run", f"existing({tmp_path / 'target'})", "-w", f"wml:{program}(runtime=1s)", "--rounds", "1"]
    argv += ["--out", str(tmp_path / "run")]
    return subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def test_what_names_a_file_in_filebench_writes_none(tmp_path: Path) -> None:
    """As its 1.4.9 has them: they are read and do nothing here."""
    (tmp_path / "target").mkdir()
    done = existing(tmp_path, hostile(tmp_path, 'log "OUT/owned"\nstats dump "OUT/owned"\nstats xmldump "OUT/owned"'))
    assert done.returncode == 0, done.stderr
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("name", ESCAPING)
def test_a_program_whose_files_would_lie_elsewhere_never_runs(tmp_path: Path, name: str) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    program = hostile(tmp_path, ESCAPING[name])
    precious = tmp_path / "elsewhere" / "more"
    precious.mkdir()
    (precious / "kept").touch()
    done = existing(tmp_path, program)
    assert done.returncode != 0, done
    assert [path.relative_to(tmp_path / "elsewhere") for path in (tmp_path / "elsewhere").rglob("*")] == [
        Path("more"),
        Path("more/kept"),
    ]
    assert not list((tmp_path / "target").iterdir())
