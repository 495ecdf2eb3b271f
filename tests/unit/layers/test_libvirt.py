"""The domain that `vm(engine=libvirt)` asks libvirt for, and what it makes of the answer."""

from __future__ import annotations

import ast
from xml.etree import ElementTree

import pytest

from strata.layers import _libvirt, drivers
from strata.layers._libvirt import domain
from strata.model import Completed, Guest, GuestImage, Kind, Place, Provides, Value

from .layer_cases import PLACE, facts, spec

IMAGE = GuestImage("/cache/guests/1", "kvm", ("-kernel", "/cache/guests/1/kernel", "-append", "a 'b' <c>"))
GUEST = Guest(PLACE.name, PLACE.dir, IMAGE)
DEVICE = Provides(Kind.BLOCK, "/run/visit/1/device", 1 << 30)
QCOW2 = Provides(Kind.IMAGE, "/srv/a&b.qcow2", 5 << 30, name="qcow2")


def built(below: Provides = DEVICE, **values: Value) -> ElementTree.Element:
    return ElementTree.fromstring(domain(spec("vm", values), below, GUEST, PLACE.uuid, "serial-1"))


def attributes(root: ElementTree.Element, path: str) -> dict[str, str]:
    found = root.find(path)
    assert found is not None, path
    return found.attrib


@pytest.mark.parametrize("cache", ["none", "writeback", "writethrough", "directsync", "unsafe"])
def test_the_disk_is_as_asked(cache: str) -> None:
    root = built(QCOW2, cache=cache, aio="io_uring", discard=True, detect_zeroes="unmap")
    driver = attributes(root, "devices/disk/driver")
    assert driver == {
        "name": "qemu",
        "type": "qcow2",
        "cache": cache,
        "io": "io_uring",
        "discard": "unmap",
        "detect_zeroes": "unmap",
        "error_policy": "report",
    }
    assert attributes(root, "devices/disk/source") == {"file": "/srv/a&b.qcow2"}
    assert attributes(built(), "devices/disk/source") == {"dev": "/run/visit/1/device"}


@pytest.mark.parametrize(
    ("bus", "name", "kind"), [("virtio-blk", "vda", "virtio"), ("virtio-scsi", "sda", "scsi"), ("sata", "sda", "sata")]
)
def test_a_bus_is_a_target(bus: str, name: str, kind: str) -> None:
    assert attributes(built(bus=bus), "devices/disk/target") == {"dev": name, "bus": kind}


def test_a_thread_for_the_disk_serves_what_the_disk_is_on() -> None:
    assert attributes(built(iothread=True), "devices/disk/driver")["iothread"] == "1"
    scsi = built(iothread=True, bus="virtio-scsi")
    assert "iothread" not in attributes(scsi, "devices/disk/driver")
    assert attributes(scsi, "devices/controller[@type='scsi']/driver") == {"iothread": "1"}
    assert scsi.findtext("iothreads") == "1" and built().find("iothreads") is None


def test_memory_is_of_whole_mebibytes_as_it_is_written_and_as_it_is_read_back() -> None:
    call = spec("vm", {"engine": "libvirt", "memory": 300_000 << 10})
    text = _libvirt.domain(call, DEVICE, GUEST, PLACE.uuid, "serial")
    assert not any("memory" in said for said in _libvirt.differences(call, DEVICE, text))


def test_limits_memory_processors_and_machine() -> None:
    root = built(read_iops=100, write_bps=8 << 20, cpus=3, memory=1 << 30, machine="pc")
    tune = root.find("devices/disk/iotune")
    assert tune is not None
    assert {each.tag: each.text for each in tune} == {"read_iops_sec": "100", "write_bytes_sec": str(8 << 20)}
    assert (root.findtext("vcpu"), root.findtext("memory")) == ("3", "1024")
    assert attributes(root, "memory") == {"unit": "MiB"}
    assert attributes(root, "os/type")["machine"] == "pc"
    assert built().find("devices/disk/iotune") is None


def test_it_is_ours_by_name_and_uuid_and_no_file_changes_its_owner() -> None:
    root = built()
    assert (root.findtext("name"), root.findtext("uuid")) == (PLACE.name, PLACE.uuid)
    assert attributes(root, "seclabel")["relabel"] == "no"
    assert root.attrib == {"type": "kvm"}
    words = [each.get("value") for each in root.iter("{http://libvirt.org/schemas/domain/qemu/1.0}arg")]
    assert words[4:8] == ["-kernel", "/cache/guests/1/kernel", "-append", "a 'b' <c>"] and "@network@" in words


