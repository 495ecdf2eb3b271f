"""Podman as an ordinary user's: built, proven to be rootless, used, removed; and why it cannot be.

The user exists in a mount namespace of the test alone, where /etc/passwd and the ranges of user ids are files of ours.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest
from tests.users_machine import UsersMachine

from strata.model import Outcome
from strata.store import reader

from .engine_runs import STRATA, left_over

pytestmark = [pytest.mark.host, pytest.mark.timeout(600)]

UID = 4243
SMALL = "files=20, size=1M"

# $1 folder with files in place of those in /etc, then a command.
WITH_USERS = """\
for file in passwd group subuid subgid; do mount --bind "$1/$file" "/etc/$file" || exit 1; done
shift; exec "$@\""""


class Machine:
    """A user's, with two more users: `tester`, and `poor`, who has no ids for containers."""

    def __init__(self, folder: Path, users: UsersMachine) -> None:
        self.folder, self.users = folder, users
        lines = {
            "passwd": f"tester:x:{UID}:{UID}::/nonexistent:/bin/sh\npoor:x:{UID + 1}:{UID}::/nonexistent:/bin/sh\n",
            "group": f"tester:x:{UID}:\n",
        }
        for name, more in lines.items():
            (folder / name).write_text(Path("/etc", name).read_text() + more)
        for name in ("subuid", "subgid"):
            (folder / name).write_text("tester:700000:65536\n")
        # Folders that root has set for itself, and that are closed to others.
        names = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
        self.environment = os.environ | {name: str(folder / name) for name in names}
        for name in names:
            (folder / name).mkdir(mode=0o700)

    def argv(self, *words: str) -> list[str]:
        return self.users.argv("unshare", "--mount", "sh", "-c", WITH_USERS, "sh", self.folder, STRATA, *words)

    def strata(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*words), capture_output=True, text=True, stdin=subprocess.DEVNULL, env=self.environment
        )


