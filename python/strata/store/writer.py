"""What a run adds to its store. One writer at a time; every call is one durable transaction."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from strata.errors import NoRoom, StoreError
from strata.model import Call, Command, Completed, Disk, Facts, Metric, Outcome, Rule, Stack
from strata.store import database, samples

if TYPE_CHECKING:
    from collections.abc import Iterator


# What SQLite says when a write does not fit: also an I/O error, when the file system finds out only then.
_NO_ROOM = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_SHMSIZE}


@dataclass(frozen=True, slots=True)
class PlannedVisit:
    id: int
    stack: str
    round: int


@dataclass(frozen=True, slots=True)
class Undo:
    """Something that may still be there."""

    journal: int
    attempt: int | None
    why: str
    undo: Command


@dataclass(frozen=True, slots=True)
class RunIdentity:
    uuid: str
    fingerprint: str
    description: Mapping[str, object]
    seed: int


class Store:
    """Opened by `create` for a new directory, by `resume` for one that exists. Close it when done."""

    def __init__(self, directory: Path, connection: sqlite3.Connection) -> None:
        self.directory = directory
        self._sql = connection
        self._stack_ids: dict[str, int] = {}
        self._workload_ids: dict[str, int] = {}

    @classmethod
    def create(
        cls,
        directory: Path,
        *,
        name: str,
        about: str,
        source: str,
        fingerprint: str,
        description: Mapping[str, object],
        seed: int,
        version: str,
        now: float,
    ) -> Store:
        identity = (uuid.uuid4().hex, name, about, source, fingerprint, json.dumps(description), seed, version, now)
        return cls(directory, database.create(directory, identity))

    @classmethod
    def resume(cls, directory: Path) -> Store:
        store = cls(directory, database.open_writer(directory))
        store._stack_ids = dict(store._sql.execute("SELECT text, id FROM stack"))
        store._workload_ids = dict(store._sql.execute("SELECT text, id FROM workload"))
        return store

    def close(self) -> None:
        self._sql.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Raises NoRoom when the disk is full; then nothing of it is stored."""
        try:
            self._sql.execute("BEGIN IMMEDIATE")
            yield
            self._sql.execute("COMMIT")
        except BaseException as error:
            # SQLite itself rolls back when the disk is full
            if self._sql.in_transaction:
                self._sql.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode in _NO_ROOM:
                raise NoRoom(f"no room is left on the disk that holds {self.directory}; make room there.") from error
            raise

    # ------------------------------------------------------------ the plan

    def identity(self) -> RunIdentity:
        row = self._sql.execute("SELECT uuid, fingerprint, description, seed FROM run").fetchone()
        if row is None:
            raise StoreError(f"{self.directory} holds a run that never began; remove it, and start again.")
        return RunIdentity(row[0], row[1], json.loads(row[2]), row[3])

    def add_plan(
        self,
        stacks: Sequence[Stack],
        workloads: Sequence[tuple[Call, Metric, Sequence[Metric]]],
        machine_metrics: Sequence[Metric],
        disks: Sequence[Disk],
    ) -> None:
        """All or nothing, and nothing when it is there already. `workloads`: call, primary metric, all metrics."""
        if self._stack_ids:
            return
        with self._transaction():
            for stack in stacks:
                cursor = self._sql.execute(
                    "INSERT INTO stack (text, factors) VALUES (?, ?)", (stack.text, json.dumps(dict(stack.factors)))
                )
                self._stack_ids[stack.text] = _id(cursor)
            for call, primary, metrics in workloads:
                cursor = self._sql.execute(
                    "INSERT INTO workload (text, name, primary_metric) VALUES (?, ?, ?)",
                    (call.text, call.name, primary.name),
                )
                self._workload_ids[call.text] = _id(cursor)
                self._add_metrics(_id(cursor), metrics)
            self._add_metrics(None, machine_metrics)
            for position, disk in enumerate(disks):
                self._sql.execute(
                    "INSERT INTO disk (role, size_bytes, device, position) VALUES (?, ?, ?, ?)",
                    (disk.role, disk.size_bytes, disk.device, position),
                )

    def _add_metrics(self, workload: int | None, metrics: Iterable[Metric]) -> None:
        self._sql.executemany(
            "INSERT OR IGNORE INTO metric (workload, name, unit, better, about) VALUES (?, ?, ?, ?, ?)",
            [(workload, m.name, m.unit, m.better, m.about) for m in metrics],
        )

    def set_rule(self, rule: Rule, now: float) -> None:
        with self._transaction():
            self._sql.execute(
                "INSERT INTO rule (at, rounds, within, confidence, budget_s) VALUES (?, ?, ?, ?, ?)",
                (now, rule.rounds, rule.within, rule.confidence, rule.budget_s),
            )

    def rule(self) -> Rule | None:
        """The rule that holds; None before the first."""
        row = self._sql.execute("SELECT rounds, within, confidence, budget_s FROM rule ORDER BY id DESC").fetchone()
        return Rule(*row) if row else None

    def add_facts(
        self, facts: Facts, versions: Mapping[str, str], skipped: Mapping[str, Sequence[str]], now: float
    ) -> None:
        plain = asdict(facts)
        plain["filesystems"] = sorted(facts.filesystems)
        plain["schedulers"] = sorted(facts.schedulers)
        with self._transaction():
            cursor = self._sql.execute(
                "INSERT INTO facts (at, facts, versions) VALUES (?, ?, ?)",
                (now, json.dumps(plain), json.dumps(dict(versions))),
            )
            self._sql.executemany(
                "INSERT INTO skip (facts, stack, reason) VALUES (?, ?, ?)",
                [
                    (_id(cursor), self._stack_ids[stack], reason)
                    for stack, reasons in skipped.items()
                    for reason in reasons
                ],
            )

    def add_event(self, kind: str, text: str, now: float) -> None:
        with self._transaction():
            self._sql.execute("INSERT INTO event (at, kind, text) VALUES (?, ?, ?)", (now, kind, text))

    def quarantined(self) -> str | None:
        """Why the host must not be used before `strata clean`; None when it may be."""
        row = self._sql.execute(
            "SELECT kind, text FROM event WHERE kind IN ('quarantine', 'cleaned') ORDER BY id DESC LIMIT 1"
        ).fetchone()
        return row[1] if row and row[0] == "quarantine" else None

    # ------------------------------------------------------------ visits

    def add_visits(self, visits: Iterable[tuple[int, str]], now: float) -> None:
        """(round, stack) pairs; those that are there already stay as they are."""
        with self._transaction():
            self._sql.executemany(
                "INSERT OR IGNORE INTO visit (stack, round, at) VALUES (?, ?, ?)",
                [(self._stack_ids[stack], round_, now) for round_, stack in visits],
            )

    def open_visits(self) -> list[PlannedVisit]:
        """Visits that were asked for and have not ended, in order."""
        return [
            PlannedVisit(*row)
            for row in self._sql.execute(
                "SELECT visit.id, stack.text, visit.round FROM visit JOIN stack ON stack.id = visit.stack "
                "WHERE visit.id NOT IN (SELECT attempt.visit FROM attempt JOIN ending ON ending.attempt = attempt.id) "
                "ORDER BY visit.id"
            )
        ]

    def begin(self, visit: int, now: float) -> int:
        """A new attempt at a visit; its id."""
        with self._transaction():
            return _id(self._sql.execute("INSERT INTO attempt (visit, at) VALUES (?, ?)", (visit, now)))

    def end(self, attempt: int, failure: str | None, now: float) -> None:
        """The attempt counts from now on. Called after everything it built is removed."""
        with self._transaction():
            self._sql.execute("INSERT INTO ending (attempt, at, failure) VALUES (?, ?, ?)", (attempt, now, failure))

    # ------------------------------------------------------------ the journal

    def journal(self, attempt: int | None, layer: str, why: str, do: Command, undo: Command | None, now: float) -> int:
        """Durable when this returns: only then may the step start."""
        with self._transaction():
            cursor = self._sql.execute(
                "INSERT INTO journal (attempt, layer, why, do_argv, undo_argv, at) VALUES (?, ?, ?, ?, ?, ?)",
                (attempt, layer, why, _argv(do), _argv(undo) if undo else None, now),
            )
            return _id(cursor)

    def settle(
        self,
        journal: int,
        state: Literal["done", "failed", "undone", "undo_failed"],
        duration_s: float | None,
        now: float,
        detail: str | None = None,
    ) -> None:
        with self._transaction():
            self._sql.execute(
                "INSERT INTO journal_state (journal, state, at, duration_s, detail) VALUES (?, ?, ?, ?, ?)",
                (journal, state, now, duration_s, detail),
            )

    def to_undo(self, attempt: int | None = None) -> list[Undo]:
        """Everything that was begun and not undone, newest first; of one attempt, or of the whole run."""
        where = "" if attempt is None else "AND attempt = ?"
        return [
            Undo(row[0], row[1], row[2], Command(tuple(json.loads(row[3]))))
            for row in self._sql.execute(
                "SELECT id, attempt, why, undo_argv FROM journal WHERE undo_argv IS NOT NULL AND id NOT IN "
                f"(SELECT journal FROM journal_state WHERE state = 'undone') {where} ORDER BY id DESC",
                () if attempt is None else (attempt,),
            )
        ]

    def add_evidence(self, attempt: int, layer: str, seen: Iterable[Completed]) -> None:
        with self._transaction():
            self._sql.executemany(
                "INSERT INTO evidence (attempt, layer, argv, exit_code, stdout, stderr) VALUES (?, ?, ?, ?, ?, ?)",
                [(attempt, layer, json.dumps(s.argv), s.exit_code, s.stdout, s.stderr) for s in seen],
            )

    # ------------------------------------------------------------ trials

    def add_trial(
        self,
        attempt: int,
        workload: str,
        *,
        outcome: Outcome,
        reason: str | None,
        at: float,
        wall_s: float | None,
        argv: Sequence[str],
        flags: Sequence[str] = (),
        notes: Sequence[str] = (),
        figures: Mapping[str, float] | None = None,
        extra: Sequence[Metric] = (),
        series: samples.Series | None = None,
    ) -> int:
        """The trial with all its figures; its samples are on the disk before the row is."""
        workload_id = self._workload_ids[workload]
        (trial,) = self._sql.execute("SELECT coalesce(max(id), 0) + 1 FROM trial").fetchone()
        if series:
            try:
                samples.write(self.directory, trial, series)
            except OSError as error:
                raise NoRoom(f"cannot write the samples of a trial to {self.directory}: {error}.") from error
        with self._transaction():
            self._add_metrics(workload_id, extra)
            self._sql.execute(
                "INSERT INTO trial (id, attempt, workload, outcome, reason, at, wall_s, flags, notes, argv) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    trial,
                    attempt,
                    workload_id,
                    outcome.value,
                    reason,
                    at,
                    wall_s,
                    json.dumps(list(flags)),
                    json.dumps(list(notes)),
                    json.dumps(list(argv)),
                ),
            )
            self._sql.executemany(
                "INSERT INTO figure (trial, metric, value) VALUES (?, ?, ?)",
                [(trial, name, float(value)) for name, value in (figures or {}).items()],
            )
        return int(trial)


def _argv(command: Command) -> str:
    return json.dumps(command.argv)


def _id(cursor: sqlite3.Cursor) -> int:
    assert cursor.lastrowid is not None
    return cursor.lastrowid
