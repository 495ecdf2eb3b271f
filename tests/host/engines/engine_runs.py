"""Engines through the command line, and what of them is on the machine afterwards."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.users_machine import UsersMachine

from strata.model import View
from strata.store import reader

STRATA = str(Path(sys.executable).with_name("strata"))
PROGRAMS = re.compile(r"podman|conmon|runc|crun|dockerd|containerd|fuse-overlayfs|ctr|lxc[a-z-]*|incusd|lxd")


def strata(*argv: str, timeout_s: float = 600.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run((STRATA, *argv), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=timeout_s)


def run(
    directory: Path, stacks: Sequence[str], *loads: str, size: str = "disk=3G", machine: UsersMachine | None = None
) -> View:
    """One round; what it stored. On a machine of a user's, whose state it must leave as it was, or on this one."""
    words = [word for load in loads for word in ("-w", load)]
    argv = [STRATA, "run", *stacks, *words, "--rounds", "1", "--size", size, "--out", str(directory)]
    before = None
    if machine is not None:
        argv, before = machine.argv(*argv), machine.state()
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600)
    assert done.returncode in (0, 1), f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    if machine is not None and before is not None:
        assert not (changes := machine.changes(before)), changes
    return reader.view(directory)


def left_over(directory: Path) -> list[str]:
    """What names the run, or a control group of it: processes, mounts, loop devices, groups, and files of the visit."""
    found = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(directory) in line]
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                name, words = (entry / "comm").read_text().strip(), (entry / "cmdline").read_bytes().decode()
                if PROGRAMS.match(name) and str(directory) in words:
                    found.append(f"{name}: {words}")
        except OSError:
            continue
    loops = subprocess.run(
        ("losetup", "--list", "--noheadings", "--output", "BACK-FILE"), capture_output=True, text=True
    )
    found += [line for line in loops.stdout.splitlines() if str(directory) in line]
    with sqlite3.connect(f"file:{directory / 'strata.db'}?mode=ro", uri=True) as sql:
        (uuid,) = sql.execute("SELECT uuid FROM run").fetchone()
    name = f"strata-{uuid.replace('-', '')[:6]}-"
    find = ("find", "/sys/fs/cgroup", "/run", "-path", f"*/{name}*")
    found += subprocess.run(find, capture_output=True, text=True).stdout.splitlines()
    work = directory / "work"
    return found + ([str(path) for path in work.rglob("*")] if work.exists() else [])
