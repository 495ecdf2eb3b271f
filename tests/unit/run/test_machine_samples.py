"""Machine figures from the engine's samples: known answers, and nothing made up where something is missing."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import WorkloadFailed
from strata.model import Measured
from strata.planning import machine_metrics
from strata.run.trials import machine_samples


def device(**changes: float) -> dict[str, float]:
    zero = dict.fromkeys(("reads", "writes", "read_bytes", "write_bytes", "flushes", "busy_ms", "in_flight"), 0.0)
    return {**zero, **changes}


def row(t_s: float, **changes: Any) -> dict[str, Any]:
    return {
        "t_s": t_s,
        "devices": {"d0": device()},
        "cpu_s": {"user": 0.0, "system": 0.0, "idle": 0.0, "iowait": 0.0, "softirq": 0.0},
        "memory": {"dirty_bytes": 5},
        "psi": {"io_some_us": 0, "cpu_some_us": 0},
        **changes,
    }


def text(*rows: dict[str, Any]) -> str:
    end = {"end": True, "wall_s": 10.0, "exit_code": 0}
    return "".join(json.dumps(line) + "\n" for line in ({"version": 1}, *rows, end))


def test_known_answers() -> None:
    samples = machine_samples.parse(
        text(
            row(0.0),
            row(5.0, memory={"dirty_bytes": 900}, devices={"d0": device(in_flight=4)}),
            row(
                10.0,
                devices={"d0": device(reads=100, writes=300, read_bytes=1 << 20, write_bytes=3 << 21, busy_ms=5000)},
                cpu_s={"user": 2.0, "system": 1.0, "idle": 14.0, "iowait": 2.0, "softirq": 1.0},
                psi={"io_some_us": 2_500_000, "cpu_some_us": 0},
            ),
        )
    )
    found = machine_samples.figures(samples, [("disk", "d0")], Measured({}, bytes_read=1 << 20, bytes_written=3 << 20))
    assert found["host.cpu_user_s"] == 2.0
    assert found["host.cpu_system_s"] == 2.0
    assert found["host.cpu_busy_pct"] == pytest.approx(20.0)
    assert found["host.cpu_iowait_pct"] == pytest.approx(10.0)
    assert found["host.cpu_per_io_us"] == pytest.approx(4e6 / 400)
    assert found["host.cpu_per_gib_s"] == pytest.approx(4.0 / (4 / 1024))
    assert found["host.dirty_max_bytes"] == 900
    assert found["psi.io_some_pct"] == pytest.approx(25.0)
    assert found["disk.write_amplification"] == pytest.approx(2.0)
    assert found["disk.read_ratio"] == pytest.approx(1.0)
    assert found["disk.busy_pct"] == pytest.approx(50.0)
    assert found["disk.in_flight_mean"] == pytest.approx(4 / 3)


def test_devices_of_a_layer_add_up_and_one_that_is_gone_takes_the_sum_with_it() -> None:
    both = {"d0": device(writes=1), "d1": device(writes=2)}
    devices = [("disk", "d0"), ("disk", "d1")]
    start = row(0.0, devices={"d0": device(), "d1": device()})
    found = machine_samples.figures(machine_samples.parse(text(start, row(1.0, devices=both))), devices, Measured({}))
    assert found["disk.writes"] == 3
    busy = {"d0": device(in_flight=4, busy_ms=1000), "d1": device(in_flight=2)}
    found = machine_samples.figures(machine_samples.parse(text(start, row(1.0, devices=busy))), devices, Measured({}))
    assert found["disk.in_flight_mean"] == 3, "0 and then 6, not the mean of the devices"
    assert found["disk.busy_pct"] == 50, "as its description says, the mean of the devices"
    gone = machine_samples.parse(text(start, row(1.0, devices={"d0": device(writes=1), "d1": None})))
    assert "disk.writes" not in machine_samples.figures(gone, devices, Measured({}))


def test_more_work_in_the_same_time_is_not_worse() -> None:
    totals = {metric.name: metric.better for metric in (*machine_metrics.HOST_METRICS, *machine_metrics.GUEST_METRICS)}
    for name in ("host.cpu_user_s", "host.cpu_system_s", "guest.cpu_user_s", "guest.qemu_cpu_s", "host.cpu_per_io_us"):
        assert totals[name] == "neither", name
    assert {metric.better for metric in machine_metrics.device_metrics("disk")} == {"neither"}
    assert totals["host.cpu_per_gib_s"] == "lower", "of what the application moved"


def test_descriptions_say_how_devices_become_one_figure() -> None:
    about = {metric.name: metric.about for metric in machine_metrics.device_metrics("md")}
    assert "mean of the devices" in about["md.busy_pct"]
    assert all("sum of the devices" in text for name, text in about.items() if name != "md.busy_pct")


def test_what_the_machine_does_not_tell_is_absent_not_zero() -> None:
    samples = machine_samples.parse(
        text(row(0.0, psi=None, cpu_s=None, memory=None), row(1.0, psi=None, cpu_s=None, memory=None))
    )
    found = machine_samples.figures(samples, [("disk", "d0")], Measured({}))
    assert not [name for name in found if name.startswith(("psi.", "host."))]
    assert "disk.write_amplification" not in found, "the application's bytes are not known"


def test_how_much_of_the_traffic_reached_the_disks_is_told_where_there_is_any_to_speak_of() -> None:
    samples = machine_samples.parse(text(row(0.0), row(1.0, devices={"d0": device(read_bytes=1 << 20)})))
    found = machine_samples.figures(samples, [("disk", "d0")], Measured({}, bytes_read=100 << 20))
    assert found["disk.read_ratio"] < 0.05
    small = machine_samples.figures(samples, [("disk", "d0")], Measured({}, bytes_read=1000))
    assert "disk.read_ratio" not in small, "too little traffic to say"


def test_rates_at_the_disks_are_per_second_and_added_up() -> None:
    rows = [
        row(t / 10, devices={"d0": device(read_bytes=10.0 * t), "d1": device(read_bytes=20.0 * t)}) for t in range(26)
    ]
    found = machine_samples.rates(
        machine_samples.parse(text(*rows)), [("disk", "d0"), ("disk", "d1"), ("partition", "p")]
    )
    assert found["disk.read_bytes"] == [(1.0, pytest.approx(300.0)), (2.0, pytest.approx(300.0))]
    assert machine_samples.rates(machine_samples.parse(text(*rows)), []) == {}


@pytest.mark.parametrize("broken", [None, "", '{"version": 1}\n', '{"version": 1}\n{"t_s": 0}\n{"t_s": 1'])
def test_an_engine_that_was_stopped_is_a_failed_trial(broken: str | None) -> None:
    with pytest.raises(WorkloadFailed):
        machine_samples.parse(broken)


def test_what_the_engine_said_is_in_the_reason() -> None:
    with pytest.raises(WorkloadFailed, match="cannot write samples"):
        machine_samples.parse("", "strata-engine: cannot write samples: no space left\n")
    with pytest.raises(WorkloadFailed, match="out-of-memory"):
        machine_samples.parse("", " \n")


def test_every_counter_is_a_series() -> None:
    found = machine_samples.series(machine_samples.parse(text(row(0.0), row(0.1, psi=None))))
    assert found["device.d0.reads"] == [(0.0, 0.0), (0.1, 0.0)]
    assert found["psi.io_some_us"] == [(0.0, 0)]
    assert {name.split(".")[0] for name in found} == {"device", "cpu_s", "memory", "psi"}


@given(st.text(max_size=200) | st.text('{}[]:\n"end1', max_size=60))
def test_any_text_is_read_or_refused(anything: str) -> None:
    with contextlib.suppress(WorkloadFailed):
        machine_samples.parse(anything)


def test_what_was_seen_before_and_after_two_instants_does_not_count() -> None:
    times = (0.0, 2.0, 4.0, 8.0, 10.0, 12.0)
    busy = [row(t, devices={"d0": device(busy_ms=1000 * min(max(t - 4.0, 0.0), 6.0))}) for t in times]
    samples = machine_samples.parse(text(*busy))
    samples = machine_samples.Samples({"started_unix_s": 100.0}, samples.rows, {**samples.end, "wall_s": 12.0})
    found = machine_samples.between(samples, 105.0, 109.0)
    assert [row["t_s"] for row in found.rows] == [0.0, 4.0, 6.0]
    assert found.header["started_unix_s"] == 104.0 and found.end["wall_s"] == 6.0
    assert machine_samples.figures(found, [("disk", "d0")], Measured({}))["disk.busy_pct"] == pytest.approx(100.0)
    assert machine_samples.between(samples, 99.0, 113.0) == samples, "it began and ended while it was watched"


def test_a_process_that_has_ended_is_not_told_of() -> None:
    rows = [row(0.0, processes={"a": 1.0, "b": 2.0, "c": None}), row(1.0, processes={"a": 1.5, "b": None, "c": None})]
    assert machine_samples.processes_s(machine_samples.parse(text(*rows))) == {"a": 0.5}


def test_the_qemu_of_a_guest_that_commands_go_into_is_a_figure_of_the_guest() -> None:
    rows = [row(0.0, processes={machine_metrics.OWN_QEMU: 4.0}), row(1.0, processes={machine_metrics.OWN_QEMU: 4.5})]
    assert machine_samples.figures(machine_samples.parse(text(*rows)), [], Measured({}))["guest.qemu_cpu_s"] == 0.5
    assert "guest.qemu_cpu_s" not in machine_samples.figures(
        machine_samples.parse(text(row(0.0), row(1.0))), [], Measured({})
    )


def test_a_guest_has_processors_of_its_own_and_no_pressure() -> None:
    (name, *_) = (metric.name for metric in machine_metrics.GUEST_METRICS if metric.name.startswith("guest."))
    of_host = name.replace("guest.", "host.", 1)
    found = {of_host: 1.5, "host.unheard_of": 2.0, "psi.io_some_pct": 3.0, "disk.write_bytes": 4.0}
    assert machine_samples.as_guest(found) == {name: 1.5, "disk.write_bytes": 4.0}


def test_processor_time_that_one_of_both_ends_lacks_is_not_counted() -> None:
    first = row(0.0, cpu_s={"user": 1.0, "system": None, "idle": 2.0})
    last = row(10.0, cpu_s={"user": 2.0, "system": 50.0, "idle": 5.0, "iowait": 70.0, "softirq": None})
    found = machine_samples.figures(machine_samples.parse(text(first, last)), [("disk", "d0")], Measured({}))
    assert (found["host.cpu_user_s"], found["host.cpu_system_s"]) == (1.0, 0.0)
    assert found["host.cpu_busy_pct"] == pytest.approx(25.0)
