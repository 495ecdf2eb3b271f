"""Everything stored about one run as a frozen View; also while the run goes on."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from strata.errors import StoreError
from strata.model import (
    Disk,
    Event,
    Evidence,
    Facts,
    FailedVisit,
    Loss,
    Metric,
    Skipped,
    StepTime,
    TrialResult,
    View,
    WorkloadView,
)
from strata.store import database, foreign, rows, samples
from strata.store.encoding import BadRow, decode_facts, decode_object, decode_testbed
from strata.text import one_line

# Of each text that a failed trial left: the end, where programs say what went wrong.
_EVIDENCE_CHARACTERS = 2000

# Of all of them together, each with so much for what stands around it on a page. 1,000 failed trials leave less.
_MAX_EVIDENCE_CHARACTERS = 4_000_000
_EVIDENCE_ROW_CHARACTERS = 100
_NOT_SHOWN = "[not shown, nor what comes after it: failed trials left more than a report holds; strata.db has it all]"

# Of all trials together: about 1.5 GB. 10,000 trials of 30 s with 10 series each have 3 million.
_MAX_POINTS = 10_000_000
# Read to find these: ten trials of a whole day have 90 million, of all series, and 1,000 of a minute 6 million.
_MAX_POINTS_READ = 100_000_000

# What moved at the disks, for workloads that have no series of their own.
_DISK_SERIES = ("disk.read_bytes", "disk.write_bytes")


@dataclass(frozen=True, slots=True)
class Status:
    """Where a run stands, cheap to ask for."""

    name: str
    uuid: str
    visits_planned: int
    visits_done: int
    losses: int  # attempts that ended with their machine
    left_behind: int  # journaled things not undone yet
    quarantined: str | None
    decision: str | None  # the last one, a sentence; None before the first


def status(directory: Path) -> Status:
    """Raises StoreError."""
    with _reading(directory) as sql:
        return _status(sql)


@contextmanager
def _reading(directory: Path) -> Iterator[sqlite3.Connection]:
    """Of one moment, though a run may be writing. What SQLite finds wrong with the file becomes a StoreError."""
    with closing(database.open_reader(directory)) as sql:
        try:
            sql.execute("BEGIN")
            yield sql
        except BadRow as error:
            raise StoreError(f"{directory}: {error}") from error
        except foreign.DAMAGE as error:
            raise StoreError(
                f"{directory}: the database is damaged or is not one that Strata wrote ({foreign.quoted(error)}); "
                "restore it from a copy, or run the campaign again."
            ) from error


def _status(sql: sqlite3.Connection) -> Status:
    run = _begun(rows.one(sql, rows.Identity, "SELECT name, uuid FROM run"))
    # Not count(*) of a whole table: SQLite cannot be stopped in that, and broken pages may have no end.
    done = _count(sql, "SELECT count(DISTINCT attempt.visit) FROM ending JOIN attempt ON attempt.id = attempt")
    left = _count(
        sql,
        "SELECT count(*) FROM journal WHERE undo_argv IS NOT NULL "
        f"AND coalesce({database.LAST_STATE}, '') NOT IN ('undone', 'discarded')",
    )
    decision = rows.one(
        sql, rows.Event, "SELECT at, kind, text FROM event WHERE kind = 'decision' ORDER BY id DESC LIMIT 1"
    )
    return Status(
        run.name,
        run.uuid,
        _visits_planned(sql),
        done,
        _count(sql, "SELECT count(*) FROM lost WHERE attempt IS NOT NULL"),
        left,
        database.quarantine(sql),
        None if decision is None else one_line(decision.text),
    )


def workloads(directory: Path) -> tuple[str, ...]:
    """The names of the workloads of a run, cheap to ask for. Raises StoreError."""
    with _reading(directory) as sql:
        query = "SELECT id, text, name, primary_metric FROM workload ORDER BY id"
        return tuple(row.name for row in rows.fetch(sql, rows.Workload, query))


@dataclass(frozen=True, slots=True)
class Written:
    """A run as it was begun: a campaign file that loads to it, and what its campaign was described as."""

    source: str
    description: Mapping[str, object]

    @property
    def profile(self) -> str | None:
        """The profile of the campaign file, if one was asked for."""
        found = self.description.get("profile")
        return None if found is None else str(found)


def source(directory: Path) -> Written:
    """Raises StoreError when there is no run."""
    with _reading(directory) as sql:
        row = _begun(rows.one(sql, rows.Source, "SELECT source, description FROM run"))
        return Written(row.source, decode_object(row.description))


def view(directory: Path, *, series: bool = False) -> View:
    """Raises StoreError when there is no run, one whose plan was never stored, or one that Strata did not write.

    `series`: all that only a whole report shows: the 1 s series of the workloads' metrics and of the disks from the
    sample files, and what the programs of failed trials said.
    """
    with _reading(directory) as sql:
        return _view(sql, directory, series)


def _view(sql: sqlite3.Connection, directory: Path, series: bool) -> View:
    run = _begun(rows.one(sql, rows.Run, "SELECT name, about, seed, strata, testbed, description FROM run"))
    rule = _begun(database.rule(sql))
    described = list(rows.fetch(sql, rows.Stack, "SELECT id, text, factors FROM stack ORDER BY id"))
    stacks = _unique("stack", ((row.id, row.text) for row in described))
    workloads = _workloads(sql)
    facts_id, facts, versions = _facts(sql)
    unable = _unable(sql, facts_id, stacks)
    ended = list(
        rows.fetch(
            sql,
            rows.Ended,
            "SELECT attempt.id, visit.id, visit.stack, visit.round, ending.failure FROM attempt "
            "JOIN visit ON visit.id = attempt.visit JOIN ending ON ending.attempt = attempt.id ORDER BY attempt.id",
        )
    )
    visits = {row.attempt: (row.visit, _known(stacks, "stack", row.stack), row.round) for row in ended}
    if len(visits) < len(ended):
        raise BadRow("this run holds an attempt that ended twice; restore it from a copy.")
    visited = {stack for _, stack, _ in visits.values()}
    return View(
        campaign=run.name,
        profile=_profile(decode_object(run.description)),
        about=run.about,
        seed=run.seed,
        rule=rule,
        stacks=tuple(stacks.values()),
        workloads=tuple(workloads.values()),
        trials=_trials(sql, directory, visits, workloads, series),
        steps=_steps(sql, visits),
        skipped=tuple(skip for skip in unable if skip.stack not in visited),
        halted=tuple(skip for skip in unable if skip.stack in visited),
        failed=tuple(FailedVisit(*visits[row.attempt], row.failure) for row in ended if row.failure is not None),
        events=tuple(
            Event(*event) for event in rows.fetch(sql, rows.Event, "SELECT at, kind, text FROM event ORDER BY id")
        ),
        visits_planned=_visits_planned(sql),
        visits_done=len(visits),
        facts=facts,
        versions={"strata": run.strata, **versions},
        commands=_commands(sql, visits),
        disks=tuple(
            Disk(disk.role, disk.size_bytes, disk.device, disk.model, disk.write_cache)
            for disk in sorted(
                rows.fetch(sql, rows.Disk, "SELECT position, role, size_bytes, device, model, write_cache FROM disk"),
                key=lambda row: row.position,
            )
        ),
        machine_metrics=_metrics(sql, "workload IS NULL"),
        testbed=decode_testbed(run.testbed),
        losses=tuple(
            Loss(row.visit, _known(stacks, "stack", row.stack), row.round, row.reason, row.console)
            for row in rows.fetch(
                sql,
                rows.Lost,
                "SELECT visit.id, visit.stack, visit.round, lost.reason, lost.console FROM lost "
                "JOIN attempt ON attempt.id = lost.attempt JOIN visit ON visit.id = attempt.visit ORDER BY attempt.id",
            )
        ),
        evidence=_evidence(sql, visits, workloads) if series else (),
        factors={row.text: row.factors for row in described},
        open_visits=tuple(
            (row.round, _known(stacks, "stack", row.stack))
            for row in rows.fetch(
                sql,
                rows.Visit,
                "SELECT id, stack, round FROM visit WHERE id NOT IN (SELECT attempt.visit FROM attempt "
                "JOIN ending ON ending.attempt = attempt.id) ORDER BY id",
            )
        ),
    )


K = TypeVar("K")
V = TypeVar("V")


def _begun(row: V | None) -> V:
    if row is None:
        raise BadRow("this run never began; start it again with `strata run`.")
    return row


def _count(sql: sqlite3.Connection, query: str) -> int:
    return _begun(rows.one(sql, rows.Counted, query)).number


def _unique(kind: str, named: Iterable[tuple[int, str]]) -> dict[int, str]:
    """By id. Raises BadRow when two have the same id or text."""
    pairs = list(named)
    found = dict(pairs)
    if len(set(found.values())) < len(pairs):
        raise BadRow(f"this run holds a {kind} twice; restore it from a copy.")
    return found


def _known(found: Mapping[K, V], kind: str, key: K) -> V:
    """Raises BadRow when a row speaks of another that is not there."""
    if key not in found:
        raise BadRow(f"this run speaks of a {kind} {ascii(key)[:60]} that it does not hold; restore it from a copy.")
    return found[key]


def _profile(description: Mapping[str, object]) -> str | None:
    profile = description.get("profile")
    if not isinstance(profile, str | None):
        raise BadRow(f"this run holds the profile {ascii(profile)[:60]}, which is no text; restore it from a copy.")
    return profile


def _visits_planned(sql: sqlite3.Connection) -> int:
    """Of every stack that can run as many as the rule has rounds, or as there are already if that is more; of one
    that cannot run any more, those that ended. A rule that learns plans no more than the batch it asked for last."""
    rule = database.rule(sql)
    if rule is not None and rule.design != "rounds":
        return _count(
            sql,
            "SELECT count(*) FROM visit WHERE at = (SELECT max(at) FROM visit) "
            "OR id IN (SELECT attempt.visit FROM attempt JOIN ending ON ending.attempt = attempt.id)",
        )
    rounds = 0 if rule is None else rule.rounds
    unable = {
        row.number
        for row in rows.fetch(sql, rows.Counted, "SELECT stack FROM skip WHERE facts = (SELECT max(id) FROM facts)")
    }
    visits = {
        row.stack: row.number
        for row in rows.fetch(sql, rows.OfStack, "SELECT stack, count(*) FROM visit GROUP BY stack")
    }
    ended = {
        row.stack: row.number
        for row in rows.fetch(
            sql,
            rows.OfStack,
            "SELECT stack, count(DISTINCT visit.id) FROM ending JOIN attempt ON attempt.id = ending.attempt "
            "JOIN visit ON visit.id = attempt.visit GROUP BY stack",
        )
    }
    stacks = [row.number for row in rows.fetch(sql, rows.Counted, "SELECT id FROM stack")]
    return sum(ended.get(id_, 0) if id_ in unable else max(rounds, visits.get(id_, 0)) for id_ in stacks)


def _metrics(sql: sqlite3.Connection, which: str, parameters: tuple[object, ...] = ()) -> dict[str, Metric]:
    """By name; of two with the same name the newest."""
    query = f"SELECT name, unit, better, about FROM metric WHERE {which} ORDER BY rowid"
    return {row.name: Metric(*row) for row in rows.fetch(sql, rows.Metric, query, parameters)}


def _workloads(sql: sqlite3.Connection) -> dict[int, WorkloadView]:
    found = {}
    query = "SELECT id, text, name, primary_metric FROM workload ORDER BY id"
    described = list(rows.fetch(sql, rows.Workload, query))
    _unique("workload", ((row.id, row.text) for row in described))
    for row in described:
        metrics = _metrics(sql, "workload = ?", (row.id,))
        found[row.id] = WorkloadView(row.text, row.name, _known(metrics, "metric", row.primary_metric), metrics)
    return found


def _facts(sql: sqlite3.Connection) -> tuple[int | None, Facts | None, dict[str, str]]:
    looks = list(rows.fetch(sql, rows.Facts, "SELECT id, facts, versions FROM facts ORDER BY id"))
    if not looks:
        return None, None, {}
    # What was measured before still stands beside its own caveats.
    every = [decode_facts(row.facts) for row in looks]
    caveats = tuple(dict.fromkeys(caveat for facts in every for caveat in facts.caveats))
    return looks[-1].id, replace(every[-1], caveats=caveats), looks[-1].versions


def _unable(sql: sqlite3.Connection, facts: int | None, stacks: dict[int, str]) -> tuple[Skipped, ...]:
    """What could not run when the machine was last looked at."""
    reasons: dict[int, list[str]] = {}
    query = "SELECT stack, reason FROM skip WHERE facts = ? ORDER BY rowid"
    for row in rows.fetch(sql, rows.Skip, query, (facts,)):
        reasons.setdefault(row.stack, []).append(row.reason)
    return tuple(Skipped(_known(stacks, "stack", stack), tuple(why)) for stack, why in reasons.items())


def _trials(
    sql: sqlite3.Connection,
    directory: Path,
    visits: dict[int, tuple[int, str, int]],
    workloads: dict[int, WorkloadView],
    series: bool,
) -> tuple[TrialResult, ...]:
    figures: dict[int, dict[str, float]] = {}
    for figure in rows.fetch(sql, rows.Figure, "SELECT trial, metric, value FROM figure ORDER BY rowid"):
        figures.setdefault(figure.trial, {})[figure.metric] = figure.value
    positions = {attempt: position for position, attempt in enumerate(visits)}
    found: list[TrialResult] = []
    ids: set[int] = set()
    points = points_read = 0
    query = "SELECT id, attempt, workload, outcome, reason, at, wall_s, flags, notes FROM trial ORDER BY id"
    for row in rows.fetch(sql, rows.Trial, query):
        # Pages of a table that lead back to each other give its rows without end, and each has its file read.
        if row.id in ids:
            raise BadRow("this run holds a trial twice; restore it from a copy.")
        ids.add(row.id)
        if row.attempt not in visits:
            continue
        workload = _known(workloads, "workload", row.workload)
        visit, stack, round_ = visits[row.attempt]
        count, courses = samples.read(directory, row.id, (*workload.metrics, *_DISK_SERIES)) if series else (0, {})
        points += sum(map(len, courses.values()))
        points_read += count
        if points > _MAX_POINTS or points_read > _MAX_POINTS_READ:
            raise BadRow(
                f"this run has series of more than {_MAX_POINTS} points, or {_MAX_POINTS_READ} with those that no "
                "report shows; restore its samples from a copy."
            )
        found.append(
            TrialResult(
                visit=visit,
                stack=stack,
                round=round_,
                order=positions[row.attempt],
                workload=workload.text,
                outcome=row.outcome,
                reason=row.reason,
                started_at=row.at,
                wall_s=row.wall_s,
                metrics=figures.get(row.id, {}),
                series=courses,
                flags=row.flags,
                notes=row.notes,
                number=row.id,
            )
        )
    return tuple(found)


# What a trial journals builds no part of a stack, and is among the commands of the trial.
_OF_LAYERS = "layer NOT IN (SELECT text FROM workload)"


def _steps(sql: sqlite3.Connection, visits: dict[int, tuple[int, str, int]]) -> tuple[StepTime, ...]:
    return tuple(
        StepTime(visits[row.attempt][0], visits[row.attempt][1], row.layer, row.why, row.create_s, row.remove_s)
        for row in rows.fetch(
            sql,
            rows.Step,
            "SELECT attempt, layer, why, "
            "(SELECT duration_s FROM journal_state WHERE journal = journal.id AND state = 'done'), "
            "(SELECT duration_s FROM journal_state WHERE journal = journal.id AND state = 'undone') "
            f"FROM journal WHERE attempt IS NOT NULL AND {_OF_LAYERS} ORDER BY id",
        )
        if row.attempt in visits
    )


def _evidence(
    sql: sqlite3.Connection, visits: dict[int, tuple[int, str, int]], workloads: dict[int, WorkloadView]
) -> tuple[Evidence, ...]:
    """What was kept of trials without a figure, each once; no more than _MAX_EVIDENCE_CHARACTERS."""
    query = "SELECT DISTINCT attempt, workload FROM trial WHERE outcome = 'failed'"
    failed = {
        (row.attempt, _known(workloads, "workload", row.workload).text)
        for row in rows.fetch(sql, rows.Failed, query)
        if row.attempt in visits
    }
    foreign.limit_cells(sql, foreign.MAX_OUTPUT_BYTES)
    # No join: each row of one table with each row of another is more than any file of this size can hold.
    kept = rows.fetch(
        sql,
        rows.Evidence,
        "SELECT attempt, layer, argv, exit_code, substr(stdout, ?1), substr(stderr, ?1) FROM evidence ORDER BY rowid",
        (-_EVIDENCE_CHARACTERS,),
    )
    found: list[Evidence] = []
    characters = 0
    for row in kept:
        if (row.attempt, row.layer) not in failed:
            continue
        visit, stack, _ = visits[row.attempt]
        command = shlex.join(row.argv)[:_EVIDENCE_CHARACTERS]
        characters += _EVIDENCE_ROW_CHARACTERS + len(command) + len(row.stdout) + len(row.stderr)
        if characters > _MAX_EVIDENCE_CHARACTERS:
            found.append(Evidence(visit, stack, row.layer, command, row.exit_code, "", _NOT_SHOWN))
            break
        found.append(Evidence(visit, stack, row.layer, command, row.exit_code, row.stdout, row.stderr))
    return tuple(found)


def _commands(sql: sqlite3.Connection, visits: dict[int, tuple[int, str, int]]) -> dict[str, tuple[str, ...]]:
    """The commands of each stack's first visit in the order they ran: building, measuring, removing."""
    first: dict[str, int] = {}
    for attempt, (_, stack, _) in visits.items():
        first.setdefault(stack, attempt)
    found = {}
    for stack, attempt in first.items():
        query = f"SELECT do_argv, undo_argv FROM journal WHERE attempt = ? AND {_OF_LAYERS} ORDER BY id"
        built = list(rows.fetch(sql, rows.Journaled, query, (attempt,)))
        query = "SELECT argv FROM trial WHERE attempt = ? ORDER BY id"
        measured = [argv for row in rows.fetch(sql, rows.Commands, query, (attempt,)) for argv in row.argv]
        removed = [row.undo_argv for row in reversed(built) if row.undo_argv]
        found[stack] = tuple(shlex.join(argv) for argv in (*(row.do_argv for row in built), *measured, *removed))
    return found
