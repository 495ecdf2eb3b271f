"""What answers of probes mean: yes, no, and nothing known."""

from __future__ import annotations

import pytest

from strata.probes import probes
from strata.probes._devices import DEVICES
from strata.probes._probe import MIB, SHELL, words
from strata.published.documented import documents

LOST = "disks=2\nmethod=md\nemptied=yes"
AT_REST = f"method=ext4\nbefore={512 * MIB}\nsaid=on-line\nafter={512 * MIB}\nsame=yes"

CASES = [
    ("clone", "small_seconds=0.005\nlarge_seconds=0.012\nlarge_bytes=4096\nlarge_mib=1024\nsame=yes\nown=yes", True),
    ("clone", "small_seconds=0.005\nlarge_seconds=0.012\nlarge_bytes=4096\nlarge_mib=1024\nsame=no\nown=yes", False),
    ("clone", "small_seconds=0.005\nlarge_seconds=0.012\nlarge_bytes=4096\nlarge_mib=1024\nsame=yes\nown=no", False),
    ("clone", "small_seconds=0.005\nlarge_seconds=0.012\nlarge_bytes=4096\nlarge_mib=1024", None),
    ("clone", f"small_seconds=0.1\nlarge_seconds=0.2\nlarge_bytes={1024 * MIB}\nlarge_mib=1024", False),
    ("clone", "method=thin\nsmall_seconds=0.2\nlarge_seconds=9.0\nlarge_bytes=0\nlarge_mib=1024", False),
    ("clone", "method=none\nsaid=cp: Operation not supported", False),
    ("clone", "method=reflink", None),
    ("snapshot", "method=btrfs\nseconds=0.01\nbytes=0\nbytes_changed=8388608\nchanged=yes\nkept=yes", True),
    ("snapshot", "method=lvm\nseconds=0.01\nbytes=0\nchanged=yes\nkept=no", False),
    ("snapshot", "method=btrfs\nseconds=0.01\nbytes=0\nbytes_changed=0\nchanged=no\nkept=yes", None),
    ("snapshot", "method=none", False),
    ("snapshot", "method=zfs\nseconds=0.01\nbytes=0", None),
    ("quota", f"written={15 * MIB}\nrefused=dd: error writing: Disk quota exceeded\noutside=yes", True),
    ("quota", f"method=volume\nwritten={13 * MIB}\nrefused=dd: No space left on device\noutside=yes", True),
    ("quota", "written=0\nrefused=dd: error writing: Input/output error\noutside=yes", None),
    ("quota", f"written={15 * MIB}\nrefused=dd: error writing: Input/output error\noutside=yes", None),
    ("quota", f"written={MIB}\nrefused=Disk quota exceeded\noutside=yes", None),
    ("quota", f"written={15 * MIB}\nrefused=No space left on device\noutside=no", None),
    ("quota", f"written={48 * MIB}\nrefused=", False),
    ("quota", f"method=none\nsaid=quotas are off\nwritten={48 * MIB}", False),
    ("quota", "", None),
    ("instance-snapshot", f"seconds=1.5\nbytes={2 * MIB}\nstate=one", True),
    ("instance-snapshot", f"seconds=9.5\nbytes={130 * MIB}\nstate=one", False),
    ("instance-snapshot", f"seconds=1.5\nbytes={2 * MIB}\nstate=two", False),
    ("instance-snapshot", "method=none", False),
    ("instance-snapshot", "seconds=1.5\nstate=one", None),
    ("instance-snapshot", "", None),
    ("instance-older-snapshots", "older=one\nnewer=two", True),
    ("instance-older-snapshots", "older=one\nsaid=no such snapshot", False),
    ("instance-older-snapshots", "older=three\nnewer=two", False),
    ("instance-older-snapshots", "refused=yes\nsaid=Snapshot cannot be restored due to subsequent snapshots", False),
    ("instance-older-snapshots", "method=none", False),
    ("instance-older-snapshots", "", None),
    ("instance-copy", f"seconds=1.5\nbytes={2 * MIB}\nstate=one", True),
    ("instance-copy", f"seconds=9.5\nbytes={128 * MIB}\nstate=one", False),
    ("instance-copy", f"seconds=9.5\nbytes={MIB}\nstate=", False),
    ("instance-copy", "method=none", False),
    ("instance-copy", "seconds=1.5\nstate=one", None),
    ("instance-copy", "", None),
    ("instance-send", f"seconds=1.5\nbytes={20 * MIB}\nstream=yes\nstate=one", True),
    ("instance-send", f"seconds=1.5\nbytes={20 * MIB}\nstream=no\nstate=one", False),
    ("instance-send", f"seconds=1.5\nbytes={20 * MIB}\nstream=yes\nstate=", False),
    ("instance-send", "refused=yes\nsaid=no optimized backups", False),
    ("instance-send", "method=none", False),
    ("instance-send", "", None),
    ("quota-in-container", f"plain={15 * MIB}\nplain_refused=dd: Disk quota exceeded\noutside=yes", True),
    ("quota-in-container", "plain=0\nplain_refused=dd: Input/output error\noutside=yes", None),
    ("quota-in-container", f"plain={15 * MIB}\nnested={48 * MIB}", False),
    ("quota-in-container", "method=none\nsaid=quotas are off", False),
    ("quota-in-container", "said=unshare failed: Operation not permitted", None),
    ("quota-in-privileged-container", f"plain={15 * MIB}\nproject={48 * MIB}", False),
    (
        "quota-in-privileged-container",
        f"plain={12 * MIB}\nplain_refused=dd: No space left on device\noutside=yes",
        True,
    ),
    ("quota-in-privileged-container", "", None),
    ("direct", f"taken=yes\nbefore=0\ncached=0\ncached_plain={16 * MIB}", True),
    ("direct", f"taken=yes\nbefore=0\ncached={16 * MIB}\ncached_plain={16 * MIB}", False),
    ("direct", "taken=no\nsaid=Invalid argument", False),
    ("direct", f"disk_1={16 * MIB}\ndisk_2={16 * MIB}", True),
    ("direct", f"disk_1={16 * MIB}\ndisk_2=0", False),
    ("direct", "disk_1=0\ndisk_2=0", None),
    ("direct", "", None),
    ("direct", "taken=yes\nbefore=0\ncached=0\ncached_plain=0", None),
    ("checksums", "hits=1\nread=refused\nsaid=Input/output error", True),
    ("checksums", "hits=1\nread=changed", False),
    ("checksums", "hits=2\nread=same", None),
    ("checksums", "hits=0\nread=same", None),
    ("checksums", "hits=1\nread=refused\nsaid=Permission denied", None),
    ("checksums", "hits=1\nunspoiled=/dev/sda\nread=refused\nsaid=Input/output error", None),
    ("thin", "before=0\nafter=16384", True),
    ("thin", "before=2097152", False),
    ("thin", "before=131072\nafter=131072", False),
    ("thin", "", None),
    ("compression", f"random={32 * MIB}\ntext={4 * MIB}\nsame=yes", True),
    ("compression", f"random={32 * MIB}\ntext=0\nsame=no", False),
    ("compression", f"random={32 * MIB}\ntext={4 * MIB}", None),
    ("compression", f"random={32 * MIB}\ntext={32 * MIB}\nsame=yes", False),
    ("compression", f"random=0\ntext={4 * MIB}", None),
    ("dedup", f"first={32 * MIB}\nsecond=4096\nsame=yes", True),
    ("dedup", f"first={32 * MIB}\nsecond=0\nsame=no", False),
    ("dedup", f"first={32 * MIB}\nsecond=4096", None),
    ("dedup", f"first={32 * MIB}\nsecond={32 * MIB}\nsame=yes", False),
    ("dedup", "first=0\nsecond=0", None),
    ("zeroed", "old=0", True),
    ("zeroed", "old=1048576", False),
    ("zeroed", "filled=3900\npages=31200\nold=0", True),
    ("zeroed", "filled=3900\npages=31200\nold=4096", False),
    ("zeroed", "filled=9000", None),
    ("zeroed", "filled=0\npages=0\nold=0", None),
    ("zeroed", "method=none", None),
    ("cow", "hits=1\nold=there", True),
    ("cow", "hits=1\nold=gone", False),
    ("cow", "hits=1\nchanged=no\nold=there", None),
    ("cow", "hits=0", None),
    ("cow", "hits=1", None),
    ("self-healing", "copies=2\nread_1=same\nhealed_1=read\nread_2=same\nhealed_2=scrub", True),
    ("self-healing", "copies=2\nread_1=same\nhealed_1=no\nread_2=changed\nhealed_2=no", False),
    ("self-healing", "copies=1\nread_1=refused\nhealed_1=no\nsaid=Input/output error", False),
    ("self-healing", "copies=2\nread_1=same\nhealed_1=no\nread_2=same\nhealed_2=read", False),
    (
        "self-healing",
        "copies=3\nread_1=same\nhealed_1=read\nread_2=same\nhealed_2=read\nread_3=changed\nhealed_3=no",
        False,
    ),
    ("self-healing", "copies=2\nread_1=same\nhealed_1=read\nunspoiled=/dev/sdb", None),
    ("self-healing", "copies=1\nmirrored=yes", None),
    ("self-healing", "copies=0", None),
    ("self-healing", "copies=2\nread_1=same\nhealed_1=read", None),
    ("disk-loss", f"{LOST}\nread=same\nwritten=yes\nback=3.5\nmissing=0\nafter=same\nheld=yes", True),
    ("disk-loss", f"{LOST}\nread=same\nwritten=yes\nback=3.5\nmissing=1\nafter=same\nheld=no", True),
    ("disk-loss", f"{LOST}\nread=same\nwritten=yes\nback=3.5\nmissing=0\nafter=changed\nheld=yes", False),
    ("disk-loss", f"{LOST}\nread=refused\nsaid=Input/output error", False),
    ("disk-loss", f"{LOST}\nread=same\nwritten=no", False),
    # one that keeps its data shows nothing
    ("disk-loss", "disks=2\nmethod=md\nemptied=no\nread=same\nwritten=yes\nback=3.5\nmissing=0", None),
    ("disk-loss", "disks=1\nmethod=none", None),
    ("disk-loss", "disks=2\nmethod=none", None),
    ("disk-loss", "disks=2", None),
    ("older-snapshots", "method=btrfs\nback=yes\nseconds=0.1\nlive=AAA\nnewer=BBB", True),
    ("older-snapshots", "method=lvm\nback=yes\nseconds=0.1\nlive=AAA\nnewer=", False),
    ("older-snapshots", "method=lvm\nback=yes\nseconds=0.1\nlive=CCC\nnewer=BBB", False),
    ("older-snapshots", "method=zfs\nback=no\nsaid=more recent snapshots exist\nlive=CCC\nnewer=BBB", False),
    ("older-snapshots", "method=none", False),
    ("older-snapshots", "method=lvm\nunmade=insufficient free space", None),
    ("older-snapshots", "method=raw\nunheld=Operation not supported", False),
    ("older-snapshots", "", None),
    ("clone", "method=raw\nrefused=yes\nsaid=Operation not supported", False),
    ("thin", "overhead=yes\nbefore=5810995\nafter=5827379", True),
    ("send", f"all_bytes={65 * MIB}\nchanged_bytes={5 * MIB}\nchanged_seconds=1\nplain_seconds=2\nsame=yes", True),
    ("send", f"all_bytes={65 * MIB}\nchanged_bytes={64 * MIB}\nchanged_seconds=1\nplain_seconds=2\nsame=yes", False),
    ("send", f"all_bytes={65 * MIB}\nchanged_bytes={5 * MIB}\nchanged_seconds=1\nplain_seconds=2\nsame=no", False),
    ("send", "method=none", False),
    ("send", "method=btrfs", None),
    ("dedup-on-demand", f"seconds=0.2\nfreed={16 * MIB}\nsame=yes", True),
    ("dedup-on-demand", "seconds=0.2\nfreed=0\nsaid=Operation not supported\nsame=yes", False),
    ("dedup-on-demand", f"seconds=0.2\nfreed={16 * MIB}\nsame=no", False),
    ("dedup-on-demand", "method=unknown", None),
    ("discard", f"takes=yes\npool=0\ndisk={64 * MIB}", True),
    ("discard", f"takes=no\npool={64 * MIB}\ndisk=0", True),
    ("discard", "takes=yes\npool=0\ndisk=0", False),
    ("discard", "takes=no\npool=0\ndisk=0", None),
    ("discard", "", None),
    ("grow", f"method=xfs\nbefore={384 * MIB}\nseconds=0.1\nafter={512 * MIB}\nsame=yes", True),
    ("grow", f"method=xfs\nbefore={384 * MIB}\nsaid=refused\nafter={384 * MIB}\nsame=yes", False),
    ("grow", f"method=xfs\nbefore={384 * MIB}\nseconds=0.1\nafter={512 * MIB}\nsame=no", False),
    ("grow", f"method=xfs\nbefore={384 * MIB}\nseconds=0.1\nsame=closed\nclosed=bad superblock", False),
    ("grow", f"method=xfs\nbefore={384 * MIB}\nseconds=0.1\nafter={384 * MIB}\nsame=yes", False),
    ("grow", "method=none", None),
    ("shrink", f"method=btrfs\nbefore={512 * MIB}\nseconds=0.1\nafter={384 * MIB}\nsame=yes", True),
    (
        "shrink",
        f"{AT_REST}\nrest=yes\nrest_after={384 * MIB}\nrest_same=yes",
        True,
    ),
    ("shrink", f"{AT_REST}\nrest=yes\nrest_after={384 * MIB}\nrest_same=no", False),
    ("shrink", f"{AT_REST}\nrest=yes\nrest_same=closed\nclosed=bad superblock", False),
    ("shrink", f"{AT_REST}\nrest=yes\nrest_after={384 * MIB}", None),
    ("shrink", f"{AT_REST}\nrest=yes\nrest_after={512 * MIB}\nrest_same=yes", False),
    # what lost data in use is not made good by becoming smaller at rest
    (
        "shrink",
        f"{AT_REST.replace('same=yes', 'same=no')}\nrest=yes\nrest_after={384 * MIB}\nrest_same=yes",
        False,
    ),
    ("shrink", f"method=xfs\nbefore={512 * MIB}\nsaid=not supported\nafter={512 * MIB}\nsame=yes", False),
    ("shrink", f"method=lvm\nbefore={512 * MIB}\nseconds=0.1\nafter={384 * MIB}\nsame=no", False),
    (
        "shrink",
        f"method=zfs\nparity=yes\nbefore={1024 * MIB}\nsaid=cannot remove\nafter={1024 * MIB}\nsame=yes",
        False,
    ),
    ("shrink", "method=none", None),
    ("block", "method=thin\ndevice=yes", True),
    ("block", "own=yes\nmethod=none", True),
    ("block", "method=none", False),
    ("block", "method=lvm\nsaid=insufficient free space", None),
    ("block", "method=lvm", None),
    ("block", "own=yes\nmethod=lvm\ndevice=no", False),
    ("ssd-cache", "method=dm-cache\nhits=900\nmisses=100", True),
    ("ssd-cache", "method=bcache\nhits=100\nmisses=900", False),
    ("ssd-cache", "method=none", False),
    ("ssd-cache", "method=bcache\nhits=0\nmisses=0", None),
    ("nesting", "method=btrfs\nmade=yes", True),
    ("nesting", "method=lvm\nmade=no\nsaid=/dev/mapper/control: open failed: Permission denied", False),
    ("nesting", "method=dir\nspace=none\nsaid=unshare: Operation not permitted", None),
    ("nesting", "method=dir", None),
    ("shared-images", f"seconds=3\nbytes={3 * MIB}", True),
    ("shared-images", f"seconds=3\nbytes={3 * 128 * MIB}", False),
    ("shared-images", "method=none", None),
    ("shared-images", "seconds=3", None),
    ("base-size", f"base={256 * MIB}\ngrown={250 * MIB}\nrefused=No space left on device", True),
    ("base-size", f"base={256 * MIB}\ngrown={340 * MIB}\nrefused=", False),
    ("base-size", f"base={256 * MIB}\ngrown={20 * MIB}\nrefused=No space left on device", None),
    ("base-size", f"base={256 * MIB}\ngrown={250 * MIB}\nrefused=Input/output error", None),
    ("base-size", f"base={9999 * MIB}", None),
    ("base-size", "base=-", None),
    ("rootless", "user=100000\ninside=0\nwritten=yes", True),
    ("rootless", "user=0\ninside=0\nwritten=yes", False),
    ("rootless", "user=100000\ninside=0\nwritten=no", False),
    ("rootless", "user=0", None),
    ("io-limit", "free=0.1\nlimit=4194304\nheld=4.1", True),
    ("io-limit", "free=0.1\nlimit=4194304\nheld=0.2", False),
    ("io-limit", "free=4.0\nlimit=1048576\nheld=15.2", True),
    ("io-limit", "free=4.0\nlimit=1048576\nheld=4.1", False),
    ("io-limit", "free=0.1\nlimit=4194304\nsaid=no block device is known", False),
    ("io-limit", "free=40.0\nlimit=262144\nheld=64.1", None),
    ("io-limit", "free=4.0\nheld=4.1", None),
    ("io-limit", "method=none", None),
    ("io-limit", "", None),
]


