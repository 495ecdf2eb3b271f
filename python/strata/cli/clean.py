"""strata clean"""

from __future__ import annotations

import json
from pathlib import Path

from strata.report.numbers import count
from strata.run import lock, testbeds
from strata.run.signals import Interrupts
from strata.store import database, ownership, reader
from strata.store.writer import Store


def clean(directory: Path, as_json: bool) -> None:
    if database.exists(directory):
        ownership.check(directory)  # before any of it is opened
    reader.status(directory)  # refuses a directory that is not a run before anything is made in it
    interrupts = Interrupts()
    with lock.locked(directory), interrupts.listening():
        store = Store.resume(directory)
        try:
            with interrupts.held():
                done = testbeds.clean(store, lambda progress: None)
        finally:
            store.close()
    if as_json:
        print(json.dumps({"version": 1, "undone": done.undone, "processes": list(done.processes)}, indent=2))
    elif done.undone or done.processes:
        undone, ended = count(done.undone, "step"), count(len(done.processes), "process", "processes")
        print(f"Undid {undone} and ended {ended}; nothing of this run is left.")
    else:
        print("Nothing of this run is left on this machine.")