@pytest.fixture
def machine(users_machine: UsersMachine) -> Iterator[Machine]:
    for program in ("podman", "newuidmap"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed; scripts/os-packages.sh test installs it")
    folder = Path(mkdtemp(prefix="strata-rootless-", dir="/tmp"))  # pytest's own are closed to others
    folder.chmod(0o755)
    made = Machine(folder, users_machine)
    yield made
    if (folder / "run/strata.db").exists():
        made.strata("clean", str(folder / "run"))
    shutil.rmtree(folder)


def test_it_is_built_proven_used_and_removed(machine: Machine) -> None:
    directory = machine.folder / "run"
    stacks = ["disk | ext4 | podman(user=tester)", "disk | xfs | podman(vfs, user=tester)"]
    loads = (f"container/lifecycle(count=3, parallel=2, {SMALL})", f"container/build(builds=1, large=1M, {SMALL})",
             f"container/write(1, large=4M, small=20, {SMALL})")  # fmt: skip
    words = [word for load in loads for word in ("-w", load)]
    before = machine.users.state()
    done = machine.strata("run", *stacks, *words, "--rounds", "1", "--size", "disk=1G", "--out", str(directory))
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    view = reader.view(directory)
    assert not view.skipped and not view.failed, (view.skipped, view.failed)
    assert [(trial.outcome, trial.reason) for trial in view.trials] == [(Outcome.OK, None)] * 6
    assert left_over(directory) == []
    assert not (changes := machine.users.changes(before)), changes


def test_the_probe_of_features_sees_whose_containers_they_are(machine: Machine) -> None:
    out = machine.folder / "run"  # where the fixture looks for what is left
    stack = "disk | ext4 | podman(user=tester)"
    done = machine.strata("features", stack, "--size", "disk=2G", "--out", str(out), "--json")
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    told = json.loads(done.stdout)
    found = {cell["feature"]: (cell["holds"], cell["why"]) for cell in told["groups"][0]["rows"][0]["cells"]}
    assert found["rootless"][0] is True and f"user {UID} of the machine" in found["rootless"][1], found
    assert found["shared-images"][0] is True, found
    assert left_over(out / "engine") == []


def test_workloads_of_directories_run_inside(machine: Machine) -> None:
    directory = machine.folder / "run"
    stacks = [f"disk | ext4 | podman(user=tester) | container({on})" for on in ("root", "volume")]
    load = "fio/randrw-75-25(size=8M, runtime=1s)"
    done = machine.strata("run", *stacks, "-w", load, "--rounds", "1", "--size", "disk=1G", "--out", str(directory))
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    view = reader.view(directory)
    assert [(trial.outcome, trial.reason) for trial in view.trials] == [(Outcome.OK, None)] * 2
    assert left_over(directory) == []


# What runs in a container of the user's: its report is a link to what only root may read, and the files that lie in the
# scratch directory are replaced. $STRATA_OUTPUT is in that directory.
HOSTILE_LOAD = """\
#!/bin/sh
ln -s -- "SECRET" "$STRATA_OUTPUT" || exit 1
cd "${STRATA_OUTPUT%/*}" && rm -f samples.jsonl && ln -s /dev/null samples.jsonl

"""


def test_what_a_container_leaves_is_not_followed_by_root(machine: Machine) -> None:
    directory, secret, script = machine.folder / "run", machine.folder / "secret", machine.folder / "load.sh"
    secret.touch(mode=0o600)
    secret.write_text('{"leaked": 42}')
    script.write_text(HOSTILE_LOAD.replace("SECRET", str(secret)))
    stack = "disk | ext4 | podman(user=tester) | container"
    done = machine.strata("run", stack, "-w", f"command:{script}", "--rounds", "1", "--size", "disk=1G", "--out",
                          str(directory))  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    (trial,) = reader.view(directory).trials
    assert (trial.outcome, trial.reason) == (Outcome.OK, None)
    assert "duration_s" in trial.metrics and "leaked" not in trial.metrics
    assert left_over(directory) == []


# The user, all the time: links where root might write, read or look for what it runs. $1 where the run works, $2 a file
# that must stay as it is.
ATTACKER = r"""
while sleep 0.02; do
  for trial in "$1"/*/scratch/*; do
    for name in batch.json plan.json; do
      if rm -f "$trial/$name" && ln -s "$2" "$trial/$name"; then echo "$trial/$name"; fi
    done
  done
done 2>/dev/null"""


def test_a_user_who_puts_links_into_the_scratch_directory_reaches_nothing(machine: Machine) -> None:
    directory, precious = machine.folder / "run", machine.folder / "precious"
    precious.write_text("kept")
    user = ("setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups")
    attacker = subprocess.Popen(
        (*user, "sh", "-c", ATTACKER, "sh", directory / "work", precious), stdout=subprocess.PIPE, text=True
    )
    load = f"container/neighbours(2, io=direct, file=1M, runtime=1s, {SMALL})"
    try:
        done = machine.strata("run", "disk | ext4 | podman(user=tester)", "-w", load, "--rounds", "1", "--size",
                              "disk=1G", "--out", str(directory))  # fmt: skip
    finally:
        attacker.kill()
        planted, _ = attacker.communicate()
    assert precious.read_text() == "kept" and planted == ""
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    (trial,) = reader.view(directory).trials
    assert (trial.outcome, trial.reason) == (Outcome.OK, None)
    assert left_over(directory) == []


def test_killed_while_containers_run(machine: Machine) -> None:
    directory = machine.folder / "run"
    load = f"container/lifecycle(count=8, parallel=2, {SMALL})"
    stack = "disk | ext4 | podman(user=tester)"
    argv = machine.argv("run", stack, "-w", load, "--rounds", "1", "--size", "disk=1G", "--out", str(directory))
    before = machine.users.state()
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        give_up = time.monotonic() + 200
        while len(stays()) < 6 and process.poll() is None and time.monotonic() < give_up:
            time.sleep(0.05)
        # Containers of the user's, as the kernel sees them.
        assert len(stays()) >= 6 and {Path(f"/proc/{pid}").stat().st_uid for pid in stays()} == {UID}
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    done = machine.strata("clean", str(directory))
    assert done.returncode == 0, done.stdout + done.stderr
    assert stays() == [] and left_over(directory) == []
    assert not (changes := machine.users.changes(before)), changes


def stays() -> list[int]:
    """First processes of containers in control groups of Strata, of this user's."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            stays = entry.name.isdigit() and (entry / "cmdline").read_bytes().startswith(b"/bin/sh\0/stay")
            if stays and "strata-" in (entry / "cgroup").read_text() and entry.stat().st_uid == UID:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("stack", "words"),
    [
        ("disk | ext4 | podman(user=poor)", "The user poor has no ids for containers in /etc/subuid and /etc/subgid"),
        ("disk | zfs | podman(zfs, user=tester)", "podman(zfs) makes data sets, which only root may"),
    ],
)
def test_why_it_cannot_be_is_said_in_the_plan(machine: Machine, stack: str, words: str) -> None:
    done = machine.strata("plan", stack, "-w", f"container/lifecycle(1, {SMALL})")
    assert words in " ".join((done.stdout + done.stderr).split())


def test_a_directory_that_the_user_cannot_reach_is_a_sentence(machine: Machine) -> None:
    closed = machine.folder / "closed"
    closed.mkdir(mode=0o700)
    load = f"container/lifecycle(1, {SMALL})"
    done = machine.strata("run", "disk | ext4 | podman(user=tester)", "-w", load, "--rounds", "1", "--size", "disk=1G",
                          "--out", str(closed / "run"))  # fmt: skip
    assert "a directory (--out) that every user may enter" in " ".join((done.stdout + done.stderr).split())
    assert left_over(closed / "run") == []
