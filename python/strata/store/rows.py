"""Rows of a database that somebody else may have made, checked and typed.

SQLite keeps any value in any column, whatever the schema says. Every row that is read passes one of the types below,
so all that comes after may trust its kinds and ranges: texts are text, figures are finite, times can be shown as dates.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar, get_type_hints

from pydantic import AfterValidator, Field, Json, Strict, TypeAdapter, ValidationError

from strata.model import LARGEST_FIGURE, Design, Outcome, WriteCache
from strata.store.encoding import BadRow

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

# 10,000 trials leave about a million figures and 200,000 steps.
_MAX_ROWS = 500_000
_MAX_FIGURES = 4_000_000
_MAX_TEXT_BYTES = 1 << 30  # of all rows of one query
_ROWS_AT_ONCE = 1000

_YEAR_10000_S = 253_402_300_800.0


def _not_tiny(value: float) -> float:
    return 0.0 if abs(value) < 1 / LARGEST_FIGURE else value


def _on_one_line(name: str) -> str:
    """A second line of a name would pass for a line of what is printed; what else hides is escaped where it is shown,
    so that what the name stands for, such as a file, keeps its name until then."""
    return name.replace("\n", "\\n").replace("\t", "\\t")


Id = Annotated[int, Strict(), Field(ge=0)]
Count = Annotated[int, Strict(), Field(ge=0)]
Number = Annotated[int, Strict()]
Text = Annotated[str, Strict(), Field(max_length=16 << 20)]
Name = Annotated[str, Strict(), Field(max_length=100_000), AfterValidator(_on_one_line)]
Real = Annotated[float, Strict(), Field(allow_inf_nan=False)]
UnixTime = Annotated[Real, Field(ge=0, lt=_YEAR_10000_S)]
Seconds = Annotated[Real, Field(ge=0, le=1e12)]
Value = Annotated[Real, Field(ge=-LARGEST_FIGURE, le=LARGEST_FIGURE), AfterValidator(_not_tiny)]
Round = Annotated[int, Strict(), Field(ge=0, lt=1_000_000)]
Texts = Json[tuple[str, ...]]
Argv = Json[tuple[str, ...]]
Argvs = Json[tuple[tuple[str, ...], ...]]
Names = Json[dict[str, str]]


class Counted(NamedTuple):
    number: Count


class OfStack(NamedTuple):
    stack: Id
    number: Count


class Identity(NamedTuple):
    name: Name
    uuid: Name


class Source(NamedTuple):
    source: Text
    description: Text


class Run(NamedTuple):
    name: Name
    about: Text
    seed: Annotated[int, Strict(), Field(ge=0)]
    strata: Name
    testbed: Text
    description: Text


class Rule(NamedTuple):
    rounds: Round
    within: Annotated[Real, Field(gt=0, lt=1)]
    confidence: Annotated[Real, Field(ge=0.5, lt=1)]
    budget_s: Annotated[Seconds, Field(gt=0)] | None
    design: Design
    certify: Literal[0, 1]
    objective: Text


class Stack(NamedTuple):
    id: Id
    text: Name
    factors: Names


class Workload(NamedTuple):
    id: Id
    text: Name
    name: Name
    primary_metric: Name


class Metric(NamedTuple):
    name: Name
    unit: Name
    better: Literal["higher", "lower", "neither"]
    about: Text


class Facts(NamedTuple):
    id: Id
    facts: Text
    versions: Names


class Skip(NamedTuple):
    stack: Id
    reason: Text


class Disk(NamedTuple):
    position: Number
    role: Name
    size_bytes: Count
    device: Name | None
    model: Name | None
    write_cache: WriteCache | None


class Visit(NamedTuple):
    id: Id
    stack: Id
    round: Round


class Ended(NamedTuple):
    """An attempt that counts."""

    attempt: Id
    visit: Id
    stack: Id
    round: Round
    failure: Text | None


class Lost(NamedTuple):
    visit: Id
    stack: Id
    round: Round
    reason: Text
    console: Text


class Step(NamedTuple):
    attempt: Id
    layer: Name
    why: Text
    create_s: Seconds | None
    remove_s: Seconds | None


class Journaled(NamedTuple):
    do_argv: Argv
    undo_argv: Argv | None


class Commands(NamedTuple):
    argv: Argvs


class Failed(NamedTuple):
    """The workload of an attempt that gave no figure."""

    attempt: Id
    workload: Id


class Evidence(NamedTuple):
    attempt: Id
    layer: Name  # or workload
    argv: Argv
    exit_code: Number
    stdout: Text
    stderr: Text


class Trial(NamedTuple):
    id: Id
    attempt: Id
    workload: Id
    outcome: Outcome
    reason: Text | None
    at: UnixTime
    wall_s: Seconds | None
    flags: Texts
    notes: Texts


class Figure(NamedTuple):
    trial: Id
    metric: Name
    value: Value


class Event(NamedTuple):
    at: UnixTime
    kind: Name
    text: Text


T = TypeVar("T", bound=tuple[Any, ...])


def fetch(sql: sqlite3.Connection, row: type[T], query: str, parameters: tuple[object, ...] = ()) -> Iterator[T]:
    """The rows of a query, each a `row`. Raises BadRow with the first value that is not what belongs there."""
    check = _check_of(row)
    max_rows = _MAX_FIGURES if row is Figure else _MAX_ROWS
    cursor = sql.execute(query, parameters)
    count, text_bytes = 0, 0
    while batch := cursor.fetchmany(_ROWS_AT_ONCE):
        text_bytes += sum(len(cell) for cells in batch for cell in cells if isinstance(cell, str | bytes))
        count += len(batch)
        if count > max_rows or text_bytes > _MAX_TEXT_BYTES:
            raise BadRow(
                f"this run has more than {max_rows} rows or {_MAX_TEXT_BYTES >> 20} MiB of the kind {_kind(row)}, "
                "which is more than Strata reads; restore it from a copy."
            )
        try:
            checked = check.validate_python(batch)
        except ValidationError as error:
            raise BadRow(_sentence(row, error.errors(include_url=False)[0])) from error
        for cells in checked:
            yield row(*cells)


def one(sql: sqlite3.Connection, row: type[T], query: str, parameters: tuple[object, ...] = ()) -> T | None:
    """The first row."""
    return next(fetch(sql, row, query, parameters), None)


@cache
def _check_of(row: type[tuple[Any, ...]]) -> TypeAdapter[list[Any]]:
    # As a tuple: the place of a wrong value is then a number, whatever its row.
    kinds = get_type_hints(row, include_extras=True).values()
    return TypeAdapter(list[tuple[*kinds]])  # type: ignore[valid-type]


def _kind(row: type[tuple[Any, ...]]) -> str:
    return row.__name__.lower()


def _sentence(row: type[tuple[Any, ...]], problem: ErrorDetails) -> str:
    fields: tuple[str, ...] = getattr(row, "_fields", ())
    place = problem["loc"]
    column = fields[int(place[1])] if len(place) > 1 else "shape"
    value = ascii(problem.get("input"))
    value = value if len(value) <= 60 else f"{value[:60]}..."
    why = problem["msg"][:1].lower() + problem["msg"][1:]
    return (
        f"this run holds a value that Strata does not write: {_kind(row)}.{column} is {value} ({why}); restore "
        "the run from a copy, or run the campaign again."
    )
