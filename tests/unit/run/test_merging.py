"""What several tenants' figures become: every metric by its own rule, under a name that says what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from strata import workloads
from strata.model import Metric, Outcome
from strata.planning import machine_metrics
from strata.run.trials import merging
from strata.run.trials.together import Together
from strata.run.trials.trial import Trial
from strata.workloads import _fio_json, container_neighbours


def of_all(
    figures: Sequence[Mapping[str, float]], metrics: Sequence[Metric], shared: Mapping[str, float] | None = None
) -> Trial:
    trials = tuple(Trial(Outcome.OK, None, 0.0, 1.0, (), figures=each) for each in figures)
    return merging.merged(Together(trials, shared or {}, {}), range(1, len(trials) + 1), metrics)


def test_latencies_of_all_are_none_that_nobody_had() -> None:
    fast = {
        "iops": 9_900.0,
        "read_lat_p99_ms": 1.0,
        "read_lat_mean_ms": 0.5,
        "read_lat_max_ms": 10.0,
        "runtime_s": 30.0,
    }
    slow = {
        "iops": 100.0,
        "read_lat_p99_ms": 500.0,
        "read_lat_mean_ms": 80.0,
        "read_lat_max_ms": 900.0,
        "runtime_s": 31.0,
    }
    found = of_all([fast, slow], _fio_json.METRICS).figures
    assert found is not None
    assert found["iops"] == 10_000
    assert found["read_lat_max_ms"] == 900 and found["runtime_s"] == 31
    assert "read_lat_p99_ms" not in found and found["worst_tenant.read_lat_p99_ms"] == 500
    assert "read_lat_mean_ms" not in found and found["worst_tenant.read_lat_mean_ms"] == 80
    assert (found["tenant1.read_lat_p99_ms"], found["tenant2.read_lat_p99_ms"]) == (1, 500)


def test_every_merged_figure_is_declared() -> None:
    found = of_all([{"iops": 1.0, "read_lat_p99_ms": 2.0}] * 2, _fio_json.METRICS)
    declared = {metric.name for metric in (*found.extra, *_fio_json.METRICS)}
    assert set(found.figures or {}) <= declared
    worst = next(metric for metric in found.extra if metric.name == "worst_tenant.read_lat_p99_ms")
    assert (worst.unit, worst.better) == ("ms", "lower") and "worst" in worst.about


def test_indices_are_not_added_and_extremes_stay_extremes() -> None:
    one = {"direct_bandwidth": 90.0, "direct_min_bandwidth": 5.0, "direct_max_bandwidth": 40.0, "direct_fairness": 1.0}
    two = {"direct_bandwidth": 10.0, "direct_min_bandwidth": 80.0, "direct_max_bandwidth": 90.0, "direct_fairness": 0.5}
    (workload,) = container_neighbours.WORKLOADS
    found = of_all([one, two], workload.info.metrics).figures
    assert found is not None
    assert found["direct_bandwidth"] == 100
    assert (found["direct_min_bandwidth"], found["direct_max_bandwidth"]) == (5, 90)
    assert not any(name.endswith("fairness") and not name.startswith("tenant") for name in found)
    assert found["tenant2.direct_fairness"] == 0.5


def test_what_decides_keeps_its_name_and_says_whose_it_is() -> None:
    median = Metric("median_s", "s", "lower")
    found = of_all([{"median_s": 2.0}, {"median_s": 6.0}], (median,))
    assert found.figures is not None and found.figures["median_s"] == 6
    assert any("median_s is that of the tenant for which it is worst" in note for note in found.notes)


def test_a_sum_that_lacks_one_tenant_is_not_known() -> None:
    found = of_all([{"iops": 1.0, "read_iops": 1.0}, {"iops": 2.0}], _fio_json.METRICS).figures
    assert found is not None and "read_iops" not in found and found["tenant1.read_iops"] == 1


@pytest.mark.parametrize(
    ("name", "both"),
    [
        ("guest.cpu_user_s", 4.0),
        ("guest.cpu_busy_pct", 2.0),
        ("xfs.write_bytes", 4.0),
        ("qcow2.busy_pct", 2.0),
        ("qcow2.in_flight_mean", 4.0),
        ("disk.write_amplification", None),
    ],
)
def test_figures_of_guests_and_devices_have_rules_too(name: str, both: float | None) -> None:
    found = of_all([{"iops": 1.0, name: 1.0}, {"iops": 1.0, name: 3.0}], _fio_json.METRICS).figures
    assert found is not None and found.get(name) == both


def test_the_rules_of_all_workloads_fit_their_figures() -> None:
    """What the name of a figure says is what its rule makes of several."""
    metrics = [metric for workload in workloads.workloads().values() for metric in workload.info.metrics]
    assert len(metrics) > 100
    for metric in metrics:
        parts = metric.name.split("_")
        if metric.merge == "sum":
            assert metric.unit in {"IOPS", "MiB/s", "1/s", "bytes", "count"}, metric
            assert not {"p50", "p95", "p99", "p99.9", "mean", "min", "max", "fairness"} & set(parts), metric
        if "max" in parts:
            assert metric.merge == "largest", metric
        if "min" in parts:
            assert metric.merge == "smallest", metric
        if metric.unit in {"IOPS", "1/s"} and not {"p50", "min", "max"} & set(parts):
            assert metric.merge == "sum", metric
    assert machine_metrics.merge_of("disk.reads") == "sum"
