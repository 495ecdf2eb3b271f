"""Opening the database of a run directory, new or old, to write or only to read."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from strata.errors import Refused, StoreError
from strata.model import Rule
from strata.store import foreign, genuine, key, ownership, rows, schema
from strata.store.signature import Signer, stored

_FILE = "strata.db"

# A report that reads for a moment keeps the kind of journal from being changed.
_PATIENCE_S = 30.0

LAST_STATE = "(SELECT state FROM journal_state WHERE journal = journal.id ORDER BY id DESC LIMIT 1)"
"""What became of a row of `journal`; NULL when that is not known."""


def create(directory: Path, run: Mapping[str, object]) -> tuple[sqlite3.Connection, Signer]:
    """A new database in `directory` with its one row of `run`, and what signs its rows.

    `run`: the columns but id, machine and directory. Raises StoreError when there is one already, Refused when
    others can write there.
    """
    if exists(directory):
        raise StoreError(f"{directory} already holds a run; choose another directory with --out.")
    # Whatever the umask: the group of the user cannot write in it.
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    (directory / "samples").mkdir(mode=0o755, exist_ok=True)
    ownership.check(directory)
    origin = genuine.origin(directory, str(run["uuid"]))
    signer = Signer(key.of_this_machine(), origin)
    # Made under another name first: a database that exists is complete, whenever we are killed.
    partial = directory / f"{_FILE}.new"
    for old in directory.glob(f"{_FILE}.new*"):
        old.unlink()
    # Closed to others, as it may hold what only this user may read; what SQLite puts beside it has the same mode.
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(partial, isolation_level=None)
    connection.executescript("BEGIN;" + schema.script() + "COMMIT;")
    add(connection, signer, "run", {**run, "id": 1, "machine": origin.machine, "directory": origin.directory})
    connection.close()
    partial.rename(directory / _FILE)
    return open_writer(directory)


def add(
    sql: sqlite3.Connection, signer: Signer, table: str, row: Mapping[str, object], *, unless_there: bool = False
) -> int:
    """Add a signed row; its id, where the table has one. `unless_there`: a row that breaks a UNIQUE is left out."""
    columns = schema.columns()[table]
    if "id" in columns and "id" not in row:
        # The signature covers the id, so it must be known before the row is there.
        (id_,) = sql.execute(f"SELECT coalesce(max(id), 0) + 1 FROM {table}").fetchone()
        row = {**row, "id": id_}
    values = stored(table, row)
    marks = ", ".join("?" * (len(values) + 1))
    verb = "INSERT OR IGNORE" if unless_there else "INSERT"
    sql.execute(
        f"{verb} INTO {table} ({', '.join(columns)}, signature) VALUES ({marks})", (*values, signer.sign(table, values))
    )
    return int(str(row.get("id", 0)))


def exists(directory: Path) -> bool:
    return (directory / _FILE).exists()


def open_writer(directory: Path) -> tuple[sqlite3.Connection, Signer]:
    """The database and what signs its rows. Close it with `close_writer`.

    Raises StoreError when `directory` holds no run, or one of another version; Refused when it is not this user's
    alone, or holds anything that this user's Strata did not write there on this machine.
    """
    if exists(directory):
        ownership.check(directory)
    connection, version = _open(directory, write=True)
    if version < schema.VERSION:
        connection.close()
        raise StoreError(
            f"{directory} was made by an older Strata (store version {version}): it can be read and not gone on with; "
            "clean it with the Strata that made it, and start again with another --out."
        )
    try:
        signer = genuine.check(connection, directory)
    except Refused:
        connection.close()
        raise
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        connection.close()
        raise StoreError(f"{directory} cannot be written to ({error}); end what reads it, then try again.") from error
    # FULL: the journal of undos must be on the disk before the step that it undoes starts.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection, signer


def close_writer(connection: sqlite3.Connection) -> None:
    """Leaves one file that can be copied, and read where nobody may write, unless somebody is reading right now."""
    with suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()


def open_reader(directory: Path) -> sqlite3.Connection:
    """For reports, also while a run goes on, and of older versions. Raises StoreError when there is none to be read.

    Nothing is written into `directory` but the index (`-shm`) that SQLite shares with a writer, where that is there.
    """
    connection, version = _open(directory)
    try:
        if version < schema.VERSION:
            connection.executescript(schema.READ_OLDER[version])
        foreign.restrict(connection)
    except foreign.DAMAGE as error:
        connection.close()
        raise _unreadable(directory / _FILE, error) from error
    return connection


def quarantine(connection: sqlite3.Connection) -> str | None:
    """Why the host must not be used before `strata clean`; None when it may be."""
    row = rows.one(
        connection,
        rows.Event,
        "SELECT at, kind, text FROM event WHERE kind IN ('quarantine', 'cleaned') ORDER BY id DESC LIMIT 1",
    )
    return row.text if row is not None and row.kind == "quarantine" else None


def rule(connection: sqlite3.Connection) -> Rule | None:
    """The newest rule; None before the first."""
    row = rows.one(
        connection,
        rows.Rule,
        "SELECT rounds, within, confidence, budget_s, design, certify, objective FROM rule ORDER BY id DESC LIMIT 1",
    )
    return None if row is None else Rule(*row[:5], bool(row.certify), row.objective)


def _open(directory: Path, *, write: bool = False) -> tuple[sqlite3.Connection, int]:
    """The connection, and the version of the store. The file may come from a stranger: its schema is checked."""
    path = directory / _FILE
    if not os.path.lexists(path):
        raise StoreError(f"{directory} holds no run of Strata; give the directory that `strata run --out` made.")
    try:
        foreign.check_files(path)
        if write:
            return _connect(path, path, "mode=rw")
        with foreign.readable(path) as (file, mode):
            return _connect(path, file, mode)
    except PermissionError as error:
        raise _closed(path) from error
    except foreign.DAMAGE as error:
        if not os.access(path, os.R_OK, effective_ids=True):
            raise _closed(path) from error
        raise _unreadable(path, error) from error


def _closed(path: Path) -> StoreError:
    return StoreError(
        f"user {os.geteuid()} may not read {path}, which belongs to user {path.lstat().st_uid}: read the run as that "
        "user, for example with sudo, or let that user open it to others (`chmod a+r`)."
    )


def _unreadable(path: Path, error: Exception) -> StoreError:
    return StoreError(
        f"{path} cannot be read as a run of Strata ({foreign.quoted(error)}); give another directory, or restore it "
        "from a copy."
    )


def _connect(path: Path, file: Path, mode: str) -> tuple[sqlite3.Connection, int]:
    """`file` opened, which is `path` or a copy of it."""
    uri = f"{file.absolute().as_uri()}?{mode}"
    # Several visits at once share one writer, which ensures that their transactions do not mix.
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_PATIENCE_S, check_same_thread=False)
    try:
        return connection, _version(connection, path)
    except BaseException as error:
        connection.close()
        # A killed run wants its index even to be read. Where nobody may make it and the log is empty, or where a
        # journal is to be played back into a file that is only read, the file is read as it lies there.
        if isinstance(error, sqlite3.OperationalError) and mode == "mode=ro" and not foreign.has_log(path):
            return _connect(path, path, "mode=ro&immutable=1")
        raise


def _version(connection: sqlite3.Connection, path: Path) -> int:
    foreign.harden(connection)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > schema.VERSION:
        raise StoreError(f"{path} was made by a newer Strata (store version {version}); upgrade Strata to read it.")
    if version not in (*schema.READ_OLDER, schema.VERSION):
        raise StoreError(f"{path} is not a run of Strata; give the directory that `strata run --out` made.")
    foreign.check_schema(connection, path)
    if connection.execute("SELECT name FROM sqlite_master WHERE name = 'run'").fetchone() is None:
        raise StoreError(f"{path} is not a run of Strata; give the directory that `strata run --out` made.")
    return int(version)
