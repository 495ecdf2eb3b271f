"""kill -9 while 25 containers run, engines of the user's beside them: `strata clean` leaves those and nothing else."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest
from tests.users_machine import STRATA, UsersMachine, make_users_machine

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

COUNT = 25
LOAD = f"container/lifecycle(count={COUNT}, parallel=4, files=20, size=1M)"


class Users:
    """Somebody else's Podman with a container that runs."""

    def __init__(self, machine: UsersMachine, folder: Path) -> None:
        places = {"--root": "root", "--runroot": "state", "--tmpdir": "tmp"}
        self._machine = machine
        self._options = ("podman", *(word for name, at in places.items() for word in (name, f"{folder}/{at}")),
                         "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--events-backend", "none",
                         "--runtime", "runc")  # fmt: skip
        self.run("import", "--quiet", packed(folder), "localhost/users")
        limits = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=8192:8192")
        self.run("run", "--detach", "--network", "none", "--name", "precious", *limits, "localhost/users",
                 "/bin/busybox", "sleep", "100000")  # fmt: skip
        self.pid = self.run("inspect", "--format", "{{.State.Pid}}", "precious")

    def run(self, *words: str) -> str:
        return self._machine.output(*self._options, *words)

    def intact(self) -> bool:
        running = self.run("ps", "--format", "{{.Names}}")
        return running == "precious" and Path(f"/proc/{self.pid}/comm").read_text().strip() == "busybox"

    def end(self) -> None:
        self.run("rm", "--all", "--force", "--time", "0")
        self.run("rmi", "--all", "--force")


