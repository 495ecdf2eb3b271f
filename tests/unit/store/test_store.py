"""The store keeps what it is told, tells it back, refuses to forget, and refuses what is not its own."""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import re
import resource
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

import pytest

from strata.analysis.checks import warnings
from strata.analysis.rank import rank
from strata.errors import NoRoom, StoreError
from strata.model import (
    LARGEST_FIGURE,
    Call,
    Command,
    Completed,
    Disk,
    Facts,
    Metric,
    Node,
    Outcome,
    Rule,
    Stack,
    Testbed,
)
from strata.store import database, raw, reader, samples, schema
from strata.store.writer import Store

SPEED = Metric("speed", "MiB/s", "higher")
DISK = Node(Call("disk", "disk", {"role": "disk"}))
LAB = Testbed("lab", clock="virtual", features=frozenset({"zfs"}))
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
        testbed=LAB,
    )
    store.add_plan(
        [Stack(text, DISK) for text in stacks],
        [(Call("w", "w", {}), SPEED, (SPEED,))],
        (Metric("psi", "%", "lower"),),
        (Disk("disk", 10, None), Disk("hdd", 20, None, "hdd-7200", "volatile")),
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
            argv=(("prepare", "a b"), ("measure",)),
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
    assert view.commands["a"] == ("do 'x y'", "prepare 'a b'", "measure", "undo")
    assert view.machine_metrics == {"psi": Metric("psi", "%", "lower")}
    assert view.disks == (Disk("disk", 10), Disk("hdd", 20, None, "hdd-7200", "volatile"))
    assert view.testbed == LAB


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
    assert [undo.undo.argv for undo in store.to_undo()] == [("undo", "two"), ("undo", "one")], "it may not have held"
    assert reader.status(tmp_path / "run").left_behind == 1
    other = store.begin(1, 2.0)
    store.settle(
        store.journal(other, "l", "other", Command(("do",)), Command(("undo", "other")), 2.0), "undone", 0.1, 2.0
    )
    assert {undo.attempt for undo in store.to_undo()} == {attempt}, "another attempt is another matter"
    store.settle(entries[0], "undone", 0.1, 2.0)
    assert store.to_undo() == []
    store.settle(entries[1], "undo_failed", None, 2.0)
    assert [undo.why for undo in store.to_undo()] == ["two", "one"], "what was tried last is what holds"


def test_an_attempt_lost_with_its_machine_is_told_and_does_not_count(tmp_path: Path) -> None:
    store = make(tmp_path / "run")
    store.add_facts(FACTS, {}, {}, 1.0)
    store.add_visits([(0, "a"), (0, "b")], 1.0)
    first = store.begin(1, 2.0)
    store.add_trial(first, "w", outcome=Outcome.OK, reason=None, at=1.0, wall_s=1.0, argv=(), figures={"speed": 1.0})
    store.lose(first, "QEMU ended", 2.0, "last words")
    store.lose(store.begin(1, 2.0), "silent for 30 s", 2.0)
    assert (store.losses(1), store.losses(2)) == (2, 0)
    assert [planned.id for planned in store.open_visits()] == [1, 2], "both are to be made yet"
    status = reader.status(tmp_path / "run")
    assert (status.losses, status.visits_done) == (2, 0)
    visit(store, 1)
    last = store.begin(2, 6.0)
    store.lose(last, "panic", 6.0)
    store.end(last, "the machine was lost with it", 6.0)
    view = reader.view(tmp_path / "run")
    assert [(loss.visit, loss.stack, loss.round, loss.reason, loss.console) for loss in view.losses] == [
        (1, "a", 0, "QEMU ended", "last words"),
        (1, "a", 0, "silent for 30 s", ""),
        (2, "b", 0, "panic", ""),
    ]
    assert [trial.metrics["speed"] for trial in view.trials] == [2.0], "not what the lost machine measured"
    assert [(failed.visit, failed.reason) for failed in view.failed] == [(2, "the machine was lost with it")]


def test_what_a_thrown_away_machine_held_is_not_there_any_more(tmp_path: Path) -> None:
    store = make(tmp_path / "run")
    store.add_visits([(0, "a"), (0, "b")], 1.0)
    gone, kept = store.begin(1, 2.0), store.begin(2, 2.0)
    states: tuple[Literal["done", "undone", "undo_failed"] | None, ...] = ("done", "undone", "undo_failed", None)
    for attempt in (gone, kept):
        for state in states:
            entry = store.journal(attempt, "l", f"{attempt}: {state}", Command(("do",)), Command(("undo",)), 2.0)
            if state:
                store.settle(entry, state, 0.5, 2.0)
    store.discard(gone, 3.0)
    assert store.to_undo(gone) == []
    assert {undo.attempt for undo in store.to_undo()} == {kept}
    assert reader.status(tmp_path / "run").left_behind == 3
    store.end(gone, None, 4.0)
    assert [step.remove_s for step in reader.view(tmp_path / "run").steps] == [None, 0.5, None, None]


def test_what_a_failed_trial_left_is_shown_by_its_end(tmp_path: Path) -> None:
    store = make(tmp_path / "run")
    store.add_facts(FACTS, {}, {}, 1.0)
    store.add_visits([(0, "a"), (0, "b")], 1.0)
    for number, outcome in ((1, Outcome.FAILED), (2, Outcome.OK)):
        attempt = store.begin(number, 2.0)
        store.add_trial(attempt, "w", outcome=outcome, reason="why", at=3.0, wall_s=1.0, argv=())
        said = Completed(("fio", "a b"), 1, "x" * 9000 + "the end", "short", 0.5)
        store.add_evidence(attempt, "w", [said])
        store.add_evidence(attempt, "layer", [said])
        store.end(attempt, None, 4.0)
    (found,) = reader.view(tmp_path / "run", series=True).evidence
    assert (found.visit, found.stack, found.workload, found.exit_code) == (1, "a", "w", 1)
    assert found.command == "fio 'a b'"
    assert found.stdout.endswith("xthe end") and len(found.stdout) < 9000
    assert found.stderr == "short"
    assert reader.view(tmp_path / "run").evidence == ()


VERSION_1 = """
CREATE TABLE run (
    id INTEGER PRIMARY KEY CHECK (id = 1), uuid TEXT NOT NULL, name TEXT NOT NULL,
    about TEXT NOT NULL, source TEXT NOT NULL, fingerprint TEXT NOT NULL, description TEXT NOT NULL,
    seed INTEGER NOT NULL, strata TEXT NOT NULL, created_at REAL NOT NULL);
CREATE TABLE rule (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, rounds INTEGER NOT NULL, within REAL NOT NULL,
    confidence REAL NOT NULL, budget_s REAL);
CREATE TABLE disk (role TEXT NOT NULL, size_bytes INTEGER NOT NULL, device TEXT, position INTEGER NOT NULL);
CREATE TABLE stack (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE, factors TEXT NOT NULL, resolved TEXT NOT NULL);
CREATE TABLE workload (id INTEGER PRIMARY KEY, text TEXT, name TEXT NOT NULL, primary_metric TEXT NOT NULL);
CREATE TABLE metric (workload INTEGER, name TEXT NOT NULL, unit TEXT NOT NULL, better TEXT NOT NULL, about TEXT);
CREATE TABLE facts (id INTEGER PRIMARY KEY, at REAL NOT NULL, facts TEXT NOT NULL, versions TEXT NOT NULL);
CREATE TABLE skip (facts INTEGER NOT NULL, stack INTEGER NOT NULL, reason TEXT NOT NULL);
CREATE TABLE visit (id INTEGER PRIMARY KEY, stack INTEGER NOT NULL, round INTEGER NOT NULL, at REAL NOT NULL);
CREATE TABLE attempt (id INTEGER PRIMARY KEY, visit INTEGER NOT NULL, at REAL NOT NULL);
CREATE TABLE ending (attempt INTEGER PRIMARY KEY, at REAL NOT NULL, failure TEXT);
CREATE TABLE journal (
    id INTEGER PRIMARY KEY, attempt INTEGER, layer TEXT NOT NULL, why TEXT NOT NULL,
    do_argv TEXT NOT NULL, undo_argv TEXT, undo_timeout_s REAL, at REAL NOT NULL);
CREATE TABLE journal_state (
    id INTEGER PRIMARY KEY, journal INTEGER NOT NULL, state TEXT NOT NULL, at REAL NOT NULL, duration_s REAL,
    detail TEXT);
CREATE TABLE evidence (
    attempt INTEGER NOT NULL, layer TEXT NOT NULL, argv TEXT NOT NULL, exit_code INTEGER NOT NULL,
    stdout TEXT NOT NULL, stderr TEXT NOT NULL);
CREATE TABLE trial (
    id INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, workload INTEGER NOT NULL, outcome TEXT NOT NULL, reason TEXT,
    at REAL NOT NULL, wall_s REAL, flags TEXT NOT NULL, notes TEXT NOT NULL, argv TEXT NOT NULL);
CREATE TABLE figure (trial INTEGER NOT NULL, metric TEXT NOT NULL, value REAL NOT NULL);
CREATE TABLE event (id INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL);
INSERT INTO run VALUES (1, 'u', 'old', '', 'text', 'f', '{}', 5, '0.1', 1.0);
INSERT INTO rule VALUES (1, 1.0, 1, 0.03, 0.95, NULL);
INSERT INTO disk VALUES ('disk', 10, NULL, 0);
INSERT INTO stack VALUES (1, 'a', '{}', '[]');
INSERT INTO workload VALUES (1, 'w', 'w', 'speed');
INSERT INTO metric VALUES (1, 'speed', 'MiB/s', 'higher', '');
INSERT INTO visit VALUES (1, 1, 0, 1.0);
INSERT INTO attempt VALUES (1, 1, 1.0);
INSERT INTO ending VALUES (1, 2.0, NULL);
INSERT INTO trial VALUES (1, 1, 1, 'ok', NULL, 1.0, 1.0, '[]', '[]', '[]');
INSERT INTO figure VALUES (1, 'speed', 2.5);
PRAGMA user_version = 1;
"""


def test_a_run_of_an_older_strata_is_read_and_not_gone_on_with(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "strata.db")) as sql:
        sql.executescript(VERSION_1)
    view = reader.view(tmp_path, series=True)
    assert (view.campaign, view.testbed, view.losses, view.evidence) == ("old", Testbed(), (), ())
    assert view.disks == (Disk("disk", 10),)
    assert [trial.metrics for trial in view.trials] == [{"speed": 2.5}]
    assert reader.status(tmp_path).visits_done == 1
    with pytest.raises(StoreError, match=r"older Strata .*another --out"):
        Store.resume(tmp_path)


