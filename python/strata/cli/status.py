"""strata status"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from textwrap import indent

from strata.cli import output
from strata.run.safety import lock
from strata.store import reader
from strata.units import count


def status(directory: Path, as_json: bool) -> None:
    now = reader.status(directory)
    running = lock.held(directory)
    if as_json:
        output.json({"version": 1, "running": running, **asdict(now)})
        return
    state = "running now" if running else "not running"
    output.out(f"{now.name}: {now.visits_done} of {count(now.visits_planned, 'visit')} done, {state}")
    if now.decision:
        output.out(now.decision)
    if now.losses:
        output.out(f"{count(now.losses, 'attempt')} lost with the machine; the report says how.")
    if now.quarantined:
        output.out(f"In quarantine, run `strata clean {directory}`:\n{indent(now.quarantined, '  ')}")
    elif now.left_behind and not running:
        output.out(f"A killed run left {count(now.left_behind, 'thing')} behind; run `strata clean {directory}`.")
    if not running and now.visits_done < now.visits_planned:
        output.out("The same command continues from here.")
