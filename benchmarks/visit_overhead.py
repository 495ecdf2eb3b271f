"""What Strata adds to a visit: its whole time less that of the steps, of their removal and of the trials themselves.

    python benchmarks/visit_overhead.py [ROUNDS] [--on lab]        root, or the lab; prints seconds per visit as JSON

Counted as Strata's own: journalling, starting programs, reading the stack back before every trial, dropping caches,
sampling, storing; in the lab also resuming its machine, plugging in the disk, and throwing it away.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path


def main(rounds: int, where: str) -> None:
    strata = str(Path(sys.executable).with_name("strata"))
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        loads = ("-w", "null", "-w", "dd/seqwrite-sync(size=8M)")
        subprocess.run(
            [strata, "run", "disk | ext4", *loads, "--on", where, "--rounds", str(rounds), "--out", str(run)],
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
    print(
        json.dumps(
            {"on": where, "visits": len(own), "own_s": {name: round(value, 3) for name, value in figures.items()}}
        )
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", type=int, nargs="?", default=5)
    parser.add_argument("--on", default="local")
    options = parser.parse_args()
    main(options.rounds, options.on)
