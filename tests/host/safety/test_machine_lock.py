"""One visit at a time on a machine, whoever controls it: the second waits for the first."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.errors import Interrupted, Refused
from strata.hosts.base import Host
from strata.hosts.local import LocalHost, engine_path
from strata.hosts.served import ServedHost
from strata.hosts.stdio import StdioChannel
from strata.model import Command, Stack, Testbed
from strata.run.progress import Noted, Progress
from strata.run.signals import Interrupts
from strata.run.sites import machine_lock, site, testbeds
from strata.run.sites.site import LastingSites
from strata.store.writer import Store

pytestmark = pytest.mark.host

UUIDS = ("1" * 32, "2" * 32)


@pytest.fixture
def served() -> Iterator[Host]:
    """As a machine reached by ssh is."""
    channel = StdioChannel((engine_path(), "serve", "--stdio"), os.environ, lambda code, said: f"{code}: {said}")
    yield ServedHost(channel, UUIDS[1], engine_path())
    channel.close()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "lock")


def waited(host: Host, folder: str, name: str, said: list[str], entered: threading.Event) -> threading.Thread:
    def take() -> None:
        with machine_lock.held(host, name, said.append, folder):
            entered.set()

    thread = threading.Thread(target=take)
    thread.start()
    return thread


@pytest.mark.parametrize("first", ["local", "served"])
def test_the_second_waits_and_names_the_first(folder: str, served: Host, first: str) -> None:
    hosts = [LocalHost(UUIDS[0]), served] if first == "local" else [served, LocalHost(UUIDS[0])]
    said: list[str] = []
    told, entered = threading.Event(), threading.Event()

    class Telling(list[str]):
        def append(self, text: str) -> None:
            said.append(text)
            told.set()

    with machine_lock.held(hosts[0], "the run in /a", pytest.fail, folder):
        hosts[0].end_strays(UUIDS[0 if first == "local" else 1])  # before a visit is undone: the lock stays
        thread = waited(hosts[1], folder, "the run in /b", Telling(), entered)
        assert told.wait(60)
        assert not entered.is_set()
    assert entered.wait(60)
    thread.join(60)
    assert said == ["waits for the run in /a, which makes a visit on this machine now"]
    with machine_lock.held(hosts[0], "the run in /a", pytest.fail, folder):
        pass


def test_one_that_was_killed_keeps_nobody_waiting(folder: str) -> None:
    code = (
        "import sys, time; from strata.hosts.local import LocalHost; from strata.run.sites import machine_lock\n"
        "with machine_lock.held(LocalHost('0' * 32), 'the run in /a', print, sys.argv[1]):\n"
        "    print('held', flush=True); time.sleep(600)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, folder], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "held\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    entered = threading.Event()
    waited(LocalHost(UUIDS[0]), folder, "the run in /b", [], entered).join(60)
    assert entered.is_set()


def programs(folder: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    """Leave commands no other programs in PATH than those that the lock needs but flock, and these shell scripts."""
    folder.mkdir()
    for name in {"sh", "id", "mkdir", "rmdir", "cat", "env", "setsid", "tail", "tr", "grep", "sleep"} - scripts.keys():
        (folder / name).symlink_to(str(shutil.which(name)))
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.parametrize(
    ("scripts", "reason"),
    [({}, "flock: not found"), ({"flock": "echo \"flock: invalid option -- 'w'\" >&2; exit 1"}, "invalid option")],
    ids=["missing", "of BusyBox"],
)
def test_a_flock_that_cannot_lock_is_refused(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scripts: dict[str, str], reason: str
) -> None:
    def waits(text: str) -> None:
        pytest.fail(f"it would wait without end: {text}")

    programs(tmp_path / "bin", monkeypatch, **scripts)
    with (
        pytest.raises(Refused, match=rf"{reason}.*\. .*flock of util-linux"),
        machine_lock.held(LocalHost(UUIDS[0]), "the run in /a", waits, folder),
    ):
        pass


def test_a_folder_that_goes_before_the_lock_is_made_is_made_again(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who claims devices removes the folder when it is empty.
    once = f'"{shutil.which("mkdir")}" "$@" && [ -e "{tmp_path}/once" ] || {{ >"{tmp_path}/once"; rmdir "{folder}"; }}'
    programs(tmp_path / "bin", monkeypatch, mkdir=once, flock=f'exec "{shutil.which("flock")}" "$@"')
    with machine_lock.held(LocalHost(UUIDS[0]), "the run in /a", pytest.fail, folder):
        assert (tmp_path / "once").exists()
        assert (Path(folder) / "lock").exists()


@pytest.fixture
def lock_of_runs(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs take the lock of this test, not that of the machine."""
    held = machine_lock.held
    monkeypatch.setattr(site.machine_lock, "held", lambda host, name, say: held(host, name, say, folder))