@pytest.mark.parametrize(("version", "dropped"), [(3, ("objective",)), (2, ("objective", "design", "certify"))])
def test_a_rule_of_an_older_store_is_read(tmp_path: Path, version: int, dropped: tuple[str, ...]) -> None:
    store = make(tmp_path / "run")
    store.set_rule(Rule(rounds=7, objective="oltp=2"), 1.0)
    assert store.rule() == Rule(rounds=7, objective="oltp=2")
    with closing(sqlite3.connect(tmp_path / "run" / "strata.db")) as sql:
        for column in dropped:
            sql.execute(f"ALTER TABLE rule DROP COLUMN {column}")
        sql.execute(f"PRAGMA user_version = {version}")
    assert reader.view(tmp_path / "run").rule == Rule(rounds=7)


def test_an_undo_keeps_its_own_timeout(tmp_path: Path) -> None:
    store = make(tmp_path / "run")
    store.add_visits([(0, "a")], 1.0)
    store.journal(store.begin(1, 2.0), "l", "why", Command(("do",)), Command(("undo",), timeout_s=7.5), 2.0)
    assert [entry.undo for entry in store.to_undo()] == [Command(("undo",), timeout_s=7.5)]


def test_a_run_is_in_quarantine_until_it_is_cleaned(tmp_path: Path) -> None:
    store = make(tmp_path / "run")
    assert store.quarantined() is None
    store.add_event("cleaned", "nothing was left", 1.0)
    assert store.quarantined() is None
    store.add_event("quarantine", "umount: target is busy", 2.0)
    store.add_event("warning", "something else", 3.0)
    assert store.quarantined() == reader.status(tmp_path / "run").quarantined == "umount: target is busy"
    store.add_event("cleaned", "1 step undone", 4.0)
    assert store.quarantined() is None
    assert reader.status(tmp_path / "run").quarantined is None


