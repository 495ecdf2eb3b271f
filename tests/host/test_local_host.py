"""Commands on a machine: what they leave behind, and how they end.

The same for this machine itself and for one that a runner serves, which is this machine too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Protocol

import pytest

from strata.errors import CommandFailed, CommandTimedOut, Interrupted, UndoFailed, VisitFailed
from strata.hosts import child, local, own_directory
from strata.hosts.base import Host, Interruption
from strata.hosts.local import LocalHost, engine_path
from strata.hosts.served import ServedHost
from strata.hosts.stdio import StdioChannel
from strata.model import Command
from strata.run.signals import Interrupts

pytestmark = pytest.mark.host


class Make(Protocol):
    def __call__(self, marker: str, interruption: Interruption | None = None) -> Host: ...


@pytest.fixture(params=["local", "served"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    if request.param == "local":
        yield LocalHost
        return
    engine = engine_path()
    channel = StdioChannel((engine, "serve", "--stdio"), os.environ, lambda code, said: f"ended with {code}: {said}")
    try:
        yield lambda marker, interruption=None: ServedHost(channel, marker, engine, interruption)
    finally:
        channel.close()


@pytest.fixture
def marker() -> str:
    return f"test-{os.getpid()}-{time.time_ns()}"


@pytest.fixture
def host(make: Make, marker: str) -> Host:
    return make(marker)


def test_steps_find_the_engine_and_what_only_root_has_in_its_path(host: Host) -> None:
    assert host.run(Command(("strata-engine", "--version"))).stdout.startswith("strata-engine ")
    path = host.run(Command(("sh", "-c", "echo $PATH"))).stdout.strip().split(":")
    assert {"/usr/sbin", "/sbin", str(Path(engine_path()).parent)} <= set(path)


def alive(pid: int) -> bool:
    """A zombie is dead: whoever adopts orphans here may be slow to bury it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_what_a_command_said(host: Host) -> None:
    done = host.run(Command(("sh", "-c", "cat; echo err >&2; exit 3"), stdin="in"), check=False)
    assert (done.exit_code, done.stdout, done.stderr) == (3, "in", "err\n")


def test_a_failed_command_carries_everything(host: Host) -> None:
    with pytest.raises(CommandFailed) as caught:
        host.run(Command(("sh", "-c", "echo out; echo why >&2; exit 4")))
    assert (caught.value.status, caught.value.stdout, caught.value.stderr) == (4, "out\n", "why\n")
    assert "why" in str(caught.value)
    with pytest.raises(CommandFailed, match="could not be started"):
        host.run(Command(("no-such-program",)))


