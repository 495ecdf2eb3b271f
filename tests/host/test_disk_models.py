"""The models that come with Strata, as its Python and its engine have them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strata.hosts.local import LocalHost
from strata.lab import bounds, models, probe
from strata.lab.probe import Device, Seen
from strata.model import AccessPattern, Command
from strata.run.sites import in_lab

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def shown() -> list[dict[str, Any]]:
    host = LocalHost("test-disk-models")
    said: list[dict[str, Any]] = json.loads(
        host.run(Command((host.engine, "disk", "models", "--json"), timeout_s=120.0)).stdout
    )
    return said


def test_the_engine_has_the_same_models(shown: list[dict[str, Any]]) -> None:
    assert {"hdd-7200", "ssd-sata", "nvme"} <= {entry["model"]["name"] for entry in shown}
    for entry in shown:
        theirs = entry["model"]
        (kind,) = theirs["service"]
        ours = json.loads(json.dumps(models.find(theirs["name"]).document))
        assert ours["write_cache"] == theirs["write_cache"]
        assert ours["queue_depth"] == theirs["queue_depth"]
        said = {name: value for name, value in theirs["service"][kind].items() if value is not None}
        assert {"flush_us": 0, **ours["service"][kind]} == {"flush_us": 0, **said}


def test_what_a_model_claims_is_within_its_limits_by_the_real_clock(shown: list[dict[str, Any]]) -> None:
    claims = {entry["model"]["name"]: entry["claims"] for entry in shown}
    for name in ("hdd-7200", "ssd-sata", "nvme"):
        limits = models.find(name).limits
        assert limits is not None
        assert limits.read_iops == pytest.approx(claims[name]["random_reads_deep_per_s"], rel=0.15)
        assert limits.read_bytes_per_s == pytest.approx(claims[name]["sequential_read_bytes_per_s"], rel=0.05)
        assert limits.write_bytes_per_s == pytest.approx(claims[name]["sequential_write_bytes_per_s"], rel=0.10)


SLOW_FLASH = {**models.find("ssd-sata").document["service"]["ssd"], "command_us": 250.0, "read_us": 400.0}


@pytest.mark.parametrize("name", ["hdd-7200", "serial-8ms", "plain", "ssd-sata", "nvme", "slow flash"])
def test_no_load_that_a_model_does_by_itself_is_beyond_its_bounds(name: str) -> None:
    """Random and in order, read, write, durable and mixed, of 4 KiB to 1 MiB, at depths 1 to 32."""
    model = models.find("ssd-sata" if name == "slow flash" else name)
    if name == "slow flash":
        model = replace(model, service=SLOW_FLASH)
    disk = bounds.ServedDisk("disk0", model, 1 << 30)
    host = LocalHost("test-disk-models")
    argv = (host.engine, "disk", "bounds", "--model=-", f"--size={disk.size_bytes}")
    said = host.run(Command(argv, timeout_s=300.0, stdin=json.dumps(model.document))).stdout
    known = bounds.parse_rates(said)
    marked = []
    for load in json.loads(said)["bounds"]:
        per_s, block = load["per_s"], load["block_bytes"]
        reads = {"read": per_s, "mixed": 0.75 * per_s}.get(load["kind"], 0.0)
        durable = load["kind"] in ("fua", "flushed")
        pattern = AccessPattern(
            load["random"], block, 1 << 30, load["depth"], True, durable, 1000.0, reads, per_s - reads
        )
        writes, parts = per_s - reads, -(-block // (512 << 10))  # of the largest request of these models
        seen = bounds.Counters(
            seconds=1000.0,
            reads=1000 * reads * parts,
            writes=1000 * writes * parts,
            read_bytes=1000 * reads * block,
            write_bytes=1000 * writes * block,
            flushes=1000 * per_s if load["kind"] == "flushed" else 0.0,
        )
        above = bounds.Above(in_place=True, fifo=True, durable=True, caches=())
        found = bounds.of_pattern((disk,), (seen,), pattern, above, lambda disk, span: known)
        marked += [(load, said) for said in (*bounds.of_counters(disk, seen), *found.excess, *found.served)]
    assert marked == []


def test_the_run_asks_the_engine_for_what_a_disk_can_do_at_random() -> None:
    disk = bounds.ServedDisk("disk0", models.find("serial-8ms"), 1 << 30)
    found = in_lab.random_rates(disk, 64 << 20)
    assert found["read", 4096, 1] == found["read", 4096, 32] == pytest.approx(125)


FLASH = models.find("ssd-sata").document["service"]["ssd"]
SMALL = {**FLASH, "page_bytes": 4096, "program_bytes": 4096}  # one write fills an operation
SOME = [
    ("fixed", "none", {"servers": 1, "read_us": 300, "write_us": 500, "bytes_per_s": 1 << 20}),
    ("fixed", "volatile", {"servers": 4, "read_us": 700, "write_us": 90, "flush_us": 4000}),
    ("ssd", "volatile", {**FLASH, "command_us": 50, "read_us": 400, "read_latency_us": 20, "write_latency_us": 300}),
    ("ssd", "none", {**FLASH, "command_us": 20, "read_latency_us": 900, "write_latency_us": 30}),
    ("ssd", "volatile", {**FLASH, "page_bytes": 4096, "program_bytes": 8192, "program_us": 400, "flush_us": 0}),
    *(
        ("ssd", "volatile", {**SMALL, "program_us": program_us, "write_latency_us": latency_us, "flush_us": 50})
        for program_us, latency_us in ((400, 0), (400, 300), (400, 2000), (5, 15))
    ),
    ("hdd", "volatile", {**models.find("hdd-7200").service}),
]


@pytest.mark.parametrize(("kind", "cache", "service"), SOME)
def test_what_a_model_is_planned_by_is_what_the_engine_goes_by(kind: str, cache: str, service: dict[str, Any]) -> None:
    """What its shortest request takes, which is stated of fast disks; and of flash what a flush takes, by which a probe
    fits."""
    written = f"name: mine\nqueue_depth: 32\nwrite_cache: {cache}\nservice: {json.dumps({kind: service})}\n"
    model = models.find("mine.yaml", written)
    host = LocalHost("test-disk-models")
    argv = (host.engine, "disk", "models", "--model=-", "--json", f"--size={1 << 30}")
    (entry,) = json.loads(host.run(Command(argv, timeout_s=120.0, stdin=json.dumps(model.document))).stdout)
    claims = entry["claims"]
    assert models.shortest(model)[0] == pytest.approx(claims["least_service_us"], abs=0.01)
    if cache == "volatile" and kind == "ssd":
        flush_us = 1e6 / claims["flushed_writes_per_s"] - 1e6 / claims["random_writes_per_s"]
        assert probe.flush_us(model.service) == pytest.approx(flush_us, rel=0.02)


def test_a_lone_read_takes_as_long_as_the_formula_that_probes_fit_by_says(shown: list[dict[str, Any]]) -> None:
    for entry in shown:
        if entry["model"]["name"] in ("ssd-sata", "nvme"):
            service = entry["model"]["service"]["ssd"]
            said = dict(entry["claims"]["random_read_us_by_bytes"])
            assert set(said) == set(probe.SIZES)
            for size, us in said.items():
                # some reads are of two operations, on two dies
                assert probe.lone_read_us(service, size) == pytest.approx(us, rel=0.2 if size > 4096 else 0.01)
            depths = dict(entry["claims"]["random_read_us_by_depth"])
            assert depths[1] == pytest.approx(said[4096], rel=0.01) and depths[32] >= depths[1]


@pytest.mark.parametrize(
    ("cache_mib", "settle_ms", "command_us"), [(128, 1.0, 300.0), (64, 0.5, 200.0), (32, 2.0, 500.0)], ids=str
)
def test_a_probe_of_a_disk_that_turns_finds_the_cache_and_the_arm_that_the_engine_gave_it(
    cache_mib: int, settle_ms: float, command_us: float
) -> None:
    size = 4 << 30
    document = json.loads(json.dumps(models.find("hdd-7200").document))
    document["service"]["hdd"] |= {
        "cache_bytes": cache_mib << 20,
        "write_settle_ms": settle_ms,
        "command_us": command_us,
    }
    host = LocalHost("test-disk-models")
    argv = (host.engine, "disk", "models", "--model=-", "--json", f"--size={size}")
    (entry,) = json.loads(host.run(Command(argv, timeout_s=120.0, stdin=json.dumps(document))).stdout)
    claims = entry["claims"]
    seen = {f"depth {depth}": Seen(depth * 1e6 / us, 0, us) for depth, us in claims["random_read_us_by_depth"]}
    seen |= {f"burst {size >> 20} MiB": Seen(1, 0, us) for size, us in claims["random_write_us_by_burst"]}
    seen |= {
        "write": Seen(1, 0, 1e6 / claims["random_writes_per_s"]),
        "flushed": Seen(1, 0, 1e6 / claims["flushed_writes_per_s"]),
        "writes": Seen(claims["random_writes_deep_per_s"], 0, 1),
        "written": Seen(1, claims["sequential_write_bytes_per_s"], 1),
        "start": Seen(1, claims["sequential_read_bytes_per_s"], 1),
        "end": Seen(1, claims["sequential_read_end_bytes_per_s"], 1),
    }
    found = probe.fit(Device("/new", size, True, "volatile", 32, scratch=True), seen)
    assert found.service["command_us"] == pytest.approx(command_us, abs=1)
    assert found.service["write_settle_ms"] == pytest.approx(settle_ms, abs=0.1)
    assert found.service["cache_bytes"] == pytest.approx(cache_mib << 20, rel=0.1)
    assert {"command_us", "write_settle_ms", "cache_bytes"}.isdisjoint(found.assumed)


def test_a_probe_of_a_disk_that_turns_finds_the_arm_and_the_zones_that_the_engine_gave_it() -> None:
    """Every load of a probe that reads, as the engine's own disk does it; and again as the fitted model does it."""
    truth = json.loads(json.dumps(models.find("hdd-7200").document)) | {"write_cache": "none"}
    size = truth["service"]["hdd"]["capacity_bytes"]
    # another arm and other rates than those of the class, whose values a fit begins with
    truth["service"]["hdd"] |= {"outer_bytes_per_s": 210_000_000, "inner_bytes_per_s": 95_000_000}
    truth["service"]["hdd"] |= {"seek_short_sqrt_ms": 11.0, "seek_long_linear_ms": 9.0}
    seen = _seen_by_reading(truth, size)
    found = probe.fit(Device("/dev/x", size, True, "volatile", 32), seen)
    assert found.service["outer_bytes_per_s"] == pytest.approx(210e6, rel=0.02)
    assert found.service["inner_bytes_per_s"] == pytest.approx(95e6, rel=0.02)
    again = _seen_by_reading(truth | {"service": {"hdd": dict(found.service)}}, size)
    for load, measured in seen.items():
        # of many the nearest goes first: that asks for the shortest seeks, of which the loads tell no more than a mean
        many = load.startswith("depth") and load != "depth 1"
        assert again[load].mean_us == pytest.approx(measured.mean_us, rel=0.08 if many else 0.03), load