class UsersDocker:
    """Somebody else's Docker with its bridge and its rules, its containerd and a shim of it, with a container that runs
    and has a port of the bridge."""

    def __init__(self, machine: UsersMachine, folder: Path) -> None:
        self._machine = machine
        self._docker = ("/usr/bin/docker", "--host", f"unix://{folder}/sock")
        (folder / "daemon.json").write_text(f'{{"deprecated-key-path": "{folder}/key.json"}}')
        argv = ("dockerd", "--config-file", f"{folder}/daemon.json", "--data-root", f"{folder}/data",
                "--exec-root", f"{folder}/exec", "--pidfile", f"{folder}/pid", "--host", f"unix://{folder}/sock",
                "--storage-driver", "vfs", "--default-ulimit", "nofile=1024:1024",
                "--default-ulimit", "nproc=8192:8192")  # fmt: skip
        with (folder / "log").open("wb") as log:
            self._daemon = subprocess.Popen(machine.argv(*argv), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        give_up = time.monotonic() + 120
        while subprocess.run((*self._docker, "version"), capture_output=True).returncode:
            assert self._daemon.poll() is None and time.monotonic() < give_up, (folder / "log").read_text()[-2000:]
            time.sleep(0.2)
        self.run("import", packed(folder), "users")
        self.run("run", "--detach", "--name", "precious", "users", "/bin/busybox", "sleep", "100000")
        self.pid = self.run("inspect", "--format", "{{.State.Pid}}", "precious")
        self._gateway = self.run("inspect", "--format", "{{.NetworkSettings.Gateway}}", "precious")

    def run(self, *words: str) -> str:
        return self._machine.output(*self._docker, *words)

    def intact(self) -> bool:
        """The container runs, and reaches the machine by the bridge."""
        running = self.run("ps", "--format", "{{.Names}}")
        self.run("exec", "precious", "/bin/busybox", "ping", "-c", "1", "-w", "10", self._gateway)
        return running == "precious" and Path(f"/proc/{self.pid}/comm").read_text().strip() == "busybox"

    def end(self) -> None:
        subprocess.run((*self._docker, "rm", "--force", "precious"), capture_output=True)
        self._daemon.terminate()
        self._daemon.wait(60)


class UsersLxc:
    """Somebody else's container of LXC, whose locks and groups lie beside ours, and of LXD's and Incus's."""

    def __init__(self, machine: UsersMachine, folder: Path) -> None:
        self._machine = machine
        self._at = ("-P", str(folder), "-n", "precious")
        root = folder / "precious/rootfs"
        for name in ("bin", "proc", "sys", "dev"):
            (root / name).mkdir(parents=True)
        shutil.copy(shutil.which("busybox") or "/bin/busybox", root / "bin/busybox")
        (folder / "precious/config").write_text(
            f"lxc.rootfs.path = dir:{root}\nlxc.init.cmd = /bin/busybox sleep 100000\nlxc.net.0.type = empty\n"
            "lxc.apparmor.profile = unconfined\nlxc.tty.max = 0\nlxc.signal.halt = SIGKILL\n"
        )
        machine.output("lxc-start", *self._at, "--daemon", "--logfile", folder / "log")
        self.pid = self._info("--pid")

    def _info(self, what: str) -> str:
        return self._machine.output("lxc-info", *self._at, what, "--no-humanize")

    def intact(self) -> bool:
        running = self._info("--state") == "RUNNING"
        return running and Path(f"/proc/{self.pid}/comm").read_text().strip() == "busybox"

    def end(self) -> None:
        self._machine.output("lxc-stop", *self._at, "--kill")
        # LXC leaves these, and what watched the container is in one until it has ended, which `lxc-stop` does not wait
        # for; a test of what our LXC leaves must not find them.
        give_up = time.monotonic() + 60
        for group in Path("/sys/fs/cgroup").glob("**/lxc.pivot"):
            while (group / "cgroup.procs").read_text() and time.monotonic() < give_up:
                time.sleep(0.05)
            group.rmdir()


def packed(folder: Path) -> str:
    """A root file system that has busybox, as a tar in the folder."""
    root = folder / "rootfs/bin"
    root.mkdir(parents=True)
    shutil.copy(shutil.which("busybox") or "/bin/busybox", root / "busybox")
    subprocess.run(("tar", "-C", str(folder / "rootfs"), "-cf", str(folder / "root.tar"), "."), check=True)
    return str(folder / "root.tar")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[UsersMachine]:
    with make_users_machine(tmp_path) as made:
        yield made


@pytest.fixture
def folder(machine: UsersMachine) -> Iterator[Path]:
    """For an engine of the user's; Podman refuses a longer path for its state than this."""
    made = Path(mkdtemp(prefix="users-"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def users_lxc(machine: UsersMachine, folder: Path) -> Iterator[UsersLxc]:
    if shutil.which("lxc-start") is None:
        pytest.skip("lxc is not installed; scripts/os-packages.sh test installs it")
    engine = UsersLxc(machine, folder)
    yield engine
    engine.end()


@pytest.fixture
def users_docker(machine: UsersMachine, folder: Path) -> Iterator[UsersDocker]:
    if shutil.which("dockerd") is None or not Path("/usr/bin/docker").exists():
        pytest.skip("docker.io is not installed; scripts/os-packages.sh test installs it")
    engine = UsersDocker(machine, folder)
    yield engine
    engine.end()


@pytest.fixture
def users(machine: UsersMachine, folder: Path) -> Iterator[Users]:
    if shutil.which("podman") is None:
        pytest.skip("podman is not installed; scripts/os-packages.sh test installs it")
    engine = Users(machine, folder)
    yield engine
    engine.end()


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
    return groups + [line for line in loops if str(directory) in line] + processes + files


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
def test_killed_in_the_middle_of_25_containers(stack: str, machine: UsersMachine, users: Users, tmp_path: Path) -> None:
    killed_and_cleaned(machine, stack, tmp_path / "run")
    assert users.intact()


@pytest.mark.parametrize("stack", ["disk | ext4 | docker", "disk | ext4 | containerd"])
def test_the_users_docker_runs_on(stack: str, machine: UsersMachine, users_docker: UsersDocker, tmp_path: Path) -> None:
    """Of the same programs as ours: containerd, its shims, runc."""
    killed_and_cleaned(machine, stack, tmp_path / "run")
    assert users_docker.intact()


@pytest.mark.parametrize("stack", ["disk | ext4 | lxc", "disk | btrfs | lxd(btrfs)", "disk | btrfs | incus(btrfs)"])
def test_the_users_lxc_runs_on(stack: str, machine: UsersMachine, users_lxc: UsersLxc, tmp_path: Path) -> None:
    """LXC is below LXD and Incus, and has one place for locks and the same groups at the top."""
    killed_and_cleaned(machine, stack, tmp_path / "run")
    assert users_lxc.intact()


# $1 where the run works, $2 the engine, on btrfs: a read-only snapshot in another, as LXD makes of containers with
# subvolumes of its own.
NEST = r"""
set -e
cd "$1"/*/*/mnt/"$2"
btrfs -q subvolume create outer
btrfs -q subvolume create inner
btrfs -q subvolume snapshot -r inner outer/inner
btrfs property set -ts outer ro true
"""


def killed_and_cleaned(machine: UsersMachine, stack: str, directory: Path) -> None:
    """Afterwards the machine is as it was before the run."""
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
    before = machine.state()
    argv = machine.argv(STRATA, "run", stack, "-w", LOAD, "--rounds", "1", "--size", "disk=2G", "--out", directory)
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
    if "btrfs" in stack:
        machine.output("sh", "-c", NEST, "sh", directory / "work", stack.split(" | ")[2].partition("(")[0])
    machine.output(STRATA, "clean", directory)
    assert left(directory) == []
    assert not (changes := machine.changes(before)), changes