@pytest.mark.parametrize("table", schema.TABLES)
@pytest.mark.parametrize("statement", ["UPDATE {} SET rowid = rowid", "DELETE FROM {}"])
def test_rows_stay(tmp_path: Path, table: str, statement: str) -> None:
    store = make(tmp_path / "run")
    store.add_facts(FACTS, {}, {"b": ["no"]}, 1.0)
    store.add_visits([(0, "a")], 1.0)
    attempt = visit(store, 1)
    store.add_evidence(attempt, "l", [])
    store.lose(attempt, "gone", 1.0)
    store.add_event("decision", "text", 1.0)
    with sqlite3.connect(tmp_path / "run" / "strata.db") as sql:
        if sql.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,):
            assert table == "evidence"
            sql.execute("INSERT INTO evidence VALUES (x'', ?, 'l', '[]', 0, '', '')", (attempt,))
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
    with pytest.raises(sqlite3.DatabaseError):
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


def add(
    store: Store, attempt: int, *, extra: tuple[Metric, ...] = (), figures: dict[str, float] | None = None
) -> str | None:
    return store.add_trial(
        attempt,
        "w",
        outcome=Outcome.OK,
        reason=None,
        at=3.0,
        wall_s=1.5,
        argv=(),
        figures=figures or {"speed": 2.0, **{metric.name: 1.0 for metric in extra}},
        extra=extra,
        series={"speed": [(1.0, 2.0)]},
    )


