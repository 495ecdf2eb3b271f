"""A run goes on, or is cleaned, only when this user's Strata wrote all of it at this place on this machine."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import Refused, StoreError
from strata.model import Call, Command, Completed, Disk, Facts, Metric, Node, Outcome, Rule, Stack
from strata.store import database, genuine, key, reader, schema
from strata.store.signature import Origin, Signer
from strata.store.writer import Store

SPEED = Metric("speed", "MiB/s", "higher")
DISK = Node(Call("disk", "disk", {"role": "disk"}))
FACTS = Facts("host", (6, 1, 2), "6.1.2", "Debian", "cpu", 2, 1 << 30, True, frozenset(), {}, frozenset(), 7)


def fill(directory: Path) -> Path:
    """A run with a row in every table."""
    store = Store.create(
        directory,
        name="n",
        about="",
        source="text",
        fingerprint="f",
        description={"testbed": "local", "stacks": ["a", "b"]},
        seed=5,
        version="1",
        now=1.0,
    )
    store.add_plan(
        [Stack(text, DISK) for text in ("a", "b")],
        [(Call("w", "w", {}), SPEED, (SPEED,))],
        (Metric("psi", "%", "lower"),),
        (Disk("disk", 10, "/dev/disk/by-id/x", "hdd-7200", "volatile"),),
    )
    store.set_rule(Rule(rounds=2, budget_s=60.0), 1.0)
    store.add_facts(FACTS, {"fio": "3"}, {"b": ["no"]}, 1.0)
    store.add_event("decision", "because", 1.0)
    store.add_visits([(0, "a"), (1, "a")], 1.0)
    attempt = store.begin(1, 2.0)
    for name in ("low", "top"):
        do, undo = Command(("make", name)), Command(("undo", name), timeout_s=3.0)
        entry = store.journal(attempt, name, f"make {name}", do, undo, 2.0)
        store.settle(entry, "failed", 0.5, 2.0, "broke")
    store.add_evidence(attempt, "w", [Completed(("x",), 1, "out", "err", 1.0)])
    store.add_trial(
        attempt,
        "w",
        outcome=Outcome.FAILED,
        reason="slow",
        at=3.0,
        wall_s=1.5,
        argv=(("w",),),
        figures={"speed": -0.0, "own": 1},
        extra=(Metric("own", "1", "lower"),),
    )
    store.lose(attempt, "gone", 3.0, "panic")
    store.end(attempt, "broke", 4.0)
    store.close()
    return directory


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return fill(tmp_path / "run")


def change(directory: Path, *statements: str, triggers: bool = True) -> None:
    """As somebody who knows SQL; what keeps rows from being changed is removed and put back."""
    with closing(sqlite3.connect(directory / "strata.db", isolation_level=None)) as sql:
        kept = sql.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in kept:
            sql.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            sql.execute(statement)
        for _, text in kept if triggers else ():
            sql.execute(text)


def refused(directory: Path) -> str:
    with pytest.raises((Refused, StoreError)) as caught:
        Store.resume(directory)
    return str(caught.value)


def is_readable(directory: Path) -> bool:
    return reader.view(directory).campaign == "n"


def test_what_nobody_changed_goes_on(run: Path) -> None:
    for _ in range(2):
        store = Store.resume(run)
        assert [entry.undo.argv for entry in store.to_undo()] == [("undo", "top"), ("undo", "low")]
        store.close()


# ------------------------------------------------------------ values


def others(value: object) -> list[object]:
    """Values to put in the place of `value`: of other types, and some that look like it."""
    if isinstance(value, bytes):
        return [value[:-1], b"", bytes(32), bytes([value[0] ^ 1]) + value[1:]]
    if isinstance(value, str):
        return [f"{value} ", f"{value}\0", value.encode(), "ssh:stranger", '["touch"]', value.encode() + b"\xff"]
    if isinstance(value, float):
        return [value + 1e-9, -1.0, 1e308, "text"]
    if isinstance(value, int):
        return [value + 1, -1, "text", b"1"]
    return ["", 0, '["touch", "/marker"]']


def test_a_change_of_any_value_is_refused(run: Path) -> None:
    with closing(sqlite3.connect(run / "strata.db", isolation_level=None)) as sql:
        genuine.check(sql, run)
        sql.execute("PRAGMA ignore_check_constraints = ON")
        triggers = {str(name): str(text) for _, name, _, text in schema.definitions()}
        tried = 0
        for table, rowid, column, value in cells(sql):
            for other in others(value):
                sql.execute("BEGIN")
                sql.execute(f"DROP TRIGGER {table}_no_update")
                try:
                    sql.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (other, rowid))
                except sqlite3.IntegrityError:
                    sql.execute("ROLLBACK")
                    continue  # the table itself does not take it
                sql.execute(triggers[f"{table}_no_update"])
                with pytest.raises(Refused, match=r"strata report") as caught:
                    genuine.check(sql, run)
                told = str(caught.value)
                assert "no valid signature" in told or "damaged" in told, (table, column, other, told)
                sql.execute("ROLLBACK")
                tried += 1
        genuine.check(sql, run)
    assert tried > 400, tried


def cells(sql: sqlite3.Connection) -> list[tuple[str, int, str, object]]:
    found: list[tuple[str, int, str, object]] = []
    for table, columns in schema.columns().items():
        names = [*columns, "signature"]
        rows = sql.execute(f"SELECT rowid, {', '.join(names)} FROM {table}").fetchall()
        assert rows, f"no row of {table} to change"
        found += [(table, row[0], name, value) for row in rows for name, value in zip(names, row[1:], strict=True)]
    return found


@given(
    value=st.floats(allow_nan=False) | st.integers(-(2**53), 2**53),
    text=st.text(st.characters(exclude_categories=["Cs"])),
    flag=st.booleans(),
)
def test_what_is_signed_is_what_the_database_gives_back(value: float, text: str, flag: bool) -> None:
    signer = Signer(b"k" * 32, Origin("u", "m", "d"))
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as sql:
        sql.executescript(schema.script())
        rule = {"at": value, "rounds": flag, "within": value, "confidence": 1, "design": text, "certify": flag}
        database.add(sql, signer, "rule", {**rule, "objective": text})
        names = ", ".join(schema.columns()["rule"])
        signature, *values = sql.execute(f"SELECT signature, {names} FROM rule").fetchone()
        assert signer.holds("rule", values, signature)


def test_text_that_is_no_text_is_refused(run: Path) -> None:
    change(run, "UPDATE journal SET why = CAST(x'FF' AS TEXT)")
    assert "damaged" in refused(run)


# ------------------------------------------------------------ rows


def test_a_row_added_with_the_signature_of_another_is_refused(run: Path) -> None:
    change(
        run,
        'INSERT INTO journal SELECT signature, 77, attempt, layer, why, do_argv, \'["touch", "/marker"]\', '
        "undo_timeout_s, at FROM journal WHERE id = 1",
    )
    assert "row 77 of the table journal" in refused(run)
    assert is_readable(run)


def test_rows_of_another_run_of_this_machine_are_refused(run: Path, tmp_path: Path) -> None:
    other = fill(tmp_path / "other")
    change(
        run,
        f"ATTACH '{other}/strata.db' AS other",
        "DELETE FROM journal",
        "INSERT INTO journal SELECT * FROM other.journal",
    )
    assert "row 1 of the table journal" in refused(run)


def test_rows_in_each_other_s_places_are_refused(run: Path) -> None:
    change(
        run,
        "UPDATE journal SET id = 10 WHERE id = 1",
        "UPDATE journal SET id = 1 WHERE id = 2",
        "UPDATE journal SET id = 2 WHERE id = 10",
    )
    assert "table journal" in refused(run)


def test_a_removed_row_makes_nothing_run_that_strata_did_not_write(run: Path) -> None:
    change(run, "DELETE FROM journal_state", "DELETE FROM journal WHERE id = 1")
    store = Store.resume(run)
    assert [entry.undo.argv for entry in store.to_undo()] == [("undo", "top")]
    store.close()


def test_an_older_copy_in_the_same_place_goes_on(run: Path) -> None:
    """Its undos are of this run: they can be repeated, and find nothing that is not of this run."""
    older = (run / "strata.db").read_bytes()
    store = Store.resume(run)
    for entry in store.to_undo():
        store.settle(entry.journal, "undone", 1.0, 5.0)
    store.close()
    (run / "strata.db").write_bytes(older)
    store = Store.resume(run)
    assert len(store.to_undo()) == 2
    store.close()


# ------------------------------------------------------------ definitions


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON event BEGIN INSERT INTO event (at, kind, text) VALUES (1, 'k', 't'); END",
        "CREATE VIEW v AS SELECT * FROM run",
        "DROP TRIGGER run_no_update",
        "CREATE TABLE more (x)",
        "CREATE INDEX more ON journal (why)",
        "ALTER TABLE journal ADD COLUMN more TEXT DEFAULT 'x'",
        "DROP INDEX journal_by_attempt",
    ],
)
def test_definitions_of_somebody_else_are_refused(run: Path, statement: str) -> None:
    with closing(sqlite3.connect(run / "strata.db")) as sql:
        sql.execute(statement)
    assert re.search("tables, triggers or views|not a run as Strata writes it", refused(run))


def test_a_view_in_the_place_of_the_journal_is_refused(run: Path) -> None:
    change(
        run,
        "ALTER TABLE journal RENAME TO hidden",
        "CREATE VIEW journal AS SELECT signature, id, attempt, layer, why, do_argv, '[\"touch\"]' AS undo_argv, "
        "undo_timeout_s, at FROM hidden",
        triggers=False,
    )
    assert re.search("tables, triggers or views|not a run as Strata writes it", refused(run))


def test_an_index_that_says_something_else_than_its_table_is_refused(run: Path) -> None:
    """A query may take a text from an index alone; the signatures are of the table's rows."""
    with closing(sqlite3.connect(run / "strata.db", isolation_level=None)) as sql:
        sql.execute("PRAGMA writable_schema = ON")
        (number, size) = (
            sql.execute("SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_stack_1'").fetchone()[0],
            sql.execute("PRAGMA page_size").fetchone()[0],
        )
    content = bytearray((run / "strata.db").read_bytes())
    page = content[(number - 1) * size : number * size]
    assert page.count(b"b") >= 1
    content[(number - 1) * size : number * size] = page.replace(b"b", b"c")
    (run / "strata.db").write_bytes(content)
    assert "damaged" in refused(run)