@pytest.mark.usefixtures("lock_of_runs")
def test_a_visit_takes_the_lock(folder: str, tmp_path: Path) -> None:
    one = LastingSites(LocalHost(UUIDS[0]), UUIDS[0], str(tmp_path / "work"), name="the run in /a", say=pytest.fail)
    with one.site(Stack("", None, {}), (), 1, 1):  # type: ignore[arg-type]
        taken = machine_lock._take(LocalHost(UUIDS[1]), folder, "the run in /b")
    assert (taken.exit_code, taken.stdout) == (machine_lock._TAKEN, "the run in /a\n")


@pytest.mark.usefixtures("lock_of_runs")
def test_the_wait_for_another_visit_is_not_of_the_budget(tmp_path: Path) -> None:
    time_s = 5.0
    waits, ready, end = threading.Event(), threading.Event(), threading.Event()
    one = LastingSites(
        LocalHost(UUIDS[0]),
        UUIDS[0],
        str(tmp_path / "work"),
        stopwatch=lambda: time_s,
        say=lambda text: waits.set(),
    )
    began_s = one.elapsed()

    def visit() -> None:
        with one.site(Stack("", None, {}), (), 1, 1):  # type: ignore[arg-type]
            ready.set()
            end.wait(60)

    thread = threading.Thread(target=visit)
    with machine_lock.held(LocalHost(UUIDS[1]), "the run in /b", pytest.fail):
        thread.start()
        assert waits.wait(60)
        time_s += 1000.0
    assert ready.wait(60)
    time_s += 7.0
    end.set()
    thread.join(60)
    assert one.elapsed() - began_s == 7.0


def killed_run(directory: Path, undo: Command) -> Store:
    """A run on this machine that was killed after a step of a visit."""
    store = Store.create(
        directory,
        name="a",
        about="",
        source="",
        fingerprint="f",
        description={"testbed": "local"},
        seed=1,
        version="0",
        now=1.0,
        testbed=Testbed(),
    )
    store.journal(None, "scheduler", "set the scheduler", Command(("true",)), undo, 2.0)
    return store


@pytest.mark.usefixtures("lock_of_runs")
def test_a_killed_run_is_undone_between_visits_of_others(tmp_path: Path) -> None:
    undone = tmp_path / "undone"
    store = killed_run(tmp_path / "run", Command(("touch", str(undone))))
    waits = threading.Event()
    texts: list[str] = []

    def listen(progress: Progress) -> None:
        if isinstance(progress, Noted):
            texts.append(progress.text)
            waits.set()

    def clean() -> None:
        testbeds.clean(store, Interrupts(), listen)
        waits.set()

    thread = threading.Thread(target=clean)
    with machine_lock.held(LocalHost(UUIDS[1]), "the run in /b", pytest.fail):
        thread.start()
        assert waits.wait(60)
        there_during_the_visit = undone.exists()
    thread.join(60)
    store.close()
    assert not there_during_the_visit
    assert texts == ["waits for the run in /b, which makes a visit on this machine now"]
    assert undone.exists()


@pytest.mark.usefixtures("lock_of_runs")
def test_waiting_to_undo_can_be_interrupted(tmp_path: Path) -> None:
    store = killed_run(tmp_path / "run", Command(("true",)))
    interrupts = Interrupts()

    def interrupt(progress: Progress) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with (
        machine_lock.held(LocalHost(UUIDS[1]), "the run in /b", pytest.fail),
        interrupts.listening(),
        pytest.raises(Interrupted),
    ):
        testbeds.clean(store, interrupts, interrupt)
    assert len(store.to_undo()) == 1
    store.close()
