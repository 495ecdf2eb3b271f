from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from strata.errors import WorkloadFailed
from strata.model import Call, Kind, Measured, Target, TrialOutput
from strata.workloads import find

from .workload_calls import FACTS, call

_MIB = 1 << 20


def fio(bytes_per_s: float, seconds: float = 3.0) -> str:
    nothing = {"io_bytes": 0, "bw_bytes": 0, "iops": 0.0, "total_ios": 0, "runtime": 0}
    write = {
        "io_bytes": int(bytes_per_s * seconds),
        "bw_bytes": bytes_per_s,
        "iops": bytes_per_s / 65536,
        "total_ios": int(bytes_per_s * seconds / 65536),
        "runtime": int(seconds * 1000),
    }
    job = {"jobname": "neighbour", "error": 0, "read": nothing, "write": write, "trim": nothing, "sync": {}}
    return json.dumps({"jobs": [job | {"usr_cpu": 1.0, "sys_cpu": 1.0}], "global options": {}})


def phase(name: str, *printed: str, wall_s: float = 1.0) -> dict[str, object]:
    commands = [{"at_s": 0.0, "took_s": 1.0, "stdout": text} for text in printed]
    return {"name": name, "parallel": 1, "wall_s": wall_s, "commands": commands}


def read(spec: Call, rates: dict[str, Sequence[float]], limits: Sequence[str], disk_bytes: int = 0) -> Measured:
    """`rates`: way -> bytes per second of each container. 100 ticks pass, 25 of them waiting for I/O."""
    phases = [phase("limits", *limits)]
    files = {}
    for way, each in rates.items():
        conducted = "1000 2000\ncpu 0 0 0 0 0 0 0 0 0 0\ncpu 50 0 0 25 25 0 0 0 0 0"
        phases += [
            phase(f"{way} at once", conducted, *("" for _ in each)),
            phase(f"{way} settled", "", wall_s=1.0),
            phase(f"{way} traffic", f"1000 {2000 + disk_bytes}"),
        ]
        files |= {f"{way}-c{number}.json": fio(rate) for number, rate in enumerate(each, 1)}
    files["batch.json"] = json.dumps({"phases": phases, "failure": None})
    return find(spec).read(spec, TrialOutput(0, 10.0, "", "", files))


def test_a_limit_that_holds_for_one_way_only() -> None:
    spec = call("container/neighbours", count=2, bps=_MIB, runtime=3.0)
    rates = {"direct": [_MIB, 1.05 * _MIB], "buffered": [100 * _MIB, 300 * _MIB]}
    figures = read(spec, rates, ["write-bps=1048576"] * 2, disk_bytes=80 * _MIB).metrics
    assert figures["bandwidth"] == figures["direct_bandwidth"] == pytest.approx(2.05)
    assert figures["direct_limit_held"] == 1 and figures["direct_limit_ratio"] == pytest.approx(1.025)
    assert figures["buffered_limit_held"] == 0 and figures["buffered_limit_ratio"] == pytest.approx(200)
    assert figures["buffered_fairness"] == pytest.approx(0.8)
    assert figures["buffered_min_bandwidth"] == pytest.approx(100)
    assert figures["direct_iowait_pct"] == pytest.approx(25)
    # 80 MiB in 3 s and one more until all was on the disk, of 2 MiB/s allowed
    assert figures["buffered_disk_bandwidth"] == pytest.approx(20)
    assert figures["buffered_disk_limit_ratio"] == pytest.approx(10)


def test_without_a_limit_nothing_is_said_of_one() -> None:
    spec = call("container/neighbours", count=1, io="buffered", runtime=3.0)
    measured = read(spec, {"buffered": [_MIB]}, [""])
    assert measured.bytes_written == 3 * _MIB
    assert measured.metrics["bandwidth"] == measured.metrics["buffered_bandwidth"]
    assert not [name for name in measured.metrics if "limit" in name or name.startswith("direct")]


def test_of_two_limits_the_nearer_one_counts() -> None:
    spec = call("container/neighbours", count=1, io="direct", bps=_MIB, iops=4, runtime=3.0)
    figures = read(spec, {"direct": [_MIB / 2]}, ["write-bps=1048576\nwrite-iops=4"]).metrics
    assert figures["direct_limit_ratio"] == pytest.approx(2)


def test_a_limit_that_was_not_set_is_a_failure() -> None:
    spec = call("container/neighbours", count=2, io="direct", iops=100)
    with pytest.raises(WorkloadFailed, match="c2 was given the limit write-iops=100 and the kernel has none"):
        read(spec, {"direct": [_MIB, _MIB]}, ["write-iops=100", "write-iops=1000"])


def test_a_container_that_left_nothing_is_named() -> None:
    spec = call("container/neighbours", count=2, io="direct")
    with pytest.raises(WorkloadFailed, match="container c2, direct I/O: fio ended"):
        read(spec, {"direct": [_MIB]}, ["", ""])


def test_readers_get_the_limit_of_reads_and_a_file_of_the_image() -> None:
    spec = call("container/neighbours", count=2, pattern="randread", iops=50, io="direct")
    plan = find(spec).plan(spec, Target(Kind.ENGINE, "/place/client", None), "/scratch", 1)
    phases = {each["name"]: each for each in json.loads(plan.put["/scratch/plan.json"])["phases"]}
    assert "limit:read-iops=50" in phases["create"]["commands"][0]
    conductor, *players = phases["direct at once"]["commands"]
    assert len(players) == 2 and phases["direct at once"]["parallel"] == 3 and conductor[-2:] == ["2", "10"]
    assert all("--filename=/large" in player and "--bs=4K" in player for player in players)
    assert set(plan.collect) == {"batch.json", "direct-c1.json", "direct-c2.json"}


def test_what_goes_through_the_page_cache_is_known_to() -> None:
    for io, buffered in (("direct", False), ("buffered", True), ("both", True)):
        spec = call("container/neighbours", count=2, io=io)
        assert find(spec).plan(spec, Target(Kind.ENGINE, "/c", None), "/s", 1).buffered is buffered


def test_no_limit_without_a_controller() -> None:
    limited, free = call("container/neighbours", bps=_MIB), call("container/neighbours")
    machine = replace(FACTS, io_control="")
    (reason,) = find(limited).reasons_not_to_run(limited, machine)
    assert "limits no I/O by control groups" in reason
    assert find(free).reasons_not_to_run(free, machine) == []
    assert find(limited).reasons_not_to_run(limited, replace(machine, io_control="1")) == []