def begun(directory: Path) -> tuple[Store, int]:
    store = make(directory)
    store.add_visits([(0, "a")], 1.0)
    return store, store.begin(1, 2.0)


SECONDS = Metric("took", "s", "lower")


@pytest.mark.parametrize(
    ("later", "words"),
    [
        (Metric("took", "ms", "lower"), r"'took' \(ms, lower\) was another figure before \(s, lower\)"),
        (Metric("took", "s", "higher"), "keep to one unit and direction"),
        (Metric("took", "", "lower"), "no unit, lower"),
        (Metric("psi", "%", "lower"), "'psi' is a figure of the machine"),
    ],
)
def test_a_figure_that_is_another_than_before_fails_its_trial(tmp_path: Path, later: Metric, words: str) -> None:
    store, attempt = begun(tmp_path / "run")
    assert add(store, attempt, extra=(SECONDS,)) is None
    reason = add(store, attempt, extra=(later, Metric("new", "1", "higher")))
    assert add(store, attempt, extra=(SECONDS,)) is None
    store.end(attempt, None, 4.0)
    view = reader.view(tmp_path / "run")
    assert [trial.outcome for trial in view.trials] == [Outcome.OK, Outcome.FAILED, Outcome.OK]
    assert (view.trials[1].reason, view.trials[1].metrics) == (reason, {})
    assert reason is not None and re.search(words, reason)
    assert view.workloads[0].metrics["took"] == SECONDS
    assert "new" not in view.workloads[0].metrics


@pytest.mark.parametrize("value", [float("inf"), float("nan"), -2e30])
def test_a_figure_that_cannot_be_stored_fails_its_trial(tmp_path: Path, value: float) -> None:
    store, attempt = begun(tmp_path / "run")
    reason = add(store, attempt, figures={"speed": value})
    store.end(attempt, None, 4.0)
    (trial,) = reader.view(tmp_path / "run").trials
    assert (trial.outcome, trial.reason, trial.metrics) == (Outcome.FAILED, reason, {})
    assert reason is not None and "a number of at most 1e+30" in reason


def test_a_unit_may_be_told_by_the_first_trial(tmp_path: Path) -> None:
    store, attempt = begun(tmp_path / "run")
    with store._transaction():
        store._add_metrics(1, [Metric("took", "", "lower")])
    assert add(store, attempt, extra=(Metric("took", "s", "higher"),)) is not None, "but not the direction"
    assert add(store, attempt, extra=(SECONDS,)) is None
    assert add(store, attempt, extra=(Metric("took", "ms", "lower"),)) is not None
    assert reader.view(tmp_path / "run").workloads[0].metrics["took"] == SECONDS


