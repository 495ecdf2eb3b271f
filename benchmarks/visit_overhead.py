"""What Strata adds to a visit: its whole time less that of the steps, of their removal and of the trials themselves.

    python benchmarks/visit_overhead.py [ROUNDS]        root; prints seconds per visit as JSON

Counted as Strata's own: journalling, starting programs, reading the stack back before every trial, dropping caches,
sampling, storing.
"""

from __future__ import annotations

import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path


def main(rounds: int) -> None:
    strata = str(Path(sys.executable).with_name("strata"))
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        loads = ("-w", "null", "-w", "dd/seqwrite-sync(size=8M)")
        subprocess.run(
            [strata, "run", "disk | ext4", *loads, "--rounds", str(rounds), "--out", str(run)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        with sqlite3.connect(run / "strata.db") as sql:
            visits = sql.execute(
                """SELECT ending.at - attempt.at,
                     (SELECT sum(duration_s) FROM journal JOIN journal_state ON journal_state.journal = journal.id
                      WHERE journal.attempt = attempt.id),
                     (SELECT sum(wall_s) FROM trial WHERE trial.attempt = attempt.id)
                   FROM attempt JOIN ending ON ending.attempt = attempt.id"""
            ).fetchall()
    own = [whole - steps - trials for whole, steps, trials in visits]
    figures = {"min": min(own), "median": statistics.median(own), "max": max(own)}
    print(json.dumps({"visits": len(own), "own_s": {name: round(value, 3) for name, value in figures.items()}}))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
