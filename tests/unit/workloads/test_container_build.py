"""Builds of an image: what is planned, and the times that come of it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from strata.model import Kind, Target, TrialOutput
from strata.workloads import find

from .workload_calls import call

ENGINE = Target(Kind.ENGINE, "/stack/client", None)


def test_every_time_is_that_of_its_name() -> None:
    spec = call("container/build")
    commands = [{"argv": ["client"], "took_s": took_s, "stdout": ""} for took_s in (4.0, 1.0, 2.0)]
    report = {"failure": None, "phases": [{"name": "builds", "wall_s": 7.5, "commands": commands}]}
    metrics = find(spec).read(spec, TrialOutput(0, 8.0, "", "", {"batch.json": json.dumps(report)})).metrics
    assert {name: metrics[name] for name in ("build_s", "builds_s")} == {"build_s": 2.0, "builds_s": 7.5}
    assert metrics["builds_mean_ms"] == pytest.approx(7000 / 3)
    assert metrics["builds_p50_ms"] == 2000.0
    assert set(metrics) == {metric.name for metric in find(spec).info.metrics}


def test_more_builds_hold_more_data_and_are_given_more_time() -> None:
    one = call("container/build", builds=1, size=10 << 20, large=5 << 20)
    four = replace(one, values={**one.values, "builds": 4})
    assert [find(spec).data_bytes(spec) for spec in (one, four)] == [35 << 20, 140 << 20]
    plans = [find(spec).plan(spec, ENGINE, "/scratch", 7) for spec in (one, four)]
    assert plans[1].measure.timeout_s - plans[0].measure.timeout_s >= 3 * 900


def test_the_engine_reads_seeds_of_62_bits() -> None:
    spec = call("container/build")
    contexts = [find(spec).plan(spec, ENGINE, "/scratch", seed).prepare[-1].argv for seed in (3, 3 + (1 << 62))]
    assert contexts[0] == contexts[1] and "3" in contexts[0]
