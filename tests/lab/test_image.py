"""The lab on the disk: it holds what it says, all of it can run, and a build that is killed leaves nothing.

`make lab` builds what is read here.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from strata.errors import Refused
from strata.lab import cache as caches
from strata.lab import contents, image, modules
from strata.lab.image import Image
from strata.lab.spec import LabSpec

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

STRATA = str(Path(sys.executable).with_name("strata"))
ZFS = LabSpec(13, None, frozenset({"zfs"}))

# One of every kind of stack, and of what carries it.
MODULES = {
    *("btrfs", "ext4", "f2fs", "xfs", "overlay", "fuse", "loop", "virtio_blk", "nvme", "scsi_debug", "null_blk", "brd"),
    *("dm_thin_pool", "dm_cache", "dm_cache_smq", "dm_snapshot", "dm_vdo", "dm_delay", "dm_flakey", "dm_writecache"),
    *("raid0", "raid1", "raid10", "raid456", "bcache", "ublk_drv", "bfq", "kyber_iosched", "zfs", "spl"),
    *("kvm_intel", "kvm_amd", "veth", "bridge", "nf_tables", "tun", "zram"),
}


@pytest.fixture(scope="module")
def built() -> Image:
    try:
        return image.find(ZFS, caches.default())
    except Refused as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def root(built: Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the root. Owners and devices are root's to make; nothing here needs them."""
    return unpacked(built.root, tmp_path_factory.mktemp("root"))


@pytest.fixture(scope="module")
def modules_tree(built: Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(built.modules, tmp_path_factory.mktemp("modules")) / built.kernel_version


def unpacked(squashfs: Path, folder: Path) -> Path:
    there = folder / "tree"
    argv = ["unsquashfs", "-quiet", "-no-progress", "-ignore-errors", "-no-xattrs", "-d", str(there), str(squashfs)]
    subprocess.run(argv, capture_output=True)
    assert there.is_dir()
    return there


def test_the_lab_is_small(built: Image) -> None:
    """The base is to be at most 120 MB in all; ZFS is beside that."""
    packed = json.loads((built.directory / "lab.json").read_text())["packed_bytes"]
    assert sum(packed.values()) <= 120e6


def test_its_images_fit_persistent_memory(built: Image) -> None:
    for path in (built.root, built.modules):
        assert path.stat().st_size % (128 << 20) == 0


def test_its_keys_are_its_owners_alone(built: Image) -> None:
    for path in (built.key_file, built.host_key_file):
        assert path.stat().st_mode & 0o777 == 0o600
    assert built.directory.stat().st_mode & 0o777 == 0o700


def test_the_versions_are_those_of_the_root(built: Image, root: Path) -> None:
    argv = ["dpkg-query", "--admindir", str(root / "var/lib/dpkg"), "-W", "-f", "${Package} ${Version}\n"]
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    installed = dict(line.split() for line in said.splitlines())
    assert installed.items() <= built.packages.items()
    assert {"fio", "lvm2", "mdadm", "zfsutils-linux", "vdo", "xfsprogs"} <= installed.keys()


def test_every_program_finds_its_libraries(root: Path) -> None:
    """Of what was left out nothing is missed: each library that an executable names is in the root."""
    there = {path.name for folder in ("usr/lib", "usr/lib64") for path in (root / folder).rglob("*.so*")}
    missed: dict[str, set[str]] = {}
    for folder in ("usr/bin", "usr/sbin", "usr/lib", "usr/libexec"):
        for path in (root / folder).rglob("*"):
            if path.is_symlink() or not path.is_file() or path.read_bytes()[:4] != b"\x7fELF":
                continue
            said = subprocess.run(["readelf", "--dynamic", str(path)], capture_output=True, text=True).stdout
            needed = {line.split("[")[1].rstrip("]") for line in said.splitlines() if "(NEEDED)" in line}
            if needed - there:
                missed[path.name] = needed - there
    assert missed == {}


def test_the_modules_of_every_stack_are_there(modules_tree: Path) -> None:
    needs = modules.parse((modules_tree / "modules.dep").read_text())
    there = {modules.name(path) for path in needs}
    there |= {modules.name(line) for line in (modules_tree / "modules.builtin").read_text().splitlines()}
    assert there >= MODULES
    for path, needed in needs.items():
        assert all((modules_tree / module).is_file() for module in (path, *needed))


def test_zfs_is_built_for_this_kernel_and_for_these_tools(built: Image, modules_tree: Path) -> None:
    for name in ("zfs", "spl"):
        content = (modules_tree / "updates" / f"{name}.ko").read_bytes()
        assert f"vermagic={built.kernel_version} ".encode() in content
    assert built.packages["zfs-dkms"] == built.packages["zfsutils-linux"]


def test_a_changed_byte_is_noticed_before_an_exact_run_says_what_it_ran_on(built: Image, tmp_path: Path) -> None:
    """Also where its file has its earlier time stamps, as when a disk goes bad."""
    there = tmp_path / "strata" / "lab" / "labs" / built.directory.name
    there.parent.parent.mkdir(mode=0o700, parents=True)
    shutil.copytree(built.directory, there, ignore=shutil.ignore_patterns("states", "guests"))
    with (there / "modules.sqfs").open("r+b") as file:
        file.seek(1 << 20)
        byte = file.read(1)
        file.seek(1 << 20)
        file.write(bytes([byte[0] ^ 1]))
    recorded = json.loads((there / "lab.json").read_text())["files"]
    (there / "stamps.json").write_text(json.dumps({name: contents._stamp(there / name) for name in recorded}))
    argv = [STRATA, "run", "disk | ext4", "--on", "lab", "--clock", "virtual", "--out", str(tmp_path / "run")]
    argv += ["--rounds", "1", "-w", "fio/randread-4k-qd32(runtime=1s, size=32M)"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True)
    assert done.returncode != 0, done
    assert f"the lab {built.hash} was changed: modules.sqfs was changed" in done.stderr, done.stderr
    assert f"`strata lab remove {there.name}`" in done.stderr


@pytest.mark.slow
@pytest.mark.fault
def test_a_build_that_is_killed_is_never_run_and_leaves_nothing(tmp_path: Path) -> None:
    """kill -9 while mmdebstrap works; then a second build ends what is left of the first and completes."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    cache, spec = tmp_path / "strata" / "lab", LabSpec(13)
    first = subprocess.Popen([STRATA, "lab", "build"], env=environment, stderr=subprocess.PIPE, text=True)
    assert first.stderr is not None
    for line in first.stderr:
        if "makes the root" in line:
            break
    time.sleep(5)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    with pytest.raises(Refused, match="is half built; type `strata lab build --debian 13`"):
        image.find(spec, cache)
    assert marked(spec), "the test wants a build of which something lives on"
    status = subprocess.run([STRATA, "lab", "status"], env=environment, capture_output=True, text=True, check=True)
    assert "half built" in status.stdout
    again = subprocess.run([STRATA, "lab", "build"], env=environment, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert "was cut short" in again.stderr
    assert image.find(spec, cache).packages
    assert caches.half_built(cache) == []
    assert marked(spec) == []
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


def marked(spec: LabSpec) -> list[str]:
    """Processes of a build of this lab."""
    mark = f"STRATA_RUN={image.marker(spec)}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append((entry / "comm").read_text().strip())
        except OSError:
            continue
    return found
