"""Probes held against what only says that it does the thing: none of them may find a yes.

A liar stands before the real program, or is an engine's client. Where the kernel need not have what is tried (volumes,
a cache), all of it is a lie.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from strata.hosts.local import LocalHost
from strata.model import Kind, Target
from strata.probes import probes

from .test_probes import DISKS, KINDS, Mounted, find, run

pytestmark = [pytest.mark.host, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

# What every liar begins with: `real` is the program that it stands before.
_REAL = '#!/bin/sh\nreal() { env PATH="${PATH#*:}" "$@"; }\n'
_SAY_DONE = "exit 0"
_NO_SNAPSHOTS = """\
case "$1 $2" in
  "subvolume snapshot") shift 2; [ "$1" != -r ] || shift; ln -s "$1" "$2" ;;
  *) real btrfs "$@" ;;
esac"""
# Quotas of projects are said to be on, and to be set. Not every kernel has them.
_QUOTAS = {
    "findmnt": 'case "$*" in *OPTIONS*) echo rw,prjquota ;; *) real findmnt "$@" ;; esac',
    "xfs_quota": _SAY_DONE,
}
# What the probe lies on is said to be a volume, and what LVM makes another one.
_VOLUMES = {
    "cat": 'case $1 in */dm/name) echo mapped ;; *) real cat "$@" ;; esac',
    "lvs": "echo group volume linear",
    "lvcreate": _SAY_DONE,
}
# A cache that counts every read as a miss.
_CACHE = {
    "cat": _VOLUMES["cat"],
    "dmsetup": """\
case "$*" in *cache*mapped*) echo 0 1 cache ;; esac
echo x >>"$0.asked"; echo 0 1 cache 8 1/1 128 1/1 0 $(wc -l <"$0.asked")""",
}
_NO_ZEROS = 'case "$*" in *if=/dev/zero*) exit 0 ;; *) real dd "$@" ;; esac'


def _loses(word: str) -> str:
    """A dd that writes nothing to what has `word` in its name."""
    return f'case "$*" in *of=*{word}*conv=notrunc*) exit 0 ;; *) real dd "$@" ;; esac'


@dataclass(frozen=True)
class Liar:
    feature: str
    kind: str
    programs: dict[str, str] = field(default_factory=dict)
    says: bool | None = False  # None: it is an instrument that lies, and so nothing is known


LIARS = {
    "a file system that only says it grew": Liar("grow", "ext4", {"resize2fs": _SAY_DONE}),
    "another that only says it grew": Liar("grow", "xfs", {"xfs_growfs": _SAY_DONE}),
    "one that grows and loses data": Liar(
        "grow", "xfs", {"xfs_growfs": """\
real xfs_growfs "$@" && real dd if=/dev/urandom of="$1/file" bs=4096 count=1 conv=notrunc status=none"""}),
    "one that only says it shrank, at rest too": Liar("shrink", "ext4", {"resize2fs": _SAY_DONE}),
    "one that only says it shrank": Liar(
        "shrink", "btrfs", {"btrfs": 'case "$1 $2" in "filesystem resize") ;; *) real btrfs "$@" ;; esac'}),
    "one that shrinks at rest and loses data": Liar(
        "shrink", "ext4", {"resize2fs": """\
