"""Sample files: one Parquet file per trial, in long form: series (text), t_s (seconds), value."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

Series = Mapping[str, Sequence[tuple[float, float]]]


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
        with partial.open("wb") as file:
            file.write(packed.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        partial.rename(final)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def read(directory: Path, trial: int, names: Sequence[str]) -> dict[str, tuple[tuple[float, float], ...]]:
    """The named series that the trial has; {} when it left no samples."""
    import polars

    path = path_of(directory, trial)
    if not path.exists():
        return {}
    frame = polars.read_parquet(path).filter(polars.col("series").is_in(list(names)))
    found: dict[str, list[tuple[float, float]]] = {}
    for name, t_s, value in frame.iter_rows():
        found.setdefault(name, []).append((t_s, value))
    return {name: tuple(points) for name, points in found.items()}
