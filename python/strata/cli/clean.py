"""strata clean"""

from __future__ import annotations

from pathlib import Path

from strata.cli import output
from strata.run.progress import Noted, Progress
from strata.run.safety import lock
from strata.run.signals import Interrupts
from strata.run.sites import testbeds
from strata.store import database, ownership, reader
from strata.store.writer import Store
from strata.units import count


def clean(directory: Path, as_json: bool) -> None:
    if database.exists(directory):
        ownership.check(directory)  # before any of it is opened
    reader.status(directory)  # refuses a directory that is not a run before anything is made in it
    interrupts = Interrupts()
    with lock.locked(directory), interrupts.listening():
        store = Store.resume(directory)
        try:
            done = testbeds.clean(store, interrupts, _tell)
        finally:
            store.close()
    if as_json:
        output.json({"version": 1, "undone": done.undone, "processes": list(done.processes)})
    elif done.undone or done.processes:
        undone, ended = count(done.undone, "step"), count(len(done.processes), "process", "processes")
        output.out(f"Undid {undone} and ended {ended}; nothing of this run is left.")
    else:
        output.out("Nothing of this run is left on this machine.")


def _tell(progress: Progress) -> None:
    if isinstance(progress, Noted):
        output.err(progress.text)
