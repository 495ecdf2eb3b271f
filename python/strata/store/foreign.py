"""What a database may be that somebody else may have made: checked before SQLite opens it, and before it is queried.

SQLite follows what a file says. A rollback journal beside it may name a file to delete; a view or a trigger runs
queries of its own under the name of a table; pages that contain each other never end.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from strata.errors import StoreError
from strata.store import schema

MAX_FILE_BYTES = 4 << 30
_MAX_CELL_BYTES = 64 << 20  # the text of a campaign with its files
MAX_OUTPUT_BYTES = 600 << 20  # what a program printed (hosts.messages.OUTPUT_LIMIT_BYTES, and the rest of its row)
_MAX_SCHEMA_ROWS = 500  # tables, triggers and indexes; Strata makes about 60
# Steps of SQLite's virtual machine, by all queries of one connection. The report of 10,000 trials with a million
# figures takes 8 million; a query without end takes a few seconds for these.
_STEPS_A_CALL, _MAX_CALLS = 1_000_000, 100

_JOURNAL, _WAL, _INDEX = "-journal", "-wal", "-shm"  # what SQLite puts beside a database
_END_OF_SUPER_NAME = bytes.fromhex("d9d505f920a163d7")  # the last 8 bytes of a journal that names another file

DAMAGE = (sqlite3.Error, UnicodeDecodeError)
"""What a damaged file raises; UnicodeDecodeError when a message of SQLite quotes a name that is no text."""


def quoted(error: Exception) -> str:
    """What SQLite says, which may hold names out of the file, as text that can be printed."""
    return ascii(str(error))[1:-1]


_INSTEAD = "Give the directory that `strata run --out` made, or restore it from a copy."


def check_files(database: Path) -> None:
    """Raises StoreError when the database, or what lies beside it, is not what Strata and SQLite leave."""
    _check_regular(database)
    for suffix in (_JOURNAL, _WAL, _INDEX):
        path = database.with_name(database.name + suffix)
        status = _check_regular(path)
        # SQLite writes to these; another name of the same file may be anywhere.
        if status is not None and status.st_nlink > 1:
            raise StoreError(f"{path} has {status.st_nlink} hard links, so it was not made by SQLite. {_INSTEAD}")
        if status is not None and suffix == _JOURNAL and _ending(path) == _END_OF_SUPER_NAME:
            raise StoreError(
                f"{path} names another file, which SQLite would delete when it opens the database; Strata leaves no "
                f"such journal. {_INSTEAD}"
            )


def _check_regular(path: Path) -> os.stat_result | None:
    """None when there is no such file."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(f"{path} is not a regular file but a {_kind(status.st_mode)}. {_INSTEAD}")
    if status.st_size > MAX_FILE_BYTES:
        raise StoreError(f"{path} has {status.st_size} bytes, more than Strata reads ({MAX_FILE_BYTES}). {_INSTEAD}")
    return status


