"""strata verify"""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from strata.cli import output, watch
from strata.lab.scratch import scratch
from strata.run import verify
from strata.run.safety import lock
from strata.run.signals import Interrupts
from strata.store import reader
from strata.units import count

_SHOWN = 20


def verify_run(directory: Path, out: Path | None, jobs: int, as_json: bool) -> None:
    reader.status(directory)  # refuses what is no run before a machine is started
    interrupts = Interrupts()
    with scratch("verify") as temporary, interrupts.listening():
        again = out or temporary / "run"
        with lock.locked(again), watch.listener(again, sys.stderr) as listener:
            found, machines = verify.verify(directory, again, jobs, interrupts, listener, _say)
    if as_json:
        plain = {
            "version": 1,
            "same": found.same,
            "trials": found.trials,
            "figures": found.figures,
            "different": list(found.different),
            "machines": list(machines),
        }
        output.json(plain)
    else:
        output.out("\n".join(_lines(found.trials, found.figures, found.different, machines)))
    if not found.same:
        raise typer.Exit(1)


def _say(text: str) -> None:
    output.err(text)


def _lines(trials: int, figures: int, different: tuple[str, ...], machines: tuple[str, ...]) -> list[str]:
    if not different:
        lines = [f"Bit-identical: {count(figures, 'figure')} of {count(trials, 'trial')}."]
    else:
        more = [f"  and {len(different) - _SHOWN} more"] if len(different) > _SHOWN else []
        shown = [f"  {sentence}" for sentence in different[:_SHOWN]]
        lines = [f"NOT the same: {len(different)} of {figures} figures differ.", *shown, *more]
    if machines:
        lines += ["The machines were not the same:", *(f"  {machine}" for machine in machines)]
    return lines
