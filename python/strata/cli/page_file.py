"""Pages as files, in directories that somebody else may have filled."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write(path: Path, text: str) -> None:
    """Write the file whole or not at all. A link that has its name is replaced, never followed."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    try:
        with os.fdopen(file, "w", encoding="utf-8") as opened:
            opened.write(text)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
