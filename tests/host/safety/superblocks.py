"""Genuine superblocks of formats whose tools are seldom at hand, with their checksums, written byte by byte.

Every format is described by its own project: LVM2's label in lib/format_text/layout.h, md in the kernel's
uapi/linux/raid/md_p.h, ZFS in its on-disk specification, bcache in uapi/linux/bcache.h, LUKS in its specification.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from pathlib import Path

_UUID = uuid.UUID("5f0c2b9e-1d5f-4a43-9c0e-6a1f5f0c2b9e").bytes


def _put(device: str, *blocks: tuple[int, bytes]) -> None:
    with Path(device).open("r+b", buffering=0) as file:
        for offset, block in blocks:
            file.seek(offset)
            file.write(block)


def lvm2(device: str, size_bytes: int) -> None:
    """A physical volume's label, in the second sector."""
    start_crc = 0xF597A6CF
    checked = struct.pack("<I8s32s", 32, b"LVM2 001", b"0123456789abcdefghijklmnopqrstuv")
    checked += struct.pack("<QQQQQQ", size_bytes, MIB, 0, 0, 0, 0)
    checked = checked.ljust(512 - 20, b"\0")
    crc = zlib.crc32(checked, start_crc ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
    _put(device, (512, struct.pack("<8sQI", b"LABELONE", 1, crc) + checked))


def md(device: str, size_bytes: int) -> None:
    """A member of a RAID 1 of two, metadata 1.2."""
    sectors, data_offset, devices = size_bytes // 512, 2048, 2
    block = struct.pack("<IIII16s32s", 0xA92B4EFC, 1, 0, 0, _UUID, b"host:array")
    block += struct.pack("<QIIQIII", 0, 1, 0, sectors - data_offset, 0, devices, 0)
    block = block.ljust(128, b"\0")
    block += struct.pack("<QQQQIII16s", data_offset, sectors - data_offset, 8, 0, 0, 0, 0, _UUID)
    block = block.ljust(192, b"\0") + struct.pack("<QQQII", 0, 0, 0, 0, devices)
    block = block.ljust(256, b"\0") + struct.pack("<HH", 0, 1)
    total = sum(struct.unpack(f"<{len(block) // 4}I", block))
    checksum = ((total & 0xFFFFFFFF) + (total >> 32)) & 0xFFFFFFFF
    _put(device, (4096, block[:216] + struct.pack("<I", checksum) + block[220:]))


def zfs(device: str, size_bytes: int) -> None:
    """The uberblocks of all four labels: two at the start and two at the end."""
    label = 256 << 10
    starts = (0, label, size_bytes - 2 * label, size_bytes - label)
    uberblocks = b"".join(
        struct.pack("<QQQQQ", 0x00BAB10C, 5000, 1000 + number, 0x1234, 1_700_000_000).ljust(1024, b"\0")
        for number in range(128)
    )
    _put(device, *((start + (128 << 10), uberblocks) for start in starts))


def bcache(device: str, size_bytes: int) -> None:
    """A backing device."""
    magic = bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")
    block = struct.pack("<QQ16s16s16s32sQQ64s", 8, 1, magic, _UUID, _UUID[::-1], b"", 0, 0, b"")
    block += struct.pack("<QHHHH", 0, 1, 1024, 0, 0) + struct.pack("<IHH", 0, 16, 0)
    _put(device, (4096, struct.pack("<Q", _crc64(block)) + block))


def luks(device: str, size_bytes: int) -> None:
    """A LUKS1 header with no key in it."""
    block = b"LUKS\xba\xbe" + struct.pack(">H32s32s32s", 1, b"aes", b"xts-plain64", b"sha256")
    block += struct.pack(">II20s32sI40s", 4096, 64, b"digest", b"salt", 1000, b"5f0c2b9e-1d5f-4a43-9c0e-6a1f5f0c2b9e")
    block += b"".join(struct.pack(">II32sII", 0x0000DEAD, 0, b"", 8 + 512 * key, 4000) for key in range(8))
    _put(device, (0, block))


def _crc64(data: bytes) -> int:
    """ECMA-182, started and ended with all ones, as bcache has it."""
    crc = (1 << 64) - 1
    for byte in data:
        crc ^= byte << 56
        for _ in range(8):
            crc = ((crc << 1) ^ (0x42F0E1EBA9EA3693 if crc >> 63 else 0)) & ((1 << 64) - 1)
    return crc ^ ((1 << 64) - 1)


MIB = 1 << 20
