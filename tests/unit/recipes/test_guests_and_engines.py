"""What the files for Docker and libvirt hold, by value."""

from __future__ import annotations

import json
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from strata.campaign import parse_stacks
from strata.errors import BadInput
from strata.layers import catalogue, drivers
from strata.recipes import plan
from strata.recipes.formats import formats


def files(text: str, form: str) -> dict[str, str]:
    (stack,) = parse_stacks(text, catalogue())
    given = plan.mapped(["disk=/dev/disk/by-id/wwn-0"], {"disk": 100 << 30})
    recipe = plan.recipe(stack, drivers(), given, accept_loss=True)
    return {file.name: file.text for file in formats()[form].write(recipe)}


POOL = "dm.thinpooldev=/dev/mapper/data--1-pool-tpool"


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("disk | xfs", {"storage-driver": "overlay2", "data-root": "/srv/data/docker"}),
        ("disk | zfs", {"storage-driver": "zfs", "data-root": "/srv/data/docker"}),
        ("disk | btrfs", {"storage-driver": "btrfs", "data-root": "/srv/data/docker"}),
        ("disk | btrfs | docker(overlay2)", {"storage-driver": "overlay2", "data-root": "/srv/data/docker"}),
        (
            "disk | zfs | docker(zfs, base_size=20G)",
            {"storage-driver": "zfs", "data-root": "/srv/data/docker", "storage-opts": ["zfs.size=21474836480"]},
        ),
        ("disk | lvmthin | docker(devicemapper)", {"storage-driver": "devicemapper", "storage-opts": [POOL]}),
        (
            "disk | lvmthin | docker(devicemapper, base_size=20G, fs=xfs)",
            {
                "storage-driver": "devicemapper",
                "storage-opts": [POOL, "dm.basesize=21474836480", "dm.fs=xfs"],
            },
        ),
    ],
)
def test_dockers_settings(text: str, settings: dict[str, object]) -> None:
    written = files(text, "docker")
    assert json.loads(written["daemon.json"]) == settings | {"features": {"containerd-snapshotter": False}}
    remarks = written["daemon.json.txt"]
    assert ("was not part of what was measured" in remarks) is ("docker" not in text)
    assert ("for an older one" in remarks) is ("devicemapper" in text)


def test_devicemapper_takes_a_thin_pool() -> None:
    with pytest.raises(BadInput, match="takes a thin pool; choose a stack that ends in lvmthin"):
        files("disk | lvm | docker(devicemapper)", "docker")


def tree(element: Element) -> tuple[object, ...]:
    """Name, attributes or text, and what is in it."""
    text = (element.text or "").strip()
    return (element.tag, element.attrib or text, *(tree(child) for child in element))


def elements(text: str) -> dict[str, tuple[object, ...]]:
    written = files(text, "libvirt")
    return {name: tree(ElementTree.fromstring(each)) for name, each in written.items() if name.endswith(".xml")}


def pool(kind: str, *parts: tuple[object, ...]) -> tuple[object, ...]:
    return ("pool", {"type": kind}, ("name", "data"), *parts)


def test_a_pool_of_libvirt() -> None:
    directory = ("target", "", ("path", "/srv/data/libvirt"))
    assert elements("disk | ext4") == {"data-pool.xml": pool("dir", directory)}
    assert elements("disk | zfs") == {"data-pool.xml": pool("zfs", ("source", "", ("name", "data-1")))}
    assert elements("disk | lvm(size=10G)") == {
        "data-pool.xml": pool(
            "logical",
            ("source", "", ("name", "data-1"), ("format", {"type": "lvm2"})),
            ("target", "", ("path", "/dev/data-1")),
        )
    }
    written = {text: files(text, "libvirt")["data-libvirt.txt"] for text in ("disk | ext4", "disk | zfs")}
    assert "virsh pool-build data" in written["disk | ext4"] and "empty mount point" in written["disk | ext4"]
    assert "pool-build" not in written["disk | zfs"] and "empty mount point" not in written["disk | zfs"]


