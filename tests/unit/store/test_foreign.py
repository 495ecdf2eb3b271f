"""Run directories that a stranger made: each is refused with a sentence, or read; nothing is followed, made or run."""

from __future__ import annotations

import io
import itertools
import os
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import polars
import pytest

from strata.cli import verdict
from strata.cli.status import status
from strata.errors import StoreError
from strata.model import Call, Disk, Metric, Node, Outcome, Rule, Stack
from strata.store import database, foreign, reader, samples
from strata.store.writer import Store

SPEED = Metric("speed", "MiB/s", "higher")
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As Strata writes it."""
    directory = tmp_path_factory.mktemp("whole") / "run"
    store = Store.create(
        directory, name="n", about="", source="", fingerprint="f", description={}, seed=5, version="1", now=1.0
    )
    disk = Node(Call("disk", "disk", {"role": "disk"}))
    store.add_plan(
        [Stack("a", disk), Stack("b", disk)], [(Call("w", "w", {}), SPEED, (SPEED,))], (), (Disk("disk", 10),)
    )
    store.set_rule(Rule(rounds=1), 1.0)
    store.add_visits([(0, "a")], 1.0)
    store.add_event("decision", "go on", 1.0)
    attempt = store.begin(1, 2.0)
    store.add_trial(
        attempt,
        "w",
        outcome=Outcome.OK,
        reason=None,
        at=3.0,
        wall_s=1.5,
        argv=(("measure",),),
        figures={"speed": 2.0},
        series={"speed": [(1.0, 2.0), (2.0, 4.0)]},
    )
    store.end(attempt, None, 5.0)
    store.close()
    return directory


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """A copy to be changed."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


def change(run: Path, *statements: str) -> None:
    """As anybody can who has the file; the triggers that keep rows from being changed are not in the way."""
    with closing(sqlite3.connect(run / "strata.db", isolation_level=None)) as sql:
        sql.execute("PRAGMA ignore_check_constraints = ON")
        sql.execute("PRAGMA synchronous = OFF")
        sql.execute("BEGIN")
        triggers = sql.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            sql.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            sql.execute(statement)
        for _, ddl in triggers:
            with suppress(sqlite3.Error):  # a table may be gone
                sql.execute(ddl)
        sql.execute("COMMIT")


def refused(run: Path, words: str) -> None:
    for read in (lambda: reader.view(run), lambda: reader.status(run)):
        with pytest.raises(StoreError, match=words):
            read()


# ------------------------------------------------------------ the files


