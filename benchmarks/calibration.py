"""Whether stated confidence holds: whole simulated campaigns of every kind, one row for each.

    python -m benchmarks.calibration FILE.csv --campaigns 120

Adds to FILE the campaigns that it lacks, kind by kind for each seed, and prints the table of all it holds. Seeds count
from 20000.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections import Counter
from dataclasses import asdict, fields
from pathlib import Path

from benchmarks.research.simulate.kinds import KINDS, Result, campaign
from benchmarks.research.simulate.tally import at_most

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
    limit = f"{_limit(settled):.1%}" if settled else "-"
    return (
        f"| {name} | {len(mine)} | {hours:.1f} | {len(settled)} | {wrong} ({wrong / max(len(settled), 1):.1%}) "
        f"| {limit} | {math.fsum(held) / len(held):.1%} |"
    )


def _limit(settled: list[dict[str, str]]) -> float:
    """The upper limit, at 95 %, of the rate of errors.

    Campaigns of one seed share their stacks and much of their noise and err together, so over several kinds the seeds
    are what is independent: a normal limit of the ratio, with the spread over them.
    """
    wrong, of_seed = Counter[str](), Counter(row["seed"] for row in settled)
    for row in settled:
        wrong[row["seed"]] += row["wrong"] == "True"
    if max(of_seed.values()) == 1:
        return at_most(wrong.total(), len(settled))
    rate = wrong.total() / len(settled)
    square = math.fsum((wrong[seed] - rate * count) ** 2 for seed, count in of_seed.items())
    return rate + 1.645 * math.sqrt(square * len(of_seed) / (len(of_seed) - 1)) / len(settled)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE.csv")
    parser.add_argument("--campaigns", type=int, default=0, metavar="N", help="of each kind (default: those in FILE)")
    given = parser.parse_args()
    add(given.file, given.campaigns)
    print(table(rows(given.file)))


if __name__ == "__main__":
    main()
