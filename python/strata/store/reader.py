"""Everything stored about one run as a frozen View; also while the run goes on."""

from __future__ import annotations

import json
import shlex
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from strata.errors import StoreError
from strata.model import (
    Disk,
    Event,
    Evidence,
    Facts,
    FailedVisit,
    Loss,
    Metric,
    Outcome,
    Skipped,
    StepTime,
    TrialResult,
    View,
    WorkloadView,
)
from strata.store import database, samples
from strata.store.encoding import decode_facts, decode_testbed

# Of each text that a failed trial left: the end, where programs say what went wrong.
_EVIDENCE_CHARACTERS = 2000

_LAST_DECISION = "SELECT text FROM event WHERE kind = 'decision' ORDER BY id DESC LIMIT 1"

# What moved at the disks, for workloads that have no series of their own.
_DISK_SERIES = ("disk.read_bytes", "disk.write_bytes")


@dataclass(frozen=True, slots=True)
class Status:
    """Where a run stands, cheap to ask for."""

    name: str
    uuid: str
    visits_planned: int
    visits_done: int
    visits_cut_off: int  # begun, neither ended nor lost: being measured now, or killed
    losses: int  # attempts that ended with their machine
    left_behind: int  # journaled things not undone yet
    quarantined: str | None
    decision: str | None  # the last one, a sentence; None before the first


def status(directory: Path) -> Status:
    with closing(database.open_reader(directory)) as sql:
        return _status(sql)


def _status(sql: sqlite3.Connection) -> Status:
    name, uuid = _one(sql, "SELECT name, uuid FROM run")
    done = _one(sql, "SELECT count(DISTINCT attempt.visit) FROM ending JOIN attempt ON attempt.id = attempt")[0]
    cut_off = _one(
        sql,
        "SELECT count(*) FROM attempt "
        "WHERE id NOT IN (SELECT attempt FROM ending) AND id NOT IN (SELECT attempt FROM lost)",
    )[0]
    left = _one(
        sql,
        "SELECT count(*) FROM journal WHERE undo_argv IS NOT NULL "
        f"AND coalesce({database.LAST_STATE}, '') NOT IN ('undone', 'discarded')",
    )[0]
    return Status(
        name,
        uuid,
        _visits_planned(sql),
        done,
        cut_off,
        _one(sql, "SELECT count(*) FROM lost")[0],
        left,
        database.quarantine(sql),
        next((text for (text,) in sql.execute(_LAST_DECISION)), None),
    )


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
    with closing(database.open_reader(directory)) as sql:
        row = sql.execute("SELECT source, description FROM run").fetchone()
    if row is None:
        raise StoreError(f"{directory} holds a run that never began; start it again with `strata run`.")
    return Written(row[0], json.loads(row[1]))


def view(directory: Path, *, series: bool = False) -> View:
    """Raises StoreError when there is no run, or one whose plan was never stored.

    `series`: all that only a whole report shows: the 1 s series of the workloads' metrics and of the disks from the
    sample files, and what the programs of failed trials said.
    """
    with closing(database.open_reader(directory)) as sql:
        # one read transaction: a picture of one moment, though a run may be writing
        sql.execute("BEGIN")
        return _view(sql, directory, series)


