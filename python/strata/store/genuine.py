"""Whether a database was written by this user on this machine, at this place, and by Strata alone.

Continuing with a run and cleaning it act on what the database says: they run its undos, end processes by its id,
connect to its testbed. So all of it is checked before any of it is used.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import NoReturn

from strata.errors import Refused
from strata.store import key, schema
from strata.store.signature import Origin, Signer


def check(sql: sqlite3.Connection, directory: Path) -> Signer:
    """Return the signer of the run. Raises Refused for anything that Strata did not write there."""
    try:
        return _check(sql, directory)
    except sqlite3.DatabaseError as error:
        _refuse(directory, f"has a damaged database ({error})")


def origin(directory: Path, uuid: str) -> Origin:
    """Of a run in `directory` on this machine."""
    return Origin(uuid, key.machine_id(), json.dumps(str(directory.resolve())))


def _check(sql: sqlite3.Connection, directory: Path) -> Signer:
    if sql.execute(schema.SCHEMA).fetchall() != schema.definitions():
        _refuse(directory, "has tables, triggers or views in its database that Strata did not make")
    runs = sql.execute("SELECT uuid, machine, directory FROM run").fetchall()
    if len(runs) != 1:
        _refuse(directory, "holds a run that never began")
    made = Origin(*(str(value) for value in runs[0]))
    signer = Signer(key.of_this_machine(), made)
    if wrong := _unsigned(sql, signer, "run"):
        _refuse(
            directory,
            f"was not made by this user on this machine, or was changed since: {wrong} has no valid signature",
        )
    here = origin(directory, made.uuid)
    if made.machine != here.machine:
        _refuse(directory, f"was made on another machine (machine id {made.machine}, this one has {here.machine})")
    if made.directory != here.directory:
        raise Refused(
            f"{directory} was made at {json.loads(made.directory)}, and the commands in its journal name paths there: "
            "move it back to continue or clean it; it can be read here (`strata report`)."
        )
    # A query may read an index instead of the table whose rows are checked: both must hold the same.
    if (found := sql.execute("PRAGMA integrity_check(1)").fetchall()) != [("ok",)]:
        _refuse(directory, f"has a damaged database ({found[0][0]})")
    for table in schema.TABLES:
        if wrong := _unsigned(sql, signer, table):
            _refuse(directory, f"was changed since Strata wrote it: {wrong} has no valid signature")
    return signer


def _unsigned(sql: sqlite3.Connection, signer: Signer, table: str) -> str | None:
    """The first row without a valid signature; None when all have one."""
    names = ", ".join(schema.columns()[table])
    for row, signature, *values in sql.execute(f"SELECT rowid, signature, {names} FROM {table}"):
        if not signer.holds(table, values, signature):
            return f"row {row} of the table {table}"
    return None


def _refuse(directory: Path, what: str) -> NoReturn:
    raise Refused(
        f"{directory} {what}. Nothing in it is carried out: it can be read (`strata report`), and a new run needs "
        "another --out."
    )
