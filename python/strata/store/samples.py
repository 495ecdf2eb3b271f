"""Sample files: one Parquet file per trial, in long form: series (text), t_s (seconds), value."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from strata import parquet
from strata.errors import StoreError

Series = Mapping[str, Sequence[tuple[float, float]]]

_COLUMNS = {"series": parquet.Physical.TEXT, "t_s": parquet.Physical.DOUBLE, "value": parquet.Physical.DOUBLE}


def path_of(directory: Path, trial: int) -> Path:
    return directory / "samples" / f"{trial}.parquet"


def write(directory: Path, trial: int, series: Series) -> None:
    """All series of a trial, whole or not at all. Raises OSError, of a full disk too."""
    import polars  # slow to import; only a run that measures needs it

    names = [name for name, points in series.items() for _ in points]
    points = [point for points in series.values() for point in points]
    frame = polars.DataFrame(
        {"series": names, "t_s": [float(t) for t, _ in points], "value": [float(v) for _, v in points]},
        schema={"series": polars.String, "t_s": polars.Float64, "value": polars.Float64},
    )
    final = path_of(directory, trial)
    partial = final.with_suffix(".new")
    # polars has errors of its own for a file that cannot be written
    packed = io.BytesIO()
    frame.write_parquet(packed, compression="zstd")
    try:
        # Closed to others, like the database.
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(packed.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        partial.rename(final)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def read(directory: Path, trial: int, names: Sequence[str]) -> tuple[int, dict[str, tuple[tuple[float, float], ...]]]:
    """How many points the trial's file has, and those of the named series; (0, {}) when it left no samples. Points that
    are not finite are left out.

    Raises StoreError when the file is not one that `write` makes: it may come from a stranger.
    """
    data = _content(directory, trial)
    if data is None:
        return 0, {}
    try:
        table = parquet.check(data)
        if table.columns != _COLUMNS:
            raise ValueError(f"its columns are {', '.join(map(ascii, table.columns))}")
        return table.rows, _read(parquet.without_arrow_schema(data), names)
    except ValueError as error:
        raise _refusal(path_of(directory, trial), str(error)) from error


def _read(data: bytes, names: Sequence[str]) -> dict[str, tuple[tuple[float, float], ...]]:
    """Raises ValueError."""
    import polars
    from polars.exceptions import PanicException, PolarsError

    column = polars.col
    try:
        frame = polars.read_parquet(io.BytesIO(data), columns=list(_COLUMNS), use_statistics=False).filter(
            column("series").is_in(list(names)) & column("t_s").is_finite() & column("value").is_finite()
        )
    # PanicException is no Exception: a library that panics on a broken file must not end the process.
    except (PolarsError, PanicException) as error:
        raise ValueError(f"polars cannot read it: {ascii(str(error).partition(chr(10))[0])[1:-1]}") from error
    found: dict[str, list[tuple[float, float]]] = {}
    for name, t_s, value in frame.iter_rows():
        found.setdefault(name, []).append((t_s, value))
    return {name: tuple(points) for name, points in found.items()}


def _content(directory: Path, trial: int) -> bytes | None:
    """None when there is no such file."""
    path = path_of(directory, trial)
    with opened(path) as file:
        if file is None:
            return None
        try:
            return parquet.read(file)
        except ValueError as error:
            raise _refusal(path, str(error)) from error


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO | None]:
    """A file of a trial; None when there is none. No link is followed, and no pipe or device is waited for.

    Raises StoreError.
    """
    folder = file = None
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        file = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        wrong, kind = (path.parent, "directory") if folder is None else (path, "file")
        raise _refusal(wrong, f"it cannot be opened as a {kind} ({error.strerror})") from error
    finally:
        if folder is not None:
            os.close(folder)
    if file is None:
        yield None
        return
    with os.fdopen(file, "rb") as content:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise _refusal(path, "it is not a regular file")
        yield content


def _refusal(path: Path, why: str) -> StoreError:
    return StoreError(
        f"{path} is no sample file as Strata writes them: {why}; restore it from a copy, or remove it to see the run "
        "without these series."
    )