real resize2fs "$@" || exit 1
at=$(mktemp -d) && mount "$1" "$at" && echo other >"$at/file"; umount "$at"; rmdir "$at\""""}),
    "a quota that only says it is set": Liar("quota", "xfs", _QUOTAS),
    "the same against root of a user namespace": Liar("quota-in-container", "xfs", _QUOTAS),
    "the same against root": Liar("quota-in-privileged-container", "xfs", _QUOTAS),
    "a disk error taken for a quota": Liar(
        "quota", "btrfs", {"dd": """\
case "$*" in *tenant*) echo "dd: error writing: Input/output error" >&2; exit 1 ;; *) real dd "$@" ;; esac"""}, None),
    "a snapshot that is a link": Liar("snapshot", "btrfs", {"btrfs": _NO_SNAPSHOTS}),
    "a change after the snapshot that is lost": Liar("snapshot", "btrfs", {"dd": _loses("live/file")}, None),
    "older snapshots that are links": Liar("older-snapshots", "btrfs", {"btrfs": _NO_SNAPSHOTS}),
    "subvolumes for tenants that are links": Liar("nesting", "btrfs", {"btrfs": _NO_SNAPSHOTS}),
    "a clone that is a plain copy": Liar("clone", "xfs", {"cp": 'shift 2; real cp --reflink=never -- "$@"'}),
    "a clone that is empty": Liar("clone", "xfs", {"cp": 'truncate --reference "$3" "$4"'}),
    "a clone that is the original": Liar("clone", "xfs", {"cp": 'ln -f "$3" "$4"'}),
    "a stream of all for what changed": Liar(
        "send", "btrfs", {"btrfs": """\
case "$1 $3" in "send -p") real btrfs send --quiet "$5" ;; *) real btrfs "$@" ;; esac"""}),
    "a stream that arrives as something else": Liar(
        "send", "btrfs", {"btrfs": """\
real btrfs "$@" || exit 1
[ "$1" = receive ] && [ -e "$3/two" ] || exit 0
real btrfs property set -f "$3/two" ro false && echo other >"$3/two/file\""""}),
    "equal files that stay as they are": Liar("dedup-on-demand", "xfs", {"xfs_io": _SAY_DONE}),
    "room that comes free with the data": Liar("dedup-on-demand", "xfs", {"xfs_io": 'truncate --size 0 "$3"'}),
    "a second copy that is not stored": Liar("dedup", "ext4", {"dd": _loses("second")}),
    "a text that is not stored": Liar(
        "compression", "ext4", {"seq": '[ -e "$0.ran" ] || { : >"$0.ran"; exit 0; }; real seq "$@"'}),
    "a trim that discards nothing": Liar("discard", "ext4", {"fstrim": _SAY_DONE}),
    "direct reads that are cached": Liar(
        "direct", "ext4", {"dd": """\
for word; do shift; [ "$word" = iflag=direct ] || set -- "$@" "$word"; done; real dd "$@\""""}),
    "a volume that is not there": Liar("block", "ext4", _VOLUMES),
    "a cache that serves nothing": Liar("ssd-cache", "ext4", _CACHE),
    "a file that has its room from the start": Liar(
        "thin", "ext4", {"truncate": 'fallocate --length "$2" "$3"'}),
    "a change that is lost": Liar("cow", "ext4", {"dd": _loses("file")}, None),
    "a disk that keeps what was to be changed": Liar("checksums", "btrfs", {"dd": _NO_ZEROS}, None),
    "a refusal that is none of checksums": Liar(
        "checksums", "btrfs", {"sha256sum": """\
[ -e "$0.ran" ] || { : >"$0.ran"; real sha256sum; exit; }; echo "sha256sum: Permission denied" >&2; exit 1"""}, None),
    "a disk that keeps what was to be spoiled": Liar("self-healing", "btrfs raid1", {"dd": _NO_ZEROS}, None),
    "copies that are not there": Liar(
        "disk-loss", "btrfs single", {"btrfs": """\
case "$1 $2" in "filesystem df") echo "Data, RAID1: total=1" ;; *) real btrfs "$@" ;; esac"""}),
    "a lost disk that keeps its data": Liar(
        "disk-loss", "btrfs raid1", {"blkdiscard": _SAY_DONE, "dd": _NO_ZEROS}, None),
}  # fmt: skip


