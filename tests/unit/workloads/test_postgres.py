"""What is read of sysbench, and what is not taken for a figure."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import WorkloadFailed
from strata.model import TrialOutput
from strata.workloads import find

from .workload_calls import call

SAID = (Path(__file__).parent / "sysbench_output" / "oltp-read-write.txt").read_text()
OLTP = call("postgres/oltp-complex")


def output(stdout: str, exit_code: int = 0, stderr: str = "") -> TrialOutput:
    return TrialOutput(exit_code, 3.0, stdout, stderr, {})


def test_sysbench_s_own_report_is_read() -> None:
    measured = find(OLTP).read(OLTP, output(SAID))
    assert measured.metrics == {
        "tps": 2286.92,
        "qps": 45941.41,
        "latency_mean_ms": 3.49,
        "latency_p95_ms": 6.67,
        "latency_max_ms": 35.62,
        "errors_per_s": 11.28,
    }
    assert measured.series["tps"] == [(1.0, 2683.08), (2.0, 2482.93), (3.0, 1713.19)]


@pytest.mark.parametrize(
    "stdout", ["", "FATAL: unable to connect", SAID.replace("6892   (2286.92", "0      (0.00")], ids=["", "no", "none"]
)
def test_a_run_without_a_transaction_has_no_figure(stdout: str) -> None:
    with pytest.raises(WorkloadFailed, match="no transaction"):
        find(OLTP).read(OLTP, output(stdout))


def test_a_server_that_does_not_start_says_why() -> None:
    with pytest.raises(WorkloadFailed, match="could not create shared memory"):
        find(OLTP).read(OLTP, output("", 1, "FATAL:  could not create shared memory segment"))


def test_a_load_is_timed_by_itself() -> None:
    spec = call("postgres/prepare")
    assert find(spec).read(spec, output("duration_s 12.345\n")).metrics == {"duration_s": 12.345}
    with pytest.raises(WorkloadFailed):
        find(spec).read(spec, output("Creating table 'sbtest1'...\n"))
