"""Kills a campaign at one moment after another and tells, as JSON lines, what was left each time.

    python sweep.py DIRECTORY FIRST STEP LAST EXPRESSION -- WORKLOAD...

A moment is any point before, during or after a command on the host, and before or after a durable change of the store.
The process forks a child per moment (imports once), the child runs the real `strata run`, and kills its own process
group with SIGKILL when the moment comes. Every second time the parent runs `strata clean`, and looks; every other time
the next child finds what was left and must cope. The line of a child that came to its end says so.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import Any

import strata.analysis.rank
import strata.cli.clean
import strata.cli.run
import strata.run.session
import strata.run.sites.testbeds
from strata.cli.run import Asked, Decide
from strata.cli.written import Where
from strata.errors import StrataError
from strata.hosts.local import LocalHost
from strata.model import Command, Completed
from strata.store.writer import Store

DAEMONS = {"qemu-storage-da", "qemu-nbd", "nbdfuse"}
"""What layers leave running without the mark of the run, as the kernel cuts their names."""


class Countdown:
    """Ends the process group at the moment that was asked for."""

    def __init__(self, moments: int) -> None:
        self.left = moments
        self.where = ""

    def moment(self, where: str) -> None:
        self.left -= 1
        if self.left == 0:
            self.report(where)
            os.killpg(0, signal.SIGKILL)

    def during(self, where: str) -> None:
        """Kills a little later, from another thread, while the command runs."""
        self.left -= 1
        if self.left == 0:
            self.report(f"during {where}")
            delay_s = random.Random(where).uniform(0, 0.02)
            threading.Thread(target=lambda: (time.sleep(delay_s), os.killpg(0, signal.SIGKILL)), daemon=True).start()

    def report(self, where: str) -> None:
        Path(f"{DIRECTORY}.where").write_text(where)


class KillingHost(LocalHost):
    countdown: Countdown

    def run(self, command: Command, *, check: bool = True) -> Completed:
        name = " ".join(command.argv[:1] + command.argv[-1:])
        self.countdown.moment(f"before {name}")
        self.countdown.during(name)
        done = super().run(command, check=check)
        self.countdown.moment(f"after {name}")
        return done


def counted(name: str, countdown: Countdown) -> Any:
    original = getattr(Store, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        countdown.moment(f"before store.{name}")
        result = original(*args, **kwargs)
        countdown.moment(f"after store.{name}")
        return result

    return call


def child(moments: int, expression: str, workloads: list[str]) -> None:
    """Exit code 0: came to its end. Never returns."""
    os.setsid()
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    log = os.open(f"{DIRECTORY}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 2)
    countdown = Countdown(moments)
    KillingHost.countdown = countdown
    strata.run.sites.testbeds.LocalHost = KillingHost  # type: ignore[attr-defined, misc]
    for name in ("journal", "settle", "begin", "end", "add_trial", "add_visits"):
        setattr(Store, name, counted(name, countdown))
    try:
        strata.cli.run.run(
            Asked([expression], workloads, Path(DIRECTORY), Where(), Decide(rounds=1), sizes=["disk=512M"], yes=True)
        )
    except StrataError as error:
        print(error, file=sys.stderr)
        os._exit(error.exit_code)
    except BaseException as error:  # noqa: BLE001 - a forked child must never run on into the parent's loop
        print(repr(error), file=sys.stderr)
        os._exit(70)
    os._exit(0)


def attempt(moments: int, expression: str, workloads: list[str]) -> int:
    pid = os.fork()
    if pid == 0:
        child(moments, expression, workloads)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def look() -> dict[str, list[str]]:
    """What of this run is on the machine."""
    loops = [
        f"{path}: {backing}"
        for path in Path("/sys/block").glob("loop*/loop/backing_file")
        if DIRECTORY in (backing := path.read_text())
    ]
    mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if DIRECTORY in line]
    work = Path(DIRECTORY) / "work"
    files = [str(path) for path in work.rglob("*")] if work.exists() else []
    processes = []
    with sqlite3.connect(f"file:{DIRECTORY}/strata.db?mode=ro", uri=True) as sql:
        (uuid,) = sql.execute("SELECT uuid FROM run").fetchone()
    mark = f"STRATA_RUN={uuid}".encode()
    for entry in Path("/proc").iterdir():
        try:
            if not entry.name.isdigit():
                continue
            comm = (entry / "comm").read_text().strip()
            named = comm in DAEMONS and DIRECTORY.encode() in (entry / "cmdline").read_bytes()
            if named or mark in (entry / "environ").read_bytes().split(b"\0"):
                processes.append(comm)
        except OSError:
            continue
    return {"loops": loops, "mounts": mounts, "files": files, "processes": processes}


def main() -> None:
    first, step, last = map(int, sys.argv[2:5])
    expression, _, *workloads = sys.argv[5:]
    for number, moments in enumerate(range(first, last + 1, step)):
        status = attempt(moments, expression, workloads)
        line: dict[str, Any] = {"moment": moments, "status": status, "where": ""}
        if status == -signal.SIGKILL:
            line["where"] = Path(f"{DIRECTORY}.where").read_text()
            if number % 2 and (Path(DIRECTORY) / "strata.db").exists():
                _clean()
                line["left"] = look()
        else:
            line["left"] = look()
        print(json.dumps(line), flush=True)
        if status != -signal.SIGKILL:
            return
    print(json.dumps({"moment": 0, "status": attempt(10**9, expression, workloads), "where": "", "left": look()}))


def _clean() -> None:
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        strata.cli.clean.clean(Path(DIRECTORY), as_json=True)
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise SystemExit("strata clean failed")


if __name__ == "__main__":
    DIRECTORY = sys.argv[1]
    main()
