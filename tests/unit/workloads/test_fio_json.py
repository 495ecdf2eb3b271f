from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.errors import WorkloadFailed
from strata.model import AccessPattern, Measured, TrialOutput
from strata.workloads import _fio_json, find

from .workload_calls import call, captured

RANDRW = captured("3.33-randrw")


def altered(output: TrialOutput, change: Callable[[dict[str, Any]], object]) -> TrialOutput:
    document = json.loads(output.files["fio.json"])
    change(document)
    return replace(output, files={**output.files, "fio.json": json.dumps(document)})


def test_no_percentile_is_above_the_longest_time() -> None:
    """fio gives the upper end of a step of its histogram."""

    def above(document: dict[str, Any]) -> None:
        latency = document["jobs"][0]["write"]["lat_ns"]
        latency["percentile"]["99.900000"] = latency["max"] + 4096

    metrics = _fio_json.read(altered(RANDRW, above)).metrics
    assert metrics["write_lat_p99.9_ms"] == metrics["write_lat_max_ms"]


def test_every_figure_of_a_mixed_run() -> None:
    job = json.loads(RANDRW.files["fio.json"])["jobs"][0]
    measured = _fio_json.read(RANDRW)
    metrics = measured.metrics
    assert metrics["read_iops"] == job["read"]["iops"]
    assert metrics["iops"] == pytest.approx(job["read"]["iops"] + job["write"]["iops"])
    assert metrics["write_bandwidth"] == job["write"]["bw_bytes"] / 2**20
    assert metrics["read_lat_mean_ms"] == job["read"]["lat_ns"]["mean"] / 1e6
    for name, key in (("p50", "50.000000"), ("p95", "95.000000"), ("p99", "99.000000"), ("p99.9", "99.900000")):
        assert metrics[f"write_lat_{name}_ms"] == job["write"]["lat_ns"]["percentile"][key] / 1e6
    assert metrics["read_lat_max_ms"] == job["read"]["lat_ns"]["max"] / 1e6
    assert metrics["runtime_s"] == job["read"]["runtime"] / 1000
    assert metrics["cpu_sys_pct"] == job["sys_cpu"]
    assert measured.bytes_read == job["read"]["io_bytes"]
    assert measured.bytes_written == job["write"]["io_bytes"]
    assert set(metrics) < {metric.name for metric in _fio_json.METRICS}
    assert not any(name.startswith("sync") for name in metrics)


@pytest.mark.parametrize("place", ["job", "global"])
def test_a_job_that_syncs_its_data_has_reads_cut_short_that_are_none(place: str) -> None:
    def syncing(document: dict[str, Any]) -> None:
        document["jobs"][0]["read"]["short_ios"] = 617
        options = document if place == "global" else document["jobs"][0]
        options.setdefault(f"{place} options", {})["fdatasync"] = "1"

    assert _fio_json.read(altered(RANDRW, syncing)).metrics == _fio_json.read(RANDRW).metrics

    def cut(document: dict[str, Any]) -> None:
        document["jobs"][0]["read"]["short_ios"] = 617

    with pytest.raises(WorkloadFailed, match="617 reads"):
        _fio_json.read(altered(RANDRW, cut))


@pytest.mark.parametrize(("way", "key"), [("read", "drop_ios"), ("write", "short_ios"), ("trim", "drop_ios")])
def test_other_requests_of_such_a_job_are_counted_as_of_any(way: str, key: str) -> None:
    def broken(document: dict[str, Any]) -> None:
        document["jobs"][0].setdefault("job options", {})["fdatasync"] = "1"
        document["jobs"][0][way][key] = 5

    with pytest.raises(
        WorkloadFailed, match=f"5 {way}s of fio's job .* were {'cut short' if 'short' in key else 'drop'}"
    ):
        _fio_json.read(altered(RANDRW, broken))


def test_a_run_time_beyond_the_wall_clock_is_refused() -> None:
    seconds = json.loads(RANDRW.files["fio.json"])["jobs"][0]["read"]["runtime"] / 1000
    assert _fio_json.read(replace(RANDRW, wall_s=seconds - 1)).metrics["runtime_s"] == seconds
    with pytest.raises(WorkloadFailed, match=f"{seconds} s in"):
        _fio_json.read(replace(RANDRW, wall_s=seconds - 1.01))


@pytest.mark.parametrize(
    ("way", "at_random"),
    [
        *((way, False) for way in ("read", "write", "rw", "readwrite")),
        *((way, True) for way in ("randread", "randwrite", "randrw")),
    ],
)
def test_what_is_at_random_by_fios_own_words(way: str, at_random: bool) -> None:
    options = {"rw": way, "size": "1G", "bs": "8k", "iodepth": "4", "numjobs": "3"}
    known = _fio_json.pattern(options, Measured({"runtime_s": 2.0, "read_iops": 7.0, "write_iops": 5.0}))
    assert known == AccessPattern(
        random=at_random,
        block_bytes=8192,
        span_bytes=1 << 30,
        depth=12,
        direct=False,
        durable=False,
        seconds=2.0,
        reads_per_s=7.0,
        writes_per_s=5.0,
    )


def test_the_series_adds_jobs_and_directions() -> None:
    measured = _fio_json.read(RANDRW)
    assert measured.series["iops"][0] == (1.0, 18908 + 6217 + 19647 + 6533)
    assert [t for t, _ in measured.series["iops"]] == [1.0, 2.0, 3.0]
    for (_, iops), (_, mib) in zip(measured.series["iops"], measured.series["bandwidth"], strict=True):
        assert mib == pytest.approx(iops * 4 / 1024, rel=0.01)


def test_the_study_has_no_latencies_and_they_are_absent_not_zero() -> None:
    metrics = _fio_json.read(captured("3.33-study")).metrics
    assert metrics["runtime_s"] > 0
    assert metrics["iops"] > 0
    assert not [name for name in metrics if "_lat_" in name]


def test_syncs_have_their_own_latencies_and_absent_reads_are_absent() -> None:
    metrics = _fio_json.read(captured("3.33-fsync")).metrics
    assert metrics["sync_lat_p99_ms"] > 0
    assert metrics["write_iops"] == metrics["iops"]
    assert not [name for name in metrics if name.startswith("read")]


def test_groups_one_after_another_share_the_time() -> None:
    output = captured("3.33-two-groups")
    jobs = json.loads(output.files["fio.json"])["jobs"]
    one, two = jobs[0]["read"], jobs[1]["write"]
    measured = _fio_json.read(output, sequential_groups=2)
    seconds = (one["runtime"] + two["runtime"]) / 1000
    assert measured.metrics["runtime_s"] == pytest.approx(seconds)
    assert measured.metrics["iops"] == pytest.approx((one["total_ios"] + two["total_ios"]) / seconds)
    assert "2 groups" in measured.notes[0]
    at_once = _fio_json.read(output)
    assert at_once.metrics["iops"] == pytest.approx(one["iops"] + two["iops"])
    assert at_once.metrics["runtime_s"] == max(one["runtime"], two["runtime"]) / 1000


def test_groups_one_after_another_have_one_series_and_it_says_where_each_begins() -> None:
    def log(count: int, value: int, direction: int) -> str:
        return "".join(f"{second}000, {value}, {direction}, 0, 0\n" for second in range(1, count + 1))

    output = captured("3.33-two-groups")
    logs = {"iops.log": log(12, 500, 0), "group2.iops.log": log(21, 40, 1)}
    files = {"fio.json": output.files["fio.json"], **logs}
    measured = _fio_json.read(replace(output, files=files), sequential_groups=2)
    assert measured.groups == (11,)
    assert measured.series["iops"] == tuple((float(s), 500.0 if s <= 11 else 40.0) for s in range(1, 32))
    assert [value for _, value in measured.series["write_iops"]] == [0.0] * 11 + [40.0] * 20
    assert [value for _, value in measured.series["read_iops"]] == [500.0] * 11 + [0.0] * 20


def test_each_direction_has_a_series() -> None:
    series = _fio_json.read(RANDRW).series
    assert series["read_iops"][0] == (1.0, 18908 + 19647)
    assert series["write_iops"][0] == (1.0, 6217 + 6533)


def test_fio_3_16() -> None:
    """Older: no sample counts, percentiles of the whole latency under clat_ns, warnings before the JSON."""

    def older(document: dict[str, Any]) -> None:
        document["fio version"] = "fio-3.16"
        for way in ("read", "write", "trim"):
            figures = document["jobs"][0][way]
            for kind in ("slat_ns", "clat_ns", "lat_ns"):
                figures[kind].pop("N", None)
            if "percentile" in figures["lat_ns"]:
                figures["clat_ns"]["percentile"] = figures["lat_ns"].pop("percentile")

    output = altered(RANDRW, older)
    with_banner = replace(
        output, files={**output.files, "fio.json": "fio: file size mismatch\nnote: x\n" + output.files["fio.json"]}
    )
    assert _fio_json.read(with_banner).metrics == _fio_json.read(RANDRW).metrics


def test_a_full_disk_is_a_failure_with_fios_own_words() -> None:
    with pytest.raises(WorkloadFailed, match="No space left on device") as failed:
        _fio_json.read(captured("3.33-enospc", exit_code=1))
    assert "28" in str(failed.value)
    assert str(failed.value).count("io_u error") == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["jobs"][0].update(error=5), "Input/output error"),
        (lambda d: d["jobs"][0].update(total_err=3), "3 I/O errors"),
        (lambda d: d["jobs"][0]["write"].update(short_ios=2), "2 writes .* cut short"),
        (lambda d: d["jobs"][0]["read"].update(drop_ios=1), "1 reads .* dropped"),
        (lambda d: [d["jobs"][0][way].update(io_bytes=0) for way in ("read", "write")], "read and wrote nothing"),
        (lambda d: d["jobs"].clear(), "no jobs"),
        (lambda d: d.pop("jobs"), "no jobs"),
        (lambda d: d["jobs"][0].pop("write"), "another shape"),
        (lambda d: d["jobs"][0].update(usr_cpu="much"), "another shape"),
        (lambda d: d["jobs"][0]["read"].update(iops=float("nan")), "another shape"),
        (lambda d: d["jobs"][0]["read"].update(iops=-1), "another shape"),
    ],
)
def test_an_untrustworthy_run_is_a_failure(change: Callable[[dict[str, Any]], object], words: str) -> None:
    with pytest.raises(WorkloadFailed, match=words):
        _fio_json.read(altered(RANDRW, change))


def test_no_output_and_a_bad_exit_code() -> None:
    with pytest.raises(WorkloadFailed, match="exit code 1 and left no results: fio: no such engine"):
        _fio_json.read(TrialOutput(1, 0.1, "", "fio: no such engine\n", {}))
    with pytest.raises(WorkloadFailed, match="exit code 2: it said nothing more"):
        _fio_json.read(replace(RANDRW, exit_code=2))


@pytest.mark.parametrize("kept", [0.01, 0.3, 0.6, 0.99])
def test_cut_off_json(kept: float) -> None:
    text = RANDRW.files["fio.json"]
    with pytest.raises(WorkloadFailed):
        _fio_json.read(replace(RANDRW, files={"fio.json": text[: int(len(text.rstrip()) * kept)]}))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.text() | JSON_VALUES.map(json.dumps), st.text(max_size=30))
def test_garbage_is_always_a_failed_workload(text: str, log: str) -> None:
    with pytest.raises(WorkloadFailed):
        _fio_json.read(TrialOutput(0, 1.0, "", "", {"fio.json": text, "iops.log": log}))


@settings(max_examples=300)
@given(st.data())
def test_a_damaged_document_is_read_or_is_a_failed_workload(data: st.DataObject) -> None:
    """One value anywhere in a good document is replaced by anything."""
    document: Any = json.loads(RANDRW.files["fio.json"])
    place: Any = document
    while True:
        keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        below = place[key]
        if not isinstance(below, (dict, list)) or not below or data.draw(st.booleans()):
            place[key] = data.draw(JSON_VALUES)
            break
        place = below
    try:
        measured = _fio_json.read(replace(RANDRW, files={**RANDRW.files, "fio.json": json.dumps(document)}))
    except WorkloadFailed:
        return
    assert measured.metrics["iops"] > 0


