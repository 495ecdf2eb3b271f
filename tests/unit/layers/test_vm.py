"""What QEMU is told for each argument of `vm`, and what it could not do."""

from __future__ import annotations

import dataclasses
import json

import pytest

from strata.errors import BadInput
from strata.layers import drivers
from strata.layers.vm import argv
from strata.model import Completed, Guest, GuestImage, Kind, Place, Provides, Value

from .layer_cases import BESIDE, PLACE, facts, spec

IMAGE = GuestImage("/cache/guests/1", "tcg", ("-kernel", "/cache/guests/1/kernel"))
GUEST = Guest(PLACE.name, PLACE.dir, IMAGE)
DEVICE = Provides(Kind.BLOCK, "/run/visit/1/device", 1 << 30)


def line(below: Provides = DEVICE, **values: Value) -> list[str]:
    return argv(spec("vm", values), below, GUEST, PLACE)


def option(words: list[str], name: str, number: int = 0) -> str:
    return [words[i + 1] for i, word in enumerate(words) if word == name][number]


# QEMU's manual page, the table of -drive cache=: direct, no-flush, the write cache that the guest is told of.
@pytest.mark.parametrize(
    ("cache", "direct", "no_flush", "told"),
    [
        ("none", "on", "off", "on"),
        ("writeback", "off", "off", "on"),
        ("writethrough", "off", "off", "off"),
        ("directsync", "on", "off", "off"),
        ("unsafe", "off", "on", "on"),
    ],
)
@pytest.mark.parametrize("bus", ["virtio-blk", "virtio-scsi", "sata", "nvme"])
def test_a_cache_mode_is_three_switches(cache: str, direct: str, no_flush: str, told: str, bus: str) -> None:
    words = line(cache=cache, bus=bus)
    for number in (0, 1):
        node = option(words, "-blockdev", number).split(",")
        assert f"cache.direct={direct}" in node and f"cache.no-flush={no_flush}" in node
    (device,) = [word for word in words if "drive=disk" in word]
    assert f"write-cache={told}" in device.split(",") and f"serial={PLACE.name}" in device.split(",")


def test_an_image_is_read_in_its_format_and_a_device_as_it_is() -> None:
    image = Provides(Kind.IMAGE, "/srv/a,b.qcow2", 5 << 30, name="qcow2")
    words = line(image)
    assert option(words, "-blockdev").startswith("driver=file,node-name=file,filename=/srv/a,,b.qcow2,")
    assert option(words, "-blockdev", 1).startswith("driver=qcow2,")
    words = line()
    assert option(words, "-blockdev").startswith("driver=host_device,") and "driver=raw," in option(
        words, "-blockdev", 1
    )


def test_a_limit_is_a_throttle_on_top_of_the_disk() -> None:
    words = line(read_iops=100, write_bps=8 << 20)
    assert json.loads(option(words, "-object")) == {
        "qom-type": "throttle-group",
        "id": "limit",
        "limits": {"iops-read": 100, "bps-write": 8 << 20},
    }
    assert option(words, "-blockdev", 2).startswith("driver=throttle,node-name=limited,throttle-group=limit,file=disk,")
    assert any("drive=limited" in word for word in words)


def test_the_guest_s_system_comes_from_the_lab() -> None:
    words = line(memory=512 << 20, cpus=3)
    assert option(words, "-kernel") == "/cache/guests/1/kernel" and option(words, "-smp") == "3"
    assert option(words, "-accel") == "tcg,thread=multi" and option(words, "-m").startswith("size=512M,")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"cache": "writeback", "aio": "native"}, "cache=none or directsync"),
        ({"cache": "unsafe", "aio": "native"}, "cache=none or directsync"),
        ({"bus": "sata", "iothread": True}, "bus=virtio-blk or virtio-scsi"),
        ({"detect_zeroes": "unmap"}, "add discard"),
        ({"memory": 1 << 40}, "give the guest less"),
    ],
)
def test_what_cannot_be_is_said_before_it_is_tried(values: dict[str, Value], words: str) -> None:
    (reason,) = drivers()["vm"].reasons_not_to_run(spec("vm", values), facts())
    assert words in reason and reason.endswith(".")


