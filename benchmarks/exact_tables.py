"""Prints the tables of docs/concepts/exact.md from the figures that are kept beside it, or puts them into the page.

    python benchmarks/exact_tables.py                 prints each table
    python benchmarks/exact_tables.py --write         replaces what stands between the page's markers

A table of the page stands between `<!-- table: NAME -->` and `<!-- end -->`; tests/unit/house/test_exact_tables.py
holds the page to the figures.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean, stdev

import polars as pl
from scipy.stats import t as student

PAGE = Path(__file__).resolve().parent.parent / "docs" / "concepts" / "exact.md"
FIGURES = PAGE.parent / "exact"
SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq")
_MARKED = re.compile(r"(<!-- table: ([a-z0-9-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="into the page")
    if parser.parse_args(argv).write:
        PAGE.write_text(filled(PAGE.read_text()))
        return 0
    for name, table in TABLES.items():
        print(f"{name}:\n\n{table()}")
    return 0


def filled(page: str) -> str:
    """Replace what stands between the markers. Raises KeyError for a table that nobody makes."""
    return _MARKED.sub(lambda marked: f"{marked[1]}{TABLES[marked[2]]()}{marked[3]}", page)


def hundred() -> str:
    """IOPS of each file system under each scheduler, by their geometric mean; one seed."""
    data = pl.read_parquet(FIGURES / "hundred.parquet")
    cells: dict[str, dict[str, float]] = {}
    for row in data.to_dicts():
        cells.setdefault(row["factor: fs"], {})[row["factor: scheduler"]] = exp(row["value"])
    means = {fs: exp(fmean(map(log, by.values()))) for fs, by in cells.items()}
    rows = [
        [f"`{fs}`", *(f"{cells[fs][scheduler]:.1f}" for scheduler in SCHEDULERS), f"{means[fs]:.1f}"]
        for fs in sorted(cells, key=lambda fs: -means[fs])
    ]
    columns = [exp(fmean(log(by[scheduler]) for by in cells.values())) for scheduler in SCHEDULERS]
    rows.append(["geometric mean", *(f"{column:.1f}" for column in columns), ""])
    return _table(["IOPS", *SCHEDULERS, "geometric mean"], rows)


def kernels() -> str:
    """Means of both kernels, and the ratio seed by seed with its 95 % interval by t of the logarithms."""
    data = pl.read_parquet(FIGURES / "kernels.parquet")
    loads = [name for name in data.columns if re.search(r"\((IOPS|1/s)\)$", name)]
    cells: dict[str, dict[str, list[Mapping[str, float]]]] = {}
    for row in data.sort("round").to_dicts():
        stack = row["stack"].removesuffix(f" | {row['factor: kernel']}").removeprefix("4*hdd | ")
        cells.setdefault(stack, {}).setdefault(row["factor: kernel"], []).append(row)
    rows = []
    for stack in sorted(cells):
        cell = [f"`{stack}`"]
        for load in loads:
            old, new = ([row[load] for row in cells[stack][f"kernel({version})"]] for version in ("6.1", "6.12"))
            cell += [
                f"{fmean(old):,.1f}",
                f"{fmean(new):,.1f}",
                _ratio([log(b / a) for a, b in zip(old, new, strict=True)]),
            ]
        rows.append(cell)
    titles = [part for load in loads for part in (f"{load.partition('(')[0]}: 6.1", "6.12", "ratio")]
    return _table(["stack on `4*hdd`", *titles], rows)


def study_2016() -> str:
    """Figures of the stacks, and their ratio to XFS."""
    data = pl.read_parquet(FIGURES / "study-2016.parquet")
    loads = [name for name in data.columns if re.search(r"\((IOPS|MiB/s)\)$", name)]
    by_stack = {row["stack"].removeprefix("disk | partition | "): row for row in data.to_dicts()}
    rows = []
    for stack, row in sorted(by_stack.items(), key=lambda item: -item[1][loads[0]]):
        cell = [f"`{stack}`"]
        for load in loads:
            cell += [f"{row[load]:,.1f}", f"{row[load] / by_stack['xfs(noatime)'][load]:.3f}"]
        rows.append(cell)
    titles = [part for load in loads for part in (_short(load), "to XFS")]
    return _table(["stack on `disk \\| partition`", *titles], rows)


def _short(load: str) -> str:
    workload, _, metric = load.rpartition(", ")
    return f"{workload.partition('(')[0]}, {metric}"


def _ratio(logs: Sequence[float]) -> str:
    half = float(student.ppf(0.975, len(logs) - 1)) * stdev(logs) / sqrt(len(logs))
    low, high = exp(fmean(logs) - half), exp(fmean(logs) + half)
    text = f"{exp(fmean(logs)):.3f} ({low:.3f} to {high:.3f})"
    return text if low <= 1 <= high else f"**{text}**"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace(" | ", " \\| ") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


TABLES: Mapping[str, Callable[[], str]] = {"hundred": hundred, "kernels": kernels, "study-2016": study_2016}


if __name__ == "__main__":
    sys.exit(main())
