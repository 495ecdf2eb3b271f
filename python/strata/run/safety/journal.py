"""Steps that leave a trace before they start, and the undoing of whatever a trace says may be there."""

from __future__ import annotations

import time
from collections.abc import Callable

from strata.errors import CommandFailed, CommandTimedOut, NoRoom, UndoFailed, VisitFailed
from strata.hosts.base import Host
from strata.model import Command, Step
from strata.store.writer import Store, Undo

# Programs that were just ended may hold a mount or device for a moment longer.
_UNDO_TRIES = 4
_UNDO_PAUSE_S = 0.25


def carry_out(store: Store, host: Host, attempt: int, layer: str, step: Step) -> None:
    """Journal the step, then do it. Raises VisitFailed when it fails; its undo stays journaled either way."""
    entry = store.journal(attempt, layer, step.why, step.do, step.undo, host.now())
    try:
        done = host.run(step.do)
    except VisitFailed as error:
        store.settle(entry, "failed", None, host.now(), str(error))
        raise
    store.settle(entry, "done", done.duration_s, host.now())


def undo(
    store: Store,
    host: Host,
    attempt: int | None = None,
    *,
    cause: str | None = None,
    progress: Callable[[Undo], None] = lambda entry: None,
) -> int:
    """Undo what is journaled, newest first: of one attempt, or of the whole run. Returns how many undos ran.

    An attempt of which anything is left is undone from its newest step on, whatever was undone of it before.
    Where an undo fails, the older ones of the same attempt are left alone, for they carry what is still there.
    Raises UndoFailed with every failure; a later call tries again.
    """
    failures: list[str] = []
    stuck: set[int | None] = set()
    count = 0
    unwritten: list[tuple[int, float]] = []
    for entry in store.to_undo(attempt):
        if entry.attempt in stuck:
            continue
        progress(entry)
        try:
            duration_s = tried(host, entry.undo)
        except VisitFailed as error:
            store.settle(entry.journal, "undo_failed", None, host.now(), str(error))
            stuck.add(entry.attempt)
            failures.append(f"undoing '{entry.why}': {error}")
        else:
            count += 1
            try:
                store.settle(entry.journal, "undone", duration_s, host.now())
            except NoRoom:
                # The undos still to come make room; and one that is not noted as undone can be undone again.
                unwritten.append((entry.journal, duration_s))
    for journal, duration_s in unwritten:
        store.settle(journal, "undone", duration_s, host.now())
    if failures:
        raise UndoFailed(failures, cause)
    return count


def tried(host: Host, undo: Command) -> float:
    """Seconds that it took. What is busy for a moment is tried again. Raises CommandFailed."""
    for tries_left in reversed(range(_UNDO_TRIES)):
        try:
            return host.run(undo).duration_s
        except CommandFailed as error:
            # What hung once would only hang again, and signals wait meanwhile.
            if not tries_left or isinstance(error, CommandTimedOut):
                raise
            time.sleep(_UNDO_PAUSE_S)
    raise AssertionError("unreachable")
