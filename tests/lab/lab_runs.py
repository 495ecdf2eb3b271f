"""The command line in the lab, as a person uses it; and what it left in its store."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from strata.errors import Refused
from strata.lab import cache as caches
from strata.lab import image
from strata.lab.spec import LabSpec
from strata.model import View
from strata.store import reader

STRATA = str(Path(sys.executable).with_name("strata"))


def built(*features: str, debian: int = 13) -> LabSpec:
    """The lab that has them, made now unless one is there."""
    spec = LabSpec(debian, features=frozenset(features))
    try:
        image.find(spec, caches.default())
    except Refused:
        asked = ("--with", ",".join(sorted(features))) if features else ()
        subprocess.run([STRATA, "lab", "build", "--debian", str(debian), *asked], check=True)
    return spec


def lab_run(directory: Path, stacks: Sequence[str], load: str, *options: str) -> View:
    """`strata run --on lab`, one round; what it stored."""
    argv = [STRATA, "run", *stacks, "-w", load, "--on", "lab", "--rounds", "1", *options, "--out", str(directory)]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode in (0, 1), f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return reader.view(directory)


def start_lab_run(directory: Path, stack: str, load: str, *options: str) -> subprocess.Popen[str]:
    argv = [STRATA, "run", stack, "-w", load, "--on", "lab", "--rounds", "1", *options, "--out", str(directory)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)


def machines_of(directory: Path) -> list[int]:
    """The QEMU processes that carry the mark of the run in `directory`."""
    import sqlite3

    with sqlite3.connect(f"file:{directory / 'strata.db'}?mode=ro", uri=True) as sql:
        (uuid,) = sql.execute("SELECT uuid FROM run").fetchone()
    mark = f"STRATA_RUN={uuid}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if (
                entry.name.isdigit()
                and (entry / "exe").readlink().name.startswith("qemu-system")
                and mark in (entry / "environ").read_bytes().split(b"\0")
            ):
                found.append(int(entry.name))
        except OSError:
            continue
    return found
