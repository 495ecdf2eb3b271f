"""One change to a run directory, as a stranger or a broken disk could make it."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import polars

Mutation = Callable[[Path, Path, random.Random], None]
"""(run directory, a directory outside with files that nothing may change, chance)."""

TEXTS = [
    "",
    "x" * 100_000,
    "\x1b]52;c;ZWNobw==\x07\x1b[2J\x1b[31m",
    "a\x00b\x01\x7f\x85",
    "\u202etxet\u2066",
    "<script>alert(1)</script>",
    "'; DROP TABLE run; --",
    "$(touch /tmp/strata-fuzz) `id` ; true",
    "../../../../etc/passwd",
    "disk | " * 400 + "ext4",
    "{" * 3000,
    "(" * 3000 + "disk" + ")" * 3000,
    "disk | {ext4, xfs} | " + " | ".join(["dir({a, b})"] * 40),
    "99999999*disk | md(raid0) | ext4",
    "disk | ext4(mkfs='-E x;id')",
    "%s %n {0} {{ 7*7 }} {% raw %}",
    "\n\n\r\n",
    "NaN",
    "nan%",
    "pareto:" + "x," * 50,
    "feature/" + "x" * 50,
    "\ufeff\ud7ff\uffff",
]
NUMBERS: list[object] = [
    0, -1, 1, 2, 3, 7, 2**31, 2**53, 2**63 - 1, -(2**63), 0.0, -0.0, 0.5, 1.0, -1.0, 1e-320, 5e-324, 1e30, 1e300,
    1.7e308, -1.7e308, float("inf"), float("-inf"), 1e-30, 253402300799.0, 1e15,
]  # fmt: skip
JSONS = [
    "", "{", "null", "[]", "{}", "0", '"x"', "[" * 50_000, "[" * 150 + "]" * 150, '{"a":' * 150 + "1" + "}" * 150,
    "[NaN]", "[Infinity, 1e999]", '["\\ud800"]', '["\\u0000\\u001b[2J"]', "1" * 5000, '{"a": ' + "9" * 400 + "}",
    '{"profile": {"x": 1}}', '{"profile": 7}', "[[1]]", '[["a", null]]', '[["sh", "-c", "id"]]', '{"kernel": 3}',
    '{"hostname": 3}', '{"fio": [1]}', '{"kind": "ssh", "host": "-oProxyCommand=id"}', '{"clock": "x"}',
]  # fmt: skip
BYTES = [b"", b"\xff\xfe\x80", b"\x00" * 4096, b"\xed\xa0\x80", b"\x80abc"]


def _hostile(chance: random.Random, old: object) -> object:
    kind = chance.randrange(6)
    if kind == 0:
        return None
    if kind == 1:
        return chance.choice(NUMBERS)
    if kind == 2:
        return chance.choice(TEXTS)
    if kind == 3:
        return chance.choice(JSONS)
    if kind == 4:
        return chance.choice(BYTES)
    if isinstance(old, str) and old:
        at = chance.randrange(len(old))
        return old[:at] + chance.choice(["", "\x1b", "|", "{", "(", "9", "'", " ", "\u0301"]) + old[at + 1 :]
    if isinstance(old, int | float):
        return old * chance.choice([-1, 0, 2, 1000, 1e9]) + chance.choice([0, 1, -1])
    return chance.choice(TEXTS)


def _sql(directory: Path) -> sqlite3.Connection:
    sql = sqlite3.connect(directory / "strata.db", isolation_level=None)
    # Pages that an earlier mutation made lead back to each other have rows without end: the statement is given up.
    calls = iter(range(100))
    sql.set_progress_handler(lambda: next(calls, None) is None, 1_000_000)
    sql.execute("PRAGMA ignore_check_constraints = ON")
    return sql


def _tables(sql: sqlite3.Connection) -> list[str]:
    return [name for (name,) in sql.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]


def _without_triggers(sql: sqlite3.Connection) -> list[str]:
    """Their DDL, to make them again."""
    found = sql.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in found:
        sql.execute(f'DROP TRIGGER "{name}"')
    return [ddl for _, ddl in found]


def _loosen(sql: sqlite3.Connection, table: str) -> None:
    """The same columns without any constraint, so that every value fits."""
    sql.execute("PRAGMA writable_schema = ON")
    columns = ", ".join(name for _, name, *_ in sql.execute(f"PRAGMA table_info({table})"))
    sql.execute(f"CREATE TABLE loose ({columns})")
    sql.execute(f"INSERT INTO loose SELECT * FROM {table}")
    sql.execute(f"DROP TABLE {table}")
    sql.execute(f"ALTER TABLE loose RENAME TO {table}")


def value(directory: Path, outside: Path, chance: random.Random) -> None:
    """Cells of any type, size and encoding."""
    with closing(_sql(directory)) as sql, suppress(sqlite3.Error):
        triggers = _without_triggers(sql)
        table = chance.choice(_tables(sql))
        if chance.random() < 0.3:
            _loosen(sql, table)
        columns = [name for _, name, *_ in sql.execute(f"PRAGMA table_info({table})")]
        ids = [id_ for (id_,) in sql.execute(f"SELECT rowid FROM {table}")]
        for _ in range(chance.choice([1, 1, 1, 3])):
            if not ids:
                break
            column, id_ = chance.choice(columns), chance.choice(ids)
            (old,) = sql.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (id_,)).fetchone() or (None,)
            new = _in_json(chance, old) if _is_json(old) and chance.random() < 0.6 else _hostile(chance, old)
            where, values = ("", (new,)) if chance.random() < 0.15 else (" WHERE rowid = ?", (new, id_))
            if isinstance(new, bytes) and chance.random() < 0.5:
                sql.execute(f"UPDATE {table} SET {column} = CAST(? AS TEXT){where}", values)
            else:
                with suppress(sqlite3.IntegrityError):
                    sql.execute(f"UPDATE {table} SET {column} = ?{where}", values)
        for ddl in triggers if chance.random() < 0.9 else ():
            sql.execute(ddl)


def _is_json(old: object) -> bool:
    return isinstance(old, str) and old[:1] in "[{" and bool(old)


def _in_json(chance: random.Random, old: object) -> str:
    """One value inside of it is another."""
    plain = json.loads(str(old))
    at = plain
    while True:
        keys: list[Any] = list(at) if isinstance(at, dict) else list(range(len(at))) if isinstance(at, list) else []
        if not keys:
            return json.dumps(chance.choice([plain, [], {}, None, [plain]]))
        key = chance.choice(keys)
        if not isinstance(at[key], dict | list) or chance.random() < 0.4:
            break
        at = at[key]
    if isinstance(at, dict) and chance.random() < 0.3:
        del at[key]
    else:
        at[key] = chance.choice([None, -1, 1e300, 2**70, "", "x\x1b[2J", [], {}, [[]], True, *TEXTS[:8]])
    return json.dumps(plain)


def rows(directory: Path, outside: Path, chance: random.Random) -> None:
    """Rows that are missing, doubled, or speak of others that are not there."""
    with closing(_sql(directory)) as sql, suppress(sqlite3.Error):
        triggers = _without_triggers(sql)
        table = chance.choice(_tables(sql))
        how = chance.randrange(4)
        if how == 0:
            sql.execute(f"DELETE FROM {table}")
        elif how == 1:
            sql.execute(f"DELETE FROM {table} WHERE rowid % ? = 0", (chance.choice([2, 3, 5]),))
        elif how == 2:
            _loosen(sql, table)
            for _ in range(chance.choice([1, 3])):
                sql.execute(f"INSERT INTO {table} SELECT * FROM {table} LIMIT 200")
        else:
            columns = [name for _, name, *_ in sql.execute(f"PRAGMA table_info({table})")]
            keys = {"id", "stack", "workload", "visit", "attempt", "trial", "facts", "journal", "position", "round"}
            for column in keys & set(columns):
                if chance.random() < 0.5:
                    with suppress(sqlite3.Error):
                        sql.execute(f"UPDATE {table} SET {column} = {column} + ?", (chance.choice([1, -1, 1000]),))
        for ddl in triggers:
            with suppress(sqlite3.Error):
                sql.execute(ddl)


def schema(directory: Path, outside: Path, chance: random.Random) -> None:
    """Tables, columns, views, triggers and indexes that Strata does not make, and edits of the schema's own text."""
    with closing(_sql(directory)) as sql, suppress(sqlite3.Error):
        table = chance.choice(_tables(sql))
        columns = [name for _, name, *_ in sql.execute(f"PRAGMA table_info({table})")]
        column = chance.choice(columns)
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
        statements = [
            [f"DROP TABLE {table}"],
            [f"ALTER TABLE {table} RENAME TO {table}_2"],
            [f"ALTER TABLE {table} RENAME COLUMN {column} TO other"],
            [f"ALTER TABLE {table} ADD COLUMN more TEXT DEFAULT 'x'"],
            [f"ALTER TABLE {table} ADD COLUMN made AS (randomblob(1000000))"],
            [
                f"ALTER TABLE {table} RENAME TO real",
                f"CREATE VIEW {table} AS SELECT * FROM real",
            ],
            [
                f"ALTER TABLE {table} RENAME TO real",
                f"CREATE VIEW {table} AS SELECT real.* FROM real, ({endless})",
            ],
            [f"CREATE TRIGGER stranger AFTER INSERT ON {table} BEGIN DELETE FROM run; END"],
            [f"CREATE TRIGGER stranger2 AFTER INSERT ON event BEGIN SELECT load_extension('{outside}/x'); END"],
            ["CREATE VIRTUAL TABLE searched USING fts5(text)"],
            [f"DROP TABLE {table}", f"CREATE VIRTUAL TABLE {table} USING fts5({', '.join(columns)})"],
            [f"CREATE INDEX more ON {table} ({column})"],
            [f"CREATE INDEX more ON {table} (abs({column}))"],
            [f"CREATE VIEW v AS {endless}"],
            ["PRAGMA user_version = " + str(chance.choice([-1, 0, 1, 2, 3, 4, 5, 99, 2**31 - 1]))],
            ["PRAGMA encoding = 'UTF-16'", "VACUUM"],
            ["PRAGMA journal_mode = WAL"],
            ["PRAGMA page_size = 512", "VACUUM"],
            ["PRAGMA auto_vacuum = FULL", "VACUUM"],
            [f"CREATE TABLE more{number} (a)" for number in range(600)],
        ]
        if chance.random() < 0.35:
            sql.execute("PRAGMA writable_schema = ON")
            edits = [
                f"UPDATE sqlite_master SET sql = replace(sql, 'TEXT', 'BLOB') WHERE name = '{table}'",
                f"UPDATE sqlite_master SET sql = replace(sql, '{column}', 'x\x1b[2J') WHERE name = '{table}'",
                f"UPDATE sqlite_master SET sql = 'CREATE TABLE' WHERE name = '{table}'",
                f"UPDATE sqlite_master SET sql = NULL WHERE name = '{table}'",
                f"UPDATE sqlite_master SET sql = CAST(x'ff80' AS TEXT) WHERE name = '{table}'",
                f"UPDATE sqlite_master SET name = CAST(x'ff80' AS TEXT) WHERE name = '{table}'",
                f"UPDATE sqlite_master SET type = 'view' WHERE name = '{table}'",
                f"UPDATE sqlite_master SET rootpage = {chance.randrange(0, 60)} WHERE name = '{table}'",
                f"UPDATE sqlite_master SET rootpage = 1 WHERE name = '{table}'",
                f"UPDATE sqlite_master SET sql = sql || ' WITHOUT ROWID' WHERE name = '{table}'",
                f"UPDATE sqlite_master SET sql = sql || ' STRICT' WHERE name = '{table}'",
                f"INSERT INTO sqlite_master VALUES ('table', '{table}', '{table}', 3, 'CREATE TABLE {table}(a)')",
                "UPDATE sqlite_master SET sql = replace(sql, 'append-only', 'x') WHERE type = 'trigger'",
            ]
            sql.execute(chance.choice(edits))
            return
        for statement in chance.choice(statements):
            sql.execute(statement)


