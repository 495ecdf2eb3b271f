"""A guest from an image of the user's own, from first to last: a Debian that nothing of ours is in, made for this."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from strata.hosts.local import LocalHost
from strata.lab import sources
from strata.model import Outcome
from strata.store import reader

from .test_guests import STRATA, left, needs_guests  # noqa: F401 - a fixture that serves here too

# Made in half a minute, and booted twice, emulated.
pytestmark = [pytest.mark.host, pytest.mark.slow, pytest.mark.timeout(3600)]

SUITE = "trixie"
PACKAGES = "linux-image-amd64,initramfs-tools,systemd-sysv,udev,openssh-server,fio,extlinux"
# $1 the root, $2 the public key. The BIOS starts what extlinux writes before the file system, which fills the disk.
SYSTEM = """\
set -e
mkdir -p "$1/root/.ssh" "$1/etc/systemd/network" "$1/boot/extlinux"
cp -- "$2" "$1/root/.ssh/authorized_keys"
printf '[Match]\\nName=e*\\n[Network]\\nDHCP=yes\\n' >"$1/etc/systemd/network/all.network"
echo 'LABEL=own / ext4 defaults 0 1' >"$1/etc/fstab"
chroot "$1" systemctl --quiet enable systemd-networkd
cat >"$1/boot/extlinux/extlinux.conf" <<'END'
default own
label own
  linux /vmlinuz
  initrd /initrd.img
  append root=LABEL=own console=ttyS0 panic=0
END
"""
# $1 the tar, $2 the image, $3 a directory to mount it at
IMAGE = """\
set -e
truncate -s 2G "$2"
mkfs.ext4 -q -F -L own -O ^64bit,^metadata_csum "$2"
mount -o loop -- "$2" "$3"
trap 'umount --recursive -- "$3"' EXIT
tar -C "$3" -xf "$1"
mount --bind /dev "$3/dev"
mount -t proc proc "$3/proc"
chroot "$3" extlinux --install /boot/extlinux
"""


@pytest.fixture(scope="module")
def brought(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The image and the key."""
    directory = tmp_path_factory.mktemp("own")
    key, image, tar, point = (directory / name for name in ("key", "own.img", "root.tar", "mnt"))
    point.mkdir()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    (directory / "system.sh").write_text(SYSTEM)
    mirror = sources.mirror(LocalHost("test-own-guest"))
    customize = f'sh "{directory}/system.sh" "$1" "{key}.pub"'
    argv = [
        *("mmdebstrap", "--mode=root", "--variant=minbase", "--quiet", f"--include={PACKAGES}"),
        *("--dpkgopt=force-unsafe-io", *(f"--aptopt={line}" for line in mirror.options)),
        *(f"--customize-hook={customize}", "--format=tar", SUITE, str(tar), mirror.line(SUITE)),
    ]
    subprocess.run(["unshare", "--mount", "--propagation", "private", "--", *argv], check=True)
    mounts = ("unshare", "--mount", "--propagation", "private", "--")
    subprocess.run([*mounts, "sh", "-c", IMAGE, "sh", str(tar), str(image), str(point)], check=True)
    return image, key


def begun(out: Path, stack: str, load: str) -> subprocess.Popen[str]:
    argv = [STRATA, "run", stack, "-w", load, "--size", "disk=512M", "--rounds", "1", "--out", str(out)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)


def test_it_is_measured_by_ssh_and_panics_are_seen(brought: tuple[Path, Path], tmp_path: Path) -> None:
    image, key = brought
    out = tmp_path / "run"
    before = image.stat().st_mtime_ns
    stack = f"disk | vm(image={image}, key={key}, os=linux, memory=1G)"
    process = begun(out, stack, "guest/fio(runtime=20s, size=64M, rw=randrw)")
    panicked = False
    while process.poll() is None:
        # Once, when it carries out commands.
        if not panicked and (booted := next(out.glob("work/*/*/boot_s"), None)):
            port = booted.with_name("port").read_text().strip()
            reach = ["-i", str(key), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
            crash = "sleep 5; echo c > /proc/sysrq-trigger"
            subprocess.run(["ssh", "-F", "none", *reach, "-p", port, "root@127.0.0.1", crash], capture_output=True)
            panicked = True
        time.sleep(0.5)
    said, _ = process.communicate()
    assert panicked and process.returncode == 0, said
    view = reader.view(out)
    (loss,) = view.losses
    assert "Kernel panic" in loss.reason and "Kernel panic" in loss.console
    (trial,) = view.trials
    assert trial.outcome is Outcome.OK, trial.reason
    for name in ("iops", "vm.boot_s", "guest.qemu_cpu_s", "disk.writes"):
        assert trial.metrics[name] > 0, name
    assert image.stat().st_mtime_ns == before
    assert left(out) == []