def test_a_figure_measured_without_a_unit_keeps_none(tmp_path: Path) -> None:
    store, attempt = begun(tmp_path / "run")
    assert add(store, attempt, extra=(Metric("took", "", "lower"),)) is None
    assert add(store, attempt, extra=(SECONDS,)) is not None


@pytest.mark.parametrize("document", [{"version": raw.VERSION, "parts": [1]}, {"version": 0, "parts": []}, [], {}])
def test_a_raw_record_that_is_none_is_refused(tmp_path: Path, document: object) -> None:
    path = raw.path_of(tmp_path, 3)
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(json.dumps(document).encode()))
    with pytest.raises(StoreError, match="is no raw record as Strata writes them"):
        raw.read(tmp_path, 3)


def test_the_largest_figure_is_one_and_a_larger_one_is_none(tmp_path: Path) -> None:
    store, attempt = begun(tmp_path / "run")
    for value in (LARGEST_FIGURE, -LARGEST_FIGURE):
        assert add(store, attempt, figures={"speed": value}) is None
    for value in (math.nextafter(LARGEST_FIGURE, math.inf), -math.inf, math.nan):
        assert "a figure is a number of at most" in (add(store, attempt, figures={"speed": value}) or "")


def test_a_full_disk_is_no_room_and_stores_nothing_of_what_was_begun(tmp_path: Path) -> None:
    store, attempt = begun(tmp_path / "run")
    (pages,) = store._sql.execute("PRAGMA page_count").fetchone()
    store._sql.execute(f"PRAGMA max_page_count = {pages + 2}")
    said = [Completed(("true",), 0, "short", "", 0.0), Completed(("true",), 0, "long" * 100_000, "", 0.0)]
    with pytest.raises(NoRoom, match=r"no room is left on the disk that holds .*run; make room there"):
        store.add_evidence(attempt, "w", said)
    store._sql.execute(f"PRAGMA max_page_count = {pages + 1000}")
    assert store._sql.execute("SELECT count(*) FROM evidence").fetchone() == (0,)
    store.add_evidence(attempt, "w", said)
    assert store._sql.execute("SELECT count(*) FROM evidence").fetchone() == (2,)


def test_what_fails_otherwise_is_raised_as_it_is_and_leaves_nothing_open(tmp_path: Path) -> None:
    store, attempt = begun(tmp_path / "run")
    with pytest.raises(sqlite3.IntegrityError):
        store.end(attempt + 100, None, 3.0)
    store.add_event("decision", "go on", 4.0)
    store.end(attempt, None, 5.0)
    assert [event.text for event in reader.view(tmp_path / "run").events][-1] == "go on"


