"""Why a layer cannot be built here: every reason at once, each a sentence with the next thing to do."""

from __future__ import annotations

import pytest

from strata.errors import BadInput
from strata.layers import drivers
from strata.model import Value

from .layer_cases import LAYERS, PLACE, below, facts, spec

REQUIRED: dict[str, dict[str, Value]] = {
    "disk": {"role": "disk"},
    "scheduler": {"name": "none"},
    "existing": {"path": "/srv"},
    "md": {"level": "raid1"},
    "dm": {"target": "linear"},
    "fill": {"share": 0.8},
    "warm": {"runs": 3},
    "kernel": {"version": "6.12"},
    "debian": {"release": 13},
    "tenants": {"count": 3},
    "limit": {"read_iops": 100},
    "sysctl": {"name": "vm.swappiness", "value": 10},
}
_OF_BACKENDS = {
    *("zfs", "btrfs", "lvs", "lvcreate", "lvremove", "vgchange", "dmsetup", "lsblk", "mkfs.ext4", "mkfs.xfs"),
}
NOT_ALWAYS = {
    "vagrant": {"VBoxManage"},
    "podman": {"crun", "zfs", "setpriv"},
    "docker": {"fuse-overlayfs", "zfs", "dmsetup", "mkfs.ext4", "mkfs.xfs"},
    "incus": _OF_BACKENDS,
    "lxd": _OF_BACKENDS,
    "container": {"awk", "findmnt"},
    "containerd": {"buildah", "dmsetup", "mkfs.ext4", "mkfs.xfs"},
    "vm": {"qemu-storage-daemon", "python3:libvirt", "libvirtd", "virtqemud", "qemu-img"},
}
"""Programs that only some arguments need."""
INPUTS = {"md": 2, "bcache": 2, "lvmcache": 2}
"""How many devices a layer takes, where one is too few."""


def reasons(layer: str, values: dict[str, Value] | None = None, **machine: object) -> list[str]:
    return drivers()[layer].reasons_not_to_run(spec(layer, REQUIRED.get(layer, {}) | (values or {})), facts(**machine))


@pytest.mark.parametrize("layer", LAYERS)
def test_an_able_machine_gives_none(layer: str) -> None:
    assert reasons(layer) == []
    assert drivers()[layer].arity_reasons(spec(layer, REQUIRED.get(layer)), INPUTS.get(layer, 1)) == []


@pytest.mark.parametrize("layer", sorted(set(LAYERS) - {"null", "existing", "dir", "warm", "kernel", "debian"}))
def test_an_unable_machine_gives_every_one(layer: str) -> None:
    given = reasons(layer, root=False, tools={}, filesystems=frozenset(), schedulers=frozenset())
    info = drivers()[layer].info
    assert "Building a stack needs root; run Strata as root." in given
    for tool in set(info.tools) - NOT_ALWAYS.get(layer, set()):
        assert any(f"The program {tool} is not installed" in reason for reason in given)
    if layer in {"ext4", "xfs", "btrfs", "f2fs"}:
        assert any(f"cannot mount {layer}" in reason and "6.12.0-1-amd64" in reason for reason in given)
    for reason in given:
        assert reason[0].isupper() and reason.endswith("."), reason


def test_the_debian_package_is_named() -> None:
    (reason,) = reasons("f2fs", tools={t: "" for t in facts().tools if t != "mkfs.f2fs"})
    assert reason == "The program mkfs.f2fs is not installed; install the Debian package f2fs-tools."


@pytest.mark.parametrize(
    ("kernel", "values", "words"),
    [
        ((6, 12, 0), {"nobarrier": True}, ["4.19", "nobarrier", "6.12.0-1-amd64", "older kernel"]),
        ((4, 19, 0), {"nobarrier": True}, ["4.19"]),
        ((4, 18, 20), {"nobarrier": True}, []),
        ((6, 18, 0), {"attr2": True}, ["6.18", "attr2"]),
        ((6, 17, 9), {"ikeep": True}, []),
    ],
)
def test_an_xfs_option_that_the_kernel_lost(
    kernel: tuple[int, int, int], values: dict[str, Value], words: list[str]
) -> None:
    given = reasons("xfs", values, kernel=kernel)
    assert len(given) == bool(words)
    for word in words:
        assert word in given[0]


def test_quotas_that_the_kernel_was_built_without() -> None:
    without = frozenset({"xfs quotas"})
    (reason,) = reasons("xfs", {"pquota": True, "uquota": True}, without=without)
    assert "leave uquota and pquota out" in reason and "CONFIG_XFS_QUOTA" in reason
    assert reasons("xfs", {"pquota": True}) == reasons("xfs", {"noquota": True}, without=without) == []


