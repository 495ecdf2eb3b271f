"""Forged and broken outputs of measured programs: each ends in a failed trial with a sentence, and never the run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.fake_host import FakeHost

from strata.model import Call, Kind, Measured, Metric, Outcome, Target, TrialOutput, Workload
from strata.run import trial
from strata.workloads import workloads
from strata.workloads.null import Null

HUGE = "1" * 401  # an integer that no floating-point number holds


def call(name: str, **given: Any) -> Call:
    return Call(name, name, {**{param.name: param.default for param in workloads()[name].info.params}, **given})


def measured(spec: Call, files: Mapping[str, str], workload: Workload | None = None) -> trial.Trial:
    """`files`: by the names under which the workload collects them."""
    found = workload or workloads()[spec.name]
    target = Target(Kind.ENGINE if spec.name.startswith("container") else Kind.DIRECTORY, "/stack", None)
    plan = found.plan(spec, target, "/scratch", 1)
    host = FakeHost()
    host.files |= {plan.collect[name]: text for name, text in files.items()}
    return trial.run(trial.Bench(host, (), 1, frozenset()), found, spec, target, "/scratch", 1)


def refused(result: trial.Trial, *words: str) -> None:
    assert (result.outcome, result.figures) == (Outcome.FAILED, None)
    reason = result.reason or ""
    assert all(word in reason for word in words), reason
    assert reason.isascii() and reason.isprintable() and len(reason) < 4200


def batch(*phases: tuple[str, str], took_s: str = "1.0") -> str:
    """`phases`: name, what each of its commands printed."""
    said = [
        f'{{"name": "{name}", "wall_s": 1.0, "commands": [{{"took_s": {took_s}, "stdout": {json.dumps(printed)}}}]}}'
        for name, printed in phases
    ]
    return f'{{"failure": null, "phases": [{", ".join(said)}]}}'


def fio(bytes_per_s: float) -> str:
    nothing = {"io_bytes": 0, "bw_bytes": 0, "iops": 0.0, "total_ios": 0, "runtime": 0}
    write = {"io_bytes": 1 << 20, "bw_bytes": bytes_per_s, "iops": 16.0, "total_ios": 16, "runtime": 1000}
    job = {"jobname": "neighbour", "error": 0, "read": nothing, "write": write, "trim": nothing, "sync": {}}
    return json.dumps({"jobs": [job | {"usr_cpu": 1.0, "sys_cpu": 1.0}], "global options": {}})


def test_json_that_is_nested_too_deeply_fails_the_trial() -> None:
    words = ("output of filebench/varmail", "RecursionError", "which program ran")
    refused(measured(call("filebench/varmail"), {"wml.json": "[" * 200_000}), *words)


def test_a_count_of_401_digits_fails_the_trial() -> None:
    summary = {
        "count": 1,
        "reads_per_s": 1,
        "writes_per_s": 1,
        "bytes_per_s": 1,
        "mean_ms": 1,
        "count_series": [],
        "bytes_series": [],
        "read_bytes": 1,
        "written_bytes": 1,
        "skipped_deletes": 0,
        "latency_ms": {"max": 1, "p50": 1, "p95": 1, "p99": 1, "p99_9": 1},
    }
    document = {"ended": {"early": False}, "summary": summary | {"per_s": int(HUGE)}, "cpu": {"us_per_op": 1}}
    text = json.dumps({**document, "warnings": [], "filesets": []})
    refused(measured(call("filebench/varmail"), {"wml.json": text}), "output of filebench/varmail", "OverflowError")


def test_rates_whose_squares_are_too_large_fail_the_trial() -> None:
    ticks = "1000 2000\ncpu 0 0 0 0 0 0 0 0 0 0\ncpu 50 0 0 25 25 0 0 0 0 0"
    phases = ("limits", ""), ("direct at once", ticks), ("direct settled", ""), ("direct traffic", "1000 2000")
    files = {"batch.json": batch(*phases), "direct-c1.json": fio(1e300)}
    words = ("output of container/neighbours", "OverflowError")
    refused(measured(call("container/neighbours", count=1, io="direct"), files), *words)


def test_a_time_of_401_digits_fails_the_trial() -> None:
    text = batch(("builds", ""), took_s=HUGE)
    refused(measured(call("container/build"), {"batch.json": text}), "output of container/build", "OverflowError")


def test_half_a_surrogate_pair_in_what_a_program_said_is_escaped() -> None:
    failure = {"phase": "builds", "argv": ["client", "build"], "said": "\ud800 no room"}
    text = json.dumps({"failure": failure, "phases": []})
    refused(measured(call("container/build"), {"batch.json": text}), "'build' failed", "\\ud800 no room")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Measured({"ops": float("inf")}), "ops is inf"),
        (Measured({"ops": float("nan")}), "ops is nan"),
        (Measured({"ops": -2e30}), "ops is -2e+30, and at most 1e+30 can be stored"),
        (Measured({"ops": 1.0}, {"ops": [(1.0, 1e31)]}), "ops is 1e+31"),
        (Measured({"ops": 1.0}, {"ops": [(float("inf"), 1.0)]}), "ops is inf"),
        (Measured({"ops": 1.0}, bytes_read=int(HUGE)), "OverflowError"),
        (Measured({"ops": "many"}), "TypeError"),  # type: ignore[dict-item]
        (Measured({"ops": 1.0}, notes=("\ud800",)), "UnicodeEncodeError"),
        (Measured({"ops": 1.0}, notes=(1,)), "AttributeError"),  # type: ignore[arg-type]
        (Measured({"own": 1.0}, extra=(Metric("own", "\udfff", "lower"),)), "UnicodeEncodeError"),
    ],
)
def test_what_cannot_be_stored_fails_the_trial(found: Measured, words: str) -> None:
    class Forged(Null):
        def read(self, spec: Call, output: TrialOutput) -> Measured:
            return found

    refused(measured(call("null"), {}, Forged()), "output of null", words)
