"""Watches the process while a mutant is read: no process is started, and nothing written but in its own directory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_STARTS = (
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "pty.spawn",
)
_REACHES = ("socket.connect", "socket.sendto", "os.kill", "os.killpg", "ctypes.dlopen", "sqlite3.load_extension")
_CHANGES = (
    "os.remove",
    "os.rename",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.chmod",
    "os.chown",
    "os.truncate",
)


class Guard:
    """Refuses and records. There is one for the process: an audit hook cannot be removed again."""

    def __init__(self) -> None:
        self._roots: tuple[str, ...] | None = None
        self._breaches: list[str] = []
        sys.addaudithook(self._hook)

    @contextmanager
    def watching(self, *roots: Path) -> Iterator[list[str]]:
        """Everything that was refused. Writes are allowed below `roots` only."""
        self._breaches = breaches = []
        self._roots = tuple(os.path.realpath(root) for root in roots)
        try:
            yield breaches
        finally:
            self._roots = None

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._roots is None:
            return
        if event in _STARTS:
            self._refuse(f"command: {event} {str(arguments[:2])[:200]}")
        elif event in _REACHES:
            self._refuse(f"reach: {event} {str(arguments)[:200]}")
        elif event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & _WRITES and not isinstance(path, int):
                self._check(event, path, follow=not flags & os.O_NOFOLLOW)
        elif event in _CHANGES:
            for path in arguments[: 2 if event in ("os.rename", "os.link") else 1]:
                if not isinstance(path, int) and not (event == "os.mkdir" and Path(str(path)).is_dir()):
                    self._check(event, path, follow=event in ("os.chmod", "os.chown", "os.truncate"))

    def _check(self, event: str, path: object, *, follow: bool) -> None:
        roots, self._roots = self._roots, None  # what is asked here is not to be asked about
        try:
            text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else str(path)
            real = (
                os.path.realpath(text) if follow else str(Path(os.path.realpath(Path(text).parent)) / Path(text).name)
            )
        finally:
            self._roots = roots
        if real != os.devnull and not any(real == root or real.startswith(root + os.sep) for root in roots or ()):
            self._refuse(f"write: {event} {text!a} outside of the run")

    def _refuse(self, what: str) -> None:
        self._breaches.append(what)
        raise PermissionError(1, what)


GUARD = Guard()
