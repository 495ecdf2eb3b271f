from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

from strata.lab import guests, initramfs
from strata.lab.image import Image
from strata.lab.spec import LabSpec


@dataclass(frozen=True)
class Record:
    mode: int
    owner: tuple[int, int]
    time: int
    content: bytes


def unpack(archive: bytes) -> dict[str, Record]:
    """As the kernel reads it: init/initramfs.c."""
    found: dict[str, Record] = {}
    at = 0
    while True:
        assert at % 4 == 0
        assert archive[at : at + 6] == b"070701"
        number = [int(archive[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        name_size, size = number[11], number[6]
        name = archive[at + 110 : at + 110 + name_size]
        assert name.endswith(b"\0")
        at += (110 + name_size + 3) // 4 * 4
        if name == b"TRAILER!!!\0":
            assert not archive[at:].strip(b"\0")
            return found
        found[name[:-1].decode()] = Record(number[1], (number[2], number[3]), number[5], archive[at : at + size])
        at += (size + 3) // 4 * 4


def test_files_come_out_as_they_went_in() -> None:
    files = {"init": (0o755, b"#!"), "lib/a.ko": (0o644, bytes(range(256)) * 5), "etc/x/empty": (0o600, b"")}
    found = unpack(initramfs.cpio(files))
    for name, (mode, content) in files.items():
        assert found[name].mode == stat.S_IFREG | mode
        assert found[name].content == content
    assert all(record.owner == (0, 0) and record.time == 0 for record in found.values())


def test_a_folder_stands_before_what_lies_in_it() -> None:
    names = list(unpack(initramfs.cpio({"a/b/c/file": (0o644, b"1"), "a-file": (0o644, b"2")})))
    assert names.index("a") < names.index("a/b") < names.index("a/b/c") < names.index("a/b/c/file")


def test_equal_files_give_equal_bytes_whatever_their_order() -> None:
    files = {"b": (0o644, b"b"), "a": (0o644, b"a")}
    assert initramfs.cpio(files) == initramfs.cpio(dict(reversed(files.items())))


def test_another_archive_may_follow() -> None:
    """The kernel reads each archive from a multiple of 4, and some boot loaders pad to 512."""
    for length in range(8):
        assert len(initramfs.cpio({"x": (0o644, b"x" * length)})) % 512 == 0


def image(tmp_path: Path) -> Image:
    boot = tmp_path / "boot"
    boot.mkdir()
    (boot / "busybox").write_bytes(b"box")
    (boot / "order").write_text("nfit.ko\n")
    (boot / "nfit.ko").write_bytes(b"module")
    for name in ("key", "key.pub", "host_key"):
        (tmp_path / name).write_text(name)
    return Image(
        spec=LabSpec(),
        directory=tmp_path,
        root=tmp_path / "root",
        modules=tmp_path / "modules",
        kernel=tmp_path / "vmlinuz",
        kernel_version="6",
        boot=boot,
        key_file=tmp_path / "key",
        host_key_file=tmp_path / "host_key",
        host_key="",
        packages={},
        hash="",
    )


def test_the_machine_gets_its_keys_the_engine_and_what_starts_it(tmp_path: Path) -> None:
    found = unpack(initramfs.of(image(tmp_path), b"engine", {"etc/more": (0o644, b"more")}, reached=True))
    assert found["bin/busybox"].mode == stat.S_IFREG | 0o755
    assert found["bin/busybox"].content == b"box"
    assert found["lib/nfit.ko"].content == b"module"
    assert found["lib/order"].content == b"nfit.ko\n"
    assert found["init"].content.startswith(b"#!/bin/busybox sh\n")
    assert found["into/lab-init"].mode & 0o111
    assert found["into/usr/local/bin/strata-engine"].content == b"engine"
    assert found["into/etc/ssh/ssh_host_ed25519_key"].mode == stat.S_IFREG | 0o600
    assert found["into/root/.ssh/authorized_keys"].content == b"key.pub"
    assert found["into/root/.ssh"].mode == stat.S_IFDIR | 0o700
    assert found["into/etc/more"].content == b"more"
    assert b"key" not in [record.content for record in found.values()], "the key of whoever logs in stays outside"


def test_a_machine_by_the_virtual_clock_has_no_keys_so_that_it_is_the_same_everywhere(tmp_path: Path) -> None:
    there = image(tmp_path)
    first = initramfs.of(there, b"engine", reached=False)
    there.host_key_file.write_bytes(b"of another lab")
    assert initramfs.of(there, b"engine", reached=False) == first
    assert not [name for name in unpack(first) if "ssh" in name]


def test_a_machine_with_guests_within_has_what_they_start_from(tmp_path: Path) -> None:
    there = image(tmp_path)
    for name in ("vmlinuz", "root", "modules"):
        (tmp_path / name).write_bytes(name.encode() * 100)
    engine = tmp_path / "engine"
    engine.write_bytes(b"engine")
    carried = guests.carried(there, engine)
    of_guest = guests.within(there, engine, "kvm")
    boot = " ".join(of_guest.boot)
    named = [f"/{path}" for path in carried]
    assert {name.rpartition("/")[2] for name in named} == {"kernel", "initrd", "key", "known_hosts"}
    assert [name for name in named if name in boot or any(name in word for word in of_guest.ssh)] == named
    assert "mem-path=/dev/strata-root,size=400," in boot and "mem-path=/dev/strata-modules,size=700," in boot
    assert "into/lab-init" in unpack(carried["usr/local/lib/strata-guest/initrd"][1])
    assert carried["usr/local/lib/strata-guest/key"] == (0o600, b"key")
    assert (Path(of_guest.directory) / "key").read_text() == "key", "the controller goes in by itself"