def _seen_by_reading(document: dict[str, Any], size: int) -> dict[str, Seen]:
    host = LocalHost("test-disk-models")

    def claims(size: int) -> dict[str, Any]:
        outer = document["service"]["hdd"] | {"stroke": "outer"}
        argv = (host.engine, "disk", "models", "--model=-", "--json", f"--size={size // 4096 * 4096}")
        said = host.run(Command(argv, timeout_s=120.0, stdin=json.dumps(document | {"service": {"hdd": outer}}))).stdout
        (entry,) = json.loads(said)
        return dict(entry["claims"])

    whole = claims(size)
    seen = {f"depth {depth}": Seen(depth * 1e6 / us, 0, us) for depth, us in whole["random_read_us_by_depth"]}
    for name, claim in (("start", "sequential_read_bytes_per_s"), ("end", "sequential_read_end_bytes_per_s")):
        seen[name] = Seen(whole[claim] / 131072, whole[claim], 131072e6 / whole[claim])
    for share in probe.SPANS:
        us = whole["random_read_us"] if share == 1 else claims(int(size * share))["random_read_us"]
        seen[f"span {share:g}"] = Seen(1e6 / us, 0, us)
    return seen


TOGETHER = {
    "faults: {power_back_s: 1, power_cut_s: 2, stalls: [{length_ms: 5}]}": (
        "a stall needs exactly one",
        "the cut first",
    ),
    "physical_block_bytes: 512\nlogical_block_bytes: 4096": ("not less than logical_block_bytes",),
}


@pytest.mark.parametrize("wrong", TOGETHER)
def test_what_does_not_go_together_in_a_model_is_refused_before_anything_is_booted(tmp_path: Path, wrong: str) -> None:
    model = tmp_path / "mine.yaml"
    model.write_text(
        f"name: mine\nqueue_depth: 32\nwrite_cache: none\n{wrong}\n"
        "service: {fixed: {servers: 1, read_us: 500, write_us: 500}}\n"
    )
    strata = str(Path(sys.executable).with_name("strata"))
    argv = [strata, "plan", "disk | ext4", "--on", "lab", "--clock", "virtual", "--disk", f"disk={model}"]
    done = subprocess.run([*argv, "--size", "disk=256M"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 4, done.stderr
    for said in TOGETHER[wrong]:
        assert said in done.stderr


def test_flash_that_is_too_small_for_its_blocks_is_known_without_a_machine() -> None:
    document = json.loads(json.dumps(models.find("nvme").document))
    host = LocalHost("test-disk-models")

    def problems(size: int) -> str:
        argv = (host.engine, "disk", "check", "--model=-", f"--size={size}")
        return host.run(Command(argv, timeout_s=120.0, stdin=json.dumps(document))).stdout

    assert problems(1 << 20) and not problems(1 << 30)