def _view(sql: sqlite3.Connection, directory: Path, series: bool) -> View:
    row = sql.execute("SELECT name, about, seed, strata, testbed, description FROM run").fetchone()
    rule = database.rule(sql)
    if row is None or rule is None:
        raise StoreError(f"{directory} holds a run that never began; start it again with `strata run`.")
    name, about, seed, version, testbed, description = row
    stacks = dict(sql.execute("SELECT id, text FROM stack ORDER BY id"))
    workloads = _workloads(sql)
    facts_id, facts, versions = _facts(sql)
    unable = _unable(sql, facts_id, stacks)
    visits = {
        attempt: (visit, stacks[stack], round_)
        for attempt, visit, stack, round_ in sql.execute(
            "SELECT attempt.id, visit.id, visit.stack, visit.round FROM attempt "
            "JOIN visit ON visit.id = attempt.visit JOIN ending ON ending.attempt = attempt.id ORDER BY attempt.id"
        )
    }
    visited = {stack for _, stack, _ in visits.values()}
    return View(
        campaign=name,
        profile=json.loads(description).get("profile"),
        about=about,
        seed=seed,
        rule=rule,
        stacks=tuple(stacks.values()),
        workloads=tuple(workloads.values()),
        trials=_trials(sql, directory, visits, workloads, series),
        steps=_steps(sql, visits),
        skipped=tuple(skip for skip in unable if skip.stack not in visited),
        halted=tuple(skip for skip in unable if skip.stack in visited),
        failed=tuple(
            FailedVisit(*visits[attempt], failure)
            for attempt, failure in sql.execute(
                "SELECT attempt, failure FROM ending WHERE failure IS NOT NULL ORDER BY attempt"
            )
        ),
        events=tuple(Event(*event) for event in sql.execute("SELECT at, kind, text FROM event ORDER BY id")),
        visits_planned=_visits_planned(sql),
        visits_done=len(visits),
        facts=facts,
        versions={"strata": version, **versions},
        commands=_commands(sql, visits),
        disks=tuple(
            Disk(*disk)
            for disk in sql.execute("SELECT role, size_bytes, device, model, write_cache FROM disk ORDER BY position")
        ),
        machine_metrics={
            metric.name: metric
            for metric in (
                Metric(*m)
                for m in sql.execute(
                    "SELECT name, unit, better, about FROM metric WHERE workload IS NULL ORDER BY rowid"
                )
            )
        },
        testbed=decode_testbed(testbed),
        losses=tuple(
            Loss(visit, stacks[stack], round_, reason, console)
            for visit, stack, round_, reason, console in sql.execute(
                "SELECT visit.id, visit.stack, visit.round, lost.reason, lost.console FROM lost "
                "JOIN attempt ON attempt.id = lost.attempt JOIN visit ON visit.id = attempt.visit ORDER BY attempt.id"
            )
        ),
        evidence=_evidence(sql, visits) if series else (),
        factors={text: json.loads(factors) for text, factors in sql.execute("SELECT text, factors FROM stack")},
        open_visits=tuple(
            (number, stacks[stack])
            for number, stack in sql.execute(
                "SELECT round, stack FROM visit WHERE id NOT IN (SELECT attempt.visit FROM attempt "
                "JOIN ending ON ending.attempt = attempt.id) ORDER BY id"
            )
        ),
    )


def _one(sql: sqlite3.Connection, query: str) -> tuple[Any, ...]:
    row = sql.execute(query).fetchone()
    if row is None:
        raise StoreError("this run never began; start it again with `strata run`.")
    return tuple(row)


def _visits_planned(sql: sqlite3.Connection) -> int:
    """Of every stack that can run as many as the rule has rounds, or as there are already if that is more; of one
    that cannot run any more, those that ended. A rule that learns plans no more than the batch it asked for last."""
    rule = database.rule(sql)
    if rule is not None and rule.design != "rounds":
        return int(
            _one(
                sql,
                "SELECT count(*) FROM visit WHERE at = (SELECT max(at) FROM visit) "
                "OR id IN (SELECT attempt.visit FROM attempt JOIN ending ON ending.attempt = attempt.id)",
            )[0]
        )
    rounds = 0 if rule is None else rule.rounds
    unable = set(sql.execute("SELECT stack FROM skip WHERE facts = (SELECT max(id) FROM facts)"))
    visits = dict(sql.execute("SELECT stack, count(*) FROM visit GROUP BY stack"))
    ended = dict(
        sql.execute(
            "SELECT stack, count(DISTINCT visit.id) FROM ending JOIN attempt ON attempt.id = ending.attempt "
            "JOIN visit ON visit.id = attempt.visit GROUP BY stack"
        )
    )
    stacks = sql.execute("SELECT id FROM stack").fetchall()
    return sum(ended.get(id_, 0) if (id_,) in unable else max(rounds, visits.get(id_, 0)) for (id_,) in stacks)


def _workloads(sql: sqlite3.Connection) -> dict[int, WorkloadView]:
    found = {}
    for id_, text, name, primary in sql.execute("SELECT id, text, name, primary_metric FROM workload ORDER BY id"):
        metrics = {
            row[0]: Metric(*row)
            for row in sql.execute(
                "SELECT name, unit, better, about FROM metric WHERE workload = ? ORDER BY rowid", (id_,)
            )
        }
        found[id_] = WorkloadView(text, name, metrics[primary], metrics)
    return found


def _facts(sql: sqlite3.Connection) -> tuple[int | None, Facts | None, dict[str, str]]:
    row = sql.execute("SELECT id, facts, versions FROM facts ORDER BY id DESC LIMIT 1").fetchone()
    if row is None:
        return None, None, {}
    # What was measured before still stands beside its own caveats.
    every = [decode_facts(text) for (text,) in sql.execute("SELECT facts FROM facts ORDER BY id")]
    caveats = tuple(dict.fromkeys(caveat for facts in every for caveat in facts.caveats))
    return row[0], replace(every[-1], caveats=caveats), json.loads(row[2])