def hot_journal(database: Path, victim: Path) -> bytes:
    """A rollback journal of no page that names `victim` as the journal of several databases: SQLite plays it back when
    the database is opened to write, and deletes that file at the end (pager.c, pager_delsuper)."""
    magic = bytes.fromhex("d9d505f920a163d7")
    header = magic + struct.pack(">IIIII", 0, 0, database.stat().st_size // 4096, 512, 4096)
    name = os.fsencode(victim)
    end = name + struct.pack(">II", len(name), sum(name) & 0xFFFFFFFF) + magic
    return header.ljust(512, b"\0") + struct.pack(">I", 0x40000000 // 4096 + 1) + end


def test_a_journal_that_names_a_file_to_delete_is_refused(run: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (run / "strata.db-journal").write_bytes(hot_journal(run / "strata.db", victim))
    refused(run, "names another file, which SQLite would delete")
    with pytest.raises(StoreError, match="names another file"):
        Store.resume(run)
    assert victim.read_text() == "precious"
    # the same by SQLite alone, so that the test cannot pass for another reason
    with closing(sqlite3.connect(run / "strata.db")) as sql:
        sql.execute("SELECT * FROM run").fetchall()
    assert not victim.exists()


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("kind", ["symbolic link", "pipe", "directory", "socket"])
def test_only_regular_files_are_opened(run: Path, tmp_path: Path, suffix: str, kind: str) -> None:
    path = run / f"strata.db{suffix}"
    moved = tmp_path / "moved"
    path.rename(moved) if path.exists() else moved.write_bytes(b"x")
    if kind == "symbolic link":
        path.symlink_to(moved)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        os.mknod(path, 0o140600)
    refused(run, f"is not a regular file but a {kind}")


def test_what_sqlite_writes_to_has_one_name(run: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    os.link(tmp_path / "victim", run / "strata.db-shm")
    refused(run, "2 hard links")
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_database_is_not_larger_than_what_strata_reads(run: Path) -> None:
    os.truncate(run / "strata.db", foreign.MAX_FILE_BYTES + 1)
    refused(run, "more than Strata reads")


@pytest.mark.parametrize("log", [False, True])
def test_a_reader_makes_no_file(run: Path, log: bool) -> None:
    with closing(sqlite3.connect(run / "strata.db")) as sql:
        sql.execute("PRAGMA journal_mode = WAL")
        if log:
            sql.execute("INSERT INTO event (at, kind, text, signature) VALUES (9, 'decision', 'in the log', x'')")
            sql.commit()
            for name in ("strata.db", "strata.db-wal"):
                shutil.copy(run / name, run / f"{name}.kept")
    if log:
        for name in ("strata.db", "strata.db-wal"):
            (run / f"{name}.kept").rename(run / name)
    before = {path.name: (path.stat().st_mtime_ns, path.stat().st_size) for path in run.iterdir()}
    assert reader.status(run).decision == ("in the log" if log else "go on")
    reader.view(run)
    assert {path.name: (path.stat().st_mtime_ns, path.stat().st_size) for path in run.iterdir()} == before


# ------------------------------------------------------------ the schema


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        (["ALTER TABLE event RENAME TO e", "CREATE VIEW event AS SELECT * FROM e"], "it has a"),
        ([f"CREATE VIEW v AS {ENDLESS}"], "a view named 'v'"),
        (["CREATE TRIGGER t AFTER INSERT ON event BEGIN DELETE FROM run; END"], "a trigger named 't'"),
        (["DROP TABLE lost", "CREATE VIRTUAL TABLE lost USING fts5(attempt, at, reason)"], "a table named 'lost"),
        (["CREATE TABLE more (a)"], "a table named 'more'"),
        (["ALTER TABLE event ADD COLUMN made AS (hex(zeroblob(100000000)))"], "'made' of its table event is computed"),
        (["DROP TABLE event", "CREATE TABLE event (id, at, kind, text)"], "the key of its table event"),
        (["DROP TABLE figure"], "no such table: figure"),
        (["ALTER TABLE visit RENAME COLUMN round TO other"], "no such column"),
        (["PRAGMA user_version = 77"], "newer Strata"),
        (["PRAGMA user_version = -1"], "not a run of Strata"),
    ],
)  # fmt: skip
def test_a_schema_that_strata_does_not_make_is_refused(run: Path, statements: list[str], words: str) -> None:
    change(run, *statements)
    with pytest.raises(StoreError, match=words):
        reader.view(run)


def test_a_trigger_with_the_name_of_ours_is_refused(run: Path) -> None:
    with closing(sqlite3.connect(run / "strata.db", isolation_level=None)) as sql:
        sql.execute("DROP TRIGGER event_no_update")
        sql.execute("CREATE TRIGGER event_no_update AFTER INSERT ON event BEGIN DELETE FROM run; END")
    refused(run, "a trigger named 'event_no_update'")
    with pytest.raises(StoreError):
        Store.resume(run)


def test_a_schema_with_a_name_that_is_no_text_is_refused(run: Path) -> None:
    """SQLite quotes the name in its message, which Python then cannot decode."""
    with closing(sqlite3.connect(run / "strata.db", isolation_level=None)) as sql:
        sql.execute("PRAGMA writable_schema = ON")
        sql.execute("UPDATE sqlite_master SET sql = NULL, name = CAST(x'ff80' AS TEXT) WHERE name = 'event'")
    refused(run, "cannot be read as a run")


def test_what_sqlite_says_of_a_file_is_printed_without_control_characters(run: Path) -> None:
    with closing(sqlite3.connect(run / "strata.db", isolation_level=None)) as sql:
        sql.execute("PRAGMA writable_schema = ON")
        sql.execute("UPDATE sqlite_master SET sql = replace(sql, 'REFERENCES', '\x1b[2J') WHERE name = 'skip'")
    with pytest.raises(StoreError) as refusal:
        reader.status(run)
    assert str(refusal.value).isprintable()


def test_a_reader_can_do_nothing_but_read_tables_of_strata(run: Path) -> None:
    with closing(database.open_reader(run)) as sql:
        for statement in (
            "ATTACH 'other.db' AS other",
            "PRAGMA journal_mode = WAL",
            "PRAGMA query_only = OFF",
            "SELECT load_extension('x')",
            "SELECT * FROM sqlite_master",
            "CREATE TEMP TABLE t (a)",
            ENDLESS,
        ):
            with pytest.raises(sqlite3.Error):
                sql.execute(statement).fetchall()


def test_pages_without_end_end(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interior pages whose 400 children are all the same page: 400 ** 5 rows in a small file."""
    monkeypatch.setattr(foreign, "_STEPS_A_CALL", 10_000)
    with closing(sqlite3.connect(run / "strata.db")) as sql:
        (root,) = sql.execute("SELECT rootpage FROM sqlite_master WHERE name = 'event'").fetchone()
    data = bytearray((run / "strata.db").read_bytes())
    count = len(data) // 4096
    leaf = data[(root - 1) * 4096 : root * 4096]
    chain = [root, *range(count + 1, count + 6)]
    data += bytes(4096 * 5)
    for number, child in itertools.pairwise(chain):
        page = bytearray(4096)
        struct.pack_into(">BHHHBI", page, 0, 5, 0, 400, 4096 - 400 * 5, 0, child)
        for cell in range(400):
            where = 4096 - (cell + 1) * 5
            struct.pack_into(">H", page, 12 + 2 * cell, where)
            struct.pack_into(">IB", page, where, child, 1)
        data[(number - 1) * 4096 : number * 4096] = page
    data[(chain[-1] - 1) * 4096 : chain[-1] * 4096] = leaf
    struct.pack_into(">I", data, 28, len(data) // 4096)
    (run / "strata.db").write_bytes(data)
    refused(run, "interrupted|malformed")


# ------------------------------------------------------------ the values


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE run SET name = x'ff'", r"run\.name is b'.xff'"),
        ("UPDATE run SET name = CAST(x'ff' AS TEXT)", "could not decode to UTF-8|Could not decode"),
        ("UPDATE run SET seed = -1", r"run\.seed is -1"),
        ("UPDATE run SET testbed = '{\"kind\": 7}'", "testbed"),
        ("UPDATE run SET description = '[]'", "no JSON object"),
        ("UPDATE run SET description = '{\"profile\": [1]}'", "profile"),
        ("UPDATE rule SET rounds = 4611686018427387904", r"rule\.rounds"),
        ("UPDATE rule SET confidence = 1", r"rule\.confidence"),
        ("UPDATE rule SET within = 9e999", r"rule\.within is inf"),
        ("UPDATE stack SET factors = '" + "[" * 100_000 + "'", "recursion limit"),
        ('UPDATE stack SET factors = \'{"a": "\\ud800"}\'', r"stack\.factors"),
        ("DELETE FROM stack", "speaks of a stack 1 that it does not hold"),
        ("UPDATE workload SET primary_metric = 'x'", "speaks of a metric 'x' that it does not hold"),
        ("UPDATE trial SET workload = 99", "speaks of a workload 99"),
        ("UPDATE trial SET outcome = 'great'", r"trial\.outcome is 'great'"),
        ("UPDATE trial SET flags = '[1]'", r"trial\.flags is 1"),
        ("UPDATE trial SET at = 1e18", r"trial\.at"),
        ("UPDATE trial SET argv = '[[null]]'", r"commands\.argv"),
        ("UPDATE figure SET value = 9e999", r"figure\.value is inf"),
        ("UPDATE figure SET value = 'fast'", r"figure\.value is 'fast'"),
        ("UPDATE event SET at = 'x'", r"event\.at"),
        ("UPDATE disk SET write_cache = 'x'", r"disk\.write_cache"),
    ],
)
def test_a_value_that_strata_does_not_write_is_refused(run: Path, statement: str, words: str) -> None:
    change(run, statement)
    with pytest.raises(StoreError, match=words) as refusal:
        reader.view(run)
    assert str(refusal.value).startswith(str(run)), "of two runs the reader must know which"
    assert str(refusal.value).isprintable()


def test_a_stack_that_is_there_twice_is_refused(run: Path) -> None:
    change(
        run,
        "CREATE TABLE loose (id INTEGER PRIMARY KEY, text, factors, resolved)",
        "INSERT INTO loose SELECT id, 'a', factors, resolved FROM stack",
        "DROP TABLE stack",
        "ALTER TABLE loose RENAME TO stack",
    )
    with pytest.raises(StoreError, match="a stack twice"):
        reader.view(run)


# ------------------------------------------------------------ sample files


def sample(run: Path) -> Path:
    return samples.path_of(run, 1)


def packed(columns: dict[str, list[object]], compression: str = "zstd") -> bytes:
    data = io.BytesIO()
    polars.DataFrame(columns, strict=False).write_parquet(data, compression=compression)  # type: ignore[arg-type]
    return data.getvalue()


def link(path: Path) -> None:
    path.rename(path.parent.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent.parent / "elsewhere")


def link_folder(path: Path) -> None:
    path.parent.rename(path.parent.parent.parent / "elsewhere")
    path.parent.symlink_to(path.parent.parent.parent / "elsewhere")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("attack", "words"),
    [
        (link, "cannot be opened as a file"),
        (link_folder, "cannot be opened as a directory"),
        (pipe, "not a regular file"),
        (lambda path: path.write_bytes(b"PAR1" * 4), "its footer claims"),
        (lambda path: path.write_bytes(path.read_bytes()[:-40]), "not a Parquet file"),
        (lambda path: os.truncate(path, 300 << 20), "more than"),
        (lambda path: path.write_bytes(packed({"other": [1]})), "its columns are 'other'"),
        (lambda path: path.write_bytes(packed({"series": [["a"]], "t_s": [0.0], "value": [1.0]})), "flat table"),
        (lambda path: path.write_bytes(packed({"series": ["a"], "t_s": [0.0], "value": [1.0]}, "gzip")), "packed"),
    ],
)  # fmt: skip
def test_a_sample_file_that_strata_does_not_write_is_refused(
    run: Path, attack: Callable[[Path], None], words: str
) -> None:
    attack(sample(run))
    with pytest.raises(StoreError, match=words):
        reader.view(run, series=True)
    reader.view(run)


def test_points_that_are_not_finite_are_left_out(run: Path) -> None:
    points = {"series": ["speed"] * 4, "t_s": [1.0, 2.0, float("nan"), None], "value": [1.0, float("inf"), 1.0, 1.0]}
    sample(run).write_bytes(packed(points))  # type: ignore[arg-type]
    assert reader.view(run, series=True).trials[0].series == {"speed": ((1.0, 1.0),)}


@pytest.mark.parametrize("bound", ["_MAX_POINTS", "_MAX_POINTS_READ"])
def test_the_series_of_a_run_have_a_bound_together(run: Path, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(reader, bound, 1)
    with pytest.raises(StoreError, match=r"more than 1 points|or 1 with"):
        reader.view(run, series=True)
    reader.view(run)


def test_a_trial_whose_row_comes_back_has_its_file_read_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interior page all of whose children are the same page gives the rows of that page 400 times."""
    with closing(sqlite3.connect(run / "strata.db")) as sql:
        (root,) = sql.execute("SELECT rootpage FROM sqlite_master WHERE name = 'trial'").fetchone()
    data = bytearray((run / "strata.db").read_bytes())
    leaf = data[(root - 1) * 4096 : root * 4096]
    assert leaf[0] == 13, "the rows of a few trials are on one page"
    child = len(data) // 4096 + 1
    page = bytearray(4096)
    struct.pack_into(">BHHHBI", page, 0, 5, 0, 400, 4096 - 400 * 5, 0, child)
    for cell in range(400):
        where = 4096 - (cell + 1) * 5
        struct.pack_into(">H", page, 12 + 2 * cell, where)
        struct.pack_into(">IB", page, where, child, 1)
    data[(root - 1) * 4096 : root * 4096] = page
    data += leaf
    struct.pack_into(">I", data, 28, len(data) // 4096)
    (run / "strata.db").write_bytes(data)
    reads: list[int] = []
    real = samples.read
    monkeypatch.setattr(samples, "read", lambda at, trial, names: (reads.append(trial), real(at, trial, names))[1])
    with pytest.raises(StoreError, match="a trial twice"):
        reader.view(run, series=True)
    assert len(reads) == len(set(reads))


# ------------------------------------------------------------ what grows faster than the file


def failed_trials(run: Path, trials: int, texts: int) -> None:
    """Of one attempt and workload, with so many texts kept of them."""
    columns = "attempt, workload, outcome, reason, at, wall_s, flags, notes, argv, signature"
    more = f"INSERT INTO trial ({columns}) SELECT {columns} FROM trial WHERE id = 1"
    kept = "INSERT INTO evidence (attempt, layer, argv, exit_code, stdout, stderr, signature) VALUES (1, 'w', '[]', 1, "
    change(
        run,
        "UPDATE trial SET outcome = 'failed', reason = 'why'",
        *[more] * (trials - 1),
        *(f"{kept}'said {number}', '', x'')" for number in range(texts)),
    )


def test_what_failed_trials_left_is_in_the_report_once(run: Path) -> None:
    failed_trials(run, trials=6, texts=5)
    assert [kept.stdout for kept in reader.view(run, series=True).evidence] == [f"said {n}" for n in range(5)]
    failed = verdict.model_of(run).failed
    assert len(failed) == 6
    assert [said.text for failure in failed for said in failure.evidence] == [f"said {n}" for n in range(5)]


def test_what_failed_trials_left_is_bounded_and_the_bound_is_told(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MAX_EVIDENCE_CHARACTERS", 350)
    failed_trials(run, trials=1, texts=9)
    *shown, last = reader.view(run, series=True).evidence
    assert [kept.stdout for kept in shown] == ["said 0", "said 1", "said 2"]
    assert last.stdout == "" and "failed trials left more than a report holds" in last.stderr


FORGED = "x: 7 of 7 visits done\nNothing of this run is left on this machine."


def test_a_name_or_decision_of_two_lines_is_shown_as_one(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(run, f"UPDATE run SET name = '{FORGED}'", f"UPDATE event SET text = '{FORGED}'")
    status(run, as_json=False)
    *lines, last = capsys.readouterr().out.splitlines()
    assert last == "The same command continues from here."
    assert len(lines) == 2 and all(line.startswith("x: 7 of 7 visits done\\nNothing") for line in lines)
    change(run, "UPDATE event SET kind = 'quarantine'")
    status(run, as_json=False)
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("Nothing")] == []


def test_no_name_that_is_read_has_two_lines(run: Path) -> None:
    change(
        run,
        *(
            f"UPDATE {table} SET {column} = {column} || char(10) || 'forged'"
            for table, column in (
                *(("run", "name"), ("run", "strata"), ("stack", "text"), ("workload", "text"), ("workload", "name")),
                *(("metric", "name"), ("metric", "unit"), ("workload", "primary_metric"), ("figure", "metric")),
                *(("disk", "role"), ("event", "kind")),
            )
        ),
    )
    view = reader.view(run)
    (load,) = view.workloads
    names = [view.campaign, view.versions["strata"], *view.stacks, load.text, load.name, *load.metrics]
    names += [load.primary.unit, *view.trials[0].metrics, view.disks[0].role, *(event.kind for event in view.events)]
    assert all(name.endswith("\\nforged") for name in names), names
