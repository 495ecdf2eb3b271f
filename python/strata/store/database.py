"""Opening the database of a run directory, new or old, to write or only to read."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from strata.errors import StoreError
from strata.store import schema

_FILE = "strata.db"


def create(directory: Path, identity: tuple[object, ...]) -> sqlite3.Connection:
    """A new database in `directory` with its one row of `run` (uuid, name, about, source, fingerprint, description,
    seed, strata, created_at). Raises StoreError when there is one already."""
    if exists(directory):
        raise StoreError(f"{directory} already holds a run; choose another directory with --out.")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "samples").mkdir(exist_ok=True)
    # Made under another name first: a database that exists is complete, whenever we are killed.
    partial = directory / f"{_FILE}.new"
    for old in directory.glob(f"{_FILE}.new*"):
        old.unlink()
    connection = sqlite3.connect(partial, isolation_level=None)
    connection.executescript("BEGIN;" + schema.script() + "COMMIT;")
    connection.execute(
        "INSERT INTO run (id, uuid, name, about, source, fingerprint, description, seed, strata, created_at) "
        "VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        identity,
    )
    connection.close()
    partial.rename(directory / _FILE)
    return open_writer(directory)


def exists(directory: Path) -> bool:
    return (directory / _FILE).exists()


def open_writer(directory: Path) -> sqlite3.Connection:
    """Raises StoreError when `directory` holds no run, or one of a newer Strata."""
    connection = _open(directory, "rw")
    connection.execute("PRAGMA journal_mode = WAL")
    # FULL: the journal of undos must be on the disk before the step that it undoes starts.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def open_reader(directory: Path) -> sqlite3.Connection:
    """For reports, also while a run goes on. Raises StoreError as `open_writer`."""
    return _open(directory, "ro")


def _open(directory: Path, mode: str) -> sqlite3.Connection:
    path = directory / _FILE
    if not path.exists():
        raise StoreError(f"{directory} holds no run of Strata; give the directory that `strata run --out` made.")
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None)
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        has_run = connection.execute("SELECT name FROM sqlite_master WHERE name = 'run'").fetchone()
    except sqlite3.DatabaseError as error:
        raise StoreError(
            f"{path} cannot be read as a run of Strata ({error}); give another directory, or restore it from a copy."
        ) from error
    if version > schema.VERSION:
        raise StoreError(f"{path} was made by a newer Strata (store version {version}); upgrade Strata to read it.")
    if not has_run:
        raise StoreError(f"{path} is not a run of Strata; give the directory that `strata run --out` made.")
    return connection
