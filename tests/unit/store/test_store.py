"""The store keeps what it is told, tells it back, refuses to forget, and refuses what is not its own."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from strata.errors import StoreError
from strata.model import (
    Call,
    Command,
    Disk,
    Facts,
    Metric,
    Node,
    Outcome,
    Rule,
    Stack,
)
from strata.store import database, reader, schema
from strata.store.writer import Store

SPEED = Metric("speed", "MiB/s", "higher")
DISK = Node(Call("disk", "disk", {"role": "disk"}))
FACTS = Facts(
    "host",
    (6, 1, 2),
    "6.1.2",
    "Debian",
    "cpu",
    2,
    1 << 30,
    True,
    frozenset({"ext4"}),
    {"fio": "3"},
    frozenset({"none"}),
    7,
)


def make(directory: Path, stacks: tuple[str, ...] = ("a", "b")) -> Store:
    store = Store.create(
        directory,
        name="n",
        about="",
        source="text",
        fingerprint="f",
        description={"stacks": list(stacks)},
        seed=5,
        version="1",
        now=1.0,
    )
    store.add_plan(
        [Stack(text, DISK) for text in stacks],
        [(Call("w", "w", {}), SPEED, (SPEED,))],
        (Metric("psi", "%", "lower"),),
        (Disk("disk", 10, None),),
    )
    store.set_rule(Rule(rounds=2), 1.0)
    return store


def visit(store: Store, number: int, failure: str | None = None) -> int:
    attempt = store.begin(number, 2.0)
    entry = store.journal(attempt, "layer", "make it", Command(("do", "x y")), Command(("undo",)), 2.0)
    store.settle(entry, "done", 0.5, 2.0)
    if failure is None:
        store.add_trial(
            attempt,
            "w",
            outcome=Outcome.OK,
            reason=None,
            at=3.0,
            wall_s=1.5,
            argv=("measure",),
            flags=("cached",),
            notes=("note",),
            figures={"speed": 2.0, "own": 3.0},
            extra=(Metric("own", "1", "lower"),),
            series={"speed": [(1.0, 2.0), (2.0, 4.0)], "machine.x": [(0.1, 1.0)]},
        )
    store.settle(entry, "undone", 0.25, 4.0)
    store.end(attempt, failure, 5.0)
    return attempt


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    store = make(tmp_path / "run")
    store.add_facts(FACTS, {"fio": "3"}, {"b": ["no", "because"]}, 1.0)
    store.add_visits([(0, "a"), (1, "a")], 1.0)
    visit(store, 1)
    visit(store, 2, failure="broke")
    view = reader.view(tmp_path / "run", series=True)
    assert view.stacks == ("a", "b")
    assert view.rule == Rule(rounds=2)
    assert view.facts == FACTS
    assert [(skip.stack, skip.reasons) for skip in view.skipped] == [("b", ("no", "because"))]
    assert view.visits_done == 2 and view.visits_planned == 2
    (trial,) = view.trials
    assert (trial.stack, trial.round, trial.order, trial.workload, trial.wall_s) == ("a", 0, 0, "w", 1.5)
    assert trial.metrics == {"speed": 2.0, "own": 3.0}
    assert trial.series == {"speed": ((1.0, 2.0), (2.0, 4.0))}, "only what the workload declares"
    assert (trial.flags, trial.notes) == (("cached",), ("note",))
    assert view.workloads[0].metrics["own"] == Metric("own", "1", "lower")
    assert [(f.visit, f.stack, f.reason) for f in view.failed] == [(2, "a", "broke")]
    assert [(s.create_s, s.remove_s) for s in view.steps] == [(0.5, 0.25)] * 2
    assert view.commands["a"] == ("do 'x y'", "measure", "undo")
    assert view.machine_metrics == {"psi": Metric("psi", "%", "lower")}


def test_an_attempt_without_an_ending_does_not_count(tmp_path: Path) -> None:
    store = make(tmp_path / "run")
    store.add_visits([(0, "a")], 1.0)
    attempt = store.begin(1, 2.0)
    store.add_trial(attempt, "w", outcome=Outcome.OK, reason=None, at=1.0, wall_s=1.0, argv=(), figures={"speed": 1.0})
    assert reader.view(tmp_path / "run").trials == ()
    assert [planned.id for planned in store.open_visits()] == [1]
    visit(store, 1)
    assert len(reader.view(tmp_path / "run").trials) == 1
    assert store.open_visits() == []


def test_what_may_be_there_is_told_newest_first_until_undone(tmp_path: Path) -> None:
    store = make(tmp_path / "run")
    store.add_visits([(0, "a")], 1.0)
    attempt = store.begin(1, 2.0)
    entries = [
        store.journal(attempt, "l", name, Command(("do",)), Command(("undo", name)), 2.0) for name in ("one", "two")
    ]
    store.journal(attempt, "l", "nothing to undo", Command(("do",)), None, 2.0)
    store.settle(entries[0], "failed", None, 2.0, "half way")
    assert [undo.why for undo in store.to_undo()] == ["two", "one"]
    store.settle(entries[1], "undo_failed", None, 2.0)
    assert [undo.why for undo in store.to_undo(attempt)] == ["two", "one"]
    store.settle(entries[1], "undone", 0.1, 2.0)
    assert [undo.undo.argv for undo in store.to_undo()] == [("undo", "one")]
    assert reader.status(tmp_path / "run").left_behind == 1


@pytest.mark.parametrize("table", schema.TABLES)
@pytest.mark.parametrize("statement", ["UPDATE {} SET rowid = rowid", "DELETE FROM {}"])
def test_rows_stay(tmp_path: Path, table: str, statement: str) -> None:
    store = make(tmp_path / "run")
    store.add_facts(FACTS, {}, {"b": ["no"]}, 1.0)
    store.add_visits([(0, "a")], 1.0)
    attempt = visit(store, 1)
    store.add_evidence(attempt, "l", [])
    store.add_event("decision", "text", 1.0)
    with sqlite3.connect(tmp_path / "run" / "strata.db") as sql:
        if sql.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,):
            assert table == "evidence"
            sql.execute("INSERT INTO evidence VALUES (?, 'l', '[]', 0, '', '')", (attempt,))
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            sql.execute(statement.format(table))


def test_reports_read_while_a_run_writes(tmp_path: Path) -> None:
    store = make(tmp_path / "run")
    store.add_visits([(0, "a"), (0, "b")], 1.0)
    visit(store, 1)
    sql = database.open_reader(tmp_path / "run")
    sql.execute("BEGIN")
    before = sql.execute("SELECT count(*) FROM ending").fetchone()
    visit(store, 2)
    assert sql.execute("SELECT count(*) FROM ending").fetchone() == before, "a picture of one moment"
    assert reader.view(tmp_path / "run").visits_done == 2
    with pytest.raises(sqlite3.OperationalError):
        sql.execute("INSERT INTO event (at, kind, text) VALUES (1, 'k', 't')")


def test_refusals_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="strata run --out"):
        reader.view(tmp_path)
    make(tmp_path / "run").close()
    with pytest.raises(StoreError, match="--out"):
        make(tmp_path / "run")
    with sqlite3.connect(tmp_path / "run" / "strata.db") as sql:
        sql.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    with pytest.raises(StoreError, match="newer"):
        Store.resume(tmp_path / "run")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "strata.db").write_text("not a database, but long enough to be looked at" * 40)
    with pytest.raises(StoreError, match="cannot be read"):
        reader.status(tmp_path / "other")
    sqlite3.connect(tmp_path / "other" / "x.db").close()


def test_a_database_killed_while_it_was_made_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "strata.db.new").write_text("half")
    assert not database.exists(tmp_path / "run")
    assert make(tmp_path / "run").identity().seed == 5
