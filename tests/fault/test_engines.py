"""kill -9 while 25 containers run, engines of the user's beside them: `strata clean` leaves those and nothing else."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

STRATA = Path(sys.executable).with_name("strata")
COUNT = 25
LOAD = f"container/lifecycle(count={COUNT}, parallel=4, files=20, size=1M)"


class Users:
    """Somebody else's Podman with a container that runs."""

    def __init__(self, folder: Path) -> None:
        places = {"--root": "root", "--runroot": "state", "--tmpdir": "tmp"}
        self._options = ("podman", *(word for name, at in places.items() for word in (name, f"{folder}/{at}")),
                         "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--events-backend", "none",
                         "--runtime", "runc")  # fmt: skip
        root = folder / "rootfs/bin"
        root.mkdir(parents=True)
        shutil.copy(shutil.which("busybox") or "/bin/busybox", root / "busybox")
        self.run("import", "--quiet", self.packed(folder), "localhost/users")
        limits = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=8192:8192")
        self.run("run", "--detach", "--network", "none", "--name", "precious", *limits, "localhost/users",
                 "/bin/busybox", "sleep", "100000")  # fmt: skip
        self.pid = self.run("inspect", "--format", "{{.State.Pid}}", "precious")

    def packed(self, folder: Path) -> str:
        subprocess.run(("tar", "-C", str(folder / "rootfs"), "-cf", str(folder / "root.tar"), "."), check=True)
        return str(folder / "root.tar")

    def run(self, *words: str) -> str:
        done = subprocess.run((*self._options, *words), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def intact(self) -> bool:
        running = self.run("ps", "--format", "{{.Names}}")
        return running == "precious" and Path(f"/proc/{self.pid}/comm").read_text().strip() == "busybox"


class UsersDocker:
    """Somebody else's Docker, its containerd and a shim of it, with a container that runs."""

    def __init__(self, folder: Path) -> None:
        self._docker = ("/usr/bin/docker", "--host", f"unix://{folder}/sock")
        (folder / "daemon.json").write_text(f'{{"deprecated-key-path": "{folder}/key.json"}}')
        argv = ("dockerd", "--config-file", f"{folder}/daemon.json", "--data-root", f"{folder}/data",
                "--exec-root", f"{folder}/exec", "--pidfile", f"{folder}/pid", "--host", f"unix://{folder}/sock",
                "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--bridge", "none",
                "--storage-driver", "vfs", "--default-ulimit", "nofile=1024:1024",
                "--default-ulimit", "nproc=8192:8192")  # fmt: skip
        with (folder / "log").open("wb") as log:
            self._daemon = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        give_up = time.monotonic() + 120
        while subprocess.run((*self._docker, "version"), capture_output=True).returncode:
            assert self._daemon.poll() is None and time.monotonic() < give_up, (folder / "log").read_text()[-2000:]
            time.sleep(0.2)
        root = folder / "rootfs/bin"
        root.mkdir(parents=True)
        shutil.copy(shutil.which("busybox") or "/bin/busybox", root / "busybox")
        subprocess.run(("tar", "-C", str(folder / "rootfs"), "-cf", str(folder / "root.tar"), "."), check=True)
        self.run("import", str(folder / "root.tar"), "users")
        self.run("run", "--detach", "--network", "none", "--name", "precious", "users",
                 "/bin/busybox", "sleep", "100000")  # fmt: skip
        self.pid = self.run("inspect", "--format", "{{.State.Pid}}", "precious")

    def run(self, *words: str) -> str:
        done = subprocess.run((*self._docker, *words), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def intact(self) -> bool:
        running = self.run("ps", "--format", "{{.Names}}")
        return running == "precious" and Path(f"/proc/{self.pid}/comm").read_text().strip() == "busybox"

    def end(self) -> None:
        subprocess.run((*self._docker, "rm", "--force", "precious"), capture_output=True)
        self._daemon.terminate()
        self._daemon.wait(60)


class UsersLxc:
    """Somebody else's container of LXC, whose locks and groups lie beside ours, and of LXD's and Incus's."""

    def __init__(self, folder: Path) -> None:
        self._at = ("-P", str(folder), "-n", "precious")
        root = folder / "precious/rootfs"
        for name in ("bin", "proc", "sys", "dev"):
            (root / name).mkdir(parents=True)
        shutil.copy(shutil.which("busybox") or "/bin/busybox", root / "bin/busybox")
        (folder / "precious/config").write_text(
            f"lxc.rootfs.path = dir:{root}\nlxc.init.cmd = /bin/busybox sleep 100000\nlxc.net.0.type = empty\n"
            "lxc.apparmor.profile = unconfined\nlxc.tty.max = 0\nlxc.signal.halt = SIGKILL\n"
        )
        subprocess.run(("lxc-start", *self._at, "--daemon", "--logfile", str(folder / "log")), check=True)
        self.pid = self.said("--pid", "--no-humanize")

    def said(self, *what: str) -> str:
        done = subprocess.run(("lxc-info", *self._at, *what), capture_output=True, text=True)
        return done.stdout.strip()

    def intact(self) -> bool:
        running = self.said("--state", "--no-humanize") == "RUNNING"
        return running and Path(f"/proc/{self.pid}/comm").read_text().strip() == "busybox"

    def end(self) -> None:
        subprocess.run(("lxc-stop", *self._at, "--kill"), capture_output=True)


@pytest.fixture
def users_lxc() -> Iterator[UsersLxc]:
    if shutil.which("lxc-start") is None:
        pytest.skip("lxc is not installed; scripts/os-packages.sh test installs it")
    folder = Path(tempfile.mkdtemp(prefix="users-"))
    engine = UsersLxc(folder)
    try:
        yield engine
    finally:
        engine.end()
        shutil.rmtree(folder)
        shutil.rmtree(f"/run/lxc/lock{folder}", ignore_errors=True)


@pytest.fixture
def users_docker() -> Iterator[UsersDocker]:
    if shutil.which("dockerd") is None or not Path("/usr/bin/docker").exists():
        pytest.skip("docker.io is not installed; scripts/os-packages.sh test installs it")
    folder = Path(tempfile.mkdtemp(prefix="users-"))
    engine = UsersDocker(folder)
    try:
        yield engine
    finally:
        engine.end()
        for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
            if line.split()[4].startswith(f"{folder}/"):
                subprocess.run(("umount", line.split()[4]), capture_output=True)
        shutil.rmtree(folder)


@pytest.fixture
def users() -> Iterator[Users]:
    if shutil.which("podman") is None:
        pytest.skip("podman is not installed; scripts/os-packages.sh test installs it")
    locks = Path("/dev/shm/libpod_lock")
    had_locks = locks.exists()
    folder = Path(tempfile.mkdtemp(prefix="users-"))  # Podman refuses a longer path for its state
    engine = Users(folder)
    try:
        yield engine
    finally:
        engine.run("rm", "--all", "--force", "--time", "0")
        engine.run("rmi", "--all", "--force")
        for point in (folder / "root/vfs", folder / "root/overlay"):
            subprocess.run(("umount", str(point)), capture_output=True)
        shutil.rmtree(folder)
        if not had_locks:
            locks.unlink(missing_ok=True)


def running() -> int:
    """First processes of containers in control groups of ours."""
    found = 0
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cmdline").read_bytes().startswith(b"/bin/sh\0/stay"):
                found += re.search(r"[/.]strata-", (entry / "cgroup").read_text()) is not None
        except OSError:
            continue
    return found


def left(directory: Path) -> list[str]:
    """What carries the names of this run. Others' runs may have things of the kind on the machine."""
    with sqlite3.connect(f"file:{directory / 'strata.db'}?mode=ro", uri=True) as sql:
        (uuid,) = sql.execute("SELECT uuid FROM run").fetchone()
    name = f"strata-{uuid.replace('-', '')[:6]}-"
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(directory) in line]
    find = ("find", "/sys/fs/cgroup", "-type", "d", "-path", f"*{name}*")
    groups = subprocess.run(find, capture_output=True, text=True).stdout.splitlines()
    list_loops = ("losetup", "--list", "--noheadings", "--output", "BACK-FILE")
    loops = subprocess.run(list_loops, capture_output=True, text=True).stdout.splitlines()
    processes = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if f"{directory}/work".encode() in words or f"/run/{name}".encode() in words:
            processes.append(words.replace(b"\0", b" ").decode())
    files = [str(path) for path in (directory / "work").rglob("*")] + [str(p) for p in Path("/run").glob(f"{name}*")]
    for state in (*Path("/run/runc").glob("*/state.json"), *Path("/run/crun").glob("*/status")):
        try:
            files += [str(state)] if name in state.read_text() else []
        except OSError:
            continue
    return mounts + groups + [line for line in loops if str(directory) in line] + processes + files


def networks() -> set[str]:
    """Bridges that engines make for themselves."""
    bridges = {"docker0", "podman0", "cni-podman0", "lxdbr0", "incusbr0", "lxcbr0"}
    return bridges & {path.name for path in Path("/sys/class/net").iterdir()}


@pytest.mark.parametrize(
    "stack",
    [
        "disk | ext4 | podman",
        "disk | btrfs | podman(btrfs)",
        "disk | ext4 | docker",
        "disk | ext4 | docker(fuse-overlayfs)",
        "disk | btrfs | docker(btrfs)",
        "disk | ext4 | containerd",
        "disk | btrfs | lxd(btrfs)",
        "disk | btrfs | incus(btrfs)",
        "disk | ext4 | lxc",
    ],
)
def test_killed_in_the_middle_of_25_containers(stack: str, users: Users, tmp_path: Path) -> None:
    killed_and_cleaned(stack, tmp_path / "run")
    assert users.intact()


@pytest.mark.parametrize("stack", ["disk | ext4 | docker", "disk | ext4 | containerd"])
def test_the_users_docker_runs_on(stack: str, users_docker: UsersDocker, tmp_path: Path) -> None:
    """Of the same programs as ours: containerd, its shims, runc."""
    killed_and_cleaned(stack, tmp_path / "run")
    assert users_docker.intact()


@pytest.mark.parametrize("stack", ["disk | ext4 | lxc", "disk | btrfs | lxd(btrfs)", "disk | btrfs | incus(btrfs)"])
def test_the_users_lxc_runs_on(stack: str, users_lxc: UsersLxc, tmp_path: Path) -> None:
    """LXC is below LXD and Incus, and has one place for locks and the same groups at the top."""
    killed_and_cleaned(stack, tmp_path / "run")
    assert users_lxc.intact()


def killed_and_cleaned(stack: str, directory: Path) -> None:
    program = {
        "podman": "podman",
        "docker": "dockerd",
        "containerd": "ctr",
        "lxd": "lxd",
        "incus": "/usr/libexec/incus/incusd",
        "lxc": "lxc-start",
    }[stack.split(" | ")[2].partition("(")[0]]
    if shutil.which(program) is None or ("fuse" in stack and shutil.which("fuse-overlayfs") is None):
        pytest.skip(f"{program} or what it needs is not installed; scripts/os-packages.sh test installs it")
    had = networks()
    argv = (STRATA, "run", stack, "-w", LOAD, "--rounds", "1", "--size", "disk=2G", "--out", directory)
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        give_up = time.monotonic() + 200
        # LXC has all of them for a tenth of a second only, which two looks can miss
        while (seen := running()) < COUNT - 5 and process.poll() is None and time.monotonic() < give_up:
            time.sleep(0.02)
        assert seen >= COUNT - 5, f"{seen} containers run"
    finally:
        process.kill()
        process.wait()
    done = subprocess.run((STRATA, "clean", directory), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert left(directory) == []
    assert networks() <= had
