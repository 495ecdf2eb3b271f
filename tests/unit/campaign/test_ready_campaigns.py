"""Every file in campaigns/ loads with the layers and workloads that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata import layers, workloads
from strata.campaign import Campaign, DiskSpec, load

FOLDER = Path(__file__).parents[3] / "campaigns"


def campaign(path: Path, profile: str | None = None) -> Campaign:
    return load(
        path.read_text(),
        profile=profile,
        where=path.name,
        layers=layers.catalogue(),
        workloads=workloads.catalogue(),
        read_file=lambda name: (path.parent / name).read_text(),
    )


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_it_loads_and_is_called_after_its_file(path: Path) -> None:
    found = campaign(path)
    assert found.name == path.stem
    assert found.about
    assert len(found.stacks) > 1


def test_the_demo_is_what_the_readme_promises() -> None:
    found = campaign(FOLDER / "demo.yaml")
    assert [stack.text for stack in found.stacks] == [
        f"disk | {fs}" for fs in ("ext4", "xfs", "btrfs", "btrfs(nodatacow)")
    ]
    assert [call.text for call in found.workloads] == ["fio/randrw-75-25(runtime=6s)", "dd/seqwrite-sync"]
    assert found.rule.rounds == 5


def test_the_study_of_2016_has_its_stacks_and_the_published_variants() -> None:
    found = campaign(FOLDER / "lxd-backends.yaml")
    texts = [stack.text for stack in found.stacks]
    assert "disk | partition | xfs(noatime, nobarrier)" in texts
    for backend in ("lxd", "lxd(btrfs)", "lxd(lvm, fs=ext4)", "lxd(lvm, fs=xfs)", "lxd(zfs)"):
        assert any(text.endswith(f" | {backend} | container") for text in texts)
    assert "disk | partition | zfs(prefetch=off) | lxd(zfs) | container" in texts
    assert [call.variant for call in found.workloads] == ["study", "study"]


def test_every_campaign_has_a_quick_profile() -> None:
    for path in FOLDER.glob("*.yaml"):
        assert campaign(path, "quick").rule.rounds == 1, path


ARRAY = "4*hdd | md(raid10, chunk=512K)"


def test_the_study_of_2015_has_its_stacks_under_four_guests_in_the_lab() -> None:
    found = campaign(FOLDER / "kvm-storage.yaml")
    guests = "vm(memory=1536M) | xfs"
    assert {stack.text for stack in found.stacks} == {
        *(f"{ARRAY} | xfs | tenants(4) | {image} | {guests}"
          for image in ("qcow2(size=8G)", "qcow2(size=8G, prealloc=metadata)")),
        *(f"{ARRAY} | {volume} | tenants(4) | {guests}" for volume in ("lvm", "lvmthin", "lvmthin(zero=off)")),
        *(f"{ARRAY} | {volume} | {fs} | tenants(4) | raw(size=8G) | {guests}"
          for volume in ("lvm", "lvmthin(zero=off)") for fs in ("xfs", "ext4")),
        *(f"4*hdd | btrfs({how}) | tenants(4) | raw(size=8G{more}) | {guests}"
          for how in ("raid10", "raid10, nodatacow") for more in ("", ", prealloc=falloc")),
        f"4*hdd | zfs(mirror=2, xattr=sa) | tenants(4) | raw(size=8G) | {guests}",
    }  # fmt: skip
    assert (found.testbed.kind, found.testbed.features) == ("lab", {"zfs"})
    assert [call.tenant for call in found.workloads] == [None, 1, 1, 2, 3, 4]
    # sysbench 0.4 with its default options
    database = [call for call in found.workloads if call.name.startswith("postgres/")]
    assert [(call["rows"], call["threads"], call["tables"]) for call in database] == [(10_000, 1, 1)] * 2


def test_the_study_of_2015_has_its_host_stacks_without_guests() -> None:
    found = campaign(FOLDER / "kvm-storage.yaml", "host")
    assert {stack.text for stack in found.stacks} == {
        f"{ARRAY} | xfs",
        *(f"{ARRAY} | {volume}" for volume in ("lvm", "lvmthin", "lvmthin(zero=off)")),
        *(f"{ARRAY} | {volume} | {fs}" for volume in ("lvm", "lvmthin(zero=off)") for fs in ("xfs", "ext4")),
        "4*hdd | btrfs(raid10)",
        "4*hdd | btrfs(raid10, nodatacow)",
        "4*hdd | zfs(mirror=2, xattr=sa)",
    }
    assert found.disks == {"hdd": DiskSpec(8 << 30, "hdd-7200", None, "volatile")}


def test_the_study_of_2017_has_its_cells() -> None:
    found = campaign(FOLDER / "host-guest-filesystems.yaml")
    assert {tuple(sorted(stack.factors.items())) for stack in found.stacks} == {
        (("engine", engine), ("fs", fs), ("scheduler", scheduler))
        for engine in ("qemu", "libvirt")
        for fs in ("xfs", "ext4")
        for scheduler in ("none", "mq-deadline")
    }
    assert [call.path for call in found.workloads] == ["provision.sh"]
    for profile in (None, "quick"):
        for stack in campaign(FOLDER / "host-guest-filesystems.yaml", profile).stacks:
            # the study varied the scheduler of the host's disk, below the host's file system
            assert stack.text.startswith(f"disk | scheduler({stack.factors['scheduler']}) | xfs | qcow2 | vm")
            assert stack.text.endswith(f" | {stack.factors['fs']}")


def test_the_study_of_2019_has_its_three_caches_and_three_runs() -> None:
    found = campaign(FOLDER / "ssd-cache.yaml")
    assert [stack.text for stack in found.stacks] == [
        "2*hdd | md(raid1) | lvm | btrfs(noatime) | warm(2)",
        "(2*hdd | md(raid1)) + ssd | lvmcache(writeback) | btrfs(noatime) | warm(2)",
        "(2*hdd | md(raid1)) + ssd | lvmcache | btrfs(noatime) | warm(2)",
    ]
    assert [(call["iodepth"], call["size"], call["direct"]) for call in found.workloads] == [(32, 1 << 30, True)] * 2
    assert {role: disk.model for role, disk in found.disks.items()} == {"hdd": "hdd-7200", "ssd": "ssd-sata"}
