"""strata verify --figures"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import typer

from strata.analysis import recomputed
from strata.cli import output
from strata.errors import Refused, StoreError
from strata.store import raw, reader
from strata.units import count

_SHOWN = 20


def verify_figures(directory: Path, as_json: bool) -> None:
    """Hold every stored figure against its raw record. Exit code 1 where one differs."""
    same, different = 0, []
    untried: Counter[str] = Counter()
    held, without = 0, []
    for trial in reader.view(directory).trials:
        if not trial.metrics:
            continue
        what = f"{trial.stack}, {trial.workload}, visit {trial.visit}"
        parts = raw.read(directory, trial.number)
        if parts is None:
            without.append(what)
            continue
        try:
            found = recomputed.hold(trial, parts)
        except ValueError as error:
            raise StoreError(f"{raw.path_of(directory, trial.number)}: {error}; restore it from a copy.") from error
        held += 1
        same += found.same
        different += [f"{what}: {sentence}" for sentence in found.different]
        untried.update(found.untried)
    if not held:
        raise Refused(
            f"{directory} holds no raw record: it was made by an older Strata, its records were too large or were "
            "removed, or nothing was measured yet; its figures cannot be recomputed."
        )
    if as_json:
        plain = {
            "version": 1,
            "trials": held,
            "same": same,
            "different": different,
            "not_recomputed": dict(sorted(untried.items())),
            "without_record": without,
        }
        output.json(plain)
    else:
        output.out("\n".join(_lines(held, same, different, untried, without)))
    if different:
        raise typer.Exit(1)


def _lines(held: int, same: int, different: list[str], untried: Counter[str], without: list[str]) -> list[str]:
    lines = [f"Recomputed from raw records: {count(same, 'figure')} of {count(held, 'trial')} are the same."]
    if different:
        more = [f"  and {len(different) - _SHOWN} more"] if len(different) > _SHOWN else []
        lines += [f"NOT the same: {count(len(different), 'figure')}.", *(f"  {line}" for line in different[:_SHOWN])]
        lines += more
    if untried:
        lines.append(f"Not recomputed, since no record holds what they are made of: {', '.join(sorted(untried))}.")
    if without:
        lines.append(f"{count(len(without), 'trial')} without a raw record.")
    return lines
