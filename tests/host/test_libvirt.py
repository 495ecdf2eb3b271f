"""Guests that a real libvirt runs, one of our own in a mount namespace: built, measured, killed over, and gone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.errors import Refused
from strata.lab import cache, image
from strata.lab.spec import LabSpec
from strata.model import Outcome
from strata.store import reader

pytestmark = [pytest.mark.host, pytest.mark.slow, pytest.mark.timeout(1200)]

STRATA = str(Path(sys.executable).with_name("strata"))
SIZE = ("--size", "disk=512M", "--rounds", "1")
THEIRS = """<domain type='qemu'><name>users-own</name><memory unit='MiB'>32</memory>
<os><type arch='x86_64' machine='q35'>hvm</type></os></domain>"""

# Everything that libvirt keeps about this machine is kept in $1 instead; mounts made later are still seen in there.
DAEMON = """\
cd "$1" && mkdir -p run lib cache etc sock log || exit 1
mkdir -p /run/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt /etc/libvirt
echo 'cgroup_controllers = []' > etc/qemu.conf
echo 'stdio_handler = "file"' >> etc/qemu.conf
{ echo "unix_sock_dir = \\"$1/sock\\""; echo 'auth_unix_rw = "none"'; } > libvirtd.conf
for name in run:/run lib:/var/lib cache:/var/cache log:/var/log etc:/etc; do
  mount --bind "$1/${name%%:*}" "${name#*:}/libvirt" || exit 1
done
for file in passwd:x:64055:64055::/nonexistent:/usr/sbin/nologin group:x:64055:; do
  name=${file%%:*}
  { cat "/etc/$name"; grep -q ^libvirt-qemu: "/etc/$name" || echo "libvirt-qemu:${file#*:}"; } > "$name"
  mount --bind "$1/$name" "/etc/$name" || exit 1
done
exec libvirtd -f "$1/libvirtd.conf" -p "$1/pid\""""


@pytest.fixture(scope="module")
def libvirt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of it."""
    if os.geteuid() != 0:
        pytest.skip("building stacks needs root")
    if missing := [tool for tool in ("libvirtd", "virsh", "unshare") if shutil.which(tool) is None]:
        pytest.skip(f"{', '.join(missing)} is not installed")
    if subprocess.run(["/usr/bin/python3", "-c", "import libvirt"], capture_output=True).returncode:
        pytest.skip("python3-libvirt is not installed")
    try:
        image.find(LabSpec(), cache.default())
    except Refused as refused:
        pytest.skip(f"guests start from the lab's system: {refused}")
    directory = tmp_path_factory.mktemp("libvirt")
    with (directory / "said").open("wb") as said:
        daemon = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "slave", "sh", "-c", DAEMON, "sh", str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
    uri = f"qemu+unix:///system?socket={directory}/sock/libvirt-sock"
    try:
        give_up = time.monotonic() + 60
        while virsh(uri, "version").returncode:
            assert daemon.poll() is None and time.monotonic() < give_up, (directory / "said").read_text()
            time.sleep(0.5)
        theirs = directory / "theirs.xml"
        theirs.write_text(THEIRS)
        assert virsh(uri, "define", str(theirs)).returncode == 0
        yield uri
    finally:
        daemon.terminate()
        daemon.wait(30)


def virsh(uri: str, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["virsh", "--connect", uri, *argv], capture_output=True, text=True)


def domains(uri: str) -> list[str]:
    return virsh(uri, "list", "--all", "--name").stdout.split()


def test_a_guest_of_libvirt_is_built_measured_and_gone(tmp_path: Path, libvirt: str) -> None:
    out = tmp_path / "run"
    stack = "disk | vm(engine=libvirt, cache=directsync, bus=virtio-scsi, iothread, write_iops=200) | xfs"
    done = subprocess.run(
        [STRATA, "run", stack, "-w", "fio/randwrite-4k-qd32(runtime=5s, size=32M)", *SIZE, "--out", str(out)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "LIBVIRT_DEFAULT_URI": libvirt},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (trial,) = reader.view(out).trials
    assert trial.outcome is Outcome.OK, trial.reason
    assert 0 < trial.metrics["iops"] < 250, "libvirt holds the limit"
    for name in ("vm.boot_s", "vm.writes", "guest.qemu_cpu_s", "disk.write_bytes"):
        assert trial.metrics[name] > 0, name
    assert domains(libvirt) == ["users-own"]
    assert not list((out / "work").glob("*"))


def test_what_a_killed_run_left_is_cleaned_also_from_another_shell(tmp_path: Path, libvirt: str) -> None:
    out = tmp_path / "run"
    argv = [STRATA, "run", "disk | vm(engine=libvirt) | ext4", "-w", "null", *SIZE, "--out", str(out)]
    process = subprocess.Popen(
        argv,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "LIBVIRT_DEFAULT_URI": libvirt},
    )
    give_up = time.monotonic() + 300
    while len(domains(libvirt)) < 2:
        assert process.poll() is None and time.monotonic() < give_up
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(domains(libvirt)) == 2, "the guest should have lived on"
    # Where libvirt is was noted: this shell does not know.
    elsewhere = {name: value for name, value in os.environ.items() if name != "LIBVIRT_DEFAULT_URI"}
    cleaned = subprocess.run([STRATA, "clean", str(out)], capture_output=True, text=True, env=elsewhere)
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert domains(libvirt) == ["users-own"]
    assert not list((out / "work").glob("*"))