# ------------------------------------------------------------ places


def test_a_moved_run_says_where_it_was_made_and_goes_on_there(run: Path, tmp_path: Path) -> None:
    moved = run.rename(tmp_path / "moved")
    told = refused(moved)
    assert f"was made at {run}" in told and "move it back" in told
    assert is_readable(moved)
    moved.rename(run)
    Store.resume(run).close()


def test_a_run_of_another_machine_id_is_refused(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "machine-id").write_text("another\n")
    monkeypatch.setattr(key, "_MACHINE_ID", tmp_path / "machine-id")
    assert "was made on another machine" in refused(run)
    assert is_readable(run)


def test_a_run_signed_with_another_key_is_refused(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "other-state"))
    assert "was not made by this user on this machine" in refused(run)
    assert is_readable(run)


@pytest.mark.parametrize("name", ["", "strata.db", "samples", "lock"])
def test_what_others_can_write_is_refused(run: Path, name: str) -> None:
    (run / "lock").touch(mode=0o644)
    for mode in (0o020, 0o002):
        before = stat.S_IMODE((run / name).stat().st_mode)
        (run / name).chmod(before | mode)
        assert f"chmod go-w {run / name}" in refused(run)
        (run / name).chmod(before)
    Store.resume(run).close()
    assert is_readable(run)


