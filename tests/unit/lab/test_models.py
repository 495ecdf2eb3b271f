"""Models of disks: those that come with Strata, files of the user's, and what makes a lab behave like them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from strata.errors import BadInput
from strata.lab import models
from strata.lab.probe import Device, Seen, as_file, fit, loads
from strata.model import Disk, WriteCache

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


def attributes(model: models.DiskModel) -> dict[str, str] | None:
    """Of null_blk as the commands in the machine set them; None where the engine serves."""
    _, (command,) = models.in_guest("disk0", 1 << 30, model, model.write_cache, 1)
    if "strata-engine disk serve" in command.argv[2]:
        return None
    assert "/sys/kernel/config/nullb" in command.argv[2]
    return dict(word.split("=", 1) for word in command.argv[8:])


# One that null_blk can be, and each change that makes it a disk that null_blk cannot be.
SIMPLE = """\
name: mine
queue_depth: 4
physical_block_bytes: 512
write_cache: none
service:
  fixed: {servers: 4, read_us: 250, write_us: 250}
"""
NOT_SIMPLE = {
    "write_us: 250": ("write_us: 251", "its reads and writes take different times"),
    "write_us: 250}": ("write_us: 250, bytes_per_s: 6000000}", "it has a bytes_per_s"),
    "write_cache: none": ("write_cache: volatile", "its write cache is volatile"),
    "service:": ("faults: {power_cut_s: 1}\nservice:", "it has faults"),
    "queue_depth: 4": ("queue_depth: 5", "it holds more requests than it serves"),
    "physical_block_bytes: 512\n": ("", "physical_block_bytes is 4096, and logical_block_bytes 512"),
    "name: mine": ("name: mine\nlargest_request_bytes: 1048576", "largest_request_bytes is above 512 KiB"),
}


def test_who_serves_each_model_that_comes_with_strata() -> None:
    served = {name: attributes(models.find(name)) for name in models.names()}
    assert {name for name, by_null_blk in served.items() if by_null_blk is None} == {"hdd-7200", "nvme", "ssd-sata"}
    plain, serial = served["plain"], served["serial-8ms"]
    assert plain is not None and serial is not None
    assert (plain["hw_queue_depth"], plain["completion_nsec"]) == ("32", "100000")
    assert (serial["hw_queue_depth"], serial["completion_nsec"]) == ("1", "8000000")


@pytest.mark.parametrize("cache", ["volatile", "protected", "none"])
@pytest.mark.parametrize("name", models.names())
def test_null_blk_takes_no_discards_has_no_rate_and_takes_the_largest_requests_of_the_model(
    name: str, cache: WriteCache
) -> None:
    """A discard larger than 20 ms of its rate never ends, and by itself it takes 255 sectors a request."""
    found = attributes(replace(models.find(name), write_cache=cache))
    assert found is None or (found["discard"], found["max_sectors"], "mbps" in found) == ("0", "1024", False)


def test_fixed_times_that_null_blk_can_be_are_served_by_it() -> None:
    assert attributes(models.find("mine.yaml", SIMPLE)) == {
        "memory_backed": "1",
        "discard": "0",
        "size": "1024",
        "blocksize": "512",
        "max_sectors": "1024",
        "submit_queues": "1",
        "poll_queues": "0",
        "hw_queue_depth": "4",
        "irqmode": "2",
        "completion_nsec": "250000",
    }
    small = models.find("mine.yaml", f"logical_block_bytes: 4096\nlargest_request_bytes: 65536\n{SIMPLE}")
    small = replace(small, device={**small.device, "physical_block_bytes": 4096})
    found = attributes(small)
    assert found is not None and (found["blocksize"], found["max_sectors"]) == ("4096", "128")
    more = models.find("mine.yaml", SIMPLE.replace("servers: 4", "servers: 9"))
    found = attributes(more)
    assert found is not None and found["hw_queue_depth"] == "4", "it holds 4, so no more are served at a time"


# drivers/block/null_blk/main.c of Linux 6.1, `nullb_device_attrs`: the oldest kernel of a lab.
LINUX_6_1 = (
    "size completion_nsec submit_queues poll_queues home_node queue_mode blocksize max_sectors irqmode hw_queue_depth "
    "index blocking use_per_node_hctx power memory_backed discard mbps cache_size badblocks zoned zone_size "
    "zone_capacity zone_nr_conv zone_max_open zone_max_active virt_boundary no_sched"
)


def test_the_null_blk_of_every_lab_has_the_attributes_that_are_set() -> None:
    assert set(models.null_blk(models.find("serial-8ms"), 1 << 30)) <= set(LINUX_6_1.split())


@pytest.mark.parametrize("old", NOT_SIMPLE)
def test_what_null_blk_cannot_be_is_served_by_the_engine(old: str) -> None:
    new, why = NOT_SIMPLE[old]
    model = models.find("mine.yaml", SIMPLE.replace(old, new))
    assert attributes(model) is None
    (reason,) = models.reasons_against_null_blk(model)
    assert reason.startswith(why)


def test_a_probed_disk_is_served_by_the_engine_however_fast_it_is() -> None:
    for device, us in (
        (Device("/dev/a", 8 << 30, False, "volatile", 32), 80.0),
        (Device("/dev/b", 8 << 30, False, "none", 128), 20.0),
        (Device("/dev/c", 8 << 30, False, "volatile", 128, 4096, scratch=True), 20.0),
        (Device("/dev/d", 8 << 30, True, "volatile", 32), 12_000.0),
        (Device("/dev/e", 8 << 30, True, "none", 32, scratch=True), 12_000.0),
    ):
        seen = {load.name: Seen(1e6 * load.depth / us, 4096e6 * load.depth / us, us) for load in loads(device)}
        text = as_file("a", device, fit(device, seen), ["a probe"])
        assert attributes(models.find("a.yaml", text)) is None, device.path


def test_of_several_hardware_queues_the_kernel_schedules_none() -> None:
    """As Linux does by itself where a disk has them; what is served has one."""

    def scheduler(model: models.DiskModel) -> str:
        _, (command,) = models.in_guest("disk0", 1 << 30, model, model.write_cache, 1)
        return command.argv[5]

    found = {name: scheduler(models.find(name)) for name in models.names()}
    assert found == {"hdd-7200": "", "nvme": "none", "plain": "", "serial-8ms": "", "ssd-sata": ""}
    assert scheduler(models.find("mine.yaml", SIMPLE.replace("queue_depth: 4", "queue_depth: 33"))) == "none"
    turns = SIMPLE.replace("queue_depth: 4", "queue_depth: 33").replace("servers: 4", "rotational: true, servers: 40")
    assert scheduler(models.find("mine.yaml", turns)) == ""


def test_what_a_fast_disk_loses_to_the_processor_stands_beside_its_figures() -> None:
    for name, least in (
        ("ssd-sata", "a write, takes 25 us"),
        ("nvme", "a read of what is in its memory, takes 8.77 us"),
    ):
        (said,) = models.caveats("ssd", models.find(name), virtual=True, cost_us=16.94)
        assert f"{name}, every request computed by strata-engine disk, which takes 16.9 us more for each" in said
        assert least in said and "adds some 30 us in all to each request, and serves some 28,000 a second" in said
    assert "adds some 18 us in all to each request" in models.served_by(models.find("plain"))
    assert "processor" not in models.served_by(models.find("serial-8ms")), "of 8 ms its part is nothing"
    assert "processor" not in models.served_by(models.find("hdd-7200"))
    # a slower processor adds more, to more disks
    for name in ("ssd-sata", "hdd-7200"):
        assert "adds some 60 us in all to each request" in models.served_by(models.find(name), 500)


def test_what_serving_costs_stands_beside_the_figures_where_the_engine_serves() -> None:
    (said,) = models.caveats("hdd", models.find("hdd-7200"), virtual=True, cost_us=16.94)
    assert said == (
        "Disks of the role hdd are modelled: hdd-7200, every request computed by strata-engine disk, which takes "
        "16.9 us more for each."
    )
    cache = models.find("mine.yaml", FIXED.replace("write_cache: none", "write_cache: volatile"))
    assert "more for each, flushes too, which take no time by the model" in models.served_by(cache, cost_us=20.0)


def test_the_role_of_a_disk_says_which_model_it_has_where_nothing_else_does() -> None:
    assert [models.usual(role) for role in ("hdd", "ssd", "nvme", "disk")] == ["hdd-7200", "ssd-sata", "nvme", "plain"]
    assert {models.usual(role) for role in ("hdd", "ssd", "nvme", "disk")} <= set(models.names())


def test_that_a_disk_fails_stands_beside_its_figures() -> None:
    failing = replace(models.find("hdd-7200"), faults={"power_cut_s": 1.0, "errors": []})
    assert "Disks of the role hdd fail as their model says: power_cut_s." in models.caveats(
        "hdd", failing, virtual=True
    )


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
    (reason,) = models.reasons_against_kernel(models.find("ssd-sata"), "6.1.0-50-amd64", frozenset({"null_blk"}))
    assert "ssd-sata is served through ublk, which the kernel 6.1.0-50-amd64 was built without" in reason
    assert "(it is of the kind ssd, not fixed)" in reason and "serial-8ms" in reason
    assert models.reasons_against_kernel(models.find("ssd-sata"), "6.12.107", frozenset({"ublk_drv"})) == []
    for name in ("serial-8ms", "plain"):
        assert models.reasons_against_kernel(models.find(name), "6.1.0-50-amd64", frozenset()) == []
