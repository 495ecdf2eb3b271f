"""The scripts by which the loads of tenants begin at the same instant, on this machine: as a shell starts all of them,
and step by step as guests are asked."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from strata.gate import GATE, PART
from strata.run.trials import together

pytestmark = pytest.mark.host

NOW = "date +%s%3N"
SLOW = GATE + f"sleep 0.5; gate; {NOW}; sleep 0.2; passed; sleep 0.3"  # 0.5 s of start, 0.3 s of end
PLAIN = f"{NOW}; sleep 0.2"
ENDLESS = "sleep 600"
FAILING = "echo no luck >&2; exit 3"


def part(directory: Path, name: str, script: str, own: str) -> Path:
    trial = directory / f"a {name}"
    trial.mkdir()
    argv = ("sh", "-c", PART, "sh", f"{trial}/gate", own, "sh", "-c", script)
    (trial / "measure").write_text(f"exec {shlex.join(argv)}\n")
    return trial


def all_of(*trials: Path) -> None:
    subprocess.run(["sh", "-c", together._ALL, "sh", *map(str, trials)], check=True, timeout=120)


def told(trial: Path, name: str) -> int:
    return int((trial / "gate" / name).read_text())


def test_one_that_starts_slowly_begins_with_the_others_and_its_end_does_not_count(tmp_path: Path) -> None:
    slow, plain = part(tmp_path, "slow", SLOW, "yes"), part(tmp_path, "plain", PLAIN, "no")
    all_of(slow, plain)
    assert told(slow, "go") == told(plain, "go")
    for trial in (slow, plain):
        assert told(trial, "go") <= told(trial, "began") <= int((trial / "out").read_text()) <= told(trial, "ended")
        assert told(trial, "gone") == 0 and not (trial / "gate" / "stopped").exists()
    assert (slow / "gate" / "gone").stat().st_mtime * 1000 >= told(slow, "ended") + 250


def test_when_one_fails_the_others_are_ended(tmp_path: Path) -> None:
    failing, endless = part(tmp_path, "failing", FAILING, "no"), part(tmp_path, "endless", ENDLESS, "no")
    all_of(endless, failing)
    assert told(failing, "gone") == 3 and (failing / "err").read_text() == "no luck\n"
    assert not (failing / "gate" / "stopped").exists()
    assert told(endless, "gone") != 0 and (endless / "gate" / "stopped").exists()


@pytest.mark.parametrize(("script", "own"), [(SLOW, "yes"), (PLAIN, "no")])
def test_one_that_fails_before_its_load_lets_none_begin(tmp_path: Path, script: str, own: str) -> None:
    failing, slow = part(tmp_path, "failing", FAILING, "yes"), part(tmp_path, "slow", script, own)
    all_of(slow, failing)
    assert told(failing, "gone") == 3
    assert (slow / "gate" / "go").read_text() == "never\n" and (slow / "out").read_text() == ""
    assert (slow / "gate" / "stopped").exists()


def test_one_that_cannot_make_its_gate_does_not_keep_the_others(tmp_path: Path) -> None:
    barred, plain = part(tmp_path, "barred", PLAIN, "no"), part(tmp_path, "plain", PLAIN, "no")
    (barred / "gate").mkdir()
    all_of(plain, barred)
    assert told(barred, "gone") != 0 and (plain / "gate" / "stopped").exists() and (plain / "out").read_text() == ""


def asked(trial: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = ["sh", "-c", script, "sh", str(trial), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60)


def started(trial: Path) -> int:
    return asked(trial, together._START, "sh", str(trial / "measure")).returncode


def test_a_guest_is_asked_step_by_step(tmp_path: Path) -> None:
    slow = part(tmp_path, "slow", SLOW, "yes")
    assert started(slow) == 0
    assert (slow / "gate" / "ready").exists() and not (slow / "gate" / "go").exists()
    at = int(subprocess.run(["sh", "-c", NOW], capture_output=True, text=True, check=True).stdout) + 200
    assert asked(slow, together._GO, str(at)).returncode == 0
    assert asked(slow, together._LOOK, "0.1").stdout == "", "it works for half a second yet"
    assert asked(slow, together._LOOK, "30").stdout == "0\n"
    assert at <= int((slow / "out").read_text()) <= told(slow, "ended")


def test_a_guest_whose_load_fails_at_once_or_is_stopped_says_so(tmp_path: Path) -> None:
    failing, endless = part(tmp_path, "failing", FAILING, "yes"), part(tmp_path, "endless", ENDLESS, "no")
    assert started(failing) == 1 and started(endless) == 0
    assert asked(failing, together._GO, "never").returncode == 0
    assert asked(failing, together._LOOK, "30").stdout == "3\n"
    assert asked(endless, together._GO, "0").returncode == 0
    assert asked(endless, together._LOOK, "0.1").stdout == ""
    asked(endless, together._STOP)
    assert asked(endless, together._LOOK, "30").stdout.strip() not in ("", "0")
    assert (endless / "gate" / "stopped").exists() and not (failing / "gate" / "stopped").exists()
