"""The exact lab against closed forms: what a model or a rule of queues says of a disk is what fio measures on it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from strata.lab import models
from strata.model import Outcome

from .lab_runs import STRATA, lab_run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

EXACT = ("--clock", "virtual")


def figures(
    directory: Path, stacks: list[str], loads: list[str], *options: str
) -> dict[tuple[str, str], dict[str, float]]:
    """By stack and workload."""
    first, *others = loads
    more = [word for load in others for word in ("-w", load)]
    view = lab_run(directory, stacks, first, *more, *EXACT, *options)
    assert not view.failed and not view.skipped
    assert [trial.outcome for trial in view.trials] == [Outcome.OK] * (len(view.stacks) * len(loads))
    written = {known.text: load for known, load in zip(view.workloads, loads, strict=True)}
    return {(trial.stack, written[trial.workload]): dict(trial.metrics) for trial in view.trials}


def job(path: Path, *lines: str) -> str:
    path.write_text("\n".join(["[job]", "bs=4k", "direct=1", "time_based=1", *lines, ""]))
    return f"fio:{path}"


def test_a_disk_of_the_engine_does_in_the_machine_what_its_model_claims(tmp_path: Path) -> None:
    """hdd-7200, which the role hdd stands for, through ublk: seeks, rotation, queue, zones, cache and flush."""
    said = json.loads(subprocess.run([STRATA, "disk", "models", "--json"], capture_output=True, check=True).stdout)
    claims = next(each["claims"] for each in said["models"] if each["model"]["name"] == "hdd-7200")
    single, deep = (f"fio/randread-4k-qd32(iodepth={depth}, runtime=20s, size=2G)" for depth in (1, 32))
    in_order = "fio/seqread-1m(runtime=1s, size=256M)"  # the zones further in are slower
    flushed = job(tmp_path / "flushed.fio", "rw=randwrite", "size=2g", "fsync=1", "ioengine=psync", "runtime=20")
    # What is laid out must leave some room: the arm goes over 95 % of the disk that the claims are of.
    found = figures(tmp_path / "run", ["hdd"], [single, deep, in_order, flushed], "--size", "hdd=2160M")
    assert claims["size_bytes"] == 2 << 30
    iops = {load: metrics["iops"] for (_, load), metrics in found.items()}
    assert iops[single] == pytest.approx(claims["random_reads_per_s"], rel=0.03)
    assert iops[deep] == pytest.approx(claims["random_reads_deep_per_s"], rel=0.05)
    assert iops[flushed] == pytest.approx(claims["flushed_writes_per_s"], rel=0.05)
    in_bytes = found["hdd", in_order]["bandwidth"] * (1 << 20)
    assert in_bytes == pytest.approx(claims["sequential_read_bytes_per_s"], rel=0.03)


SLOW = """\
name: two-at-a-time
queue_depth: 32
write_cache: none
service:
  fixed: {servers: 2, read_us: 4000, write_us: 9000}
"""


SERIAL = """\
name: one-at-a-time
queue_depth: 64
write_cache: none
service:
  fixed: {servers: 1, read_us: 8000, write_us: 8000}
"""


def test_reads_and_writes_of_their_own_times_through_the_engine(tmp_path: Path) -> None:
    model = tmp_path / "slow.yaml"
    model.write_text(SLOW)
    reads = [f"fio/randread-4k-qd32(iodepth={depth}, runtime=5s, size=64M)" for depth in (1, 2, 16)]
    writes = [f"fio/randwrite-4k-qd32(iodepth={depth}, runtime=5s, size=64M)" for depth in (1, 16)]
    found = figures(tmp_path / "run", ["disk"], [*reads, *writes], "--disk", f"disk={model}", "--size", "disk=256M")
    iops = [found["disk", load]["iops"] for load in (*reads, *writes)]
    assert iops == pytest.approx([250.0, 500.0, 500.0, 1e6 / 9000, 2e6 / 9000], rel=0.02)


LARGE = """\
name: large-requests
queue_depth: 32
largest_request_bytes: 1048576
write_cache: none
service:
  fixed: {servers: 1, read_us: 2000, write_us: 3000, bytes_per_s: 400000000}