def pages(directory: Path, outside: Path, chance: random.Random) -> None:
    """Bits, bytes and pages of the database file."""
    path = directory / "strata.db"
    data = bytearray(path.read_bytes())
    size = 4096
    count = len(data) // size
    how = chance.randrange(8)
    if how == 0 or count < 2:
        for _ in range(chance.choice([1, 2, 10, 100])):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    elif how == 1:
        at = chance.randrange(len(data))
        data[at : at + chance.choice([1, 16, 512])] = chance.randbytes(chance.choice([1, 16, 512]))
    elif how == 2:
        del data[chance.randrange(len(data)) :]
    elif how == 3:
        one, other = chance.randrange(count), chance.randrange(count)
        data[one * size : (one + 1) * size] = data[other * size : (other + 1) * size]
    elif how == 4:  # the header
        for _ in range(chance.choice([1, 3])):
            data[chance.randrange(100)] = chance.choice([0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)])
    elif how == 5:  # the head of a page: its kind, its number of cells, where these lie
        at = chance.randrange(1, count) * size
        data[at + chance.randrange(12)] = chance.choice([0, 1, 2, 5, 10, 13, 0xFF])
    elif how == 6:  # pointers to cells and pages
        at = chance.randrange(1, count) * size
        struct.pack_into(">H", data, at + 8 + 2 * chance.randrange(50), chance.randrange(65536))
        struct.pack_into(">I", data, at + 8, chance.randrange(count + 2))
    else:
        data += chance.choice([b"\0" * size, chance.randbytes(size * 3), bytes(data)])
    path.write_bytes(data)


