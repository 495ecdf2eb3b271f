"""This machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from strata.errors import BadInput, CommandFailed, CommandTimedOut, VisitFailed
from strata.hosts import facts
from strata.model import Command, Completed, Facts

# Debian keeps mkfs, losetup and sfdisk here, and an ordinary user's PATH leaves it out.
_SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin"

# In the environment of every process that we start, and so of all their children: the one mark by which
# `strata clean` knows them after a kill -9. Nothing without it is ever ended.
_MARK = "STRATA_RUN"


def engine_path() -> str:
    """Where strata-engine is: beside the Python that runs us, else in PATH. Raises BadInput when nowhere."""
    beside = Path(sys.executable).parent / "strata-engine"
    found = str(beside) if beside.exists() else shutil.which("strata-engine")
    if found is None:
        raise BadInput("strata-engine is not installed beside this Python; run `make setup` or reinstall stratabench.")
    return found


class LocalHost:
    """Runs commands as children of this process, marked with `marker`."""

    def __init__(self, marker: str) -> None:
        self.engine = engine_path()
        path = f"{os.environ.get('PATH', '/usr/bin:/bin')}:{_SYSTEM_PATH}"
        self._environment = {**os.environ, "PATH": path, "LC_ALL": "C.UTF-8", _MARK: marker}

    def run(self, command: Command, *, check: bool = True) -> Completed:
        started = time.monotonic()
        try:
            # A process group of its own: ^C reaches us alone, and we end the whole group in good order.
            process = subprocess.Popen(
                command.argv,
                stdin=subprocess.DEVNULL if command.stdin is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env=self._environment,
                process_group=0,
            )
        except OSError as error:
            raise CommandFailed(command.argv, None, "", str(error)) from error
        try:
            stdout, stderr = process.communicate(command.stdin, timeout=command.timeout_s)
        except subprocess.TimeoutExpired:
            stdout, stderr = _end(process)
            detail = f"did not end within {command.timeout_s:g} s and was stopped"
            raise CommandTimedOut(command.argv, None, stdout, stderr, detail) from None
        except BaseException:
            _end(process)
            raise
        done = Completed(command.argv, process.returncode, stdout, stderr, time.monotonic() - started)
        if check and done.exit_code != 0:
            raise CommandFailed(command.argv, done.exit_code, stdout, stderr)
        return done

    def write(self, path: str, content: str) -> None:
        try:
            Path(path).write_text(content)
        except OSError as error:
            raise VisitFailed(f"cannot write {path}: {error.strerror}") from error

    def read(self, path: str) -> str | None:
        try:
            return Path(path).read_text(errors="replace")
        except FileNotFoundError:
            return None

    def now(self) -> float:
        return time.time()

    def facts(self, tools: Iterable[str], work_dir: str) -> Facts:
        return facts.parse(self.run(facts.command(tools, work_dir)).stdout)

    def end_strays(self, marker: str) -> list[str]:
        ended = []
        for _ in range(50):
            strays = _marked(marker)
            if not strays:
                break
            for pid, name in strays.items():
                try:
                    os.kill(pid, signal.SIGKILL)
                    ended.append(f"{name} (process {pid})")
                except ProcessLookupError:
                    pass
            time.sleep(0.05)
        return sorted(set(ended))


def _end(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Ask the group to stop, then make it; returns what it had said."""
    for number, patience_s in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 10.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            stdout, stderr = process.communicate(timeout=patience_s)
            return stdout or "", stderr or ""
        except (subprocess.TimeoutExpired, ValueError):
            continue
    return "", ""


def _marked(marker: str) -> dict[int, str]:
    """Living processes that carry `marker`, without ourselves and zombies."""
    wanted = f"{_MARK}={marker}".encode()
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