"""


def test_copying_a_large_request_takes_none_of_the_disks_time(tmp_path: Path) -> None:
    """A disk moves its data by itself. The engine copies them, which takes its processor about 0.25 ms a MiB: while the
    request waits for the moment that the model gives it, and not after that."""
    model = tmp_path / "large.yaml"
    model.write_text(LARGE)
    sizes, depths, ways = {"4k": 4096, "128k": 1 << 17, "1m": 1 << 20}, (1, 8), ("read", "write")
    asked = {}
    for size, length in sizes.items():
        for depth in depths:
            for way, own_s in zip(ways, (0.002, 0.003), strict=True):
                lines = (f"rw=rand{way}", f"bs={size}", f"iodepth={depth}", "ioengine=libaio", "runtime=3", "size=128m")
                load = job(tmp_path / f"{way}-{size}-{depth}.fio", *lines)
                asked[load] = (depth, length, own_s + length / 400e6)
    found = figures(tmp_path / "run", ["disk"], list(asked), "--disk", f"disk={model}", "--size", "disk=256M")
    added_ms = {load: 1e3 * (1 / found["disk", load]["iops"] - takes_s) for load, (_, _, takes_s) in asked.items()}
    for load, (depth, length, takes_s) in asked.items():
        # One at a time the program's own work on each page, and the way to the disk, come on top.
        most_ms = 0.035 + 0.2 * length / (1 << 20) if depth == 1 else 1e3 * takes_s / 1000
        assert abs(added_ms[load]) <= most_ms, added_ms


def test_random_arrivals_wait_as_queueing_theory_says(tmp_path: Path) -> None:
    """M/D/1: who finds the disk busy for a share r of the time waits for r / (2 (1 - r)) service times in the mean
    (Pollaczek and Khinchine), and then is served for one."""
    model = tmp_path / "slow.yaml"
    model.write_text(SERIAL)
    # 31 sources of two a second, for fio waits for all that a job has under way before it pauses; they begin together
    arrivals = (
        "rate_iops=2",
        "rate_process=poisson",
        "numjobs=31",
        "group_reporting=1",
        "ioengine=psync",
        "ramp_time=5",
    )
    load = job(tmp_path / "random.fio", "rw=randread", "filename=data", "size=64m", "runtime=120", *arrivals)
    found = figures(tmp_path / "run", ["disk"], [load], "--disk", f"disk={model}", "--size", "disk=256M")
    metrics, busy = found["disk", load], 62 * 0.008
    assert metrics["iops"] == pytest.approx(62.0, rel=0.03)
    assert metrics["read_lat_mean_ms"] == pytest.approx(8.0 * (1 + busy / (2 * (1 - busy))), rel=0.05)


def test_slow_disks_side_by_side_add_up(tmp_path: Path) -> None:
    """Striped, each disk does its own; of mirrors reads find both halves, and each write takes both."""
    model = tmp_path / "slow.yaml"
    model.write_text(SERIAL)
    stacks = ["2*disk | md(raid0)", "4*disk | md(raid0)", "4*disk | md(raid10, bitmap=none)"]
    read, write = (f"fio/rand{way}-4k-qd32(iodepth=96, runtime=10s, size=256M)" for way in ("read", "write"))
    found = figures(tmp_path / "run", stacks, [read, write], "--disk", f"disk={model}", "--size", "disk=256M")
    for stack, reads, writes in zip(stacks, (2, 4, 4), (2, 4, 2), strict=True):
        assert found[stack, read]["iops"] == pytest.approx(125 * reads, rel=0.05)
        assert found[stack, write]["iops"] == pytest.approx(125 * writes, rel=0.05)


def test_a_delay_of_device_mapper_comes_on_top(tmp_path: Path) -> None:
    load = "fio/randread-4k-qd32(iodepth=1, runtime=5s, size=64M)"
    stack = "disk | dm(delay, read=20ms, write=20ms)"
    found = figures(tmp_path / "run", [stack], [load], "--disk", "disk=serial-8ms", "--size", "disk=256M")
    assert found[stack, load]["read_lat_mean_ms"] == pytest.approx(28.0, rel=0.02)


SLOW_FLASH = """\
name: slow-flash
queue_depth: 32
write_cache: volatile
service:
  ssd:
    {channels: 2, dies_per_channel: 2, page_bytes: 16384, program_bytes: 65536, block_bytes: 4194304, read_us: 600,
     program_us: 6000, erase_ms: 8, channel_bytes_per_s: 40000000, over_provisioning: 0.1,
     interface_bytes_per_s: 60000000, full_duplex: false, command_us: 50, read_latency_us: 100,
     write_latency_us: 300, buffer_bytes: 1048576, flush_us: 3000}
