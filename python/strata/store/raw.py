"""Raw records: what a measured trial was read from, one compressed file per trial, `samples/N.raw.json.gz`.

They are kept so that every figure can be recomputed, and may be removed to save room: nothing else needs them.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from strata.errors import StoreError
from strata.store import samples

Part = Mapping[str, Any]
"""Of one load: see `strata/run/trials/records.py`."""

VERSION = 1
MOST_BYTES = 400 << 10  # of one file
_MOST_TEXT = 256 << 20  # that a file may hold when it is read: it may come from a stranger
_GZIP = 16 + zlib.MAX_WBITS


def path_of(directory: Path, trial: int) -> Path:
    return directory / "samples" / f"{trial}.raw.json.gz"


def write(directory: Path, trial: int, parts: Sequence[Part]) -> bool:
    """Whole or not at all; False when it would be larger than MOST_BYTES, and is not kept. Raises OSError."""
    packer = zlib.compressobj(6, wbits=_GZIP)
    text = json.dumps({"version": VERSION, "parts": list(parts)}, separators=(",", ":")).encode()
    data = packer.compress(text) + packer.flush()
    if len(data) > MOST_BYTES:
        return False
    final = path_of(directory, trial)
    partial = final.with_suffix(".new")
    try:
        # Closed to others, like the samples.
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(final)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    return True


def read(directory: Path, trial: int) -> tuple[Part, ...] | None:
    """None where there is none. Raises StoreError when the file is none that `write` makes."""
    path = path_of(directory, trial)
    try:
        with samples.opened(path) as file:
            if file is None:
                return None
            unpacker = zlib.decompressobj(wbits=_GZIP)
            text = unpacker.decompress(file.read(MOST_BYTES + 1), _MOST_TEXT)
        if not unpacker.eof:
            raise ValueError("it is larger than such a file can be, or cut off")
        document = json.loads(text)
        if document["version"] != VERSION:
            raise ValueError(f"it is of version {document['version']!r}, and this Strata reads {VERSION}")
        return tuple(_parts(document["parts"]))
    except (ValueError, LookupError, TypeError, RecursionError, zlib.error) as error:
        raise StoreError(
            f"{path} is no raw record as Strata writes them: {str(error)!a}; restore it from a copy, or remove it."
        ) from error


def _parts(parts: Sequence[object]) -> Iterator[Part]:
    for part in parts:
        if not isinstance(part, dict):
            raise TypeError("a part of it is no object")
        yield part
