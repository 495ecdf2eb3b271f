"""Probes killed in the middle: what they had made beside files is undone from the journal, as what layers make is."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from strata.model import Outcome
from strata.store import reader

from .conftest import Foreign
from .test_cut_short import HEED_SIGNALS, STRATA, nothing_left, started

pytestmark = [pytest.mark.fault, pytest.mark.timeout(900)]

STACK = "disk | btrfs(quotas)"
# Those that make loop devices, mounts, subvolumes with limits, and namespaces.
PROBES = ("shrink", "quota-in-container", "older-snapshots", "nesting", "send", "grow", "snapshot", "quota", "io-limit")
_MOST_S = 12.0  # what they take together on this machine, or more


def strata(directory: Path) -> list[str]:
    loads = [word for name in PROBES for word in ("-w", f"feature/{name}")]
    return [STRATA, "run", STACK, *loads, "--rounds", "1", "--out", str(directory), "--size", "disk=2G"]


def groups() -> set[str]:
    return {str(path) for path in Path("/sys/fs/cgroup").glob("**/strata-probe-*")}


def cut_short(directory: Path, number: signal.Signals, delay_s: float) -> None:
    """Ends a run `delay_s` after its first probe began; whatever is left, `strata clean` removes."""
    before, trials = groups(), directory / "work"
    with started(*strata(directory), first=HEED_SIGNALS) as process:
        while not list(trials.glob("**/strata-trial")) and process.poll() is None:
            time.sleep(0.02)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(delay_s)
        if number == signal.SIGKILL:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        else:
            process.send_signal(number)
        process.communicate(timeout=120)
    if number == signal.SIGKILL:
        done = subprocess.run((STRATA, "clean", directory), capture_output=True, text=True)
        assert done.returncode == 0, f"after {delay_s:.2f} s: {done.stderr}"
    assert nothing_left(directory), f"left after {number.name} at {delay_s:.2f} s"
    assert groups() <= before
    assert not reader.status(directory).quarantined


@pytest.mark.parametrize("points", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_probes_killed_at_random_points_leave_nothing(tmp_path: Path, foreign: Foreign, points: int) -> None:
    chosen = random.Random(31)
    for point in range(points):
        number = (signal.SIGKILL, signal.SIGTERM)[point % 2]
        # each in a directory of its own: one that came to its end has no probe left to be killed
        cut_short(tmp_path / f"run{point}", number, chosen.uniform(0, _MOST_S))
        assert foreign.intact()


def test_a_probe_that_dies_alone_is_undone_and_the_next_one_finds_the_stack_as_it_was(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with started(*strata(directory), first=HEED_SIGNALS) as process:
        # the first probe has mounted what it makes smaller
        while not (boxes := [line for line in Path("/proc/mounts").read_text().splitlines() if f"{tmp_path}" in line
                             and "/probe/box" in line]):  # fmt: skip
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        for pid in engines(directory):
            os.kill(pid, signal.SIGKILL)
        _, stderr = process.communicate(timeout=120)
    assert boxes and nothing_left(directory), stderr
    first, *others = reader.view(directory).trials
    assert (first.workload, first.outcome) == ("feature/shrink", Outcome.FAILED)
    assert [trial.outcome for trial in others] == [Outcome.OK] * (len(PROBES) - 1)


def engines(directory: Path) -> list[int]:
    """The processes that sample a trial of this run."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = entry.read_bytes().split(b"\0")
            if words[0].endswith(b"strata-engine") and str(directory).encode() in b" ".join(words):
                found.append(int(entry.parent.name))
    return found
