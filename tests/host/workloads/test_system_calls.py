"""What the workload engine asks of the kernel, as strace sees it, against what it says it did and the notes say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from strata.hosts.local import engine_path

pytestmark = [
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed: apt install strace"),
    pytest.mark.timeout(120),
]

# Calls on files of the tree for one operation of a flowop, by the beginning of its name. Reads of whole files go on
# until one finds the end: their number follows from the sizes, and the engine's own tests compare it.
CALLS = {
    "deletefile": ("unlink",),
    "createfile": ("stat", "open"),
    "openfile": ("open",),
    "closefile": ("close",),
    "appendfile": ("lseek", "write"),
    "appendlog": ("lseek", "write"),
    "fsyncfile": ("fsync",),
    "readfile": ("lseek",),
    "statfile": ("stat",),
    "wrtfile": ("write",),
    "vidremover": ("unlink",),
    "wrtopen": ("stat", "open"),
    "newvid": ("write",),
    "wrtclose": ("close",),
    "vidreader": (),
    "shadowread": ("pread",),
    "dbwrite-a": ("pwrite",),
    "lg-write": ("pwrite",),
}
THREADS = 2  # of one flowop, at most
SAME = {"pread64": "pread", "pwrite64": "pwrite", "unlinkat": "unlink", "newfstatat": "stat", "statx": "stat"}


def traced(directory: Path, program: str, seconds: int, *sets: str) -> tuple[dict[str, int], Counter[str]]:
    """Operations by flowop, and calls on files of the tree by name, each with the threads' last ones cut off or not."""
    settings = [f"--set={text}" for text in sets]
    run = [engine_path(), "wml", "run", f"builtin:{program}", f"--dir={directory}", *settings, f"--seconds={seconds}"]
    subprocess.run([*run, "--stage=create"], check=True, capture_output=True)
    log = directory.parent / "trace"
    line = ["strace", "-f", "-y", "-e", "trace=%file,%desc", "-o", str(log), *run, "--stage=run", "--json"]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    operations = {flowop["name"]: flowop["count"] for flowop in json.loads(done.stdout)["flowops"]}
    calls: Counter[str] = Counter()
    for text in log.read_text(errors="replace").splitlines():
        found = re.match(rf"\d+\s+(\w+)\(.*{re.escape(str(directory))}/[^\"> ]+/", text)
        # Before the run each directory of the tree is looked at, whether it is a link.
        if found and "AT_SYMLINK_NOFOLLOW" not in text:
            calls[SAME.get(found[1], found[1])] += 1
    return operations, calls


@pytest.mark.parametrize(
    ("program", "settings", "compared"),
    [
        ("varmail", ("nthreads=1", "nfiles=200"), "open close unlink stat fsync lseek write"),
        ("fileserver", ("nthreads=1", "nfiles=100", "filesize=16k"), "open close unlink stat lseek write"),
        ("webserver", ("nthreads=1", "nfiles=100"), "close lseek write unlink fsync"),
        ("webproxy", ("nthreads=1", "nfiles=100"), "open close unlink stat lseek write"),
        ("oltp", ("nshadows=2", "ndbwriters=1", "filesize=1m", "usermode=1000"), "pread pwrite fsync unlink"),
        ("videoserver", ("filesize=1m", "nthreads=2", "repintval=1"), "unlink write fsync"),
    ],
)
def test_the_kernel_is_asked_for_what_the_flowops_say(
    tmp_path: Path, program: str, settings: tuple[str, ...], compared: str
) -> None:
    directory = tmp_path / "tree"
    directory.mkdir()
    operations, calls = traced(directory, program, 3, *settings)
    expected: Counter[str] = Counter()
    under_way: Counter[str] = Counter()
    for name, count in operations.items():
        for beginning, each in CALLS.items():
            if name.startswith(beginning):
                expected.update(dict.fromkeys(each, count))
                under_way.update(each)
                break
    # A file that is opened for a read or write is one more operation of that flowop.
    opened = max(calls["open"] - expected["open"], 0) if "pread" in compared else 0
    for call in compared.split():
        # The end of the run finds each flowop at most once between its call and its being counted. Of writes that were
        # handed over (aiowrite counts that) those not begun by then are left out.
        least = 1 if call == "pwrite" else expected[call] - THREADS * under_way[call] - opened * (call == "pread")
        assert least <= calls[call] <= expected[call] + THREADS * under_way[call], call
    assert sum(expected.values()) > 10


def test_nothing_outside_the_directory_is_written(tmp_path: Path) -> None:
    directory = tmp_path / "tree"
    directory.mkdir()
    # Enough files that none is wanted while all are there: one that the other thread has open is not deleted.
    traced(directory, "fileserver", 1, "nthreads=2", "nfiles=2000", "filesize=4k")
    written = re.compile(r'open(?:at)?\((?:AT_FDCWD[^,]*, )?"([^"]+)", [^)]*O_(?:WRONLY|RDWR|CREAT)')
    paths = written.findall((tmp_path / "trace").read_text(errors="replace"))
    assert paths and {path for path in paths if not path.startswith(f"{directory}/")} <= {"/dev/null"}
