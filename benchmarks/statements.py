"""What the verdict states of recorded campaigns, by the present rules.

    python benchmarks/statements.py [--design rounds|race|adaptive] [--within 3%] FILE.parquet ...

FILE is a data set of `benchmarks.research.dataset`. Its visits are taken as they are, whichever design chose them.
"""

from __future__ import annotations

import argparse
import math
import re
from pathlib import Path
from typing import get_args

import polars as pl

from strata.analysis.modelled import ranking
from strata.model import Design, Metric, Outcome, Rule, TrialResult, View, WorkloadView
from strata.units import parse_percent

_FIGURE = re.compile(r"(?P<workload>.*), (?P<metric>\w+) \((?P<unit>.*)\)")
_LOWER = re.compile(r"duration|time|latency|_ms$|_s$")


def view_of(path: Path, rule: Rule) -> View:
    data = pl.read_parquet(path)
    columns = {name: found for name in data.columns if (found := _FIGURE.fullmatch(name))}
    # A data set of an early version has the score alone.
    if not columns:
        data = data.with_columns(pl.col("value").exp().alias("all, score ()"))
        columns = {"all, score ()": _FIGURE.fullmatch("all, score ()")}  # type: ignore[dict-item]
    loads = []
    for found in columns.values():
        better = "lower" if _LOWER.search(found["metric"]) else "higher"
        metric = Metric(found["metric"], found["unit"], better)  # type: ignore[arg-type]
        loads.append(WorkloadView(found["workload"], found["workload"], metric, {metric.name: metric}))
    factors = [name for name in data.columns if name.startswith("factor: ")]
    trials: list[TrialResult] = []
    for visit, row in enumerate(data.sort("hour").to_dicts()):
        for name, load in zip(columns, loads, strict=True):
            figure = row[name]
            trials.append(
                TrialResult(
                    visit=visit,
                    stack=row["stack"],
                    round=row["round"],
                    order=len(trials),
                    workload=load.text,
                    outcome=Outcome.OK if figure is not None else Outcome.FAILED,
                    reason=None if figure is not None else "no figure",
                    started_at=3600 * row["hour"],
                    wall_s=None,
                    metrics={} if figure is None else {load.primary.name: figure},
                    series={},
                    flags=(),
                    notes=(),
                )
            )
    levels = {
        row["stack"]: {name.removeprefix("factor: "): str(row[name]) for name in factors if row[name] is not None}
        for row in data.to_dicts()
    }
    return View(
        campaign=path.stem,
        about="",
        seed=1,
        rule=rule,
        stacks=tuple(levels),
        workloads=tuple(loads),
        trials=tuple(trials),
        steps=(),
        skipped=(),
        failed=(),
        events=(),
        visits_planned=data.height,
        visits_done=data.height,
        facts=None,
        versions={},
        commands={},
        disks=(),
        factors=levels,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE.parquet")
    parser.add_argument("--design", choices=get_args(Design), default="adaptive")
    parser.add_argument("--within", default="3%", metavar="PERCENT")
    given = parser.parse_args()
    for path in given.files:
        found = ranking(view_of(path, Rule(design=given.design, within=parse_percent(given.within))), metrics="primary")
        ratios = [row.ratio for row in found.rows[1:] if row.ratio and row.ratio.low and row.ratio.high]
        width = sum(math.log(each.high / each.low) for each in ratios if each.high and each.low) / max(len(ratios), 1)
        print(f"## {path.name}, {given.design}, within {given.within}")
        print(f"tied group {len(found.tied)} of {len(found.rows)}; mean width of the intervals {width:.3f}")
        print("\n".join(found.sentences[:3]), "\n")


if __name__ == "__main__":
    main()