def test_a_command_that_hangs_is_ended_with_all_its_children(host: Host, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"sleep 100 & echo $! >{pid}; wait"
    with pytest.raises(CommandTimedOut, match="did not end within"):
        host.run(Command(("sh", "-c", script), timeout_s=0.5))
    assert gone(int(pid.read_text()))


def gone(pid: int) -> bool:
    """Whether a process that was killed is dead, given a moment."""
    for _ in range(200):
        if not alive(pid):
            return True
        time.sleep(0.05)
    return False


def nothing_lives(marker: str) -> bool:
    """Whether no process carries the mark, given a moment for those that were killed."""
    for _ in range(200):
        if not local._marked(marker):
            return True
        time.sleep(0.05)
    return False


def test_all_of_a_hanging_group_is_ended_though_only_its_first_process_heeds_it(host: Host, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"sh -c 'trap \"\" TERM; echo $$ >{pid}; while :; do sleep 0.1; done' & wait"
    with pytest.raises(CommandTimedOut):
        host.run(Command(("sh", "-c", script), timeout_s=1))
    assert gone(int(pid.read_text()))


def test_what_a_command_leaves_running_is_not_waited_for(host: Host, marker: str) -> None:
    # it holds both streams for longer than any test may take
    done = host.run(Command(("sh", "-c", "sleep 1000 & echo $!; echo err >&2")))
    assert (done.exit_code, done.stderr) == (0, "err\n")
    assert alive(int(done.stdout))
    (stray,) = host.end_strays(marker)  # on a busy machine it is still the shell that is about to become it
    assert stray in {f"{name} (process {int(done.stdout)})" for name in ("sleep", "sh")}
    assert not alive(int(done.stdout))


@pytest.mark.parametrize("argv", [("cat",), ("sh", "-c", "sleep 0.2; cat")])
def test_much_is_said_and_heard(host: Host, argv: tuple[str, ...]) -> None:
    text = "".join(f"{number} äöü\n" for number in range(200_000))
    assert host.run(Command(argv, stdin=text)).stdout == text
    # one that does not listen, and one that says it all at its very end
    assert host.run(Command(("true",), stdin=text)).stdout == ""
    assert len(host.run(Command(("head", "-c", "65536", "/dev/zero"))).stdout) == 65536


def test_output_that_is_no_text_is_kept_as_far_as_it_goes(host: Host) -> None:
    assert host.run(Command(("printf", r"a\377b\r\nc\rd"))).stdout == "a\ufffdb\nc\nd"


def descriptors() -> set[str]:
    # the one that is open on the directory while it is read is gone by the time it is asked for
    return {path.name for path in Path("/proc/self/fd").iterdir() if path.exists()}


def test_no_descriptor_is_left_open(host: Host) -> None:
    before = descriptors()
    for command in (
        Command(("true",), stdin="in"),
        Command(("false",)),
        Command(("no-such-program",)),
        Command(("sleep", "9"), 0.01),
    ):
        with contextlib.suppress(CommandFailed):
            host.run(command)
    assert descriptors() == before


class Signal:
    """Delivers SIGINT at line number `moment` of whatever runs after it, the standard library included."""

    def __init__(self, moment: int) -> None:
        self.left = moment
        self.where: str | None = None

    def trace(self, frame: FrameType, event: str, argument: object) -> object:
        handler = signal.getsignal(signal.SIGINT)
        if event == "line" and self.where is None and handler is not signal.default_int_handler:
            self.left -= 1
            if self.left == 0:
                self.where = f"{frame.f_code.co_qualname}:{frame.f_lineno}"
                assert callable(handler)
                handler(signal.SIGINT, frame)
        return self.trace


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    """Also where pytest was started in the background, which ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield Interrupts()
    signal.signal(signal.SIGINT, before)


def endless(coming: Signal, make: Make, marker: str) -> None:
    interrupts, tracing = Interrupts(), sys.gettrace()
    host = make(marker, interrupts)
    sys.settrace(coming.trace)
    try:
        with interrupts.listening():
            host.run(Command(("sleep", "1000"), timeout_s=0.2))
    finally:
        sys.settrace(tracing)


@pytest.mark.usefixtures("interrupts")
def test_a_signal_at_any_moment_leaves_no_process(host: Host, make: Make, marker: str) -> None:
    moment = reached = 0
    while True:
        # every line at first, where processes are started; then further and further apart
        moment += 1 + moment // 100
        coming = Signal(moment)
        # timed out only where the signal came while it was ended for that
        with pytest.raises((Interrupted, CommandTimedOut)):
            endless(coming, make, marker)
        assert host.end_strays(marker) == [], coming.where
        if coming.where is None:
            break
        reached += 1
    assert reached > 100


def test_a_signal_wakes_who_waits_for_a_command_that_will_not_end(
    make: Make, marker: str, interrupts: Interrupts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata.hosts.child._GRACE_S", 0.5)
    own = make(marker, interrupts)
    # signals us twice, the second time while it is being ended
    script = f"trap 'kill -INT {os.getpid()}' TERM; kill -INT {os.getpid()}; while :; do sleep 0.1; done"
    with interrupts.listening():
        with pytest.raises(Interrupted):
            own.run(Command(("sh", "-c", script)))
        assert nothing_lives(marker)
        # what cleans up afterwards is not disturbed by the second one
        assert own.run(Command(("echo", "undone"))).stdout == "undone\n"


def test_nothing_is_started_after_a_signal_and_nothing_held_is_cut_short(
    make: Make, interrupts: Interrupts, tmp_path: Path
) -> None:
    own = make("test", interrupts)
    with interrupts.listening():
        signal.raise_signal(signal.SIGINT)
        with interrupts.held():
            assert own.run(Command(("sh", "-c", "sleep 0.2; echo undone"))).stdout == "undone\n"
        with pytest.raises(Interrupted):
            own.run(Command(("touch", str(tmp_path / "x"))))
    assert not (tmp_path / "x").exists()


def test_a_stray_that_does_not_end_is_an_error(marker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host = LocalHost(marker)
    monkeypatch.setattr("strata.hosts.local._STRAY_PAUSE_S", 0.0)
    stray = subprocess.Popen(["sleep", "100"], env={**os.environ, "STRATA_RUN": marker})
    try:
        with monkeypatch.context() as patch:
            patch.setattr("os.kill", lambda pid, number: None)  # as one stuck in the kernel
            with pytest.raises(UndoFailed, match=f"process {stray.pid}"):
                host.end_strays(marker)
        assert host.end_strays(marker)
    finally:
        stray.kill()
        stray.wait()


def test_strays_are_known_by_their_mark_and_nobody_else_is_ended(host: Host, marker: str) -> None:
    mine = subprocess.Popen(["sh", "-c", "sleep 100; true"], env={**os.environ, "STRATA_RUN": marker})
    other = subprocess.Popen(["sleep", "100"], env={**os.environ, "STRATA_RUN": marker + "x"})
    try:
        ended = []
        for _ in range(50):  # the shell may not have started its child yet
            ended += host.end_strays(marker)
            if mine.poll() is not None:
                break
        assert any("sh" in name for name in ended)
        assert mine.wait(timeout=10) == -9
        assert other.poll() is None
        assert host.end_strays(marker) == []
    finally:
        mine.kill()
        other.kill()
        mine.wait()
        other.wait()


def test_files(host: Host, tmp_path: Path) -> None:
    host.write(str(tmp_path / "x"), "text")
    assert host.read(str(tmp_path / "x")) == "text"
    assert host.read(str(tmp_path / "none")) is None
    with pytest.raises(VisitFailed, match="cannot write"):
        host.write(str(tmp_path / "no" / "x"), "text")
    with pytest.raises(VisitFailed, match=r"cannot read .*directory"):
        host.read(str(tmp_path))


def test_files_are_utf8_and_may_name_paths_that_are_not(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "x"
    host.write(str(path), os.fsdecode(b"filename=/srv/\xff\xc3\xa4"))
    assert path.read_bytes() == b"filename=/srv/\xff\xc3\xa4"
    assert host.read(str(path)) == "filename=/srv/\ufffdä"


def test_every_command_has_an_empty_directory_of_its_own_that_goes_with_it(make: Make) -> None:
    host = make("directory")
    script = "pwd; ls -A | wc -l; stat -c %a .; echo kept >file; mkdir sub; echo x >sub/file; ln -s / link"
    first, entries, mode = host.run(Command(("sh", "-c", script))).stdout.split()
    assert (entries, mode) == ("0", "700")
    assert not Path(first).exists()
    assert Path("/etc/passwd").exists()
    # Also of a command that fails or is stopped.
    with pytest.raises(CommandTimedOut) as stopped:
        host.run(Command(("sh", "-c", "pwd; touch file; sleep 100"), timeout_s=0.2))
    assert stopped.value.stdout.strip()
    assert not Path(stopped.value.stdout.strip()).exists()


def test_a_relative_name_is_not_one_of_the_users_directory(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of `mkfs.btrfs x.img`, where x.img is a file of whoever started Strata."""
    (tmp_path / "x.img").write_text("kept")
    monkeypatch.chdir(tmp_path)
    done = make("relative").run(Command(("sh", "-c", "test ! -e x.img && echo other >x.img")))
    assert done.exit_code == 0
    assert (tmp_path / "x.img").read_text() == "kept"


def test_directories_of_killed_processes_are_removed_later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed, recent, other = (tmp_path / f"strata-cwd-{name}" for name in ("killed", "recent", "other"))
    for path in (killed, recent):
        path.mkdir()
        (path / "file").touch()
    other.symlink_to(tmp_path)
    os.utime(killed, (0, 0))
    with own_directory.own_directory() as used:
        os.utime(used, (0, 0))
        own_directory.remove_left()
        assert Path(used).exists()
    assert not killed.exists()
    assert recent.exists()
    assert other.is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts")
def test_what_is_mounted_below_such_a_directory_is_left_alone(make: Make, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    done = make("mount").run(Command(("sh", "-c", 'mkdir m && mount --bind "$1" m && pwd', "sh", str(tmp_path))))
    directory = Path(done.stdout.strip())
    try:
        assert (tmp_path / "file").read_text() == "kept"
    finally:
        subprocess.run(("umount", directory / "m"), check=True)
        (directory / "m").rmdir()
        directory.rmdir()


# $1 a folder to mount on, $2 a program of Python's, $3 the Python. In a mount namespace of its own.
_APART = """\
mount -t tmpfs none "$1" && mkdir "$1/a b" "$1/precious" && echo kept >"$1/precious/file" &&
  TMPDIR="$1/a b" "$3" -c "$2" "$1/precious" && cat "$1/precious/file"
"""
_MOUNTED = """\
import subprocess, sys
from pathlib import Path
from strata.hosts.own_directory import own_directory
with own_directory() as path:
    assert " " in path
    point = Path(path, WHERE)
    point.mkdir(exist_ok=True)
    subprocess.run(("mount", "--bind", sys.argv[1], point), check=True)
assert Path(path).exists()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts")
@pytest.mark.parametrize("where", ["", "m", "m n"])
def test_what_is_mounted_on_or_below_it_is_left_alone_though_its_path_has_a_blank(where: str, tmp_path: Path) -> None:
    program = _MOUNTED.replace("WHERE", repr(where))
    argv = ("unshare", "--mount", "--propagation", "private", "sh", "-c", _APART, "sh", tmp_path, program)
    done = subprocess.run((*argv, sys.executable), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "kept\n"), done.stderr


def test_a_command_has_no_terminal_that_another_user_could_type_into(marker: str) -> None:
    said = LocalHost(marker).run(Command(("sh", "-c", "cut -d ' ' -f 1,6,7 /proc/self/stat; echo $$"))).stdout
    _, session, terminal, shell = said.split()
    assert (session, terminal) == (shell, "0")


def test_a_command_that_says_more_than_is_taken_is_stopped(marker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "OUTPUT_LIMIT_BYTES", 1 << 20)
    with pytest.raises(CommandFailed, match=r"said more than .* MiB and was stopped") as failed:
        LocalHost(marker).run(Command(("yes",), timeout_s=60.0))
    assert len(failed.value.stdout) < 4 << 20
