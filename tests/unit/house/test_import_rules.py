"""The import rules of pyproject.toml hold, and break when the house is violated."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

import pytest
from importlinter import configuration
from importlinter.application import use_cases

ROOT = Path(__file__).parents[3]
CONFIG = ROOT / "pyproject.toml"
CONTRACTS = tomllib.loads(CONFIG.read_text())["tool"]["importlinter"]["contracts"]
ROOMS = [
    "cli",
    "run",
    "report",
    "design",
    "recipes",
    "advice",
    "planning",
    "judge",
    "probes",
    "published",
    "layers",
    "workloads",
    "analysis",
    "store",
    "hosts",
    "campaign",
]

configuration.configure()


def broken() -> set[str]:
    """The ids of the contracts of pyproject.toml that the `strata` first on the path breaks."""
    return {
        contract["id"]
        for contract in CONTRACTS
        if not use_cases.lint_imports(str(CONFIG), (contract["id"],), cache_dir=None, is_debug_mode=True, no_logo=True)
    }


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty copy of the house, found before the real one."""
    package = tmp_path / "strata"
    shared = [
        line.split(" -> ")[1].split(".")[1:]
        for contract in CONTRACTS
        if contract["type"] == "independence"
        for line in contract["ignore_imports"]
    ]
    for room in ROOMS:
        write(package / room / "__init__.py", "")
    for word in ["__init__", "model", "errors", "units", "gate", "parquet", "processors", "text", "ticks"]:
        write(package / f"{word}.py", "")
    # A driver and a family that use every shared part, as the rules expect.
    for room, part in shared:
        write(package / room / f"{part}.py", "")
        with (package / room / "user.py").open("a") as user:
            user.write(f"from strata.{room} import {part}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "strata", raising=False)
    return package


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_this_house_keeps_its_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert broken() == set()


def test_an_empty_house_keeps_the_rules(house: Path) -> None:
    assert broken() == set()


@pytest.mark.parametrize(
    ("where", "text", "rule"),
    [
        pytest.param("store/a.py", "import strata.run", "levels", id="upward"),
        pytest.param("errors.py", "import strata.model", "levels", id="upward-to-the-words"),
        pytest.param("errors.py", "import strata.units", "levels", id="between-the-lowest"),
        pytest.param("layers/a.py", "import strata.workloads", "levels", id="sibling-rooms"),
        pytest.param("workloads/a.py", "from strata import layers", "levels", id="sibling-rooms-the-other-way"),
        pytest.param(
            "hosts/a.py", "def late():\n    from strata.store import x", "levels", id="upward-inside-a-function"
        ),
        pytest.param("attic/__init__.py", "", "levels", id="unknown-folder"),
        pytest.param("helpers.py", "", "levels", id="unknown-file"),
        pytest.param("lab/__init__.py", "import strata.run", "levels", id="the-lab-that-is-to-come"),
        pytest.param("layers/a.py", "from strata.layers import user", "drivers", id="driver-knows-driver"),
        pytest.param("layers/_steps.py", "import strata.layers.user", "drivers", id="shared-part-knows-driver"),
        pytest.param("layers/a.py", "from strata.layers import _new\n", "drivers", id="shared-part-not-named"),
        pytest.param("workloads/a.py", "from strata.workloads.user import x", "families", id="family-knows-family"),
        pytest.param("run/a.py", "import subprocess", "processes", id="process-in-run"),
        pytest.param("layers/a.py", "from subprocess import run", "processes", id="process-in-a-driver"),
        pytest.param("cli/a.py", "from multiprocessing import Pool", "processes", id="multiprocessing"),
        pytest.param("model.py", "import pty", "processes", id="pty"),
        pytest.param("report/a.py", "from strata.store import x", "pure", id="report-reads-the-store"),
        pytest.param("design/a.py", "import strata.hosts", "pure", id="design-reaches-a-host"),
        pytest.param("planning/a.py", "import strata.hosts", "pure", id="planning-reaches-a-host"),
        pytest.param("planning/a.py", "import strata.recipes", "levels", id="planning-knows-recipes"),
        pytest.param("analysis/a.py", "import strata.store", "pure", id="analysis-reads-the-store"),
        pytest.param("campaign/a.py", "import time", "pure-outside", id="clock-in-a-pure-room"),
        pytest.param("analysis/a.py", "from sqlite3 import connect", "pure-outside", id="sql-in-a-pure-room"),
    ],
)
def test_a_breach_is_found(house: Path, where: str, text: str, rule: str) -> None:
    write(house / "layers" / "_new.py", "")
    write(house / "layers" / "a.py", "")
    write(house / where, text)
    assert broken() == {rule}


@pytest.mark.parametrize("where", ["hosts/local.py", "hosts/deeper/ssh.py"])
def test_hosts_may_start_processes(house: Path, where: str) -> None:
    write(house / "hosts" / "deeper" / "__init__.py", "")
    write(house / where, "import subprocess, multiprocessing, pty\n")
    assert broken() == set()


def test_every_way_to_start_a_process_without_a_module_is_banned() -> None:
    """ruff knows what import-linter cannot see: functions of `os`."""
    ruff = tomllib.loads(CONFIG.read_text())["tool"]["ruff"]["lint"]
    ways = {f"os.{name}" for name in dir(os) if name.startswith(("exec", "spawn", "posix_spawn", "fork"))}
    banned = set(ruff["flake8-tidy-imports"]["banned-api"])
    assert {*ways, "os.system", "os.popen", "asyncio.create_subprocess_exec"} <= banned
    assert "TID" in ruff["select"]
    excepted = {pattern for pattern, rules in ruff["per-file-ignores"].items() if "TID251" in rules}
    assert {pattern for pattern in excepted if pattern.startswith("python/")} == {"python/strata/hosts/**"}
