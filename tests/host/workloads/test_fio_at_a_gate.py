"""What fio takes to start and to end itself is not in the time of a tenant: its jobs pass the gate themselves."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from strata.gate import PART
from strata.model import Call, Kind, Target, TrialOutput, TrialPlan
from strata.workloads import find

from .workload_bench import call

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed; apt-get install fio"),
]

SIZE = 4 << 20
TWO_GROUPS = "[first]\nrw=write\nsize=4M\n[second]\nstonewall\nrw=read\nsize=4M\n"
CASES = (
    call("fio/randrw-75-25", size=SIZE, runtime=2.0, direct=False, ioengine="psync", numjobs=3),
    call("fio/randrw-75-25", variant="study", size=SIZE, direct=False, ioengine="psync"),
    call("fio:", content=TWO_GROUPS, runtime=1.0),
)
LOADS_S = (2.0, 0.0, 2.0)


def planned(spec: Call, directory: Path) -> tuple[TrialPlan, Path]:
    """Prepared, in a directory whose name fio cuts where it can."""
    target, scratch = directory / "of # mine", directory / "scratch"
    target.mkdir()
    scratch.mkdir()
    plan = find(spec).plan(spec, Target(Kind.DIRECTORY, str(target), None), str(scratch), 7)
    for path, content in plan.put.items():
        Path(path).write_text(content)
    for command in plan.prepare:
        subprocess.run(command.argv, check=True, capture_output=True)
    return plan, scratch


def at_its_gate(plan: TrialPlan, directory: Path) -> subprocess.Popen[str]:
    assert plan.gated is not None
    argv = ["sh", "-c", PART, "sh", str(directory / "gate"), "yes", *plan.gated.argv]
    process = subprocess.Popen(argv, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (directory / "gate" / "ready").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    return process


def told(directory: Path, name: str) -> int:
    return int((directory / "gate" / name).read_text())


@pytest.mark.parametrize(("spec", "load_s"), list(zip(CASES, LOADS_S, strict=True)), ids=["jobs", "study", "groups"])
def test_its_load_begins_when_the_gate_lets_it(spec: Call, load_s: float, tmp_path: Path) -> None:
    plan, _ = planned(spec, tmp_path)
    process = at_its_gate(plan, tmp_path)
    at = round(time.time() * 1000) + 1500
    (tmp_path / "gate" / "go").write_text(f"{at}\n")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert at <= told(tmp_path, "began") <= told(tmp_path, "ended")
    assert told(tmp_path, "ended") - told(tmp_path, "began") >= load_s * 1000
    files = {name: Path(path).read_text() for name, path in plan.collect.items() if Path(path).exists()}
    took_s = (told(tmp_path, "ended") - told(tmp_path, "began")) / 1000
    measured = find(spec).read(spec, TrialOutput(0, took_s, out, err, files))
    assert measured.metrics["iops"] > 0
    assert measured.metrics["runtime_s"] <= took_s + 0.001, "the wait at the gate is not in it"
    assert not list(tmp_path.rglob("*run.txt")), "fio keeps what such a command says where it stands"


@pytest.mark.parametrize("spec", CASES, ids=["jobs", "study", "groups"])
def test_none_begins_when_another_failed(spec: Call, tmp_path: Path) -> None:
    plan, _ = planned(spec, tmp_path)
    process = at_its_gate(plan, tmp_path)
    (tmp_path / "gate" / "go").write_text("never\n")
    process.communicate(timeout=60)
    assert process.returncode != 0 and not (tmp_path / "gate" / "began").exists()


@pytest.mark.parametrize("spec", CASES, ids=["jobs", "study", "groups"])
def test_a_rehearsal_has_no_gate(spec: Call, tmp_path: Path) -> None:
    plan, _ = planned(spec, tmp_path)
    assert plan.gated is not None
    subprocess.run(plan.gated.argv, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    assert not list(tmp_path.rglob("*run.txt"))