def _kind(mode: int) -> str:
    kinds = {stat.S_IFLNK: "symbolic link", stat.S_IFDIR: "directory", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
    return kinds.get(stat.S_IFMT(mode), "device")


def _ending(path: Path) -> bytes:
    """The last 8 bytes."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 8))
        return file.read(8)


@contextmanager
def readable(database: Path) -> Iterator[tuple[Path, str]]:
    """The file to open for reading, and the mode for SQLite's URI; nothing is then made in the run's directory.

    A write-ahead log cannot be read without its index (`-shm`). Where a run goes on, or was killed, the index is
    there; elsewhere SQLite would make it, so a copy is read that is gone when this ends. The connection must have
    begun to read by then: what it has open stays readable.
    """
    if _beside(database, _INDEX) or not (_beside(database, _WAL) or _wants_log(database)):
        yield database, "mode=ro"
        return
    if not has_log(database):
        yield database, "mode=ro&immutable=1"
        return
    with TemporaryDirectory(prefix="strata-read-") as name:
        copy = Path(name) / database.name
        for suffix in ("", _WAL):
            _copy(database.with_name(database.name + suffix), copy.with_name(copy.name + suffix))
        yield copy, "mode=rw"


def has_log(database: Path) -> bool:
    """Whether anything may be in the write-ahead log alone."""
    return _size(database, _WAL) > 0


def _beside(database: Path, suffix: str) -> bool:
    return os.path.lexists(database.with_name(database.name + suffix))


def _size(database: Path, suffix: str) -> int:
    path = database.with_name(database.name + suffix)
    return path.lstat().st_size if os.path.lexists(path) else 0


def _wants_log(database: Path) -> bool:
    """Whether the header asks for a write-ahead log.

    Only asked where no index lies beside it, so nobody writes: to close a file ends all of this process's locks on it.
    """
    with os.fdopen(os.open(database, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        return 2 in file.read(20)[18:20]


def _copy(source: Path, target: Path) -> None:
    with (
        os.fdopen(os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file,
        target.open("xb") as made,
    ):
        left = MAX_FILE_BYTES
        while left and (chunk := file.read(min(left, 1 << 20))):
            left -= len(chunk)
            made.write(chunk)


def harden(connection: sqlite3.Connection) -> None:
    """Before the first query: no function in the file's own schema reaches beyond the database."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raises StoreError unless the database holds tables of Strata and nothing else that could answer a query."""
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchmany(_MAX_SCHEMA_ROWS + 1)
    if len(rows) > _MAX_SCHEMA_ROWS:
        raise _not_ours(path, f"it has more than {_MAX_SCHEMA_ROWS} tables, triggers and indexes")
    triggers = schema.triggers()
    for kind, name, table, sql in rows:
        if not all(isinstance(text, str) for text in (kind, name, table)) or not isinstance(sql, str | None):
            raise _not_ours(path, "its list of tables holds something else than text")
        if kind == "trigger" and triggers.get(name) == sql:
            continue
        if kind == "index" and table in schema.TABLES:
            continue
        if kind != "table" or name not in schema.TABLES or not (sql or "").startswith("CREATE TABLE"):
            raise _not_ours(path, f"it has a {kind} named {name!a}")
    for name in {name for kind, name, _, _ in rows if kind == "table"}:
        columns = connection.execute("SELECT name, type, pk, hidden FROM pragma_table_xinfo(?)", (name,)).fetchall()
        # 1: of a virtual table; 2 and 3: computed by an expression
        if computed := [column for column, _, _, hidden in columns if hidden]:
            raise _not_ours(path, f"the column {computed[0]!a} of its table {name} is computed")
        # A table in the order of its keys needs no sorting, which may take any room in temporary files.
        keys = [(column, kind) for column, kind, pk, _ in columns if pk]
        if keys != ([(schema.KEYS[name], "INTEGER")] if name in schema.KEYS else []):
            raise _not_ours(path, f"the key of its table {name} is not what it should be")


def _not_ours(path: Path, why: str) -> StoreError:
    return StoreError(f"{path} is not a run as Strata writes it: {why}. {_INSTEAD}")


def limit_cells(connection: sqlite3.Connection, max_bytes: int) -> None:
    """No row or text larger than this is read; SQLite reads whole cells, also where a part of one is asked for."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max_bytes)


_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_TRANSACTION}
_FUNCTIONS = {"count", "max", "coalesce", "substr"}


def restrict(connection: sqlite3.Connection) -> None:
    """After the last statement that sets something up: the connection reads tables of Strata, for so long at most."""
    limit_cells(connection, _MAX_CELL_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, 100)
    connection.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 100)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.execute("PRAGMA automatic_index = OFF")
    connection.execute("PRAGMA query_only = ON")
    connection.set_authorizer(_authorize)
    calls = iter(range(_MAX_CALLS))
    connection.set_progress_handler(lambda: next(calls, None) is None, _STEPS_A_CALL)


def _authorize(action: int, first: str | None, second: str | None, database: str | None, within: str | None) -> int:
    if action in _ALLOWED:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_READ and first in schema.TABLES:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and second in _FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY
