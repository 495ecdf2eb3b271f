"""The real programs on loop devices of our own: plan, run, read."""

from __future__ import annotations

import os
import shutil
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.errors import WorkloadFailed
from strata.model import Kind, Target
from strata.workloads import find, workloads

from .workload_bench import call, loop, mounted, run, throttle_here, throttled

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for loop devices and mounts"),
    pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed; apt-get install fio"),
]
NEEDS_THROTTLE = pytest.mark.skipif(
    throttle_here() is None,
    reason="no block throttle: neither cgroup v1 blkio.throttle nor the cgroup v2 io controller",
)
M = 1 << 20


@pytest.fixture
def device(tmp_path: Path) -> Iterator[str]:
    with loop(tmp_path, "256M") as made:
        yield made


@pytest.fixture
def directory(device: str, tmp_path: Path) -> Iterator[Target]:
    with mounted(device, tmp_path) as point:
        yield Target(Kind.DIRECTORY, str(point), None)


FIO = [name for name in workloads() if name.startswith(("fio/", "cdm"))]


@pytest.mark.parametrize("name", FIO)
def test_fio_accepts_the_options_of_every_preset(name: str, tmp_path: Path) -> None:
    for variant in (None, *find(call(name)).info.variants):
        spec = call(name, variant=variant, size=M, compressible=0.5)
        plan = find(spec).plan(spec, Target(Kind.DIRECTORY, str(tmp_path), None), str(tmp_path), 7)
        for command in (*plan.prepare, plan.measure):
            done = subprocess.run((*command.argv, "--parse-only"), check=False, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr


def test_the_checks_hold_on_this_machine_and_catch_what_fio_refuses() -> None:
    (engine,) = find(call("fio/randrw-75-25")).checks(call("fio/randrw-75-25"))
    assert subprocess.run(engine.argv, check=False, capture_output=True).returncode == 0
    jobs = [("[a]\nrw=randread\nsize=1M\n", True), ("[a]\nrw=sideways\n", False), ("[a]\niodepth=deep\n", False)]
    for content, fine in jobs:
        spec = call("fio:", content=content)
        (check,) = find(spec).checks(spec)
        done = subprocess.run(check.argv, input=check.stdin, check=False, capture_output=True, text=True)
        assert (done.returncode == 0) is fine


def test_randrw_and_its_study(directory: Target, tmp_path: Path) -> None:
    measured = run(call("fio/randrw-75-25", size=32 * M, runtime=3.0), directory, tmp_path / "a")
    assert measured.bytes_read is not None and measured.bytes_written is not None
    assert measured.bytes_read / (measured.bytes_read + measured.bytes_written) == pytest.approx(0.75, abs=0.02)
    assert len(measured.series["iops"]) == 2
    assert measured.metrics["read_lat_p99_ms"] <= measured.metrics["read_lat_max_ms"]
    study = run(call("fio/randrw-75-25", variant="study", size=32 * M), directory, tmp_path / "b")
    assert (study.bytes_read or 0) + (study.bytes_written or 0) == 32 * M
    assert study.metrics["runtime_s"] > 0


def test_the_file_is_complete_and_does_not_compress(directory: Target, tmp_path: Path) -> None:
    run(call("fio/seqread-1m", size=16 * M, runtime=1.5), directory, tmp_path / "s")
    data = Path(directory.path, "strata.data")
    assert data.stat().st_blocks * 512 >= 16 * M
    packed = subprocess.run(("gzip", "-1", "-c", data), check=True, capture_output=True).stdout
    assert len(packed) > 0.99 * 16 * M


def deflated(device: str, size: int, piece: int) -> float:
    """How many times smaller the pieces of a device become, each by itself."""
    raw = Path(device).read_bytes()[:size]
    pieces = [raw[at : at + piece] for at in range(0, size, piece)]
    return size / sum(min(piece, len(zlib.compress(each, 1))) for each in pieces)


@pytest.mark.parametrize(
    ("compressible", "depth", "least", "most"),
    [(0.0, 1, 1.0, 1.02), (0.0, 8, 1.0, 1.02), (0.0, 32, 1.0, 1.02), (0.5, 8, 1.9, 2.1)],
)
def test_what_is_written_compresses_as_it_says_at_every_depth(
    compressible: float, depth: int, least: float, most: float, device: str, tmp_path: Path
) -> None:
    """In records of 128 KiB, as ZFS and btrfs compress them, and in blocks of 4 KiB, as VDO does."""
    spec = call(
        "fio/randwrite-4k-qd32", size=8 * M, runtime=1.0, iodepth=depth, compressible=compressible, direct=False
    )
    run(spec, Target(Kind.BLOCK, device, None), tmp_path / "s")
    for piece in (128 << 10, 4 << 10):
        assert least <= deflated(device, 8 * M, piece) <= most, piece


def test_several_jobs_and_syncs(directory: Target, tmp_path: Path) -> None:
    many = run(call("cdm6/4k-q8t8-write", size=16 * M, runtime=2.0), directory, tmp_path / "a")
    assert many.metrics["iops"] == many.metrics["write_iops"]
    synced = run(call("fio/randwrite-4k-fsync", size=16 * M, runtime=2.0), directory, tmp_path / "b")
    assert synced.metrics["sync_lat_p50_ms"] > 0


def test_a_device_as_target(device: str, tmp_path: Path) -> None:
    target = Target(Kind.BLOCK, device, None)
    assert run(call("fio/randread-4k-qd32", size=16 * M, runtime=1.5), target, tmp_path / "a").metrics["iops"] > 0
    job = "[a]\nioengine=libaio\ndirect=1\nrw=randrw\nsize=8M\n"
    measured = run(call("fio:", content=job), target, tmp_path / "b")
    assert (measured.bytes_read or 0) + (measured.bytes_written or 0) == 8 * M


def test_a_device_that_is_not_there_makes_no_file_in_its_place(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    target = Target(Kind.BLOCK, str(gone), None)
    with pytest.raises(WorkloadFailed):
        run(call("fio/randread-4k-qd32", size=M, runtime=1.0), target, tmp_path / "s", prepare=False)
    assert not gone.exists()


def test_offsets_follow_the_seed_and_differ_between_passes(tmp_path: Path) -> None:
    (tmp_path / "strata.data").write_bytes(bytes(64 << 10))

    def offsets(seed: int) -> list[str]:
        spec = call("fio/randread-4k-qd32", size=64 << 10, runtime=1.0, iodepth=1, direct=False, ioengine="psync")
        plan = find(spec).plan(spec, Target(Kind.DIRECTORY, str(tmp_path), None), str(tmp_path), seed)
        log = tmp_path / f"{seed}.log"
        subprocess.run((*plan.measure.argv, f"--write_iolog={log}", "--rate_iops=100"), check=True, capture_output=True)
        lines = [line.split() for line in log.read_text().splitlines() if " read " in line]
        log.unlink()
        return [line[-2] for line in lines][:32]

    first = offsets(1)
    assert len(first) == 32
    assert first == offsets(1)
    assert first != offsets(2)
    assert sorted(first[:16]) == sorted(first[16:])
    assert first[:16] != first[16:]


JOBS = """\
[global]
ioengine=libaio
direct=1
size=8M
bs=4k
[reader]
rw=randread
[writer]
rw=write
bs=1M
stonewall
"""


def test_a_job_file_of_ones_own(directory: Target, tmp_path: Path) -> None:
    measured = run(call("fio:", content=JOBS), directory, tmp_path / "s")
    assert (measured.bytes_read, measured.bytes_written) == (8 * M, 8 * M)
    assert sorted(path.name for path in Path(directory.path).iterdir()) == ["lost+found", "reader.0.0", "writer.0.0"]


def test_a_file_that_all_jobs_name_lies_in_the_target(directory: Target, tmp_path: Path) -> None:
    jobs = "[global]\nfilename=data\nrw=write\nsize=1M\n[a]\nbs=4k\n[b]\nbs=8k\nfilename=own\n"
    run(call("fio:", content=jobs), directory, tmp_path / "s")
    assert sorted(path.name for path in Path(directory.path).iterdir()) == ["data", "lost+found", "own"]
    assert not (tmp_path / "s" / "data").exists()


@pytest.mark.parametrize("name", ["10:30:00", "d#14", "a;b", "$ncpus ${HOME}", 'it\'s a "b"\\,c'])
def test_fio_stays_in_a_target_of_any_name(name: str, tmp_path: Path) -> None:
    here = tmp_path / "all" / name
    (here / "target").mkdir(parents=True)
    target = Target(Kind.DIRECTORY, str(here / "target"), None)
    preset = call("fio/randread-4k-qd32", size=M, runtime=2.0, direct=False, ioengine="psync")
    assert run(preset, target, here / "a").series["iops"]
    study = call("fio/randrw-75-25", variant="study", size=M, direct=False, ioengine="psync")
    assert run(study, target, here / "b").metrics["runtime_s"] > 0
    measured = run(call("fio:", content="[own]\nrw=write\nsize=4M\n"), target, here / "c")
    assert measured.bytes_written == 4 * M
    assert sorted(path.name for path in (here / "target").iterdir()) == ["own.0.0", "strata.data"]
    assert [path.name for path in (tmp_path / "all").iterdir()] == [name]
    assert sorted(path.name for path in here.iterdir()) == ["a", "b", "c", "target"]


def test_a_disk_that_fills_up_in_the_middle(tmp_path: Path) -> None:
    job = "[filler]\nrw=write\nbs=64k\nsize=64M\nioengine=libaio\ndirect=1\nfallocate=none\n"
    with loop(tmp_path, "32M") as small, mounted(small, tmp_path) as point:
        target = Target(Kind.DIRECTORY, str(point), None)
        with pytest.raises(WorkloadFailed, match="No space left on device"):
            run(call("fio:", content=job), target, tmp_path / "a")
        with pytest.raises(WorkloadFailed, match="No space left on device"):
            run(call("dd/seqwrite-sync", size=64 * M), target, tmp_path / "b")


@NEEDS_THROTTLE
@pytest.mark.parametrize("kind", [Kind.BLOCK, Kind.DIRECTORY])
def test_200_iops_are_reported_as_200(kind: Kind, device: str, tmp_path: Path) -> None:
    spec = call("fio/randread-4k-qd32", size=16 * M, runtime=8.0, iodepth=4)
    with throttled(device, riops=200) as group:
        if kind is Kind.BLOCK:
            measured = run(spec, Target(kind, device, None), tmp_path / "s", group=group)
        else:
            with mounted(device, tmp_path) as point:
                measured = run(spec, Target(kind, str(point), None), tmp_path / "s", group=group)
    assert measured.metrics["iops"] == pytest.approx(200, rel=0.02)
    assert measured.metrics["bandwidth"] == pytest.approx(200 * 4 / 1024, rel=0.02)
    assert measured.metrics["read_lat_mean_ms"] == pytest.approx(1000 * 4 / 200, rel=0.05)
    for _, value in measured.series["iops"]:
        assert value == pytest.approx(200, rel=0.1)


@NEEDS_THROTTLE
def test_dd_pays_for_its_sync(device: str, tmp_path: Path) -> None:
    """32 MiB through 16 MiB/s: dd itself ends at the speed of memory, the figure must not."""
    with mounted(device, tmp_path) as point, throttled(device, wbps=16 * M) as group:
        measured = run(
            call("dd/seqwrite-sync", size=32 * M), Target(Kind.DIRECTORY, str(point), None), tmp_path / "s", group=group
        )
    assert measured.metrics["throughput"] == pytest.approx(16, rel=0.2)
    assert measured.metrics["duration_s"] > 1.6
    assert measured.metrics["dd_throughput"] > 3 * measured.metrics["throughput"]


def test_a_script_of_ones_own(directory: Target, tmp_path: Path) -> None:
    script = """#!/usr/bin/env python3
import json, os
open("made", "w").close()
with open(os.environ["STRATA_OUTPUT"], "w") as output:
    json.dump({"same": float(os.getcwd() == os.environ["STRATA_TARGET"])}, output)
"""
    measured = run(call("command:", content=script), directory, tmp_path / "a")
    assert measured.metrics["same"] == 1.0
    assert Path(directory.path, "made").exists()
    run(call("command:", content="test -f made && touch plain\n"), directory, tmp_path / "b")
    assert Path(directory.path, "plain").exists()
    with pytest.raises(WorkloadFailed, match="exit code 9: no luck"):
        run(call("command:", content="echo no luck >&2; exit 9\n"), directory, tmp_path / "c")


def test_null(tmp_path: Path) -> None:
    measured = run(call("null"), Target(Kind.DIRECTORY, str(tmp_path), None), tmp_path / "s")
    assert 0 < measured.metrics["duration_s"] < 5
