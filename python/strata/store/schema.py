"""The tables. Rows are only ever added: triggers refuse the rest, so what was measured cannot be rewritten."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from functools import cache

VERSION = 5

# Every table also has the column `signature`: of all its other columns (strata/store/signature.py).
TABLES = {
    # machine: the id of the machine that made the run; directory: the real path, as JSON, since a path may not be text
    "run": """
        id INTEGER PRIMARY KEY CHECK (id = 1), uuid TEXT NOT NULL, name TEXT NOT NULL,
        about TEXT NOT NULL, source TEXT NOT NULL, fingerprint TEXT NOT NULL, description TEXT NOT NULL,
        seed INTEGER NOT NULL, strata TEXT NOT NULL, created_at REAL NOT NULL, testbed TEXT NOT NULL,
        machine TEXT NOT NULL, directory TEXT NOT NULL""",
    # the newest row holds: a later run may ask for more rounds or another budget
    "rule": """
        id INTEGER PRIMARY KEY, at REAL NOT NULL, rounds INTEGER NOT NULL, within REAL NOT NULL,
        confidence REAL NOT NULL, budget_s REAL, design TEXT NOT NULL, certify INTEGER NOT NULL,
        objective TEXT NOT NULL""",
    "disk": """
        role TEXT NOT NULL, size_bytes INTEGER NOT NULL, device TEXT, model TEXT, write_cache TEXT,
        position INTEGER NOT NULL""",
    # resolved: every layer in the order of building, with the values that the text leaves out
    "stack": "id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE, factors TEXT NOT NULL, resolved TEXT NOT NULL",
    "workload": "id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE, name TEXT NOT NULL, primary_metric TEXT NOT NULL",
    # workload NULL: figures of the machine, recorded beside every trial. The newest row of a name holds: a figure may
    # be announced before its unit is known
    "metric": """
        workload INTEGER REFERENCES workload, name TEXT NOT NULL, unit TEXT NOT NULL, better TEXT NOT NULL,
        about TEXT NOT NULL, UNIQUE (workload, name, unit, better)""",
    "facts": "id INTEGER PRIMARY KEY, at REAL NOT NULL, facts TEXT NOT NULL, versions TEXT NOT NULL",
    # what cannot run, per look at the machine (`facts`); the newest look holds
    "skip": """
        facts INTEGER NOT NULL REFERENCES facts, stack INTEGER NOT NULL REFERENCES stack, reason TEXT NOT NULL""",
    "visit": """
        id INTEGER PRIMARY KEY, stack INTEGER NOT NULL REFERENCES stack, round INTEGER NOT NULL, at REAL NOT NULL,
        UNIQUE (stack, round)""",
    # a visit that was cut off is tried again; only an attempt with an `ending` counts
    "attempt": "id INTEGER PRIMARY KEY, visit INTEGER NOT NULL REFERENCES visit, at REAL NOT NULL",
    "ending": "attempt INTEGER PRIMARY KEY REFERENCES attempt, at REAL NOT NULL, failure TEXT",
    # an attempt that ended with its machine; it has an `ending` only when the visit was given up with it
    "lost": """
        attempt INTEGER PRIMARY KEY REFERENCES attempt, at REAL NOT NULL, reason TEXT NOT NULL,
        console TEXT NOT NULL""",
    # attempt NULL: steps of the run itself
    "journal": """
        id INTEGER PRIMARY KEY, attempt INTEGER REFERENCES attempt, layer TEXT NOT NULL, why TEXT NOT NULL,
        do_argv TEXT NOT NULL, undo_argv TEXT, undo_timeout_s REAL, at REAL NOT NULL""",
    # discarded: its machine is gone, so there is nothing to undo
    "journal_state": """
        id INTEGER PRIMARY KEY, journal INTEGER NOT NULL REFERENCES journal,
        state TEXT NOT NULL CHECK (state IN ('done', 'failed', 'undone', 'undo_failed', 'discarded')),
        at REAL NOT NULL, duration_s REAL, detail TEXT""",
    "evidence": """
        attempt INTEGER NOT NULL REFERENCES attempt, layer TEXT NOT NULL, argv TEXT NOT NULL,
        exit_code INTEGER NOT NULL, stdout TEXT NOT NULL, stderr TEXT NOT NULL""",
    "trial": """
        id INTEGER PRIMARY KEY, attempt INTEGER NOT NULL REFERENCES attempt,
        workload INTEGER NOT NULL REFERENCES workload, outcome TEXT NOT NULL, reason TEXT,
        at REAL NOT NULL, wall_s REAL, flags TEXT NOT NULL, notes TEXT NOT NULL,
        argv TEXT NOT NULL""",
    "figure": """
        trial INTEGER NOT NULL REFERENCES trial, metric TEXT NOT NULL, value REAL NOT NULL, UNIQUE (trial, metric)""",
    "event": "id INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL",
}

KEYS = {name: columns.split()[0] for name, columns in TABLES.items() if "INTEGER PRIMARY KEY" in columns}
"""The tables whose rows have a number, and its column."""

_INDEXES = """
CREATE INDEX journal_by_attempt ON journal (attempt);
CREATE INDEX journal_state_by_journal ON journal_state (journal);
CREATE INDEX attempt_by_visit ON attempt (visit);
CREATE INDEX trial_by_attempt ON trial (attempt);
"""


# A run of an older version read as one of this version: these names come before those of the file. No reader asks for
# signatures, so version 4 is read as it is.
READ_VERSION_3 = """
PRAGMA temp_store = MEMORY;
CREATE TEMP VIEW rule AS SELECT *, '' AS objective FROM main.rule;
"""
READ_VERSION_2 = """
PRAGMA temp_store = MEMORY;
CREATE TEMP VIEW rule AS SELECT *, 'rounds' AS design, 0 AS certify, '' AS objective FROM main.rule;
"""
READ_VERSION_1 = (
    READ_VERSION_2
    + """
