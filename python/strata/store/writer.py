"""What a run adds to its store. One writer at a time; every call is one durable transaction."""

from __future__ import annotations

import json
import sqlite3
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from strata.errors import NoRoom, StoreError
from strata.model import LARGEST_FIGURE, Call, Command, Completed, Disk, Facts, Metric, Outcome, Rule, Stack, Testbed
from strata.store import database, samples
from strata.store import raw as raws
from strata.store.encoding import decode_facts, encode_facts, encode_testbed
from strata.store.signature import Signer

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
    description: Mapping[str, object]
    seed: int


class Store:
    """Opened by `create` for a new directory, by `resume` for one that exists. Close it when done."""

    def __init__(self, directory: Path, connection: sqlite3.Connection, signer: Signer) -> None:
        self.directory = directory
        self._sql = connection
        self._signer = signer
        self._lock = threading.RLock()  # visits that go on at the same time store one after the other
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
        testbed: Testbed = Testbed(),  # noqa: B008 - frozen
    ) -> Store:
        run = {
            "uuid": uuid.uuid4().hex,
            "name": name,
            "about": about,
            "source": source,
            "fingerprint": fingerprint,
            "description": json.dumps(description),
            "seed": seed,
            "strata": version,
            "created_at": now,
            "testbed": encode_testbed(testbed),
        }
        return cls(directory, *database.create(directory, run))

    @classmethod
    def resume(cls, directory: Path) -> Store:
        store = cls(directory, *database.open_writer(directory))
        store._stack_ids = dict(store._sql.execute("SELECT text, id FROM stack"))
        store._workload_ids = dict(store._sql.execute("SELECT text, id FROM workload"))
        return store

    def close(self) -> None:
        database.close_writer(self._sql)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Raises NoRoom when the disk is full; then nothing of it is stored."""
        with self._lock:
            try:
                self._sql.execute("BEGIN IMMEDIATE")
                yield
                self._sql.execute("COMMIT")
            except BaseException as error:
                # SQLite itself rolls back when the disk is full
                if self._sql.in_transaction:
                    self._sql.execute("ROLLBACK")
                if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode in _NO_ROOM:
                    text = f"no room is left on the disk that holds {self.directory}; make room there."
                    raise NoRoom(text) from error
                raise

    def _add(self, table: str, **row: object) -> int:
        return database.add(self._sql, self._signer, table, row)

    # ------------------------------------------------------------ the plan

    def identity(self) -> RunIdentity:
        row = self._sql.execute("SELECT uuid, description, seed FROM run").fetchone()
        if row is None:
            raise StoreError(f"{self.directory} holds a run that never began; remove it, and start again.")
        return RunIdentity(row[0], json.loads(row[1]), row[2])

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
                factors, resolved = json.dumps(dict(stack.factors)), _resolved(stack)
                self._stack_ids[stack.text] = self._add("stack", text=stack.text, factors=factors, resolved=resolved)
            for call, primary, metrics in workloads:
                workload = self._add("workload", text=call.text, name=call.name, primary_metric=primary.name)
                self._workload_ids[call.text] = workload
                self._add_metrics(workload, metrics)
            self._add_metrics(None, machine_metrics)
            for position, disk in enumerate(disks):
                self._add(
                    "disk",
                    role=disk.role,
                    size_bytes=disk.size_bytes,
                    device=disk.device,
                    model=disk.model,
                    write_cache=disk.write_cache,
                    position=position,
                )

    def _add_metrics(self, workload: int | None, metrics: Iterable[Metric]) -> None:
        for m in metrics:
            row = {"workload": workload, "name": m.name, "unit": m.unit, "better": m.better, "about": m.about}
            database.add(self._sql, self._signer, "metric", row, unless_there=True)

    def set_rule(self, rule: Rule, now: float) -> None:
        with self._transaction():
            self._add("rule", at=now, **asdict(rule))

    def rule(self) -> Rule | None:
        """The rule that holds; None before the first."""
        return database.rule(self._sql)

    def add_facts(
        self, facts: Facts, versions: Mapping[str, str], skipped: Mapping[str, Sequence[str]], now: float
    ) -> None:
        with self._transaction():
            look = self._add("facts", at=now, facts=encode_facts(facts), versions=json.dumps(dict(versions)))
            for stack, reasons in skipped.items():
                for reason in reasons:
                    self._add("skip", facts=look, stack=self._stack_ids[stack], reason=reason)

    def facts(self) -> Facts | None:
        """The newest look at the machine; None before the first."""
        row = self._sql.execute("SELECT facts FROM facts ORDER BY id DESC LIMIT 1").fetchone()
        return decode_facts(row[0]) if row else None

    def versions(self) -> Mapping[str, str]:
        """Of the newest look; empty before the first."""
        row = self._sql.execute("SELECT versions FROM facts ORDER BY id DESC LIMIT 1").fetchone()
        return json.loads(row[0]) if row else {}

    def add_event(self, kind: str, text: str, now: float) -> None:
        with self._transaction():
            self._add("event", at=now, kind=kind, text=text)

    def quarantined(self) -> str | None:
        """Why the host must not be used before `strata clean`; None when it may be."""
        return database.quarantine(self._sql)

    # ------------------------------------------------------------ visits

    def add_visits(self, visits: Iterable[tuple[int, str]], now: float) -> None:
        """(round, stack) pairs; those that are there already stay as they are."""
        with self._transaction():
            for round_, stack in visits:
                row = {"stack": self._stack_ids[stack], "round": round_, "at": now}
                database.add(self._sql, self._signer, "visit", row, unless_there=True)

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
            return self._add("attempt", visit=visit, at=now)

    def end(self, attempt: int, failure: str | None, now: float) -> None:
        """The attempt counts from now on. Called after everything it built is removed."""
        with self._transaction():
            self._add("ending", attempt=attempt, at=now, failure=failure)

    def lose(self, attempt: int, reason: str, now: float, console: str = "") -> None:
        """The attempt ended with its machine, and says nothing of the stack. `console`: its last lines."""
        with self._transaction():
            self._add("lost", attempt=attempt, at=now, reason=reason, console=console)

    def losses(self, visit: int) -> int:
        """How many attempts at a visit were lost with their machine."""
        row = self._sql.execute(
            "SELECT count(*) FROM lost JOIN attempt ON attempt.id = lost.attempt WHERE attempt.visit = ?", (visit,)
        ).fetchone()
        return int(row[0])

    # ------------------------------------------------------------ the journal

    def journal(self, attempt: int | None, layer: str, why: str, do: Command, undo: Command | None, now: float) -> int:
        """Durable when this returns: only then may the step start."""
        with self._transaction():
            back = {} if undo is None else {"undo_argv": _argv(undo), "undo_timeout_s": undo.timeout_s}
            return self._add("journal", attempt=attempt, layer=layer, why=why, do_argv=_argv(do), at=now, **back)

    def settle(
        self,
        journal: int,
        state: Literal["done", "failed", "undone", "undo_failed"],
        duration_s: float | None,
        now: float,
        detail: str | None = None,
    ) -> None:
        with self._transaction():
            self._add("journal_state", journal=journal, state=state, at=now, duration_s=duration_s, detail=detail)

    def discard(self, attempt: int, now: float) -> None:
        """The attempt's machine was thrown away, and whatever was not undone went with it."""
        with self._transaction():
            there = f"SELECT id FROM journal WHERE attempt = ? AND {database.LAST_STATE} IS NOT 'undone'"
            for (journal,) in self._sql.execute(there, (attempt,)).fetchall():
                self._add("journal_state", journal=journal, state="discarded", at=now)

    def to_undo(self, attempt: int | None = None) -> list[Undo]:
        """What an attempt may have left, newest first; of one attempt, or of the whole run.

        All of it while any of it is not undone: an older undo that fails may show that a newer one did not hold, and
        every undo may be repeated.
        """
        where = "" if attempt is None else "AND attempt = ?"
        rows = self._sql.execute(
            f"SELECT id, attempt, why, undo_argv, undo_timeout_s, {database.LAST_STATE} FROM journal "
            f"WHERE undo_argv IS NOT NULL {where} ORDER BY id DESC",
            () if attempt is None else (attempt,),
        ).fetchall()
        unfinished = {attempt for _, attempt, _, _, _, state in rows if state not in ("undone", "discarded")}
        return [
            Undo(id_, attempt, why, Command(tuple(json.loads(argv)), timeout_s))
            for id_, attempt, why, argv, timeout_s, _ in rows
            if attempt in unfinished
        ]

    def add_evidence(self, attempt: int, layer: str, seen: Iterable[Completed]) -> None:
        with self._transaction():
            for s in seen:
                said = {"argv": json.dumps(s.argv), "exit_code": s.exit_code, "stdout": s.stdout, "stderr": s.stderr}
                self._add("evidence", attempt=attempt, layer=layer, **said)

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
        argv: Sequence[Sequence[str]],
        flags: Sequence[str] = (),
        notes: Sequence[str] = (),
        figures: Mapping[str, float] | None = None,
        extra: Sequence[Metric] = (),
        series: samples.Series | None = None,
        raw: Sequence[raws.Part] = (),
    ) -> str | None:
        """The trial with all its figures; its samples are on the disk before the row is. `argv`: every command. `raw`:
        what the figures were made of, of each load; not kept where that is too large.

        Returns the reason that is stored: it fails also when `extra` does not fit what earlier trials were stored with,
        or a figure is no number that can be stored.
        """
        with self._lock:
            workload_id = self._workload_ids[workload]
            unfit = self._unfit(workload_id, extra) or _unstorable(figures or {})
            if unfit:
                outcome, reason = Outcome.FAILED, "; ".join([*filter(None, [reason]), unfit])
                figures, extra = None, ()
            (trial,) = self._sql.execute("SELECT coalesce(max(id), 0) + 1 FROM trial").fetchone()
            if series or raw:
                try:
                    if series:
                        samples.write(self.directory, trial, series)
                    if raw:
                        raws.write(self.directory, trial, raw)
                except OSError as error:
                    raise NoRoom(
                        f"cannot write the samples of a trial to {self.directory} ({error.strerror}); make room there."
                    ) from error
            with self._transaction():
                self._add_metrics(workload_id, extra)
                self._add(
                    "trial",
                    id=trial,
                    attempt=attempt,
                    workload=workload_id,
                    outcome=outcome.value,
                    reason=reason,
                    at=at,
                    wall_s=wall_s,
                    flags=json.dumps(list(flags)),
                    notes=json.dumps(list(notes)),
                    argv=json.dumps(list(argv)),
                )
                for name, value in (figures or {}).items():
                    self._add("figure", trial=trial, metric=name, value=float(value))
            return reason

    def _unfit(self, workload: int, extra: Iterable[Metric]) -> str | None:
        """Why figures of these names, units and directions cannot stand beside those of earlier trials."""
        wrong = []
        for new in extra:
            if self._sql.execute("SELECT 1 FROM metric WHERE workload IS NULL AND name = ?", (new.name,)).fetchone():
                wrong.append(f"'{new.name}' is a figure of the machine; give the script's own another name")
                continue
            old = self._sql.execute(
                "SELECT unit, better FROM metric WHERE workload = ? AND name = ? ORDER BY rowid DESC LIMIT 1",
                (workload, new.name),
            ).fetchone()
            if old is None or old == (new.unit, new.better):
                continue
            measured = self._sql.execute(
                "SELECT 1 FROM figure JOIN trial ON trial.id = trial WHERE workload = ? AND metric = ? LIMIT 1",
                (workload, new.name),
            ).fetchone()
            if measured or (old[0] and old[0] != new.unit) or old[1] != new.better:
                said, was = (f"{unit or 'no unit'}, {better}" for unit, better in ((new.unit, new.better), old))
                wrong.append(f"'{new.name}' ({said}) was another figure before ({was}); keep to one unit and direction")
        return "; ".join(wrong) or None


def _unstorable(figures: Mapping[str, float]) -> str | None:
    wrong = [name for name, value in figures.items() if not abs(value) <= LARGEST_FIGURE]  # so that nan is wrong too
    if not wrong:
        return None
    return (
        f"'{wrong[0]}' is {figures[wrong[0]]:.3g}, and a figure is a number of at most {LARGEST_FIGURE:g}; look at the "
        "output of the program that was measured"
    )


def _resolved(stack: Stack) -> str:
    """Canonical texts leave defaults out, and those may change from one Strata to the next."""
    return json.dumps([{"layer": node.call.text, "values": dict(node.call.values)} for node in stack.top.walk()])


def _argv(command: Command) -> str:
    return json.dumps(command.argv)