def _unable(sql: sqlite3.Connection, facts: int | None, stacks: dict[int, str]) -> tuple[Skipped, ...]:
    """What could not run when the machine was last looked at."""
    reasons: dict[int, list[str]] = {}
    for stack, reason in sql.execute("SELECT stack, reason FROM skip WHERE facts = ? ORDER BY rowid", (facts,)):
        reasons.setdefault(stack, []).append(reason)
    return tuple(Skipped(stacks[stack], tuple(why)) for stack, why in reasons.items())


def _trials(
    sql: sqlite3.Connection,
    directory: Path,
    visits: dict[int, tuple[int, str, int]],
    workloads: dict[int, WorkloadView],
    series: bool,
) -> tuple[TrialResult, ...]:
    figures: dict[int, dict[str, float]] = {}
    for trial, metric, value in sql.execute("SELECT trial, metric, value FROM figure ORDER BY rowid"):
        figures.setdefault(trial, {})[metric] = value
    positions = {attempt: position for position, attempt in enumerate(visits)}
    return tuple(
        TrialResult(
            visit=visits[attempt][0],
            stack=visits[attempt][1],
            round=visits[attempt][2],
            order=positions[attempt],
            workload=workloads[workload].text,
            outcome=Outcome(outcome),
            reason=reason,
            started_at=at,
            wall_s=wall_s,
            metrics=figures.get(trial, {}),
            series=samples.read(directory, trial, (*workloads[workload].metrics, *_DISK_SERIES)) if series else {},
            flags=tuple(json.loads(flags)),
            notes=tuple(json.loads(notes)),
        )
        for trial, attempt, workload, outcome, reason, at, wall_s, flags, notes in sql.execute(
            "SELECT id, attempt, workload, outcome, reason, at, wall_s, flags, notes FROM trial ORDER BY id"
        )
        if attempt in visits
    )


def _steps(sql: sqlite3.Connection, visits: dict[int, tuple[int, str, int]]) -> tuple[StepTime, ...]:
    return tuple(
        StepTime(visits[attempt][0], visits[attempt][1], layer, why, create_s, remove_s)
        for attempt, layer, why, create_s, remove_s in sql.execute(
            "SELECT attempt, layer, why, "
            "(SELECT duration_s FROM journal_state WHERE journal = journal.id AND state = 'done'), "
            "(SELECT duration_s FROM journal_state WHERE journal = journal.id AND state = 'undone') "
            "FROM journal WHERE attempt IS NOT NULL ORDER BY id"
        )
        if attempt in visits
    )


def _evidence(sql: sqlite3.Connection, visits: dict[int, tuple[int, str, int]]) -> tuple[Evidence, ...]:
    """What was kept of trials without a figure."""
    return tuple(
        Evidence(visits[attempt][0], visits[attempt][1], text, shlex.join(json.loads(argv)), exit_code, stdout, stderr)
        for attempt, text, argv, exit_code, stdout, stderr in sql.execute(
            "SELECT evidence.attempt, workload.text, evidence.argv, evidence.exit_code, "
            "substr(evidence.stdout, ?1), substr(evidence.stderr, ?1) FROM evidence "
            "JOIN trial ON trial.attempt = evidence.attempt JOIN workload ON workload.id = trial.workload "
            "WHERE workload.text = evidence.layer AND trial.outcome = 'failed' ORDER BY evidence.rowid",
            (-_EVIDENCE_CHARACTERS,),
        )
        if attempt in visits
    )


def _commands(sql: sqlite3.Connection, visits: dict[int, tuple[int, str, int]]) -> dict[str, tuple[str, ...]]:
    """The commands of each stack's first visit in the order they ran: building, measuring, removing."""
    first: dict[str, int] = {}
    for attempt, (_, stack, _) in visits.items():
        first.setdefault(stack, attempt)
    found = {}
    for stack, attempt in first.items():
        built = sql.execute(
            "SELECT do_argv, undo_argv FROM journal WHERE attempt = ? ORDER BY id", (attempt,)
        ).fetchall()
        measured = sql.execute("SELECT argv FROM trial WHERE attempt = ? ORDER BY id", (attempt,)).fetchall()
        trials = [argv for (row,) in measured for argv in json.loads(row)]
        removed = [json.loads(undo) for _, undo in reversed(built) if undo]
        commands = [*(json.loads(do) for do, _ in built), *trials, *removed]
        found[stack] = tuple(shlex.join(argv) for argv in commands)
    return found