def test_what_stands_above_is_inside() -> None:
    place = Place(PLACE.name, PLACE.dir, PLACE.uuid, IMAGE)
    provided = drivers()["vm"].provides(spec("vm"), [DEVICE], place)
    assert (
        provided.guest == dataclasses.replace(GUEST, memory_bytes=512 << 20)
        and provided.size_bytes == DEVICE.size_bytes
        and provided.kind is Kind.BLOCK
    )


def test_a_guest_that_is_gone_is_a_difference() -> None:
    driver, gone = drivers()["vm"], Completed(("sh",), 1, "", "cat: pid: No such file or directory", 0.0)
    (said,) = driver.differences(spec("vm"), [DEVICE], PLACE, [gone])
    assert "does not run" in said


IN_PLACE = dataclasses.replace(PLACE, guest_image=IMAGE, beside=BESIDE)


def shown(words: list[str], *flags: str) -> Completed:
    """What a program says of itself: more than it was asked for is what scripts add."""
    lines = [
        "process=7",
        *(f"argument={word}" for word in [*words, "-daemonize"]),
        *(f"flags={flag}" for flag in flags),
    ]
    return Completed(("sh",), 0, "\n".join(lines), "", 0.0)


def different(values: dict[str, Value], *seen: Completed) -> list[str]:
    return drivers()["vm"].differences(spec("vm", values), [DEVICE], IN_PLACE, list(seen))


def test_a_guest_is_read_back_with_its_command_line_and_how_its_disk_is_open() -> None:
    direct, cached = "02140002", "02100002"
    asked = argv(spec("vm", {"memory": 1 << 30}), DEVICE, dataclasses.replace(GUEST, memory_bytes=1 << 30), IN_PLACE)
    assert different({"memory": 1 << 30}, shown(asked, direct)) == []
    (said,) = different({"memory": 2 << 30}, shown(asked, direct))
    assert "QEMU was not started as requested" in said and "size=1024M" in said
    (said,) = different({"memory": 1 << 30}, shown(asked, cached))
    assert "without O_DIRECT, which is not vm(cache=none)" in said
    (said,) = different({"memory": 1 << 30}, shown(asked))
    assert DEVICE.path in said and "does not have it open" in said
    written_back = line(cache="writeback")
    assert different({"cache": "writeback"}, shown(written_back, cached)) == []
    (said,) = different({"cache": "writeback"}, shown(written_back, direct))
    assert "with O_DIRECT" in said


def test_a_guest_beside_the_lab_is_read_back_on_both_machines() -> None:
    values: dict[str, Value] = {"beside": True, "cache": "none"}
    driver, call = drivers()["vm"], spec("vm", values)
    export, _, start, _ = driver.plan_create(call, [DEVICE], IN_PLACE)
    daemon = list(export.do.argv[2:])  # after what takes the mark away
    words = list(start.do.argv)
    guest = words[words.index("qemu-system-x86_64") :]
    assert different(values, shown(guest), shown(daemon, "02140002")) == []
    (said,) = different(values, shown(guest), shown(daemon, "02100002"))
    assert "O_DIRECT" in said
    swapped = [word.replace("cache.direct=on", "cache.direct=off") for word in daemon]
    (said,) = different(values, shown(guest), shown(swapped, "02140002"))
    assert "qemu-storage-daemon was not started as requested" in said
    gone = Completed(("sh",), 0, "", "", 0.0)
    assert any("it does not run" in said for said in different(values, shown(guest), gone))


def test_the_disk_of_a_guest_beside_the_lab_is_an_export_with_the_cache_mode_there() -> None:
    driver, call = drivers()["vm"], spec("vm", {"beside": True, "cache": "unsafe", "discard": True, "write_iops": 9})
    place = dataclasses.replace(PLACE, beside=BESIDE)
    export, directory, start, ready = driver.plan_create(call, [DEVICE], place)
    assert [step.do.beside for step in (export, directory, start, ready)] == [False, True, True, True]
    assert export.undo and not export.undo.beside and start.undo and start.undo.beside
    daemon = " ".join(export.do.argv)
    for said in ("cache.no-flush=on", "discard=unmap", '"iops-write": 9', "addr.port=10809", '"node-name": "limited"'):
        assert said in daemon
    guest = " ".join(start.do.argv)
    assert "server.port=40001" in guest and "cache." not in guest and "throttle" not in guest
    assert "STRATA_RUN" not in guest, "its mark is how it is found after a kill -9"
    provided = driver.provides(call, [DEVICE], place).guest
    assert provided is not None and provided.beside and provided.dir == BESIDE.dir
    assert [command.beside for command in driver.plan_inspect(call, [DEVICE], place)] == [True, False]


