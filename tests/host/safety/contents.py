"""What disks hold that no signature explains: written to files of which loop devices are made."""

from __future__ import annotations

import io
import random
import sqlite3
import struct
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40

Write = Callable[[Path], None]
"""Fills a sparse file that is there already."""

NOISE = random.Random(26).randbytes(8 * MIB)
TEXT = b"Dear reader, these are the minutes of the meeting of 3 March, and nobody has a copy.\n" * 40


def at(*parts: tuple[int, bytes]) -> Write:
    """Data at offsets; negative ones count from the end."""

    def write(path: Path) -> None:
        size = path.stat().st_size
        with path.open("r+b") as file:
            for offset, data in parts:
                file.seek(offset % size if offset < 0 else offset)
                file.write(data)

    return write


def made(*argv: str, without: tuple[tuple[int, int], ...] = ()) -> Write:
    """A file system by its own mkfs, with zeros in some places: from, to."""

    def write(path: Path) -> None:
        done = subprocess.run((*argv, str(path)), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done
        for begin, end in without:
            _clear(path, begin, end)

    return write


def only(*argv: str, begin: int, end: int) -> Write:
    """All that is left of a file system is a part of it."""

    def write(path: Path) -> None:
        made(*argv)(path)
        _clear(path, 0, begin)
        _clear(path, end, path.stat().st_size)
        with path.open("rb") as file:
            file.seek(begin)
            assert any(file.read(end - begin)), "the part holds nothing"

    return write


def both(first: Write, second: Write) -> Write:
    def write(path: Path) -> None:
        first(path)
        second(path)

    return write


def _clear(path: Path, begin: int, end: int) -> None:
    argv = ("fallocate", "--punch-hole", "--offset", str(begin), "--length", str(end - begin), str(path))
    subprocess.run(argv, check=True)


def _database() -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.execute("create table invoices (number integer, payer text)")
    connection.executemany("insert into invoices values (?, ?)", [(n, f"payer {n}") for n in range(500)])
    connection.commit()
    return connection.serialize()


def _tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo("minutes.txt")
        info.size = len(TEXT)
        archive.addfile(info, io.BytesIO(TEXT))
    return buffer.getvalue()


def _zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("minutes.txt", TEXT)
    return buffer.getvalue()


def _qcow2(version: int = 3, encryption: int = 0) -> bytes:
    """The header of an image of 1 GiB (QEMU, docs/interop/qcow2.txt)."""
    fields = struct.pack(
        ">4sIQIIQIIQQIIQ", b"QFI\xfb", version, 0, 0, 16, GIB, encryption, 2, 0x30000, 0x10000, 1, 0, 0
    )
    return fields + struct.pack(">QQQII", 0, 0, 0, 4, 104)


def _vmdk() -> bytes:
    """The header of a sparse extent (VMware, Virtual Disk Format 5.0)."""
    header = struct.pack("<4sIIQQQQIQQQB", b"KDMV", 1, 3, 2097152, 128, 1, 20, 512, 21, 26, 128, 0) + b"\n \r\n"
    return header.ljust(512, b"\0") + b'# Disk DescriptorFile\nversion=1\ncreateType="monolithicSparse"\n'


def _ntfs_boot() -> bytes:
    boot = b"\xeb\x52\x90NTFS    " + struct.pack("<HB", 512, 8) + bytes(70)
    return boot.ljust(510, b"\0") + b"\x55\xaa"


LVM_TEXT = b'vg0 {\nid = "aaaaaa-bbbb-cccc-dddd-eeee-ffff-gggggg"\nseqno = 12\nstatus = ["READ", "WRITE"]\n}\n'

EXT4 = ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0")
EXT2_1K = ("mkfs.ext4", "-q", "-F", "-b", "1024", "-O", "^has_journal")
XFS = ("mkfs.xfs", "-q", "-f")
BTRFS = ("mkfs.btrfs", "-q", "-f")
F2FS = ("mkfs.f2fs", "-q", "-f")

# MiB of the device, and what is on it
HELD: dict[str, tuple[int, Write]] = {
    # file systems whose first super block is gone, or whose partition table is
    "ext4-at-1-mib-without-a-table": (64, made("mkfs.ext4", "-q", "-F", "-E", "offset=1048576")),
    "ext4-under-a-malformed-label": (64, both(made("mkfs.ext4", "-q", "-F", "-E", "offset=1048576"),
                                              at((512, b"EFI PART" + b"\x17" * 84)))),
    "ext4-without-its-first-super-block": (64, made(*EXT4, without=((1024, 2048),))),
    "ext4-of-which-the-first-120-mib-are-gone": (1024, made(*EXT4, without=((0, 120 * MIB),))),
    "ext4-of-which-one-backup-is-left": (1024, only(*EXT4, begin=384 * MIB, end=384 * MIB + 4096)),
    "ext4-at-1-mib-of-which-the-first-17-mib-are-gone": (1024, made("mkfs.ext4", "-q", "-F", "-E", "offset=1048576",
                                                                    without=((0, 18 * MIB),))),
    "ext4-backup-of-a-partition-at-sector-63": (1024, at((63 * 512 + 128 * MIB + 56, b"\x53\xef" + b"\1" * 20))),
    "btrfs-mirror-of-a-partition-at-1-mib": (256, at((65 * MIB + 64, b"_BHRfS_M" + b"\1" * 20))),
    "ext2-of-which-one-backup-is-left": (300, only(*EXT2_1K, begin=40 * MIB, end=40 * MIB + 4096)),
    "xfs-without-its-first-super-block": (320, made(*XFS, without=((0, 512),))),
    "xfs-of-which-one-allocation-group-is-left": (1024, only(*XFS, begin=256 * MIB, end=256 * MIB + 4096)),
    "btrfs-without-its-first-super-block": (128, made(*BTRFS, without=((64 * KIB, 68 * KIB),))),
    "btrfs-of-which-the-mirror-is-left": (256, only(*BTRFS, begin=64 * MIB, end=64 * MIB + 4096)),
    "f2fs-without-its-first-super-block": (64, made(*F2FS, without=((0, 4096),))),
    "f2fs-without-both-super-blocks": (64, made(*F2FS, without=((0, 8192),))),
    "ntfs-of-which-the-backup-boot-sector-is-left": (100, at((-512, _ntfs_boot()))),
    "ntfs-of-which-the-file-table-is-left": (5 * 1024, at((3 * GIB, b"FILE0" + bytes(43) + b"$MFT"))),
    "fat-without-its-boot-sector": (32, at((16 * KIB, b"\xf8\xff\xff\x0f\xff\xff\xff\xff"))),
    "exfat-without-its-boot-sector": (32, at((6144, b"\xeb\x76\x90EXFAT   "))),
    "hfs-plus-of-which-the-alternate-header-is-left": (100, at((-1024, b"H+\x00\x04" + bytes(4) + b"8.10"))),
    "jfs-without-its-first-super-block": (32, at((61440, b"JFS1" + b"\1\0\0\0"))),
    "reiserfs-of-which-the-journal-is-left": (32, at((72 * KIB, b"\2\0\0\0\7\0\0\0" * 64))),
    "ocfs2-of-which-a-backup-is-left": (2 * 1024, at((GIB, b"OCFSV2\0\0" + b"\1" * 64))),
    "btrfs-of-which-the-second-mirror-is-left": (300 * 1024, at((256 * GIB + 64, b"_BHRfS_M"))),
    "xfs-of-terabytes-of-which-a-group-is-left": (5 * 1024 * 1024, at((TIB, b"XFSB\0\0\x10\0"))),
    "bluestore-of-which-a-label-is-left": (20 * 1024, at((10 * GIB, b"bluestore block device\n"))),
    "iso9660-without-its-descriptors": (16, at((40 * KIB, b"\1\0\x14\0\0\0\1\0\0\0" * 20))),
    "udf-of-which-an-anchor-is-left": (16, at((256 * 2048, b"\2\0\2\0\x11\0\0\0"))),
    "squashfs-without-its-magic": (16, at((4, struct.pack("<IIIIHH", 12, 1700000000, 131072, 1, 1, 17) + NOISE[:999]))),
    "vmfs-without-its-magic": (64, at((MIB + 64 * KIB, b"\xed\xfe\xca\xaf" + TEXT[:100]), (18 * MIB, b"heartbeat"))),
    # volumes and their members without a header
    "plain-dm-crypt": (64, at((0, NOISE))),
    "luks1-without-its-header": (16, at((4096, NOISE[: 256 * KIB]))),
    "luks2-of-which-the-second-header-is-left": (32, at((16 * KIB, b"SKUL\xba\xbe\0\2" + bytes(24) + b"{keyslots}"))),
    "luks2-of-which-the-keys-are-left": (32, at((32 * KIB, NOISE[: 64 * KIB]))),
    "swap-without-its-header": (16, at((4096, TEXT))),
    "lvm-without-its-label": (16, at((4096 + 512, LVM_TEXT))),
    "lvm-of-which-the-second-metadata-area-is-left": (300, at((-MIB + 512, LVM_TEXT))),
    "md-1.2-without-its-super-block": (80, at((MIB, TEXT))),
    "md-1.0-without-its-magic": (300, at((4 - 8192, struct.pack("<III", 1, 0, 0) + b"array")) ),
    "md-0.90-without-its-magic": (300, at((4 - 65536, struct.pack("<III", 0, 90, 0)))),
    "zfs-of-which-the-configuration-is-left": (300, at((-256 * KIB + 16 * KIB, b"\1\1\0\0\0\0\0\0\0\0\0\1version"))),
    "bcache-without-its-super-block": (16, at((8192, TEXT))),
    "gpt-of-which-the-entries-are-left": (16, at((1024, bytes.fromhex("af3dc60f838472478e793d69d8477de4") * 2))),
    # images, archives, files
    "text": (16, at((0, TEXT))),
    "vmdk": (16, at((0, _vmdk()))),
    "qcow2": (16, at((0, _qcow2()))),
    "vhdx": (16, at((0, b"vhdxfile" + "Microsoft Windows".encode("utf-16-le")))),
    "vdi": (16, at((0, b"<<< Oracle VM VirtualBox Disk Image >>>\n"))),
    "sqlite": (16, at((0, _database()))),
    "postgresql": (16, at((0, struct.pack("<QHHHHHHI", 1 << 32, 0, 4, 40, 8000, 8192, 8196, 0)), (8000, TEXT[:150]))),
    "tar": (16, at((0, _tar()))),
    "cpio": (16, at((0, b"070701" + b"0" * 104 + b"minutes.txt\0"))),
    "gzip": (16, at((0, b"\x1f\x8b\x08\0\0\0\0\0\0\3" + zlib.compress(TEXT)))),
    "zip": (16, at((0, _zip()))),
    # little, anywhere
    "one-byte-at-the-start": (300, at((0, b"\1"))),
    "one-byte-at-the-end": (300, at((-1, b"\1"))),
    "a-file-in-the-middle-of-a-small-device": (48, at((24 * MIB + 7, TEXT))),
    "a-file-in-the-middle": (1024, at((512 * MIB - MIB, TEXT * 1000))),
    "a-partition-at-a-third": (3000, at((1000 * MIB, NOISE * 8))),
    "spaces": (16, at((0, b" " * MIB))),
    "ones-then-zeros": (16, at((0, b"\xff" * MIB))),
    "ones-but-for-a-byte": (4, at((0, b"\xff" * (4 * MIB)), (2 * MIB, b"\xfe"))),
}  # fmt: skip
"""Of each, what is written has no signature that libblkid knows, but for `SIGNED`."""

SIGNED = {"luks2-of-which-the-second-header-is-left"}