@pytest.mark.parametrize(("name", "answer", "holds"), CASES)
def test_an_answer_is_yes_no_or_nothing_known(name: str, answer: str, holds: bool | None) -> None:
    probe = probes()[name]
    found = probe.judge(words(answer))
    assert found.holds is holds
    assert found.why and not found.why.endswith(".")
    assert set(found.figures) <= {metric.name for metric in probe.metrics}


def test_every_probe_is_of_a_feature_that_can_be_asked_for() -> None:
    assert set(probes()) == set(documents().features)


def test_what_touches_nothing_but_its_own_files_reaches_no_device() -> None:
    """Another one is added here only after its script was read for it."""
    harmless = {name for name, probe in probes().items() if probe.own_files_only}
    assert harmless == {"compression", "dedup", "dedup-on-demand", "direct"}
    for name in harmless:
        own = probes()[name].script.removeprefix(SHELL)
        own = own.removeprefix(DEVICES)
        for word in (
            "zfs ",
            "lvcreate",
            "lvremove",
            "mount ",
            "spoil",
            "blkdiscard",
            "subvolume",
            "quota",
            "of=/dev/s",
        ):
            assert word not in own, f"{name}: {word}"


def test_every_probe_is_tried_both_ways_here() -> None:
    assert {(name, holds) for name, _, holds in CASES} == {(n, h) for n in probes() for h in (True, False, None)}


def test_scripts_are_whole() -> None:
    for probe in probes().values():
        assert SHELL in probe.script
        assert not [
            word
            for word in (
                "DATA",
                "LIMIT",
                "CHANGED",
                "WRITTEN",
                "TRIED",
                "SMALL",
                "LARGE",
                "SIZE",
                "READS",
                "COUNT",
                "MOST",
            )
            if f" {word}" in probe.script
        ]


def test_an_answer_is_read_line_by_line() -> None:
    assert words("noise\na=1\nb=x=y\n=3\nA=4\n") == {"a": "1", "b": "x=y"}


@pytest.mark.parametrize(("name", "answer"), [("dedup", "second=0\nsame=yes"), ("compression", "text=0\nsame=yes")])
def test_memory_that_is_held_to_save_room_is_told_where_it_is_counted(name: str, answer: str) -> None:
    first = "first" if name == "dedup" else "random"
    told = words(f"{first}={32 * MIB}\n{answer}\nmemory=408864160")
    found = probes()[name].judge(told)
    assert found.why.endswith(", and it holds 389.9 MiB of memory")
    assert found.figures["saver_memory_bytes"] == 408864160
    assert "memory" not in probes()[name].judge({**told, "memory": ""}).why
