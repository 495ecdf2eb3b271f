from __future__ import annotations

import io
import lzma
import os
import tarfile
from pathlib import Path

import pytest
from tests.fake_host import FakeHost

from strata.errors import CommandFailed, Refused
from strata.lab import zfs
from strata.lab.bootstrap import Rights, Site
from strata.lab.sources import Kernel, Mirror, Suite
from strata.model import Command, Completed


class Builder(FakeHost):
    """A mirror with ZFS 2.3.9, and an mmdebstrap that builds `modules`, or fails when that is None."""

    def __init__(self, modules: list[str] | None) -> None:
        super().__init__()
        self.modules = modules
        self.built: list[tuple[str, ...]] = []

    def run(self, command: Command, *, check: bool = True) -> Completed:
        argv = command.argv
        said = ""
        if "show" in argv:
            said = "Package: zfs-dkms\nVersion: 2.3.9-1\n"
        if "download" in argv:
            (Path(argv[4]) / "zfs-dkms_2.3.9-1_all.deb").touch()
        if "dpkg-deb" in " ".join(argv):
            Path(argv[-1]).touch()
        if "mmdebstrap" in argv:
            self.built.append(argv)
            if self.modules is None:
                raise CommandFailed(argv, 1, "", "I: running\nconfigure: error: kernel 9.9 is not supported\n")
            out = next(word.split()[-1] for word in argv if "tar-out" in word)
            with tarfile.open(out, "w") as archive:
                for name in self.modules:
                    content = lzma.compress(name.encode())
                    member = tarfile.TarInfo(f"zfs-modules/{name}.ko.xz")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
        return Completed(argv, 0, said, "", 0.0)


def built(tmp_path: Path, host: Builder) -> tuple[str, list[Path]]:
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    mirror = Mirror("http://mirror.test/debian/")
    suite = Suite(host, mirror, "trixie", tmp_path / "apt")
    site = Site(host, mirror, Rights(True, scratch, scratch / "note"), scratch, lambda line: None)
    kernel = Kernel(suite, "6.12.107-1", "6.12.107+deb13-amd64", ())
    return zfs.built(site, kernel, suite, tmp_path / "zfs")


def test_modules_are_built_once_for_a_kernel(tmp_path: Path) -> None:
    host = Builder(["spl", "zfs"])
    version, files = built(tmp_path, host)
    assert version == "2.3.9-1"
    assert [(path.name, path.read_bytes()) for path in files] == [("spl.ko", b"spl"), ("zfs.ko", b"zfs")]
    assert built(tmp_path, host) == (version, files)
    assert len(host.built) == 1
    assert any(word.endswith("linux-headers-6.12.107+deb13-amd64") for word in host.built[0])


@pytest.mark.parametrize("damage", ["empty", "changed", "gone", "record"])
def test_modules_that_a_power_failure_left_damaged_are_built_again(tmp_path: Path, damage: str) -> None:
    host = Builder(["spl", "zfs"])
    _, (spl, _) = built(tmp_path, host)
    before = spl.stat()
    match damage:
        case "empty":
            spl.write_bytes(b"")
        case "changed":
            spl.write_bytes(b"sPl")
            os.utime(spl, ns=(before.st_atime_ns, before.st_mtime_ns))
        case "gone":
            spl.unlink()
        case "record":
            (spl.parent / "digests.json").write_bytes(b"")
    _, files = built(tmp_path, host)
    assert [(path.name, path.read_bytes()) for path in files] == [("spl.ko", b"spl"), ("zfs.ko", b"zfs")]
    assert len(host.built) == 2


def test_a_build_without_the_module_fails_loudly_and_keeps_nothing(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="gave no module zfs"):
        built(tmp_path, Builder(["spl"]))
    assert not (tmp_path / "zfs").exists()


def test_a_build_that_fails_says_what_the_build_said(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"without zfs or with another kernel[^$]*error: kernel 9\.9 is not supported"):
        built(tmp_path, Builder(None))
    assert not (tmp_path / "zfs").exists()
