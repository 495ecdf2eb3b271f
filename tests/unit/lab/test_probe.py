"""Fitting a model to a disk: what is asked of fio, and that a disk whose figures are known gets them back."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.lab import model_file, models, probe
from strata.lab.probe import Device, Seen

FLASH = Device("/dev/sdx", 1 << 40, False, "volatile", 32)
TURNS = replace(FLASH, rotational=True)


def seen_of_flash(one_us: float, cap: float, bytes_per_s: float) -> dict[str, Seen]:
    """As many in parallel as are requested, each `one_us`, until `cap` a second."""
    found = {}
    for depth in (depth for depth in probe.DEPTHS if depth <= FLASH.queue_depth):
        per_s = min(depth * 1e6 / one_us, cap)
        found[f"depth {depth}"] = Seen(per_s, per_s * 4096, depth * 1e6 / per_s)
    for size in probe.SIZES[1:]:
        found[f"of {size >> 10} KiB"] = Seen(1.0, 1.0, one_us + (size - 4096) * 1e6 / bytes_per_s)
    return found | {name: Seen(1.0, bytes_per_s, 1.0) for name in ("start", "end")}


def test_a_device_is_only_read() -> None:
    for device in (FLASH, TURNS):
        for load in probe.loads(device):
            argv = probe.command(device, load, 2.0).argv
            assert "--readonly" in argv and load.rw in ("read", "randread")
    assert {load.rw for load in probe.loads(replace(FLASH, scratch=True))} > {"randwrite", "write"}


def test_loads_stay_within_the_disk_and_its_queue() -> None:
    for load in probe.loads(replace(TURNS, queue_depth=4)):
        argv = dict(word[2:].split("=", 1) for word in probe.command(TURNS, load, 2.0).argv if "=" in word)
        assert int(argv["offset"]) + int(argv["size"]) <= TURNS.size_bytes
        assert int(argv["offset"]) % 4096 == 0 and load.depth <= 4


@given(
    one_us=st.floats(30, 2000),
    at_a_time=st.floats(1, 31),
    bytes_per_s=st.floats(5e7, 5e9),
    waited_us=st.floats(5, 5000),
    scratch=st.booleans(),
)
def test_flash_gets_back_what_was_measured(
    one_us: float, at_a_time: float, bytes_per_s: float, waited_us: float, scratch: bool
) -> None:
    device = replace(FLASH, scratch=scratch)
    cap = at_a_time * 1e6 / one_us
    seen = seen_of_flash(one_us, cap, bytes_per_s)
    if scratch:
        seen |= {
            "write": Seen(1e6 / one_us, 0, one_us),
            "flushed": Seen(100, 0, one_us + waited_us),
            "writes": Seen(cap, 0, 0),
            "written": Seen(1, bytes_per_s, 1),
        }
    text = probe.as_file("mine", device, probe.fit(device, seen), ["a test"])
    model = models.find("mine.yaml", text)
    service = model.service
    assert 1e6 / service["command_us"] == pytest.approx(cap, rel=0.05)
    way_us = 4096e6 / service["interface_bytes_per_s"] + 4096e6 / service["channel_bytes_per_s"]
    whole = service["command_us"] + service["read_us"] + service["read_latency_us"] + way_us
    assert whole == pytest.approx(max(one_us, service["command_us"] + way_us), rel=0.05, abs=0.5)
    assert service["interface_bytes_per_s"] == pytest.approx(bytes_per_s, rel=0.01)
    assert ("flush_us" in model.assumed) is not scratch and ("program_bytes" in model.assumed) is not scratch
    if scratch:
        dies = service["channels"] * service["dies_per_channel"]
        programmed = service["program_bytes"] * dies / service["program_us"] * 1e6
        assert programmed >= max(cap * 4096, bytes_per_s) * 0.94
        # only where the smallest operation would take longer than the flush is it made shorter, and faster
        assert programmed == pytest.approx(max(cap * 4096, bytes_per_s), rel=0.06) or service["program_bytes"] == 4096
        sent_us = 4096e6 / service["channel_bytes_per_s"] - service["write_latency_us"]
        least_us = max(service["command_us"], sent_us)
        assert probe.flush_us(service) == pytest.approx(max(waited_us, least_us), abs=1)
    assert "block_bytes" in model.assumed and "command_us" not in model.assumed
    assert model.limits is not None and model.limits.read_iops == pytest.approx(cap, rel=0.01)


@settings(max_examples=40)
@given(read_us=st.floats(1, 90), latency_us=st.floats(1, 90), times=st.floats(1.5, 20))
def test_what_large_reads_take_is_got_back(read_us: float, latency_us: float, times: float) -> None:
    usual = {**models.find("ssd-sata").service, "command_us": 5.0, "interface_bytes_per_s": 1e9}
    service = usual | {
        "read_us": read_us,
        "read_latency_us": latency_us,
        "channel_bytes_per_s": times * 1e9 / usual["channels"],
    }
    took = {size: probe.lone_read_us(service, size) for size in probe.SIZES}
    seen = seen_of_flash(took[4096], 2e5, 1e9)
    seen |= {f"of {size >> 10} KiB": Seen(1.0, 1.0, us) for size, us in took.items() if size > 4096}
    found = probe.fit(FLASH, seen)
    assert {"read_us", "read_latency_us", "channel_bytes_per_s"}.isdisjoint(found.assumed)
    for size, us in took.items():
        assert probe.lone_read_us(found.service, size) == pytest.approx(us, rel=0.1)


@given(short=st.floats(0.5, 2.0), long=st.floats(0.5, 2.0))
def test_a_disk_that_turns_gets_its_seek_curve_back(short: float, long: float) -> None:
    usual = models.find("hdd-7200").service
    rest_ms = usual["command_us"] / 1e3 + 60_000 / usual["rpm"] / 2
    seen = {}
    for share in probe.SPANS:
        took_ms = rest_ms + probe.seek_ms(usual, share, short, long)
        seen[f"span {share:g}"] = Seen(1e3 / took_ms, 0, took_ms * 1e3)
    seen |= {"depth 1": seen["span 1"], "depth 32": Seen(200, 0, 160_000)}
    seen |= {"start": Seen(1, 210e6, 1), "end": Seen(1, 95e6, 1)}
    found = probe.fit(TURNS, seen)
    assert found.kind == "hdd"
    for share in probe.SPANS:
        wanted = probe.seek_ms(usual, share, short, long)
        assert probe.seek_ms(found.service, share) == pytest.approx(wanted, rel=0.03)
    # the first zone does what was measured at the start, and at 15/16 of the bytes the rate is that of the end
    outer, inner, zones = (found.service[name] for name in ("outer_bytes_per_s", "inner_bytes_per_s", "zones"))
    assert outer - (outer - inner) / (2 * zones) == pytest.approx(210e6, rel=0.001)
    there = float(probe.stroke(np.array(15 / 16), outer, inner))
    assert outer - (outer - inner) * there == pytest.approx(95e6, rel=0.01)
    assert "rpm" in found.assumed and not [name for name in found.assumed if name.startswith("seek_")]
    model_file.load(probe.as_file("mine", TURNS, found, []), "mine")


@settings(max_examples=60)
@given(holds=st.integers(10, 500), quick=st.floats(300, 1500), times=st.floats(3, 20))
def test_a_write_cache_is_as_large_as_the_bursts_that_it_takes(holds: int, quick: float, times: float) -> None:
    """Every write that does not fit takes as long as the medium, which makes room for one in that time."""
    slow, wanted = quick * times, holds << 20

    def mean(size: int) -> float:
        left, full_at = size // (256 << 10), wanted / (256 << 10) / (1 - quick / slow)
        within = min(left, full_at)
        return (within * quick + (left - within) * slow) / left

    bursts = [(size, mean(size)) for size in probe.BURSTS]
    found = probe.cache_bytes(bursts)
    if sum(mean > 2 * quick for _, mean in bursts) < 2:
        assert found is None
    else:
        assert found == pytest.approx(wanted, rel=0.03, abs=1 << 20)


def test_a_new_file_on_a_disk_that_turns_tells_of_its_writes() -> None:
    device = replace(TURNS, scratch=True, size_bytes=4 << 30)
    lone, *bursts = [load for load in probe.loads(device) if load.burst_bytes]
    assert (lone.name, lone.block_bytes, lone.burst_bytes) == ("write", 4096, probe.BURSTS[0])
    assert [load.burst_bytes for load in bursts] == list(probe.BURSTS)
    argv = probe.command(device, bursts[0], 2.0).argv
    assert "--io_size=8388608" in argv and "--end_fsync=1" in argv and "--time_based" not in argv
    seen = {f"depth {depth}": Seen(80, 0, 12_000.0 * depth) for depth in probe.DEPTHS}
    seen |= {f"span {share:g}": Seen(80, 0, 12_000) for share in probe.SPANS}
    seen |= {"start": Seen(1, 210e6, 1), "end": Seen(1, 95e6, 1), "writes": Seen(200, 0, 1), "written": Seen(1, 2e8, 1)}
    seen |= {"write": Seen(1, 0, 250.0), "flushed": Seen(1, 0, 13_500.0)}
    seen |= {f"burst {size >> 20} MiB": Seen(1, 0, 800.0) for size in probe.BURSTS}
    found = probe.fit(device, seen)
    way_us = 4096e6 / found.service["interface_bytes_per_s"]
    assert found.service["command_us"] == pytest.approx(250 - way_us, abs=0.1)
    assert found.service["write_settle_ms"] == pytest.approx(1.5, abs=0.001)
    # all bursts fit, so that nobody knows how much more would
    assert "cache_bytes" in found.assumed and {"command_us", "write_settle_ms"}.isdisjoint(found.assumed)

    quick = probe.fit(device, seen | {"write": Seen(1, 0, 20.0)})
    assert quick.service["command_us"] == pytest.approx(20 - way_us, abs=0.1), "as it was measured, however short"

    uncached = probe.fit(replace(device, write_cache="none"), seen | {"write": Seen(1, 0, 12_700.0)})
    assert uncached.service["write_settle_ms"] == pytest.approx(0.7)


def test_a_disk_of_which_the_kernel_thinks_that_it_turns_is_known_by_its_speed() -> None:
    seen = seen_of_flash(100, 50_000, 1e9)
    assert probe.fit(TURNS, seen).kind == "ssd"


def test_what_was_assumed_is_said() -> None:
    text = probe.as_file("mine", FLASH, probe.fit(FLASH, seen_of_flash(100, 50_000, 1e9)), [])
    (said,) = models.caveats("disk", models.find("mine.yaml", text), virtual=False)
    assert "flush_us" in said and "ssd-sata" in said and "verdict" in said
    assert models.caveats("disk", models.find("nvme"), virtual=False) == ()


def test_fio_that_did_nothing_is_no_figure() -> None:
    load = probe.Load("depth 1", "randread")
    job = {"error": 0, "read": {"iops": 0, "bw_bytes": 0, "lat_ns": {"mean": 0}}}
    with pytest.raises(ValueError, match="did nothing"):
        probe.read("note\n" + json.dumps({"jobs": [job]}), load)
    job["read"] = {"iops": 10.0, "bw_bytes": 40960, "lat_ns": {"mean": 100_000}}
    assert probe.read(json.dumps({"jobs": [job]}), load) == Seen(10.0, 40960.0, 100.0)