@pytest.mark.parametrize("name", ["strata.db", "strata.db-wal", "strata.db-journal", "samples", "lock", "work"])
def test_a_link_in_a_run_is_refused(run: Path, tmp_path: Path, name: str) -> None:
    if (run / name).exists():
        (run / name).rename(tmp_path / "real")
    (run / name).symlink_to(tmp_path / "real")
    assert "is a symbolic link" in refused(run)


def test_a_link_to_a_run_is_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(run)
    told = refused(tmp_path / "link")
    assert f"a symbolic link to {run}" in told and "give that directory itself" in told


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
@pytest.mark.parametrize("name", ["", "strata.db", "samples"])
def test_what_belongs_to_another_user_is_refused(run: Path, name: str) -> None:
    os.chown(run / name, 4242, 4242)
    assert "belongs to user 4242" in refused(run)
    assert is_readable(run)


def test_a_journal_that_names_another_file_is_refused_before_sqlite_opens_it(run: Path, tmp_path: Path) -> None:
    """SQLite would delete the file: it takes it for a finished journal of several databases."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (run / "strata.db-journal").write_bytes(hot_journal(victim, (run / "strata.db").read_bytes()))
    assert "names another file" in refused(run)
    assert victim.read_text() == "precious"


def hot_journal(named: Path, content: bytes) -> bytes:
    """A rollback journal with no pages, which names `named` as the journal of several databases."""
    size = int.from_bytes(content[16:18], "big")
    magic = bytes.fromhex("d9d505f920a163d7")
    head = magic + b"".join(number.to_bytes(4, "big") for number in (0, 1, len(content) // size, 512, size))
    name = str(named).encode()
    lock_page = (0x40000000 // size + 1).to_bytes(4, "big")
    tail = lock_page + name + len(name).to_bytes(4, "big") + (sum(name) & 0xFFFFFFFF).to_bytes(4, "big") + magic
    return head.ljust(512, b"\0") + tail
