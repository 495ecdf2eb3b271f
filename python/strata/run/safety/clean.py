"""Removing whatever a run left behind: after kill -9, after a failed removal, or because its owner wants it gone."""

from __future__ import annotations

from dataclasses import dataclass

from strata.errors import UndoFailed
from strata.hosts.base import Host
from strata.run.progress import Listener, Noted, StepStarted
from strata.run.safety import journal
from strata.store.writer import Store


@dataclass(frozen=True, slots=True)
class Cleaned:
    processes: tuple[str, ...]
    undone: int


def clean(store: Store, host: Host, run_uuid: str, listener: Listener) -> Cleaned:
    """End strays, undo the journal. Raises UndoFailed (and the run stays in quarantine) when something will not go."""
    try:
        processes = tuple(host.end_strays(run_uuid))
        for process in processes:
            listener(Noted(f"ended {process}, left behind by a run that was killed"))
        undone = journal.undo(store, host, progress=lambda entry: listener(StepStarted(f"undo: {entry.why}")))
    except UndoFailed as error:
        store.add_event("quarantine", str(error), host.now())
        raise
    if undone or processes or store.quarantined():
        store.add_event("cleaned", f"undid {undone} steps and ended {len(processes)} processes", host.now())
    return Cleaned(processes, undone)
