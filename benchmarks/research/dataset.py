"""Write the visits of a run as a data set for `benchmarks.research.replay`.

python -m benchmarks.research.dataset DIR FILE.parquet
"""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

import polars as pl

from strata.analysis.cells import usable
from strata.cli import output
from strata.errors import StrataError
from strata.model import TrialResult, View
from strata.store import reader
from strata.units import parse_time

PRESSURES = {"cpu_pressure": "psi.cpu_some_pct", "io_pressure": "psi.io_some_pct"}


def frame(view: View) -> pl.DataFrame:
    """One row for each visit with a figure under every workload; `value` is the mean logarithm, larger is better.

    `early` and `late`: the same of the first and of the second half of its trials, null where that is not known; and
    what share of the trials something waited for a processor and for I/O, in %. Of each workload the deciding figure,
    in its unit; and what the lab was that gave it, for an exact run is exact on that machine.
    """
    names = list(dict.fromkeys(name for stack in view.stacks for name in view.factors.get(stack, {})))
    primary = {workload.text: workload.primary for workload in view.workloads}
    found: dict[int, dict[str, tuple[float, float | None, float | None]]] = {}
    figures: dict[int, dict[str, float]] = {}
    lab = "; ".join(
        f"{name}: {view.versions[name]}" for name in sorted(view.versions) if name.startswith(("lab", "qemu"))
    )
    pressures: dict[int, dict[str, list[float]]] = {}
    about: dict[int, tuple[str, int, float]] = {}
    start = min((trial.started_at for trial in view.trials), default=0.0)
    for trial in usable(view):
        metric = primary[trial.workload]
        figure = trial.metrics.get(metric.name)
        if figure is not None and figure > 0:
            sign = -1.0 if metric.better == "lower" else 1.0
            parts = [None if part is None else sign * math.log(part) for part in halves(trial, metric.name)]
            column = f"{trial.workload}, {metric.name} ({metric.unit})"
            figures.setdefault(trial.visit, {})[column] = figure
            found.setdefault(trial.visit, {})[trial.workload] = (sign * math.log(figure), parts[0], parts[1])
            about.setdefault(trial.visit, (trial.stack, trial.round, (trial.started_at - start) / 3600))
            for column, name in PRESSURES.items():
                if name in trial.metrics:
                    pressures.setdefault(trial.visit, {}).setdefault(column, []).append(trial.metrics[name])
    rows = []
    for visit, logs in sorted(found.items()):
        if len(logs) < len(primary):
            continue
        stack, number, hour = about[visit]
        value, early, late = (_mean(column) for column in zip(*logs.values(), strict=True))
        waited = {column: _mean(pressures.get(visit, {}).get(column, [])) for column in PRESSURES}
        levels = {f"factor: {name}": view.factors.get(stack, {}).get(name) for name in names}
        row = {"stack": stack, "round": number, "hour": hour, "value": value, "early": early, "late": late}
        rows.append({**row, **waited, **levels, **figures[visit], "lab": lab})
    return pl.DataFrame(rows, infer_schema_length=None)


def halves(trial: TrialResult, metric: str) -> tuple[float | None, float | None]:
    """Means of the first and the second half of a trial of known length, from its 1 s series; the end of a series may
    be missing, and is what the mean of the whole trial leaves. Nothing of a trial whose warm-up was cut."""
    points = trial.series.get(metric, ())
    length = re.search(r"runtime=([0-9.]+[a-z]+)", trial.workload)
    whole = trial.metrics.get(f"{metric}_whole_run", trial.metrics[metric])
    if not points or length is None or whole != trial.metrics[metric]:
        return None, None
    seconds = parse_time(length[1])
    first = [value for at, value in points if at <= seconds / 2]
    if len(first) != int(seconds / 2) or not first:
        return None, None
    early = sum(first) / len(first)
    late = (trial.metrics[metric] * seconds - early * len(first)) / (seconds - len(first))
    return (early, late) if early > 0 and late > 0 else (None, None)


def _mean(values: list[float] | tuple[float | None, ...]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: python -m benchmarks.research.dataset DIR FILE.parquet")
    try:
        data = frame(reader.view(Path(sys.argv[1]), series=True))
    except StrataError as error:
        sys.exit(str(error))
    data.write_parquet(sys.argv[2], compression="zstd")
    output.out(f"{data.height} visits of {data['stack'].n_unique()} stacks")


if __name__ == "__main__":
    main()