def shown(*changes: tuple[str, str], **values: Value) -> list[str]:
    text = domain(spec("vm", values), QCOW2, GUEST, PLACE.uuid, "serial-1")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    seen = [Completed(("python3",), 0, text, "", 0.1)]
    return drivers()["vm"].differences(spec("vm", {"engine": "libvirt", **values}), [QCOW2], PLACE, seen)


def test_what_libvirt_made_otherwise_is_told() -> None:
    assert shown(write_iops=100) == []
    (said,) = shown(('cache="none"', 'cache="unsafe"'))
    assert "unsafe as the cache of the disk instead of none" in said
    (said,) = shown(("<write_iops_sec>100", "<write_iops_sec>0"), write_iops=100)
    assert "none as the limits of the disk instead of write_iops_sec=100" in said
    (said,) = shown(("a&amp;b.qcow2", "other.qcow2"))
    assert "other.qcow2" in said
    # as it answers: in KiB, and which version of the machine it is
    ours = shown(('<memory unit="MiB">512<', '<memory unit="KiB">524288<'), ('machine="q35"', 'machine="pc-q35-10.0"'))
    assert ours == []
    (said,) = shown(('<memory unit="MiB">512<', '<memory unit="KiB">262144<'))
    assert "262144 as the memory in KiB instead of 524288" in said
    (said,) = shown(('machine="q35"', 'machine="pc-i440fx-10.0"'))
    assert "pc-i440fx-10.0 as the machine type instead of q35" in said
    (said,) = shown(('bus="virtio"', 'bus="sata"'))
    assert "sata as the bus of the disk instead of virtio" in said
    (said,) = shown((' iothread="1"', ""), iothread=True)
    assert "False as the thread of its own" in said
    (said,) = shown((' iothread="1"', ""), iothread=True, bus="virtio-scsi")
    assert "False as the thread of its own" in said


def test_a_guest_that_libvirt_does_not_know_any_more_is_a_difference() -> None:
    gone = Completed(("python3",), 1, "", "Domain not found", 0.1)
    (said,) = drivers()["vm"].differences(spec("vm", {"engine": "libvirt"}), [DEVICE], PLACE, [gone])
    assert "does not run any more: Domain not found" in said


def test_what_is_missing_is_said_and_only_where_it_is_needed() -> None:
    tools = {tool: "99" for tool in facts().tools if tool not in _libvirt.TOOLS}
    assert drivers()["vm"].reasons_not_to_run(spec("vm"), facts(tools=tools)) == []
    binding, daemon = drivers()["vm"].reasons_not_to_run(spec("vm", {"engine": "libvirt"}), facts(tools=tools))
    assert "python3-libvirt" in binding and "libvirt-daemon-system" in daemon
    one = {**tools, "python3:libvirt": "present", "virtqemud": "virtqemud (libvirt) 11.3.0"}
    assert drivers()["vm"].reasons_not_to_run(spec("vm", {"engine": "libvirt"}), facts(tools=one)) == []
    silent = {**one, "python3:libvirt": "nobody listens"}
    (said,) = drivers()["vm"].reasons_not_to_run(spec("vm", {"engine": "libvirt"}), facts(tools=silent))
    assert "systemctl start" in said and "LIBVIRT_DEFAULT_URI" in said
    (said,) = drivers()["vm"].reasons_not_to_run(spec("vm", {"engine": "libvirt", "bus": "nvme"}), facts())
    assert "no bus=nvme" in said


def test_the_programs_are_python_and_end_only_what_has_this_uuid() -> None:
    place = Place(PLACE.name, PLACE.dir, PLACE.uuid, IMAGE)
    steps = drivers()["vm"].plan_create(spec("vm", {"engine": "libvirt"}), [DEVICE], place)
    assert steps[0].undo is not None
    program, directory, uuid = steps[0].undo.argv[3:]
    ast.parse(program)
    ast.parse(steps[0].do.argv[steps[0].do.argv.index("/usr/bin/python3") + 3])
    assert (directory, uuid) == (PLACE.dir, PLACE.uuid) and "lookupByUUIDString(uuid).destroy()" in program