def test_a_disk_of_a_guest_on_a_controller_with_a_thread_and_limits() -> None:
    text = "disk | xfs | qcow2 | vm(bus=virtio-scsi, iothread, read_bps=10M, write_iops=100)"
    made = elements(text)
    assert set(made) == {"data-pool.xml", "data-controller.xml", "data-disk.xml"}
    assert made["data-pool.xml"] == pool("dir", ("target", "", ("path", "/srv/data/libvirt")))
    assert made["data-controller.xml"] == (
        "controller",
        {"type": "scsi", "index": "0", "model": "virtio-scsi"},
        ("driver", {"iothread": "1"}),
    )
    driver = {"name": "qemu", "type": "qcow2", "cache": "none", "io": "threads", "discard": "ignore"}
    assert made["data-disk.xml"] == (
        "disk",
        {"type": "file", "device": "disk"},
        ("driver", driver | {"detect_zeroes": "off"}),
        ("source", {"file": "/srv/data/data-2.qcow2"}),
        ("target", {"dev": "sdb", "bus": "scsi"}),
        ("iotune", "", ("read_bytes_sec", "10485760"), ("write_iops_sec", "100")),
        ("address", {"type": "drive", "controller": "0", "bus": "0", "target": "0", "unit": "1"}),
    )
    remarks = files(text, "libvirt")["data-libvirt.txt"]
    order = ["iothreadadd GUEST 1", "data-controller.xml --config", "attach-device GUEST data-disk.xml --config"]
    assert [remarks.index(word) for word in order] == sorted(remarks.index(word) for word in order)
    assert "GUEST has an I/O thread 1 already?" in remarks and "virsh detach-disk GUEST sdb --config" in remarks


def test_a_device_is_a_guests_own_and_has_no_pool() -> None:
    ((name, disk),) = elements("disk | lvm | vm(bus=sata, discard, cache=directsync, aio=native)").items()
    driver = {"name": "qemu", "type": "raw", "cache": "directsync", "io": "native", "discard": "unmap"}
    assert (name, disk) == (
        "data-disk.xml",
        (
            "disk",
            {"type": "block", "device": "disk"},
            ("driver", driver | {"detect_zeroes": "off"}),
            ("source", {"dev": "/dev/data-1/volume"}),
            ("target", {"dev": "sdb", "bus": "sata"}),
        ),
    )
    remarks = files("disk | lvm | vm(bus=sata)", "libvirt")["data-libvirt.txt"]
    assert "iothread" not in remarks and "I/O thread" not in remarks and "controller" not in remarks


def test_a_thread_of_its_own_is_the_drivers_where_the_disk_has_no_controller() -> None:
    (_, _, driver, _, target) = elements("disk | ext4 | raw | vm(iothread)")["data-disk.xml"]
    assert isinstance(driver, tuple) and driver[1]["iothread"] == "1" and driver[1]["type"] == "raw"
    assert target == ("target", {"dev": "vdb", "bus": "virtio"})
    controller = elements("disk | ext4 | raw | vm(bus=virtio-scsi)")["data-controller.xml"]
    assert controller == ("controller", {"type": "scsi", "index": "0", "model": "virtio-scsi"})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("disk", "gives a bare device; put a file system or lvm on top"),
        ("disk | lvm", "in the free room of the volume group, and lvm leaves none"),
        ("disk | lvmthin", "know nothing of the thin pool of disk | lvmthin"),
        ("disk | xfs | raw | vm(bus=nvme)", "no disk with bus=nvme"),
    ],
)
def test_what_libvirt_cannot_do(text: str, reason: str) -> None:
    with pytest.raises(BadInput) as raised:
        files(text, "libvirt")
    assert reason in str(raised.value)


@pytest.mark.parametrize("text", ["disk | lvm(stripes=2) | ext4", "disk | lvm(size=10G) | ext4"])
def test_curtin_refuses_arguments_of_a_volume_that_it_cannot_say(text: str) -> None:
    with pytest.raises(BadInput, match=r"--as curtin: it cannot say (stripes|size)"):
        files(text, "curtin")