@given(st.text())
def test_a_garbage_log_is_a_failed_workload_or_a_series(log: str) -> None:
    try:
        measured = _fio_json.read(replace(RANDRW, files={**RANDRW.files, "iops.log": log}))
    except WorkloadFailed:
        return
    assert len(measured.series.get("iops", ((1.0, 0.0),) * 3)) == 3


def test_a_second_without_io_counts_as_zero() -> None:
    log = "1000, 10, 0, 0, 0\n2003, 20, 0, 0, 0\n5000, 50, 1, 0, 0\n"
    assert _fio_json.read_log(log, 7.001) == [(1.0, 10.0), (2.0, 20.0), (3.0, 0.0), (4.0, 0.0), (5.0, 50.0), (6.0, 0.0)]


@pytest.mark.parametrize(("runtime_s", "seconds"), [(3.0, 2), (3.001, 2), (3.2, 3), (3.5, 3), (0.9, 0)])
def test_the_last_second_is_left_out(runtime_s: float, seconds: int) -> None:
    log = "".join(f"{t * 1000}, 7, 0, 0, 0\n" for t in range(1, 5))
    assert len(_fio_json.read_log(log, runtime_s)) == seconds


def test_an_absurd_run_time_does_not_fill_memory() -> None:
    """A damaged run time must not become a series of that many zeros."""
    with pytest.raises(WorkloadFailed, match="another shape"):
        _fio_json.read(altered(RANDRW, lambda d: d["jobs"][0]["read"].update(runtime=1e18)))


def test_a_preset_states_what_it_did() -> None:
    spec = call("fio/randwrite-4k-fsync", size=1 << 28, numjobs=3, direct=False)
    measured = find(spec).read(spec, captured("3.33-fsync"))
    assert measured.pattern == AccessPattern(
        random=True,
        block_bytes=4096,
        span_bytes=1 << 28,
        depth=3,
        direct=False,
        durable=True,
        seconds=measured.metrics["runtime_s"],
        reads_per_s=0.0,
        writes_per_s=measured.metrics["write_iops"],
    )
    spec = call("fio/randrw-75-25")
    mixed = find(spec).read(spec, RANDRW).pattern
    assert mixed is not None and (mixed.depth, mixed.direct, mixed.durable) == (64, True, False)
    assert mixed.reads_per_s == _fio_json.read(RANDRW).metrics["read_iops"]


@pytest.mark.parametrize(
    ("lines", "durable"),
    [
        ("sync=dsync", True),
        ("sync=1", True),
        ("fdatasync=1", True),
        ("fsync=32", False),
        ("sync=none", False),
        ("", False),
    ],
)
def test_a_job_file_of_one_job_states_what_it_did(lines: str, durable: bool) -> None:
    spec = call("fio:", content=f"[global]\nrw=randwrite\nsize=64M\n[a]\nbs=8k\nioengine=libaio\niodepth=4\n{lines}\n")
    found = find(spec).read(spec, RANDRW).pattern
    assert found is not None
    assert (found.block_bytes, found.span_bytes, found.depth, found.durable) == (8192, 64 << 20, 4, durable)


@pytest.mark.parametrize(
    "content",
    [
        "[a]\nrw=randread\nsize=1G\n[b]\nrw=randwrite\nsize=1G\n",
        "[a]\nrw=randread\nsize=1G\nrandom_distribution=zipf\n",
        "[a]\nrw=randread\nsize=50%\n",
        "[a]\nrw=randread\nbs=4k,8k\nsize=1G\n",
        "[a]\nrw=randtrim\nsize=1G\n",
        "[a]\nrw=randread\nioengine=mmap\nsize=1G\n",
    ],
)
def test_what_is_not_one_plain_pattern_is_not_stated(content: str) -> None:
    spec = call("fio:", content=content)
    assert find(spec).read(spec, RANDRW).pattern is None