CREATE TEMP VIEW run AS SELECT *, '{}' AS testbed FROM main.run;
CREATE TEMP VIEW disk AS SELECT *, NULL AS model, NULL AS write_cache FROM main.disk;
CREATE TEMP TABLE lost (attempt INTEGER, at REAL, reason TEXT, console TEXT);
"""
)

READ_OLDER = {1: READ_VERSION_1, 2: READ_VERSION_2, 3: READ_VERSION_3, 4: ""}


def triggers() -> dict[str, str]:
    """Name -> DDL."""
    return {
        f"{name}_no_{action.lower()}": f"CREATE TRIGGER {name}_no_{action.lower()} BEFORE {action} ON {name} "
        f"BEGIN SELECT RAISE(ABORT, 'the store is append-only'); END"
        for name in TABLES
        for action in ("UPDATE", "DELETE")
    }


def script() -> str:
    """The DDL of a new database."""
    parts = [f"CREATE TABLE {name} (signature BLOB NOT NULL, {columns});" for name, columns in TABLES.items()]
    parts += [f"{trigger};" for trigger in triggers().values()]
    return "\n".join(parts) + _INDEXES + f"PRAGMA user_version = {VERSION};"


SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
"""Everything that a database defines: tables, triggers, indexes and views."""


@cache
def definitions() -> list[tuple[object, ...]]:
    """What SCHEMA gives for a database of ours."""
    with closing(_empty()) as sql:
        return sql.execute(SCHEMA).fetchall()


@cache
def columns() -> Mapping[str, Mapping[str, str]]:
    """By table: the type of every column but the signature, in order."""
    with closing(_empty()) as sql:
        return {
            table: {
                name: kind for _, name, kind, *_ in sql.execute(f"PRAGMA table_info({table})") if name != "signature"
            }
            for table in TABLES
        }


def _empty() -> sqlite3.Connection:
    sql = sqlite3.connect(":memory:")
    sql.executescript(script())
    return sql
