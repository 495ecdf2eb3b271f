"""kill -9 while containers run on what this machine's kernel need not have (thin pools, ZFS): `strata clean` leaves
nothing of ours on a machine that stays, and all that is the user's.

25 run, or 10 of LXD's and Incus's, each of which takes an emulated processor half a minute. The machine is one of
the lab that is kept and reached by ssh. tests/fault/test_engines.py does the same on this one.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from .kept_machine import KeptMachine, kept_machine
from .lab_runs import STRATA, built

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(3600)]

LOAD = "container/lifecycle(count={}, parallel=4, files=20, size=1M)"
POOL = "disk | lvmthin(zero=off)"
GIB = 1 << 30
# Started beyond those that have to run when Strata is killed: stopping begins when all have run, and a look takes time.
_MORE = 4

# Somebody else's Podman with a container that runs, and a thin pool with a volume that is mounted, named as Incus names
# its own.
USERS = r"""
set -e
mkdir -p /srv/users/root/bin /srv/users/mnt
cp /bin/busybox /srv/users/root/bin/
tar -C /srv/users/root -cf /srv/users/root.tar .
vgcreate -qq users /dev/disk/by-id/virtio-users >/dev/null
lvcreate -qq --monitor n --type thin-pool -L 256M -n pool users >/dev/null
lvcreate -qq --monitor n --type thin -V 128M --thinpool pool -n containers_precious users >/dev/null
mkfs.ext4 -q /dev/users/containers_precious
mount /dev/users/containers_precious /srv/users/mnt
echo precious >/srv/users/mnt/file
cat >/srv/users/podman <<'END'
#!/bin/sh
exec podman --root /srv/users/images --runroot /run/users --tmpdir /run/users/tmp --storage-driver vfs \
  --cgroup-manager cgroupfs --events-backend none --runtime crun "$@"
END
chmod +x /srv/users/podman
/srv/users/podman import --quiet /srv/users/root.tar localhost/users >/dev/null
/srv/users/podman run --detach --network none --name precious localhost/users /bin/busybox sleep 100000 >/dev/null
"""

INTACT = r"""
[ "$(/srv/users/podman exec precious /bin/busybox echo alive)" = alive ] && [ "$(cat /srv/users/mnt/file)" = precious ]
"""

# First processes of containers in control groups of ours.
RUNNING = r"""
for process in $(grep -lsx -z -F /stay /proc/[0-9]*/cmdline); do
  grep -q '[/.]strata-' "${process%/cmdline}/cgroup" 2>/dev/null && echo one
done | wc -l
"""

# $1 what the names of the run begin with, $2 its directory there, $3 the disk.
LEFT = r"""
grep -F -e "$1" -e "$2" /proc/self/mountinfo
find /sys/fs/cgroup -type d -path "*$1*"
dmsetup ls | grep -v '^users-' | grep -v '^No devices'
vgs --noheadings --options vg_name 2>/dev/null | grep -v '^ *users$'
if command -v zpool >/dev/null; then zpool list -H 2>/dev/null; fi
losetup --list --noheadings
ls -d /run/"$1"* "$2"/* 2>/dev/null
ls -d /run/containerd /run/docker /run/lxc /run/runc/* 2>/dev/null
ls /sys/class/net | grep -e '^docker0$' -e 'br0$' -e '^veth'
wipefs --noheadings "$3"
for process in $(grep -lsF -e "$1" -e "$2" /proc/[0-9]*/cmdline); do
  # What looked for them has found itself, and is gone.
  words=$(tr '\0' ' ' <"$process")
  [ "$process" = "/proc/$$/cmdline" ] || [ -z "$words" ] || echo "$process: $words"
done 2>/dev/null
true
"""

CASES = {
    "containerd-devmapper": (f"{POOL} | containerd(devmapper, base_size=512M)", 13, 25),
    "podman-zfs": ("disk | zfs | podman(zfs)", 13, 25),
    "docker-zfs": ("disk | zfs | docker(zfs)", 13, 25),
    "incus-zfs": ("disk | zfs | incus(zfs)", 13, 10),
    "lxd-zfs": ("disk | zfs | lxd(zfs)", 13, 10),
    "incus-lvm": (f"{POOL} | incus(lvm, base_size=512M)", 13, 10),
    "lxd-lvm": (f"{POOL} | lxd(lvm, base_size=512M)", 13, 10),
    "docker-devicemapper": (f"{POOL} | docker(devicemapper, base_size=512M, fs=ext4)", 12, 25),
    "docker-loop-lvm": ("disk | ext4 | docker(devicemapper, base_size=512M)", 12, 25),
}


@pytest.mark.parametrize("case", CASES)
def test_killed_while_containers_run(case: str, tmp_path: Path) -> None:
    stack, debian, count = CASES[case]
    features = {"containers", *(["zfs"] if debian == 13 else [])}
    home = tmp_path / "machine"
    home.mkdir()
    with kept_machine(built(*features, debian=debian), home, {"disk": 6 * GIB, "users": GIB}) as there:
        there.run(USERS)
        killed_and_cleaned(there, stack, count, tmp_path / "run")
        there.run(INTACT)


def killed_and_cleaned(there: KeptMachine, stack: str, count: int, directory: Path) -> None:
    device = "/dev/disk/by-id/virtio-disk"
    argv = (STRATA, "run", stack, "-w", LOAD.format(count + _MORE), "--on", "ssh:lab", "--device", f"disk={device}",
            "--yes", "--rounds", "1", "--out", str(directory))  # fmt: skip
    with (directory.parent / "said").open("wb") as said:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=there.environment)
    most = 0
    try:
        give_up = time.monotonic() + 2400
        while most < count and process.poll() is None and time.monotonic() < give_up:
            most = max(most, int(there.run(RUNNING).stdout))
            time.sleep(2)
        assert most >= count, f"{most} containers ran: {(directory.parent / 'said').read_text()[-3000:]}"
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert "is a loop device" not in (directory.parent / "said").read_text()
    assert int(there.run(RUNNING).stdout) > 0, "what was killed is Strata, and not the containers"
    cleaned = subprocess.run((STRATA, "clean", directory), capture_output=True, text=True, env=there.environment)
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    with sqlite3.connect(f"file:{directory / 'strata.db'}?mode=ro", uri=True) as sql:
        (uuid,) = sql.execute("SELECT uuid FROM run").fetchone()
    name = f"strata-{uuid.replace('-', '')[:6]}-"
    left = there.run(LEFT, name, f"/var/tmp/strata-{uuid[:8]}", device).stdout
    assert left == ""
    assert int(there.run(RUNNING).stdout) == 0