def bomb(directory: Path, outside: Path, chance: random.Random) -> None:
    """Pages that name each other as their children: rows without end."""
    with closing(_sql(directory)) as sql:
        name = chance.choice(["figure", "event", "lost", "attempt", "journal_state", "trial"])
        (root,) = sql.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    path = directory / "strata.db"
    data = bytearray(path.read_bytes())
    first = len(data) // 4096 + 1
    data += bytes(4096 * 12)
    leaf = bytes(data[(root - 1) * 4096 : root * 4096])
    for level in range(12):
        number = root if level == 0 else first + level - 1
        child = first + level
        at = (number - 1) * 4096
        if level == 11:
            data[at : at + 4096] = leaf
            break
        cells = 400
        page = bytearray(4096)
        struct.pack_into(">BHHHBI", page, 0, 5, 0, cells, 4096 - cells * 5, 0, child)
        for cell in range(cells):
            where = 4096 - (cell + 1) * 5
            struct.pack_into(">H", page, 12 + 2 * cell, where)
            struct.pack_into(">IB", page, where, child, min(cell, 127))
        data[at : at + 4096] = page
    struct.pack_into(">I", data, 28, len(data) // 4096)
    path.write_bytes(data)


def beside(directory: Path, outside: Path, chance: random.Random) -> None:
    """What SQLite, the lock and the pages would open beside the database."""
    name = chance.choice(
        [
            *["strata.db-wal", "strata.db-shm", "strata.db-journal", "lock"] * 3,
            *["report.html", "report.html.new", "features.html", "features.html.new", "strata.db.new", "strata.db"],
        ]
    )
    path = directory / name
    if name == "strata.db" and chance.random() < 0.5:
        path.rename(outside.parent / "moved.db")
        path.symlink_to(outside.parent / "moved.db")
        return
    if os.path.lexists(path):
        path.unlink()
    how = chance.randrange(7)
    if name == "strata.db-journal" and how < 3:
        path.write_bytes(hot_journal(directory / "strata.db", outside / "precious"))
    elif name == "strata.db-wal" and how < 3:
        path.write_bytes(_log(chance))
    elif how == 0:
        path.symlink_to(outside / "precious")
    elif how == 1:
        path.symlink_to(outside / "not-there")
    elif how == 2:
        os.link(outside / "precious", path)
    elif how == 3:
        os.mkfifo(path)
    elif how == 4:
        path.mkdir()
    elif how == 5:
        path.write_bytes(chance.randbytes(chance.choice([0, 1, 32, 5000, 40000])))
    else:
        path.symlink_to("/dev/zero")


def hot_journal(database: Path, victim: Path) -> bytes:
    """A rollback journal that SQLite plays back when it opens the database to write, deleting `victim` at its end."""
    magic = bytes.fromhex("d9d505f920a163d7")
    count = database.stat().st_size // 4096 if database.exists() else 1
    header = (magic + struct.pack(">IIIII", 0, 0, count, 512, 4096)).ljust(512, b"\0")
    name = os.fsencode(victim)
    checksum = sum(byte if byte < 128 else byte - 256 for byte in name) & 0xFFFFFFFF
    return header + struct.pack(">I", 0x40000000 // 4096 + 1) + name + struct.pack(">II", len(name), checksum) + magic


def _log(chance: random.Random) -> bytes:
    """A write-ahead log: a header with the right checksum, and frames that may or may not be right."""
    start = struct.pack(">IIIIII", 0x377F0683, 3007000, 4096, 0, 1, 2)
    header = start + struct.pack(">II", *_checksum(start, (0, 0)))
    state = _checksum(start, (0, 0))
    frames = b""
    for number in range(chance.choice([0, 1, 3])):
        page = chance.randbytes(4096)
        head = struct.pack(">II", chance.choice([1, 2, number + 1]), chance.choice([0, 40]))
        state = _checksum(page, _checksum(head, state))
        frames += head + struct.pack(">IIII", 1, 2, *state) + page
    return header + frames


def _checksum(data: bytes, state: tuple[int, int]) -> tuple[int, int]:
    first, second = state
    words = struct.unpack(f">{len(data) // 4}I", data)
    for at in range(0, len(words), 2):
        first = (first + words[at] + second) & 0xFFFFFFFF
        second = (second + words[at + 1] + first) & 0xFFFFFFFF
    return first, second


def samples(directory: Path, outside: Path, chance: random.Random) -> None:
    """Sample files: broken, huge once unpacked, of other columns, links, pipes."""
    files = sorted(path for path in (directory / "samples").iterdir() if path.is_file() and not path.is_symlink())
    how = chance.randrange(9)
    if how == 0:
        shutil.move(directory / "samples", outside.parent / "moved")
        (directory / "samples").symlink_to(outside.parent / "moved")
        return
    if not files:
        return
    for path in files if how == 1 else chance.sample(files, min(len(files), chance.choice([1, 3]))):
        data = bytearray(path.read_bytes())
        kind = chance.randrange(9)
        path.unlink()
        if kind <= 2:
            for _ in range(chance.choice([1, 1, 3, 50])):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            path.write_bytes(data)
        elif kind == 3:
            start = max(4, len(data) - 8 - int.from_bytes(data[-8:-4], "little"))
            at = chance.randrange(start, len(data))
            data[at : at + chance.choice([0, 1, 4])] = chance.randbytes(chance.choice([1, 2, 9]))
            path.write_bytes(data)
        elif kind == 4:
            path.write_bytes(data[: chance.randrange(len(data))])
        elif kind == 5:
            path.write_bytes(_other_table(chance))
        elif kind == 6:
            path.symlink_to(chance.choice([outside / "precious", Path("/dev/zero"), outside / "not-there"]))
        elif kind == 7:
            os.mkfifo(path)
        else:
            path.write_bytes(chance.choice([b"", b"PAR1", b"PAR1" * 5, b"PAR1" + b"\xff" * 8 + b"PAR1"]))


def _other_table(chance: random.Random) -> bytes:
    count = chance.choice([1, 1000, 1_000_000])
    frames = [
        {"series": ["iops"] * count, "t_s": [0.0] * count, "value": [1.0] * count},
        {"series": ["iops", "iops"], "t_s": [float("nan"), 1.0], "value": [float("inf"), -1e308]},
        {"series": [None], "t_s": [None], "value": [None]},
        {"series": [["a"]], "t_s": [0.0], "value": [1.0]},
        {"series": [1], "t_s": ["x"], "value": [1.0]},
        {"other": [1]},
        {"series": ["iops\x1b[2J"], "t_s": [-1e300], "value": [1e300]},
    ]
    packed = io.BytesIO()
    polars.DataFrame(chance.choice(frames), strict=False).write_parquet(
        packed, compression=chance.choice(["zstd", "snappy", "gzip", "uncompressed"])
    )
    return packed.getvalue()


MUTATIONS: tuple[tuple[float, Mutation], ...] = (
    (40, value),
    (10, rows),
    (12, schema),
    (14, pages),
    (0.2, bomb),  # a few seconds for each command
    (10, beside),
    (13, samples),
)


# What a mutation raises that cannot be made of what the ones before it left.
_NOT_MADE = (OSError, ValueError, LookupError, OverflowError, RecursionError, sqlite3.Error, struct.error)


def mutate(directory: Path, outside: Path, chance: random.Random) -> list[str]:
    """The names of the mutations that were made."""
    kinds, weights = [kind for _, kind in MUTATIONS], [weight for weight, _ in MUTATIONS]
    chosen = chance.choices(kinds, weights, k=chance.choice([1, 1, 1, 2, 3]))
    # Last what the other mutations would stumble over themselves: they open the database too.
    for mutation in sorted(chosen, key=lambda kind: kind is beside):
        with suppress(*_NOT_MADE):
            mutation(directory, outside, chance)
    return [mutation.__name__ for mutation in chosen]
