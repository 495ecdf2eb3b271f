"""This machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

from strata.errors import BadInput, CommandFailed, CommandTimedOut, UndoFailed, VisitFailed
from strata.hosts import facts
from strata.hosts.base import Interruption
from strata.hosts.child import Child
from strata.hosts.messages import OUTPUT_LIMIT_BYTES
from strata.hosts.own_directory import own_directory, remove_left
from strata.model import Command, Completed, Facts

# Debian keeps mkfs, losetup and sfdisk here, and an ordinary user's PATH leaves it out.
_SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin"

# In the environment of every process that we start, and so of all their children: the one mark by which
# `strata clean` knows them after a kill -9. Nothing without it is ever ended.
MARK = "STRATA_RUN"

# A killed process lives until the kernel has finished its last I/O: looked for this often, with this pause.
_STRAY_LOOKS = 200
_STRAY_PAUSE_S = 0.05


def engine_path() -> str:
    """Where strata-engine is: beside the Python that runs us, else in PATH. Raises BadInput when nowhere."""
    beside = Path(sys.executable).parent / "strata-engine"
    found = str(beside) if beside.exists() else shutil.which("strata-engine")
    if found is None:
        raise BadInput("strata-engine is not installed beside this Python; run `make setup` or reinstall stratabench.")
    return found


def become_engine(arguments: Sequence[str]) -> NoReturn:
    """The engine takes the place of this process. Raises BadInput when it is not there."""
    os.execv(engine_path(), ["strata", *arguments])  # what it says of its use begins with what was typed


class LocalHost:
    """Runs commands as children of this process, marked with `marker`. `interruption` may cut them short."""

    def __init__(self, marker: str, interruption: Interruption | None = None) -> None:
        remove_left()
        self._interruption = interruption
        self.engine = engine_path()
        # Last: the engine is found by its name, and nothing else of our Python's folder before the system's own.
        path = f"{os.environ.get('PATH', '/usr/bin:/bin')}:{_SYSTEM_PATH}:{Path(self.engine).parent}"
        self._environment = {**os.environ, "PATH": path, "LC_ALL": "C.UTF-8", MARK: marker}

    def run(self, command: Command, *, check: bool = True) -> Completed:
        self._check()
        with ExitStack() as stack:
            try:
                directory = stack.enter_context(own_directory())
                started = time.monotonic()
                child = stack.enter_context(Child(command.argv, command.stdin, self._environment, directory))
            except OSError as error:
                raise CommandFailed(command.argv, None, "", str(error)) from error
            done = self._attend(child, command, started)
        if check and done.exit_code != 0:
            raise CommandFailed(command.argv, done.exit_code, done.stdout, done.stderr)
        return done

    def _attend(self, child: Child, command: Command, started: float) -> Completed:
        wake = None if self._interruption is None else self._interruption.descriptor()
        if not child.listen(command.timeout_s, wake):
            child.end()
            self._check()
            if child.said_too_much:
                detail = f"said more than {OUTPUT_LIMIT_BYTES >> 20} MiB and was stopped; let it write to a file"
                raise CommandFailed(command.argv, None, child.stdout, child.stderr, detail)
            detail = f"did not end within {command.timeout_s:g} s and was stopped"
            raise CommandTimedOut(command.argv, None, child.stdout, child.stderr, detail)
        exit_code = child.exit_code
        assert exit_code is not None
        return Completed(command.argv, exit_code, child.stdout, child.stderr, time.monotonic() - started)

    def write(self, path: str, content: str) -> None:
        try:
            Path(path).write_text(content, encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise VisitFailed(f"cannot write {path}: {error.strerror}") from error

    def read(self, path: str) -> str | None:
        try:
            return Path(path).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise VisitFailed(f"cannot read {path}: {error.strerror}") from error

    def now(self) -> float:
        return time.time()

    def facts(self, tools: Iterable[str], work_dir: str) -> Facts:
        return facts.parse(self.run(facts.command(tools, work_dir)).stdout)

    def end_strays(self, marker: str) -> list[str]:
        ended: set[str] = set()
        for _ in range(_STRAY_LOOKS):
            strays = _marked(marker)
            if not strays:
                return sorted(ended)
            for pid, name in strays.items():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    ended.add(f"{name} (process {pid})")
            time.sleep(_STRAY_PAUSE_S)
        raise UndoFailed([f"{name} (process {pid}) was killed and still lives" for pid, name in strays.items()])

    def _check(self) -> None:
        if self._interruption is not None:
            self._interruption.check()


def _marked(marker: str) -> dict[int, str]:
    """Living processes that carry `marker`, without ourselves and zombies."""
    wanted = f"{MARK}={marker}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes()
            if wanted in environment.split(b"\0"):
                found[int(entry.name)] = (entry / "comm").read_text().strip()
        except OSError:
            continue  # ended while we looked, or not ours to read
    return found
