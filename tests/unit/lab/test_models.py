"""Models of disks: those that come with Strata, files of the user's, and what makes a lab behave like them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from strata.errors import BadInput
from strata.lab import models
from strata.model import Disk

FIXED = """\
name: mine
about: Ours.
queue_depth: 32
write_cache: none
service:
  fixed: {servers: 4, read_us: 250, write_us: 250}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(BadInput) as caught:
        models.find("mine.yaml", text)
    return [str(problem).partition("\n")[0] for problem in caught.value.problems]


def test_what_comes_with_strata_can_be_read_and_says_where_it_is_from() -> None:
    assert {"hdd-7200", "ssd-sata", "nvme", "plain"} <= set(models.names())
    for name in models.names():
        model = models.find(name)
        assert model.name == name
        assert model.about.endswith(".")
        assert model.sources
        assert model.kind is not None


def test_by_the_real_clock_every_model_of_a_disk_has_limits() -> None:
    for name in ("hdd-7200", "ssd-sata", "nvme"):
        assert models.reasons_against_clock(models.find(name), virtual=False) == []
    (reason,) = models.reasons_against_clock(models.find("plain"), virtual=False)
    assert "limits" in reason


def test_what_turns() -> None:
    assert models.find("hdd-7200").rotational
    assert not models.find("nvme").rotational
    assert models.find("serial-8ms").rotational


def test_an_unknown_model_names_the_known_ones() -> None:
    with pytest.raises(BadInput, match=r"did you mean 'hdd-7200'.*nvme"):
        models.find("hdd-720")


