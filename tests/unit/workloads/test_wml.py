"""What strata-engine says of a program in the Workload Model Language, read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from strata.errors import WorkloadFailed
from strata.model import TrialOutput
from strata.workloads import _wml, workloads

from .workload_calls import FACTS, call

# of `strata-engine wml run builtin:varmail --seconds 3 --set nthreads=2 --json`
CAPTURED = (Path(__file__).parent / "wml_output" / "varmail.json").read_text()


def ended(text: str | None, exit_code: int = 0, stderr: str = "") -> TrialOutput:
    return TrialOutput(exit_code, 4.0, "", stderr, {} if text is None else {_wml.JSON: text})


def changed(**parts: Any) -> str:
    return json.dumps(json.loads(CAPTURED) | parts)


def test_every_metric_that_is_declared_is_read() -> None:
    measured = _wml.read(ended(CAPTURED))
    assert set(measured.metrics) == {metric.name for metric in _wml.METRICS}
    summary = json.loads(CAPTURED)["summary"]
    assert measured.metrics["ops"] == summary["per_s"]
    assert measured.metrics["bandwidth"] == pytest.approx(summary["bytes_per_s"] / (1 << 20))
    latencies = {name: value for name, value in measured.metrics.items() if name.startswith("lat_")}
    assert latencies == {
        "lat_mean_ms": 0.018999156227310618,
        "lat_p50_ms": 0.002287,
        "lat_p95_ms": 0.008895,
        "lat_p99_ms": 0.014591,
        "lat_p99.9_ms": 4.161535,
        "lat_max_ms": 92.274687,
    }
    assert (measured.bytes_read, measured.bytes_written) == (summary["read_bytes"], summary["written_bytes"])
    assert [second for second, _ in measured.series["ops"]] == [1.0, 2.0, 3.0]


def test_drift_and_skipped_deletes_are_said() -> None:
    fileset = {"name": "set", "files": 10, "at_start": 8, "at_end": 9, "drift": 1}
    summary = json.loads(CAPTURED)["summary"] | {"skipped_deletes": 3}
    notes = _wml.read(ended(changed(filesets=[fileset], summary=summary, warnings=["mind this"]))).notes
    assert notes == (
        "mind this",
        "3 deletes skipped a file that was open elsewhere, as in filebench",
        "fileset set began with 8 files and ended with 9 of 10 (+1)",
    )


def test_a_run_that_ended_early_has_no_figures() -> None:
    early = changed(ended={"early": True, "why": "flowop createfile2: every file was there", "flowop": None})
    with pytest.raises(WorkloadFailed, match=r"ended early after 3\.000 s and .* operations: flowop createfile2"):
        _wml.read(ended(early, 1))


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (ended(None, 2, "strata-engine: /t is no directory; make it first."), "exit code 2.*make it first"),
        (ended("{", 0), "cannot be read"),
        (ended("{}", 0), "cannot be read"),
        (ended("[]", 0), "cannot be read"),
        (ended(CAPTURED, 137, "Killed"), "exit code 137: Killed"),
        (ended(changed(summary=json.loads(CAPTURED)["summary"] | {"count": 0})), "not one operation"),
    ],
)
def test_a_result_that_is_none_is_a_failure(output: TrialOutput, said: str) -> None:
    with pytest.raises(WorkloadFailed, match=said):
        _wml.read(output)


def test_what_a_user_sets_is_passed_on() -> None:
    workload = workloads()["wml:"]
    spec = call("wml:", content="run", runtime=5.0, set="nfiles=5; size=16k", dialect="1.4.9", compressible=0.5)
    (check,) = workload.checks(spec)
    assert check.argv[4:] == ("--set=nfiles=5", "--set=size=16k", "--dialect=1.4.9", "--seconds=5", "--system=refuse")
    assert _wml.data(spec) == ("--data=compressible=50",)
    assert workload.reasons_not_to_run(spec, FACTS) == []
    wrong = call("wml:", content="run", runtime=1.5, set="nfiles")
    assert [reason.rpartition("; ")[2] for reason in workload.reasons_not_to_run(wrong, FACTS)] == [
        'write set="nfiles=5000;filesize=16k"',
        "round it",
    ]


def test_more_files_take_more_room() -> None:
    workload = workloads()["filebench/fileserver"]
    assert workload.data_bytes(call("filebench/fileserver")) == 10_000 << 17
    assert workload.data_bytes(call("filebench/fileserver", nfiles=1_000)) == 1_000 << 17
