"""Whether stated confidence holds: whole simulated campaigns of every kind, one row for each.

    python benchmarks/calibration.py FILE.csv --campaigns 120

Adds to FILE the campaigns that it lacks, kind by kind for each seed, and prints the table of all it holds. Seeds count
from 20000.
"""

from __future__ import annotations

import argparse
import csv
import math
from dataclasses import asdict, fields
from pathlib import Path

from strata.design.simulate.kinds import KINDS, Result, campaign
from strata.design.simulate.tally import at_most

FIRST_SEED = 20_000
COLUMNS = ("kind", "seed", *(field.name for field in fields(Result)))


def rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def add(path: Path, campaigns: int) -> None:
    """Each row is written as it is made, so that a run that ends early is gone on with."""
    have = {(row["kind"], int(row["seed"])) for row in rows(path)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if not file.tell():
            writer.writeheader()
        for seed in range(FIRST_SEED, FIRST_SEED + campaigns):
            for name, kind in KINDS.items():
                if (name, seed) not in have:
                    made = asdict(campaign(kind, seed))
                    made |= {key: round(value, 4) for key, value in made.items() if isinstance(value, float)}
                    writer.writerow({"kind": name, "seed": seed, **made})
                    file.flush()


def table(found: list[dict[str, str]]) -> str:
    """In Markdown. Wrong: of the campaigns that named a best stack."""
    lines = [
        "| kind | campaigns | hours | settled | wrong at a stated 95 % | at most, at 95 % | 95 % intervals that hold |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in (*KINDS, "all of them"):
        mine = [row for row in found if name in (row["kind"], "all of them")]
        if mine:
            lines.append(_line(name, mine))
    return "\n".join(lines)


def _line(name: str, mine: list[dict[str, str]]) -> str:
    hours = math.fsum(float(row["hours"]) for row in mine) / len(mine)
    settled = [row for row in mine if row["settled"] == "True"]
    wrong = sum(row["wrong"] == "True" for row in settled)
    held = [float(row["held"]) for row in mine if row["held"] != "nan"]
    limit = f"{at_most(wrong, len(settled)):.1%}" if settled else "-"
    return (
        f"| {name} | {len(mine)} | {hours:.1f} | {len(settled)} | {wrong} ({wrong / max(len(settled), 1):.1%}) "
        f"| {limit} | {math.fsum(held) / len(held):.1%} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE.csv")
    parser.add_argument("--campaigns", type=int, default=0, metavar="N", help="of each kind (default: those in FILE)")
    given = parser.parse_args()
    add(given.file, given.campaigns)
    print(table(rows(given.file)))


if __name__ == "__main__":
    main()