def test_a_file_of_the_users() -> None:
    model = models.find("mine.yaml", FIXED)
    assert (model.name, model.kind, model.write_cache) == ("mine", "fixed", "none")
    assert model.service == {"servers": 4, "read_us": 250.0, "write_us": 250.0}
    assert model.device == {"queue_depth": 32}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("servers: 4", "servers: four", "mine.yaml:6:11: servers: 'four' is not right; give a whole number from 1"),
        ("servers: 4", "servers: 0", "mine.yaml:6:11: servers: '0' is not right; give a whole number from 1 to 1024"),
        ("servers: 4, ", "", "mine.yaml:6:3: 'servers' is missing; give a whole number from 1 to 1024"),
        ("read_us: 250,", "read_ms: 250,", "mine.yaml:6:23: `fixed` has no 'read_ms' (did you mean 'read_us'?)"),
        ("read_us: 250", "read_us: nan", "mine.yaml:6:23: read_us: 'nan' is not right"),
        ("write_cache: none", "write_cache: some", "mine.yaml:4:1: write_cache: 'some' is not right; give volatile or"),
        ("fixed:", "tape:", "mine.yaml:5:1: `service` holds one key, which is fixed or hdd or ssd"),
        ("about:", "abuot:", "mine.yaml:2:1: a disk model has no 'abuot' (did you mean 'about'?)"),
        ("queue_depth: 32", "queue_depth: 129", "mine.yaml:3:1: queue_depth: '129' is not right"),
        ("name: mine", "name:", "mine.yaml:1:1: 'name' is missing; give a text"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_key_and_line(old: str, new: str, said: str) -> None:
    assert old in FIXED
    assert any(problem.startswith(said) for problem in problems(FIXED.replace(old, new)))


def test_all_mistakes_are_told_at_once() -> None:
    broken = FIXED.replace("servers: 4", "servers: 0").replace("queue_depth: 32", "queue_depth: 0")
    assert len(problems(broken)) == 2


def test_a_file_that_says_nothing_of_either_clock() -> None:
    assert "neither `service`" in problems("name: x\nwrite_cache: none\n")[0]


def test_a_file_of_limits_alone_is_for_the_real_clock() -> None:
    limits = "{read_iops: 300, write_iops: 300, read_bytes_per_s: 1048576, write_bytes_per_s: 1048576}"
    model = models.find("slow.yaml", f"name: slow\nwrite_cache: volatile\nlimits: {limits}\n")
    assert model.limits == models.Limits(300, 300, 1 << 20, 1 << 20)
    assert models.reasons_against_clock(model, virtual=False) == []
    (reason,) = models.reasons_against_clock(model, virtual=True)
    assert "`service`" in reason
    with pytest.raises(BadInput, match="slow has no `service`"):
        models.in_guest("disk0", 1 << 30, model, "volatile", 1)


def test_fixed_times_are_served_by_null_blk() -> None:
    model = models.find("mine.yaml", FIXED.replace("queue_depth: 32", "queue_depth: 4"))
    fixed = models.as_fixed(model)
    assert fixed == models.Fixed(4, 250.0)
    assert models.as_fixed(models.find("mine.yaml", FIXED)) is None, "it would hold 4, and the disk holds 32"
    assert models.null_blk(model, fixed, 2 << 30) == {
        "memory_backed": 1,
        "discard": 1,
        "size": 2048,
        "blocksize": 512,
        "submit_queues": 1,
        "hw_queue_depth": 4,
        "irqmode": 2,
        "completion_nsec": 250_000,
    }
    path, (command,) = models.in_guest("hdd0", 2 << 30, model, "none", 1)
    assert path == "/dev/disk-hdd0"
    assert command.argv[3:6] == ("sh", "disk-hdd0", "0")
    assert "completion_nsec=250000" in command.argv


def test_what_null_blk_cannot_do_is_served_by_the_engine() -> None:
    short = FIXED.replace("queue_depth: 32", "queue_depth: 4")
    model = models.find("mine.yaml", short)
    assert models.as_fixed(replace(model, faults={"power_cut_s": 1.0})) is None
    assert models.as_fixed(models.find("mine.yaml", short.replace("write_us: 250", "write_us: 251"))) is None
    flushed = models.find("mine.yaml", short.replace("write_us: 250", "write_us: 250, flush_us: 1000"))
    assert models.as_fixed(flushed) == models.Fixed(4, 250.0)  # without a cache nobody flushes
    assert models.as_fixed(replace(flushed, write_cache="volatile")) is None
    fast = models.find(
        "mine.yaml", FIXED.replace("read_us: 250, write_us: 250", "read_us: 50, write_us: 50, flush_us: 1000")
    )
    assert models.as_fixed(replace(fast, write_cache="volatile")) == models.Fixed(4, 50.0, 1000.0)
    assert models.as_fixed(models.find("hdd-7200")) is None


def test_flash_is_too_fast_to_be_computed_and_null_blk_reads_as_it_does() -> None:
    # Stated: 10,000 reads a second one at a time and 98,000 at most; 19,000 and 600,000.
    for name, single, deep, flush in (("ssd-sata", 10_000, 98_000, "2755.8"), ("nvme", 19_000, 600_000, "2133.5")):
        fixed = models.as_fixed(models.find(name))
        assert fixed is not None
        assert 1e6 / fixed.time_us == pytest.approx(single, rel=0.02)
        assert fixed.servers * 1e6 / fixed.time_us == pytest.approx(deep, rel=0.05)
        said = models.served_by(models.find(name))
        assert f"{fixed.servers} requests at a time" in said
        assert f"flushes alone, {flush} us each, through a loop device" in said
        assert "flushes" not in models.served_by(replace(models.find(name), write_cache="protected"))
        assert "the machine's processor adds some 31 us to a request" in said
    assert "processor" not in models.served_by(models.find("serial-8ms")), "of 8 ms its part is nothing"


def test_what_serving_costs_stands_beside_the_figures_where_the_engine_serves() -> None:
    (said,) = models.caveats("hdd", models.find("hdd-7200"), virtual=True, cost_us=16.94)
    assert said == (
        "Disks of the role hdd are modelled: hdd-7200, every request computed by strata-engine disk, which takes "
        "16.9 us more for each."
    )
    (flash,) = models.caveats("ssd", models.find("ssd-sata"), virtual=True, cost_us=16.94)
    assert "16.9" not in flash


def test_flash_has_the_bandwidth_of_its_model() -> None:
    # Stated: 545 MB/s and 3.5 GB/s of sequential reads, of which the interface takes its part.
    for name, stated in (("ssd-sata", 545e6), ("nvme", 3.5e9)):
        model = models.find(name)
        fixed = models.as_fixed(model)
        assert fixed is not None
        assert models.null_blk(model, fixed, 1 << 30)["mbps"] * (1 << 20) == pytest.approx(stated, rel=0.05)
        assert "MB/s at most" in models.served_by(model)


def test_the_role_of_a_disk_says_which_model_it_has_where_nothing_else_does() -> None:
    assert [models.usual(role) for role in ("hdd", "ssd", "nvme", "disk")] == ["hdd-7200", "ssd-sata", "nvme", "plain"]
    assert {models.usual(role) for role in ("hdd", "ssd", "nvme", "disk")} <= set(models.names())


def test_what_nobody_can_serve_is_refused_before_anything_is_booted() -> None:
    for name in models.names():
        assert models.reasons_against_speed(models.find(name)) == []
    unlike = models.find("mine.yaml", FIXED.replace("read_us: 250, write_us: 250", "read_us: 50, write_us: 51"))
    (reason,) = models.reasons_against_speed(unlike)
    assert "its shortest request, a read, takes 50 us" in reason and "20 us of the processor for each" in reason
    (reason,) = models.reasons_against_speed(replace(models.find("ssd-sata"), faults={"power_cut_s": 1.0}))
    assert "ssd-sata is too fast" in reason


def test_a_flush_that_is_shorter_than_what_serving_it_takes_is_refused() -> None:
    cached = FIXED.replace("write_cache: none", "write_cache: volatile")
    for flush_us, refused in (("1", True), ("250", False), ("0", False)):
        text = cached.replace("write_us: 250", f"write_us: 251, flush_us: {flush_us}")
        reasons = models.reasons_against_speed(models.find("mine.yaml", text))
        assert bool(reasons) is refused
        assert not reasons or "a flush takes 1 us" in reasons[0]
    cache = models.find("mine.yaml", cached.replace("write_us: 250", "write_us: 251"))
    assert "more for each, flushes too, which take no time by the model" in models.served_by(cache, cost_us=20.0)


def test_a_slower_processor_serves_fewer_models() -> None:
    slow = models.find("mine.yaml", FIXED.replace("write_us: 250", "write_us: 300"))
    assert models.reasons_against_speed(slow) == []
    assert models.reasons_against_speed(slow, 500)
    # what the engine would serve at full speed goes to null_blk where it can
    flash = models.find("ssd-sata")
    assert models.as_fixed(flash, 250) is not None and "56 us more" in models.served_by(flash, 250)


def test_that_a_disk_fails_stands_beside_its_figures() -> None:
    failing = replace(models.find("hdd-7200"), faults={"power_cut_s": 1.0, "errors": []})
    assert "Disks of the role hdd fail as their model says: power_cut_s." in models.caveats(
        "hdd", failing, virtual=True
    )


def test_flushes_of_flash_have_a_null_blk_of_their_own() -> None:
    model = models.find("ssd-sata")
    path, (command,) = models.in_guest("ssd0", 2 << 30, model, "volatile", 1)
    assert path == "/dev/disk-ssd0"
    # a flush of 500 us, after 96 KiB were sent and programmed
    assert command.argv[3:7] == ("sh", "disk-ssd0", "0", "2755800")
    _, (without,) = models.in_guest("ssd0", 2 << 30, model, "protected", 1)
    assert without.argv[6:] == command.argv[7:]
    assert "losetup" in command.argv[2] and "losetup" not in without.argv[2]


def test_the_engine_gets_the_model_under_the_names_that_it_knows() -> None:
    path, (command,) = models.in_guest("hdd0", 2 << 30, models.find("hdd-7200"), "none", 7)
    assert path == "/dev/disk-hdd0"
    assert "--size=2147483648" in command.argv and "--link=/dev/disk-hdd0" in command.argv
    document = json.loads(command.stdin or "")
    assert document["write_cache"] == "none"  # what was said of the disk holds
    assert document["queue_depth"] == 32
    assert document["service"]["hdd"]["rpm"] == 7200


def test_disks_of_one_model_do_not_share_their_randomness_and_repeat_it() -> None:
    def seed(name: str, seed: int) -> str:
        _, (command,) = models.in_guest(name, 1 << 30, models.find("hdd-7200"), "volatile", seed)
        return next(word for word in command.argv if word.startswith("--seed="))

    assert seed("hdd0", 1) == seed("hdd0", 1)
    assert len({seed("hdd0", 1), seed("hdd1", 1), seed("hdd0", 2)}) == 3


def test_disks_must_fit_the_memory_of_the_machine() -> None:
    disks = [Disk("hdd", 2 << 30)] * 4
    assert models.reasons_against(disks, 9 << 30) == []
    assert models.reasons_against(disks, 9 << 30, 1), "what layers keep in memory counts, too"
    (reason,) = models.reasons_against(disks, (9 << 30) - 1)
    assert "8.0 GiB of disks need 9.0 GiB" in reason


def test_a_kernel_without_ublk_has_only_what_null_blk_serves() -> None:
    (reason,) = models.reasons_against_kernel(models.find("hdd-7200"), "6.1.0-50-amd64", frozenset({"null_blk"}))
    assert "hdd-7200 is served through ublk, which the kernel 6.1.0-50-amd64 was built without" in reason
    assert models.reasons_against_kernel(models.find("hdd-7200"), "6.12.107", frozenset({"ublk_drv"})) == []
    for name in ("serial-8ms", "ssd-sata"):
        assert models.reasons_against_kernel(models.find(name), "6.1.0-50-amd64", frozenset()) == []
