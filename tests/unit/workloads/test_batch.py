from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import WorkloadFailed
from strata.model import Kind, Measured, Target, TrialOutput
from strata.workloads import find

from .workload_calls import FACTS, call

OPERATIONS = ("create", "start", "stop", "remove")


def report(took_s: list[float], **failure: Any) -> str:
    phases = [
        {"name": name, "parallel": 1, "wall_s": 10.0, "commands": [{"at_s": 0.0, "took_s": each} for each in took_s]}
        for name in OPERATIONS
    ]
    phases.append({"name": "settle", "wall_s": 1.0, "commands": [{"at_s": 0.0, "took_s": 1.0}]})
    return json.dumps({"phases": phases, "failure": failure or None})


def read(text: str | None, *, exit_code: int = 0, stderr: str = "") -> Measured:
    spec = call("container/lifecycle", count=4)
    files = {} if text is None else {"batch.json": text}
    return find(spec).read(spec, TrialOutput(exit_code, 12.5, "", stderr, files))


def test_percentiles_are_times_of_single_containers() -> None:
    figures = read(report([0.4, 0.1, 0.3, 0.2])).metrics
    assert figures["lifecycle_s"] == 41.0 and figures["settle_s"] == 1.0
    assert figures["start_p50_ms"] == pytest.approx(200.0)
    assert figures["start_p95_ms"] == figures["start_max_ms"] == pytest.approx(400.0)
    assert figures["start_mean_ms"] == pytest.approx(250.0)
    assert {f"{name}_s" for name in OPERATIONS} <= set(figures)
    assert set(figures) == {metric.name for metric in find(call("container/lifecycle")).info.metrics}


@given(st.lists(st.floats(1e-4, 1e4), min_size=1, max_size=30))
def test_percentiles_are_in_order(took_s: list[float]) -> None:
    figures = read(report(took_s)).metrics
    ordered = [figures[f"stop_{name}_ms"] for name in ("p50", "p95", "p99", "max")]
    assert ordered == sorted(ordered) and ordered[-1] == pytest.approx(1e3 * max(took_s))
    assert all(each / 1e3 == pytest.approx(min(took_s, key=lambda t: abs(t - each / 1e3))) for each in ordered)


def test_the_command_that_failed_says_why() -> None:
    failure = {"phase": "start", "argv": ["/place/client", "start", "c7"], "exit_code": 125, "said": "one\nno room"}
    with pytest.raises(WorkloadFailed, match=r"phase start, 'start c7' failed: one; no room"):
        read(report([0.1], **failure), exit_code=1)


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}", '{"failure": null, "phases": [{"name": "create"}]}'])
def test_no_report_is_a_failed_workload(text: str | None) -> None:
    with pytest.raises(WorkloadFailed, match="exit code 137: out of memory"):
        read(text, exit_code=137, stderr="out of memory\n")


def test_a_phase_that_is_missing_or_took_no_time() -> None:
    with pytest.raises(WorkloadFailed, match="left out the phase create"):
        read('{"failure": null, "phases": []}')
    with pytest.raises(WorkloadFailed, match="left out the phase create"):
        read(report([]))
    with pytest.raises(WorkloadFailed, match="clock"):
        read(report([0.0]))


def test_every_container_goes_through_every_phase() -> None:
    spec = call("container/lifecycle", count=3, parallel=2)
    plan = find(spec).plan(spec, Target(Kind.ENGINE, "/place/client", None), "/scratch", 1)
    phases = {phase["name"]: phase for phase in json.loads(plan.put["/scratch/plan.json"])["phases"]}
    assert [command[1:3] for command in phases["stop"]["commands"]] == [["stop", f"c{n}"] for n in (1, 2, 3)]
    assert phases["check"]["expect"] == "3"
    assert {phases[name]["parallel"] for name in OPERATIONS} == {2}


def test_files_too_small_to_age() -> None:
    spec = call("container/lifecycle", files=1000, size=1 << 20)
    (reason,) = find(spec).reasons_not_to_run(spec, FACTS)
    assert "at least 8K each" in reason
