"""strata status"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from strata.run import lock
from strata.store import reader


def status(directory: Path, as_json: bool) -> None:
    now = reader.status(directory)
    running = lock.held(directory)
    if as_json:
        print(json.dumps({"version": 1, "running": running, **asdict(now)}, indent=2))
        return
    state = "running now" if running else "not running"
    print(f"{now.name}: {now.visits_done} of {now.visits_planned} visits done, {state}")
    if now.decision:
        print(now.decision)
    if now.losses:
        print(f"{now.losses} attempts were lost with their machine; the report says how.")
    if now.quarantined:
        print(f"In quarantine, run `strata clean {directory}`:\n{now.quarantined}")
    elif now.left_behind and not running:
        print(f"A killed run left {now.left_behind} things behind; `strata clean {directory}` removes them.")
    if not running and now.visits_done < now.visits_planned:
        print("The same command goes on from here.")