"""


def test_flash_that_is_slow_enough_for_the_engine_does_what_its_model_claims(tmp_path: Path) -> None:
    """Dies, channels, the write buffer and collection through ublk, as on a memory card."""
    model = tmp_path / "card.yaml"
    model.write_text(SLOW_FLASH)
    document = json.dumps(models.find(str(model), SLOW_FLASH).document)
    argv = [Path(STRATA).with_name("strata-engine"), "disk", "models", "--model=-", "--json", f"--size={512 << 20}"]
    said = subprocess.run(argv, input=document, capture_output=True, check=True, text=True).stdout
    claims = json.loads(said)[0]["claims"]
    single, deep = (f"fio/randread-4k-qd32(iodepth={depth}, runtime=5s, size=480M)" for depth in (1, 32))
    in_order = "fio/seqread-1m(runtime=2s, size=256M)"
    flushed = job(tmp_path / "flushed.fio", "rw=randwrite", "size=480m", "fsync=1", "ioengine=psync", "runtime=5")
    options = ("--disk", f"ssd={model}", "--size", "ssd=512M")
    found = figures(tmp_path / "run", ["ssd"], [single, deep, in_order, flushed], *options)
    iops = {load: metrics["iops"] for (_, load), metrics in found.items()}
    # of 0.92 ms, to which the machine's processor adds some 30 us: fio's part, the kernel's and the server's
    assert iops[single] == pytest.approx(claims["random_reads_per_s"], rel=0.05)
    assert iops[deep] == pytest.approx(claims["random_reads_deep_per_s"], rel=0.05)
    assert iops[flushed] == pytest.approx(claims["flushed_writes_per_s"], rel=0.05)
    in_bytes = found["ssd", in_order]["bandwidth"] * (1 << 20)
    assert in_bytes == pytest.approx(claims["sequential_read_bytes_per_s"], rel=0.03)


def test_a_disk_that_stalls_now_and_then(tmp_path: Path) -> None:
    """Every hundredth request finds it standing still for 400 ms, the others take their 8 ms."""
    model = tmp_path / "stalls.yaml"
    model.write_text(f"{SERIAL}faults: {{stalls: [{{length_ms: 400, every: 100}}]}}\n")
    load = "fio/randread-4k-qd32(iodepth=1, runtime=20s, size=64M)"
    found = figures(tmp_path / "run", ["disk"], [load], "--disk", f"disk={model}", "--size", "disk=256M")
    metrics = found["disk", load]
    assert metrics["iops"] == pytest.approx(100 / (99 * 0.008 + 0.4), rel=0.03)
    assert metrics["read_lat_p50_ms"] == pytest.approx(8.0, rel=0.03)
    assert metrics["read_lat_max_ms"] == pytest.approx(400.0, rel=0.03)


def test_flash_reads_as_many_bytes_as_its_interface_carries(tmp_path: Path) -> None:
    load = "fio/seqread-1m(runtime=1s, size=256M)"
    found = figures(tmp_path / "run", ["ssd"], [load], "--size", "ssd=512M")
    # stated: 545 MB/s
    bytes_per_s = found["ssd", load]["bandwidth"] * (1 << 20)
    assert bytes_per_s == pytest.approx(545e6, rel=0.05), bytes_per_s


def test_a_fast_disk_is_as_fast_as_the_processor_lets_it_be(tmp_path: Path) -> None:
    """The machine's own processor has its part of every request: fio's, the kernel's and the engine's, or null_blk's
    for `plain`. So one at a time takes that much longer than by the model, and many find a ceiling.
    """
    single, deep = (f"fio/randread-4k-qd32(iodepth={depth}, runtime=1s, size=64M)" for depth in (1, 32))
    found = figures(tmp_path / "run", ["{ssd, nvme, disk}"], [single, deep], "--size", "nvme=512M")
    claimed = {"ssd": (1e6 / 10_024.5, 100_000), "nvme": (1e6 / 19_162.6, 625_000), "disk": (100.0, 320_000)}
    for role, least_us, most_us, ceiling in (
        ("ssd", 25, 35, (24_000, 32_000)),
        ("nvme", 20, 30, (29_000, 40_000)),
        ("disk", 15, 22, (50_000, 80_000)),
    ):
        read_us, most = claimed[role]
        added_us = 1e6 / found[role, single]["iops"] - read_us
        assert least_us < added_us < most_us, (role, added_us)
        assert ceiling[0] < found[role, deep]["iops"] < min(ceiling[1], most), role