@pytest.fixture
def before() -> Iterator[Path]:
    """Where programs of liars are; everybody may enter it."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


def put(directory: Path, programs: dict[str, str]) -> None:
    for name, body in programs.items():
        (directory / name).write_text(f"{_REAL}{body}\n")
        (directory / name).chmod(0o755)


OWN_KINDS = {
    **KINDS,
    "btrfs single": (["mkfs.btrfs", "-q", "-d", "single", "-m", "raid1"], "", []),
}


@pytest.mark.parametrize("case", LIARS)
def test_a_liar_gets_no_yes(case: str, tmp_path: Path, before: Path) -> None:
    liar = LIARS[case]
    put(before, liar.programs)
    place = Mounted(tmp_path, {**DISKS, "btrfs single": 2}.get(liar.kind, 1), *OWN_KINDS[liar.kind])
    try:
        finding = place.find(liar.feature, before)
    finally:
        place.close()
    assert finding.holds is liar.says, finding


def test_a_disk_that_ignores_discards_is_emptied_nevertheless(tmp_path: Path, before: Path) -> None:
    put(before, {"blkdiscard": 'case "$*" in *--zeroout*) real blkdiscard "$@" ;; esac'})
    place = Mounted(tmp_path, 2, *KINDS["btrfs raid1"])
    try:
        finding = place.find("disk-loss", before)
    finally:
        place.close()
    assert finding.holds, finding


# An engine whose containers are directories that share their blocks, and run by chroot. $E is where, $lie what it does
# not do although it says so.
CLIENT = r"""
word=$1; shift
clone() { cp -a --reflink=always -- "$1" "$2"; }
whole() { cp -a --reflink=never -- "$1" "$2"; }
case $lie:$word in whole:create | whole:copy) clone() { whole "$@"; } ;; esac
cd "$E" || exit 1
case $word in
  reset)
    if [ -s pid ]; then kill "$(cat pid)" 2>/dev/null; fi
    rm -rf containers snapshots image pid && mkdir containers snapshots ;;
  load) mkdir image && tar --extract --file "$1" --directory image ;;
  create) clone image "containers/$2" ;;
  start) [ -d "containers/$1" ] ;;
  stop | unprivileged) ;;
  pid) sleep 60 >/dev/null 2>&1 & echo $! | tee pid ;;
  exec)
    name=$1; shift
    mkdir -p "containers/$name/proc/self" && cat /proc/self/status >"containers/$name/proc/self/status"
    exec chroot "containers/$name" "$@" ;;
  snapshot) clone "containers/$1" "snapshots/$2" ;;
  restore)
    [ -d "snapshots/$2" ] || { echo "no snapshot $2" >&2; exit 1; }
    [ "$lie" != restore ] || exit 0
    rm -rf "containers/$1" && clone "snapshots/$2" "containers/$1" || exit 1
    if [ "$lie" = newer ]; then for each in snapshots/*; do [ "$each" = "snapshots/$2" ] || rm -rf "$each"; done; fi ;;
  copy) clone "containers/$1" "containers/$2" ;;
  export)
    if [ "$lie" = files ]; then exec tar --create --file "$2" --directory "containers/$1" .; fi
    tar --create --file container.bin --directory "containers/$1" . && tar --create --file "$2" container.bin ;;
  import)
    mkdir "containers/$2" && cd "containers/$2" || exit 1
    if [ "$lie" = files ]; then exec tar --extract --file "$1"; fi
    tar --extract --to-stdout --file "$1" | tar --extract ;;
  remove) rm -rf "containers/$1" ;;
  room) sync --file-system .; df --block-size=1 --output=used . | tail -n 1 ;;
  base) echo 33554432 ;;
  *) exit 64 ;;
esac
"""

ENGINES = {
    "instance-snapshot": "restore",
    "instance-older-snapshots": "newer",
    "instance-copy": "whole",
    "instance-send": "files",
    "shared-images": "whole",
    # whatever it is asked for: it starts processes as root, and holds nobody to a size or to a speed
    "rootless": "",
    "base-size": "",
    "io-limit": "",
}


@pytest.mark.parametrize("feature", ENGINES)
def test_an_engine_that_lies_gets_a_no_and_one_that_does_not_a_yes(feature: str, tmp_path: Path) -> None:
    place = Mounted(tmp_path, 1, *KINDS["xfs"])
    try:
        for lie in dict.fromkeys(("", ENGINES[feature])):
            client = tmp_path / "client"
            client.write_text(f"#!/bin/sh\nE={place.path} lie={lie}\n{CLIENT}")
            client.chmod(0o755)
            finding = find(feature, Target(Kind.ENGINE, str(client), None), place.notes)
            assert finding.holds is (not lie and ENGINES[feature] != ""), (lie, finding)
            run(str(client), "reset")
    finally:
        place.close()


def test_a_limit_of_writes_that_nobody_is_held_to_gets_a_no(tmp_path: Path, before: Path) -> None:
    if not LocalHost("test").facts([], "/").io_control:
        pytest.skip("this kernel limits no I/O")
    put(before, {"sh": 'case $2 in *cgroup.procs*) shift 4; exec "$@" ;; *) real sh "$@" ;; esac'})
    disk = tmp_path / "disk.img"
    run("truncate", "--size=64M", str(disk))
    loop = run("losetup", "--find", "--show", str(disk)).strip()
    notes = tmp_path / "notes"
    notes.mkdir()
    try:
        finding = find("io-limit", Target(Kind.BLOCK, loop, None), notes, before)
    finally:
        run("losetup", "--detach", loop)
    assert finding.holds is False, finding


def test_a_new_volume_that_shows_old_data_gets_a_no(tmp_path: Path, before: Path) -> None:
    """It is a file that outlives its removal."""
    volumes = {
        **_VOLUMES,
        "lvs": f"echo ../{tmp_path} volume linear",
        "lvcreate": f'truncate --size 64M "{tmp_path}/strata-probe"',
        "lvremove": _SAY_DONE,
    }
    put(before, volumes)
    notes, disk = tmp_path / "notes", tmp_path / "disk.img"
    notes.mkdir()
    run("truncate", "--size=64M", str(disk))
    loop = run("losetup", "--find", "--show", str(disk)).strip()
    try:
        finding = find("zeroed", Target(Kind.BLOCK, loop, None), notes, before)
    finally:
        run("losetup", "--detach", loop)
    assert finding.holds is False, finding


def test_every_probe_has_a_liar() -> None:
    assert {liar.feature for liar in LIARS.values()} | set(ENGINES) | {"zeroed"} == set(probes())