def test_no_room_for_samples_is_no_room(tmp_path: Path) -> None:
    store, attempt = begun(tmp_path / "run")
    chance = random.Random(1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(NoRoom, match="make room there"):
            store.add_trial(
                attempt,
                "w",
                outcome=Outcome.OK,
                reason=None,
                at=3.0,
                wall_s=1.5,
                argv=(),
                series={"speed": [(chance.random(), chance.random()) for _ in range(200_000)]},
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((tmp_path / "run" / "samples").iterdir()) == []
    assert add(store, attempt) is None


def test_a_later_look_at_the_machine_hides_nothing_that_was_measured(tmp_path: Path) -> None:
    store = make(tmp_path / "run", ("a", "b", "c"))
    store.add_facts(FACTS, {}, {}, 1.0)
    store.add_visits([(0, "a"), (0, "b"), (0, "c"), (1, "b")], 1.0)
    visit(store, 1)
    visit(store, 2)
    assert reader.view(tmp_path / "run").visits_planned == 6
    store.add_facts(FACTS, {}, {"b": ["no module"], "c": ["no tool"]}, 2.0)
    view = reader.view(tmp_path / "run")
    assert [skip.stack for skip in view.skipped] == ["c"]
    assert [(halted.stack, halted.reasons) for halted in view.halted] == [("b", ("no module",))]
    assert view.visits_planned == reader.status(tmp_path / "run").visits_planned == 3, "two rounds of a, one of b"
    assert [row.stack for row in rank(view).rows] == ["a", "b"]
    (caution,) = [caution for caution in warnings(view) if caution.kind == "halted"]
    assert caution.stack == "b" and "no module" in caution.text


def test_resolved_values_are_stored_beside_the_stack(tmp_path: Path) -> None:
    store = make(tmp_path / "run", ())
    store.add_plan([], [], (), ())
    xfs = Call("xfs", "xfs(noatime)", {"noatime": True, "agcount": None, "logbsize": 262144})
    store.add_plan([Stack("disk | xfs(noatime)", Node(xfs, (DISK,)))], [], (), ())
    with sqlite3.connect(tmp_path / "run" / "strata.db") as sql:
        ((text,),) = sql.execute("SELECT resolved FROM stack")
    assert json.loads(text) == [
        {"layer": "disk", "values": {"role": "disk"}},
        {"layer": "xfs(noatime)", "values": {"noatime": True, "agcount": None, "logbsize": 262144}},
    ]


@contextmanager
def nobody_may_write(directory: Path, *, opened: bool = True) -> Iterator[None]:
    """Also when this is root, who may do everything. `opened`: its owner lets others read the run."""
    directory.chmod(0o555)
    for path in directory.glob("strata.db*") if opened else ():
        path.chmod(0o644)
    if os.geteuid() == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        directory.chmod(0o755)


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that another user can reach."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_closed_run_is_one_file_that_can_be_copied(tmp_path: Path) -> None:
    store = make(tmp_path / "run")
    assert (tmp_path / "run" / "strata.db-wal").exists()
    store.close()
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["samples", "strata.db"]
    Store.resume(tmp_path / "run").close()
    reader.view(tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["samples", "strata.db"]


def test_a_run_is_read_where_nobody_may_write(public: Path) -> None:
    store, attempt = begun(public / "run")
    store.end(attempt, None, 3.0)
    store.close()
    with nobody_may_write(public / "run"):
        assert reader.view(public / "run").visits_done == 1
    # as one is that was killed, and then read by somebody who could write
    with closing(sqlite3.connect(public / "run" / "strata.db")) as sql:
        sql.execute("PRAGMA journal_mode = WAL")
    assert not (public / "run" / "strata.db-wal").exists()
    with nobody_may_write(public / "run"):
        assert reader.view(public / "run").visits_done == 1
        assert reader.status(public / "run").visits_done == 1


def test_a_run_is_closed_to_others_whatever_the_umask(public: Path) -> None:
    """What only root may read, as a script that a campaign names, is in it."""
    before = os.umask(0)
    try:
        store = make(public / "run")
        samples.write(public / "run", 1, {"iops": [(1.0, 2.0)]})
    finally:
        os.umask(before)
    files = [path for path in (public / "run").rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"strata.db", "strata.db-wal", "strata.db-shm", "1.parquet"}
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in files} == {path.name: 0o600 for path in files}
    store.close()
    Store.resume(public / "run").close()
    assert stat.S_IMODE((public / "run" / "strata.db").stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("running", [False, True])
def test_another_user_hears_whose_the_run_is(public: Path, running: bool) -> None:
    store, _ = begun(public / "run")
    if not running:
        store.close()
    with (
        nobody_may_write(public / "run", opened=False),
        pytest.raises(StoreError, match=r"user 65534 may not read .* belongs to user 0: read the run as that user"),
    ):
        reader.view(public / "run")
    if running:
        store.close()


def test_a_killed_run_is_read_with_its_log_where_nobody_may_write(public: Path) -> None:
    store, attempt = begun(public / "run")
    store.end(attempt, None, 3.0)
    shutil.copytree(public / "run", public / "copy", ignore=shutil.ignore_patterns("*-shm"))
    before = sorted(path.name for path in (public / "copy").iterdir())
    with nobody_may_write(public / "copy"):
        assert reader.view(public / "copy").visits_done == 1
    assert reader.view(public / "copy").visits_done == 1
    assert sorted(path.name for path in (public / "copy").iterdir()) == before, "nothing is made beside it"
    store.close()


def test_a_run_that_is_being_read_is_closed_all_the_same(tmp_path: Path) -> None:
    store = make(tmp_path / "run")
    with closing(database.open_reader(tmp_path / "run")) as sql:
        assert sql.execute("SELECT count(*) FROM run").fetchone() == (1,)
        store.close()
    assert Store.resume(tmp_path / "run").identity().seed == 5