@pytest.mark.parametrize("cache", ["writethrough", "directsync"])
def test_every_write_of_a_guest_beside_the_lab_is_flushed_where_its_disk_is(cache: str) -> None:
    place = dataclasses.replace(PLACE, beside=BESIDE)
    export = drivers()["vm"].plan_create(spec("vm", {"beside": True, "cache": cache}), [DEVICE], place)[0]
    assert json.loads(export.do.argv[-1])["writethrough"] is True


@pytest.mark.parametrize("where", ["beside", "nested"])
def test_beside_and_nested_are_for_the_lab(where: str) -> None:
    with pytest.raises(BadInput, match=rf"vm\({where}\) is for guests of a lab; add --on lab"):
        drivers()["vm"].provides(spec("vm", {where: True}), [DEVICE], PLACE)


def test_a_guest_within_the_lab_is_started_there_and_listens_where_a_port_of_ours_leads() -> None:
    place = dataclasses.replace(IN_PLACE, beside=BESIDE)
    driver, call = drivers()["vm"], spec("vm", {"nested": True})
    steps = driver.plan_create(call, [DEVICE], place)
    assert not any(step.do.beside or (step.undo and step.undo.beside) for step in steps)
    words = list(steps[0].do.argv)
    program = words.index("qemu-system-x86_64")
    assert str(BESIDE.lab_port) in words[:program] and "0.0.0.0" in words[:program]
    assert f"filename={DEVICE.path}" in " ".join(words[program:]), "its disk is opened by QEMU itself"
    guest = driver.provides(call, [DEVICE], place).guest
    assert guest is not None and guest.port == BESIDE.port and guest.dir == place.dir and not guest.beside
    assert [command.beside for command in driver.plan_inspect(call, [DEVICE], place)] == [False]


def test_where_a_guest_of_the_lab_runs_is_one_of_two() -> None:
    driver = drivers()["vm"]
    both = {"beside": True, "nested": True}
    assert any("leave out beside or nested" in said for said in driver.reasons_not_to_run(spec("vm", both), facts()))
    of_libvirt = spec("vm", {"nested": True, "engine": "libvirt"})
    assert any("QEMU itself" in said for said in driver.reasons_not_to_run(of_libvirt, facts()))
    own = spec("vm", {"nested": True, "image": "/i", "key": "/k"})
    assert any("in a lab yet" in said for said in driver.reasons_not_to_run(own, facts()))


def test_a_guest_beside_the_lab_asks_for_its_programs_where_they_run() -> None:
    here = dataclasses.replace(facts(), tools={}, memory_bytes=1)
    (reason,) = drivers()["vm"].reasons_not_to_run(spec("vm", {"beside": True}), here)
    assert "qemu-storage-daemon" in reason


@pytest.mark.parametrize("cache", ["writethrough", "directsync"])
def test_a_disk_of_nvme_without_a_write_cache_is_refused(cache: str) -> None:
    """QEMU's controller reports one all the same (hw/nvme/ctrl.c), so the guest goes on sending flushes."""
    (driver,) = [each for name, each in drivers().items() if name == "vm"]
    reasons = [
        r for r in driver.reasons_not_to_run(spec("vm", {"bus": "nvme", "cache": cache}), facts()) if "nvme" in r
    ]
    assert len(reasons) == 1 and "always reports a write cache" in reasons[0]
    for other in ({"bus": "nvme", "cache": "none"}, {"bus": "sata", "cache": cache}):
        assert not [r for r in driver.reasons_not_to_run(spec("vm", other), facts()) if "nvme" in r]
