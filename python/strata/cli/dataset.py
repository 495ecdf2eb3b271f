"""python -m strata.cli.dataset DIR FILE.parquet: the visits of a run as a data set for `strata.design.replay`."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import polars as pl

from strata.analysis.cells import usable
from strata.model import View
from strata.store import reader


def frame(view: View) -> pl.DataFrame:
    """One row for each visit with a figure under every workload; `value` is the mean logarithm, larger is better."""
    names = list(dict.fromkeys(name for stack in view.stacks for name in view.factors.get(stack, {})))
    primary = {workload.text: workload.primary for workload in view.workloads}
    visits: dict[int, dict[str, float]] = {}
    about: dict[int, tuple[str, int, float]] = {}
    start = min((trial.started_at for trial in view.trials), default=0.0)
    for trial in usable(view):
        metric = primary[trial.workload]
        figure = trial.metrics.get(metric.name)
        if figure is not None and figure > 0:
            sign = -1.0 if metric.better == "lower" else 1.0
            visits.setdefault(trial.visit, {})[trial.workload] = sign * math.log(figure)
            about.setdefault(trial.visit, (trial.stack, trial.round, (trial.started_at - start) / 3600))
    rows = []
    for visit, logs in sorted(visits.items()):
        if len(logs) < len(primary):
            continue
        stack, number, hour = about[visit]
        levels = {f"factor: {name}": view.factors.get(stack, {}).get(name) for name in names}
        rows.append({"stack": stack, "round": number, "hour": hour, "value": sum(logs.values()) / len(logs), **levels})
    return pl.DataFrame(rows, infer_schema_length=None)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: python -m strata.cli.dataset DIR FILE.parquet")
    data = frame(reader.view(Path(sys.argv[1])))
    data.write_parquet(sys.argv[2], compression="zstd")
    print(f"{data.height} visits of {data['stack'].n_unique()} stacks")


if __name__ == "__main__":
    main()
