"""The CSV of a run has one row per trial and metric."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from types import ModuleType

from strata.model import View
from strata.report import csvform


def rows(view: View) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csvform.render(view))))


def test_every_figure_is_a_row_with_its_unit(synthetic: ModuleType) -> None:
    view: View = synthetic.ordinary()
    table = rows(view)
    figures = {
        (str(t.number), str(t.visit), t.workload, name): value for t in view.trials for name, value in t.metrics.items()
    }
    written = {(r["trial"], r["visit"], r["workload"], r["metric"]): float(r["value"]) for r in table if r["metric"]}
    assert written == figures
    for load in view.workloads:
        decisive = [row for row in table if row["workload"] == load.text and row["decides"] == "yes"]
        assert {(row["metric"], row["unit"]) for row in decisive} == {(load.primary.name, load.primary.unit)}


def test_a_failed_trial_is_a_row_without_a_figure(synthetic: ModuleType) -> None:
    view: View = synthetic.ordinary()
    failed = replace(view.trials[0], outcome="failed", reason="it broke, twice", metrics={})
    (row,) = rows(replace(view, trials=(failed,)))
    assert (row["outcome"], row["reason"], row["metric"], row["value"]) == ("failed", "it broke, twice", "", "")


def test_factors_are_columns(synthetic: ModuleType) -> None:
    view: View = synthetic.ordinary()
    table = rows(replace(view, factors={view.stacks[0]: {"fs": "ext4"}}))
    assert {row["factor.fs"] for row in table if row["stack"] == view.stacks[0]} == {"ext4"}