def test_quotas_of_projects_on_ext4() -> None:
    (reason,) = reasons("ext4", {"prjquota": True}, without=frozenset({"ext4 quotas"}))
    assert "leave prjquota out" in reason and "CONFIG_QFMT_V2" in reason
    assert reasons("ext4", {"prjquota": True}) == reasons("ext4", {}, without=frozenset({"ext4 quotas"})) == []


def test_an_option_that_the_kernel_does_not_have_yet() -> None:
    (reason,) = reasons("btrfs", {"discard": "async"}, kernel=(5, 5, 0))
    assert "came with Linux 5.6" in reason and "newer kernel" in reason
    assert reasons("btrfs", {"discard": "async"}, kernel=(5, 6, 0)) == []


def test_negative_levels_of_zstd_came_with_linux_6_15() -> None:
    (reason,) = reasons("btrfs", {"compress": "zstd:-5"}, kernel=(6, 12, 0))
    assert "needs Linux 6.15" in reason and "write a level of 1 to 15" in reason
    assert reasons("btrfs", {"compress": "zstd:-5"}, kernel=(6, 15, 0)) == []
    assert reasons("btrfs", {"compress-force": "zstd:-15"}, kernel=(6, 18, 1)) == []
    (reason,) = reasons("btrfs", {"compress": "zstd:-16"}, kernel=(6, 18, 1))
    assert "-15 to -1" in reason
    assert "levels 1 to 9" in reasons("btrfs", {"compress": "zlib:-1"}, kernel=(6, 18, 1))[0]


@pytest.mark.parametrize(
    ("layer", "values", "word"),
    [
        ("btrfs", {"nodatacow": True, "compress": "zstd"}, "nodatacow and compress exclude"),
        ("btrfs", {"nodatasum": True, "compress-force": "lzo"}, "exclude"),
        ("btrfs", {"compress": "zstd", "compress-force": "lzo"}, "exclude"),
        ("btrfs", {"compress": "brotli"}, "zstd, lzo or zlib"),
        ("btrfs", {"compress": "zstd:16"}, "levels 1 to 15"),
        ("btrfs", {"compress": "zstd:0"}, "levels 1 to 15"),
        ("btrfs", {"compress": "lzo:1"}, "one level only"),
        ("btrfs", {"compress-force": "zlib:x"}, "compress-force=zlib:x"),
        ("ext4", {"noatime": True, "strictatime": True}, "noatime and strictatime exclude"),
        ("ext4", {"journal": False, "commit": 5}, "journal=off"),
        ("ext4", {"journal": False, "data": "ordered"}, "journal=off"),
        ("ext4", {"journal_async_commit": True}, "data=writeback"),
        ("ext4", {"data": "journal", "delalloc": True}, "data=journal"),
        ("ext4", {"inode_readahead_blks": 3}, "power of two"),
        ("ext4", {"mkfs": "-L 'open"}, "close the quotes"),
        ("ext4", {"mkfs": "-U random"}, "UUID"),
        ("ext4", {"mkfs": "-jU random"}, "UUID"),
        ("ext4", {"mkfs": "-J device=/dev/sdb"}, "/dev/sdb"),
        ("xfs", {"mkfs": "-m uuid=1-2"}, "UUID"),
        ("xfs", {"mkfs": "-mcrc=1,uuid=1-2"}, "UUID"),
        ("xfs", {"mkfs": "-l logdev=/dev/sdb"}, "/dev/sdb"),
        ("xfs", {"logbsize": 48 << 10}, "powers of two"),
        ("xfs", {"allocsize": 12 << 10}, "12K"),
        ("btrfs", {"mkfs": "--uuid 1-2"}, "UUID"),
        ("btrfs", {"mkfs": "/dev/sdb"}, "/dev/sdb"),
        ("f2fs", {"mkfs": "-U 1-2"}, "UUID"),
        ("f2fs", {"mkfs": "-c /dev/sdb"}, "/dev/sdb"),
        ("f2fs", {"active_logs": 3}, "2, 4 or 6"),
        ("partition", {"start": 1000}, "512"),
        ("partition", {"size": 1000}, "512"),
        ("existing", {"path": "srv/vm"}, "absolute"),
        ("dir", {"name": "../mnt"}, "../mnt"),
        ("dir", {"name": ".."}, "not the name"),
        ("dir", {"name": ""}, "not the name"),
        ("dir", {"name": "-rf"}, "not the name"),
    ],
    ids=str,
)
def test_what_cannot_be_asked_for(layer: str, values: dict[str, Value], word: str) -> None:
    (reason,) = reasons(layer, values)
    assert word in reason and reason.endswith(".")


