"""One run at a time in a directory. The lock is the kernel's: it ends with the process, however that ends."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from strata.errors import Refused


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Raises Refused when another process works on `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(
                f"another strata works on {directory} now; wait for it, watch it with `strata status {directory}`, "
                "or give this run another directory with --out."
            ) from None
        yield
