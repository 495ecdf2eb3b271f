"""The feature tables that systems print of their backends, as data. Claims, and never measurements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ruamel.yaml import YAML


@dataclass(frozen=True, slots=True)
class Row:
    """What a table says of one feature."""

    printed: str  # as the table calls it
    feature: str | None  # as it is called here; None: nothing here tries it
    untried: str  # why not
    says: Mapping[str, bool]  # of each backend
    only: Mapping[str, re.Pattern[str]]  # backend -> of which of its stacks, by their texts; not here: all


@dataclass(frozen=True, slots=True)
class Table:
    system: str
    version: str
    source: str
    backends: Mapping[str, tuple[re.Pattern[str], ...]]  # which stacks, by their texts, are one
    conditions: Mapping[str, str]  # what else the same documents say of a backend
    rows: tuple[Row, ...]

    def backend_of(self, stack: str) -> str | None:
        """The first that this stack is like."""
        return next((name for name, like in self.backends.items() if any(each.search(stack) for each in like)), None)


@dataclass(frozen=True, slots=True)
class Printed:
    """What a table says of one feature of the backend that a stack is like."""

    system: str
    backend: str
    printed: str
    feature: str
    holds: bool
    condition: str
    source: str


@cache
def tables() -> tuple[Table, ...]:
    data = YAML(typ="safe").load((files(__package__) / "data" / "tables.yaml").read_text())
    return tuple(_table(each) for each in data)


def printed_of(stack: str) -> Iterator[Printed]:
    """All that the tables say of a stack, by its canonical text, in their order."""
    for table in tables():
        backend = table.backend_of(stack)
        for row in table.rows:
            if backend is None or row.feature is None or backend not in row.says:
                continue
            only = row.only.get(backend)
            if only is None or only.search(stack):
                yield Printed(
                    f"{table.system} {table.version}",
                    backend,
                    row.printed,
                    row.feature,
                    row.says[backend],
                    table.conditions.get(backend, ""),
                    table.source,
                )


def _table(data: Mapping[str, Any]) -> Table:
    return Table(
        data["system"],
        data["version"],
        data["source"],
        {name: tuple(re.compile(each) for each in like) for name, like in data["backends"].items()},
        dict(data["conditions"]),
        tuple(map(_row, data["features"])),
    )


def _row(data: Mapping[str, Any]) -> Row:
    return Row(
        data["printed"],
        data["feature"],
        data.get("untried", ""),
        {backend: _yes(said) for backend, said in data["says"].items()},
        {backend: re.compile(like) for backend, like in data.get("only", {}).items()},
    )


def _yes(said: object) -> bool:
    # YAML 1.2 reads yes and no as words.
    if said not in ("yes", "no", True, False):
        raise ValueError(f"a table says yes or no, and not {said!r}")
    return said in ("yes", True)