@pytest.mark.parametrize(
    ("layer", "values"),
    [
        ("btrfs", {"compress": "zstd:15"}),
        ("btrfs", {"compress": "zlib:9", "autodefrag": True}),
        ("btrfs", {"nodatacow": True, "nodatasum": True}),
        ("ext4", {"journal": False, "noatime": True, "nodelalloc": True}),
        ("ext4", {"journal_async_commit": True, "data": "writeback"}),
        ("ext4", {"mkfs": "-L 'a b' -E stride=16"}),
        ("xfs", {"uquota": True, "pquota": True}),
        ("f2fs", {"active_logs": 2}),
        ("dir", {"name": "a.b_c-1+"}),
    ],
    ids=str,
)
def test_what_can_be_asked_for(layer: str, values: dict[str, Value]) -> None:
    assert reasons(layer, values) == []


@pytest.mark.parametrize(
    ("name", "word"),
    [("noop", "write none"), ("deadline", "write mq-deadline"), ("cfq", "write bfq"), ("fifo", "choose one")],
)
def test_a_scheduler_that_is_not_offered(name: str, word: str) -> None:
    (reason,) = reasons("scheduler", {"name": name})
    assert word in reason and "bfq, kyber, mq-deadline, none" in reason


def test_a_successor_that_is_not_offered_either_is_not_recommended() -> None:
    (reason,) = reasons("scheduler", {"name": "cfq"}, schedulers=frozenset({"none"}))
    assert "write bfq" not in reason and "only none" in reason


@pytest.mark.parametrize(
    ("values", "inputs", "count"),
    [
        ({}, 1, 0),
        ({"profile": "raid1"}, 1, 1),
        ({"profile": "raid1"}, 2, 0),
        ({"profile": "raid1c3", "metadata": "raid1c4"}, 2, 2),
        ({"profile": "raid1c3", "metadata": "raid1c4"}, 3, 1),
        ({"profile": "raid6"}, 3, 0),
        ({"metadata": "raid10"}, 1, 1),
        ({"profile": "raid10"}, 4, 0),
    ],
    ids=str,
)
def test_too_few_devices_for_a_profile(values: dict[str, Value], inputs: int, count: int) -> None:
    given = drivers()["btrfs"].arity_reasons(spec("btrfs", values), inputs)
    assert len(given) == count
    assert all("devices" in reason and f"got {inputs}. " in reason for reason in given)


def test_a_quote_that_is_not_closed_cannot_be_planned_either() -> None:
    with pytest.raises(BadInput, match="close the quotes"):
        drivers()["ext4"].plan_create(spec("ext4", {"mkfs": "'"}), below("ext4"), PLACE)


@pytest.mark.parametrize("values", [{"size": 1 << 30}, {"start": 1 << 30}, {"size": (1 << 30) - (1 << 20)}], ids=str)
def test_a_partition_that_does_not_fit(values: dict[str, Value]) -> None:
    with pytest.raises(BadInput, match="does not fit"):
        drivers()["partition"].provides(spec("partition", values), below("partition"), PLACE)


@pytest.mark.parametrize(
    "name",
    [
        *("net.ipv4.ip_forward", "vm", "vm/../net", "kernel.panic", "vm.", "fs.../x", "fs.protected_symlinks"),
        *("vm.mmap_min_addr", "fs.suid_dumpable", "vm.unprivileged_userfaultfd", "vm.panic_on_oom"),
        *("fs.binfmt_misc.register", "fs.xfs.panic_mask", "vm.drop_caches", "vm.dirty_bytes\n", "vm.nr_hugepages"),
    ],
)
def test_only_parameters_that_storage_depends_on_are_set(name: str) -> None:
    driver = drivers()["sysctl"]
    (reason,) = driver.arity_reasons(spec("sysctl", {"name": name, "value": 1}), 1)
    assert "only what storage depends on" in reason and name in reason and "vm.dirty_bytes" in reason
    assert driver.arity_reasons(spec("sysctl", {"name": "vm.swappiness", "value": 1}), 1) == []
    assert driver.arity_reasons(spec("sysctl", {"name": "fs.xfs.xfssyncd_centisecs", "value": 1}), 1) == []
