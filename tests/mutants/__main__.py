"""Break the code in one place at a time, and see whether a test notices.

    python -m tests.mutants --python 200 --rust 60 --seed 1

Python: the unit tests run once, with the lines that each executes recorded; then, for each mutant, those tests that
execute its line, the likeliest first, until one fails. The driver is our own: cosmic-ray runs the same command for
every mutant, here all unit tests, some two minutes each. Rust: cargo-mutants, which tries those that are named to it.

Prints what survived, by area, and writes everything as JSON. The sample follows from the seed and the code.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from coverage import CoverageData
from tests.mutants import changes

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "strata"
_EQUIVALENT = Path(__file__).with_name("equivalent.toml")
_LIMIT_S = 900.0  # of the tests of one mutant; one that is still running then has hung
_PYTEST = ("-q", "-x", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:randomly", "--hypothesis-seed=0")
_SLOWER_THAN = 60  # seconds that a single test may take with a mutant


@dataclass(frozen=True, slots=True)
class Mutant:
    language: str
    file: str
    line: int
    before: str
    after: str

    def area(self) -> str:
        """The package, as in `python/strata/run` and `crates/disks`."""
        parts = Path(self.file).parts
        return "/".join(parts[:3] if parts[0] == "python" and len(parts) > 3 else parts[:2])


@dataclass(frozen=True, slots=True)
class Result:
    mutant: Mutant
    outcome: str  # "killed", "survived", "not reached", "hung", "does not build", "equivalent"
    tests: int  # that execute its line
    seconds: float


# ------------------------------------------------------------ Python

Place = tuple[str, str, str]  # file, its line, and what stands there afterwards


def equivalents() -> set[Place]:
    """The changes after which every program runs as before. The file gives the reason of each."""
    return {
        (each["file"], each["line"], after)
        for each in tomllib.loads(_EQUIVALENT.read_text())["mutant"]
        for after in each["after"]
    }


def place_of(file: str, source: bytes, change: changes.Change) -> Place:
    return file, source.splitlines()[change.line - 1].decode().strip(), change.after


def python_mutants(count: int, seed: int, only: str) -> list[tuple[Path, changes.Change]]:
    sites = [
        (path, change)
        for path in sorted(PACKAGE.rglob("*.py"))
        if re.search(only, str(path.relative_to(ROOT)))
        for change in changes.all_of(path.read_bytes())
    ]
    return random.Random(seed).sample(sites, min(count, len(sites)))


def record(jobs: int, file: Path) -> CoverageData:
    """Which unit test executes which line. Raises CalledProcessError when a test fails without any mutant."""
    environment = {**os.environ, "COVERAGE_FILE": str(file)}
    argv = [sys.executable, "-m", "pytest", "tests/unit", "-q", "-n", str(jobs), "-p", "no:cacheprovider"]
    argv += ["--cov", "--cov-context=test", "--cov-report="]
    subprocess.run(argv, cwd=ROOT, env=environment, check=True)
    data = CoverageData(str(file))
    data.read()
    return data


class Reached:
    """The tests that execute a line."""

    def __init__(self, data: CoverageData) -> None:
        self._data = data
        self._of: dict[Path, dict[int, list[str]]] = {}
        self._everywhere: Counter[str] = Counter()
        for file in data.measured_files():
            for tests in self._lines(Path(file)).values():
                self._everywhere.update({_test(each) for each in tests if each})

    def by(self, path: Path, change: changes.Change) -> list[str]:
        """Likeliest first: tests that are named after the module, then those that execute the fewest lines.

        A line that runs when the module is imported is reached by whatever executes any line of the module.
        """
        lines = self._lines(path)
        contexts = {each for line in range(change.line, change.last_line + 1) for each in lines.get(line, [])}
        if not contexts:
            contexts = set(lines.get(change.statement_line, []))
        if contexts == {""}:
            contexts = {each for tests in lines.values() for each in tests}
        tests = {_test(each) for each in contexts if each}
        name = path.stem.strip("_")
        return sorted(tests, key=lambda test: (name not in test, self._everywhere[test], test))

    def _lines(self, path: Path) -> dict[int, list[str]]:
        if path not in self._of:
            self._of[path] = self._data.contexts_by_lineno(str(path))
        return self._of[path]


def _test(context: str) -> str:
    """The test's id, of "id|run"."""
    return context.rpartition("|")[0]


def try_python(tree: Path, path: Path, change: changes.Change, tests: Sequence[str]) -> Result:
    """Run `tests` with the change made in `tree`, a copy of the package's folder."""
    relative = path.relative_to(ROOT)
    mutant = Mutant("python", str(relative), change.line, change.before, change.after)
    source = path.read_bytes()
    if place_of(mutant.file, source, change) in equivalents():
        return Result(mutant, "equivalent", 0, 0.0)
    if not tests:
        return Result(mutant, "not reached", 0, 0.0)
    target = tree / path.relative_to(ROOT / "python")
    began = time.monotonic()
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
        listed.write("\n".join(tests))
        listed.flush()
        target.write_bytes(change.applied(source))
        try:
            argv = [sys.executable, "-B", "-m", "pytest", *_PYTEST, f"--timeout={_SLOWER_THAN}", f"@{listed.name}"]
            environment = {**os.environ, "PYTHONPATH": str(tree)}
            done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, timeout=_LIMIT_S, check=False)
            outcome = "survived" if done.returncode == 0 else "killed"
        except subprocess.TimeoutExpired:
            outcome = "hung"
        finally:
            target.write_bytes(source)
    return Result(mutant, outcome, len(tests), time.monotonic() - began)


def run_python(count: int, seed: int, jobs: int, only: str) -> list[Result]:
    mutants = python_mutants(count, seed, only)
    with tempfile.TemporaryDirectory(prefix="strata-mutants-") as scratch:
        reached = Reached(record(jobs, Path(scratch) / "coverage"))
        trees: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for number in range(jobs):
            tree = Path(scratch) / f"tree-{number}"
            shutil.copytree(PACKAGE, tree / "strata", ignore=shutil.ignore_patterns("__pycache__"))
            trees.put(tree)

        def one(mutant: tuple[Path, changes.Change]) -> Result:
            path, change = mutant
            tree = trees.get()
            try:
                result = try_python(tree, path, change, reached.by(path, change))
            finally:
                trees.put(tree)
            print(f"{result.outcome:12} {_told(result.mutant)}", flush=True)
            return result

        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(one, mutants))


# ------------------------------------------------------------ Rust

# cargo-mutants' own words for what became of a mutant.
_OUTCOMES = {"CaughtMutant": "killed", "MissedMutant": "survived", "Timeout": "hung", "Unviable": "does not build"}


def run_rust(count: int, seed: int) -> list[Result]:
    """Raises CalledProcessError when cargo-mutants is not installed or a test fails without any mutant."""
    listed = subprocess.run(["cargo", "mutants", "--list"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [line for line in listed.stdout.splitlines() if line.strip()]
    chosen = random.Random(seed).sample(names, min(count, len(names)))
    with tempfile.TemporaryDirectory(prefix="strata-mutants-") as scratch:
        pattern = "|".join(f"^{re.escape(name)}$" for name in chosen)
        argv = ["cargo", "mutants", "--re", pattern, "--output", scratch, "--no-shuffle"]
        done = subprocess.run(argv, cwd=ROOT, check=False)
        if done.returncode not in (0, 2, 3):  # 2: some survived; 3: some hung
            raise subprocess.CalledProcessError(done.returncode, argv)
        outcomes = json.loads((Path(scratch) / "mutants.out" / "outcomes.json").read_text())["outcomes"]
    return [_rust_result(each) for each in outcomes if each["scenario"] != "Baseline"]


def _rust_result(outcome: dict[str, Any]) -> Result:
    mutant = outcome["scenario"]["Mutant"]
    seconds = sum(phase["duration"] for phase in outcome["phase_results"])
    line = mutant["span"]["start"]["line"]
    told = Mutant("rust", mutant["file"], line, (mutant["function"] or {}).get("function_name", ""), mutant["name"])
    return Result(told, _OUTCOMES[outcome["summary"]], 0, seconds)


# ------------------------------------------------------------ both


def _told(mutant: Mutant) -> str:
    if mutant.language == "rust":
        return mutant.after
    return f"{mutant.file}:{mutant.line}: {_short(mutant.before)}  ->  {_short(mutant.after)}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 70 else f"{line[:67]}..."


def table(results: Iterable[Result]) -> str:
    """One row an area: how many there were, killed, survived and not reached, and the share killed of those reached.

    Without equivalent ones, which no test could kill.
    """
    counts: dict[str, Counter[str]] = {}
    for result in results:
        for area in (result.mutant.area(), f"all {result.mutant.language}"):
            counts.setdefault(area, Counter())[result.outcome] += 1
    lines = [f"{'area':28} {'mutants':>7} {'killed':>7} {'survived':>8} {'not reached':>11} {'of reached':>10}"]
    for area, of in sorted(counts.items()):
        killed = of["killed"] + of["hung"]
        reached = killed + of["survived"]
        share = f"{100 * killed / reached:.0f} %" if reached else "-"
        total = sum(of.values()) - of["does not build"] - of["equivalent"]
        lines.append(f"{area:28} {total:7} {killed:7} {of['survived']:8} {of['not reached']:11} {share:>10}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("--python", type=int, default=200, help="mutants of Python code")
    parser.add_argument("--rust", type=int, default=60, help="mutants of Rust code")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="tests of so many mutants of Python at once")
    parser.add_argument("--only", default="", help="of Python files whose path matches this regular expression")
    parser.add_argument("--json", type=Path, help="where all results are written")
    asked = parser.parse_args()
    results = run_python(asked.python, asked.seed, asked.jobs, asked.only) if asked.python else []
    results += run_rust(asked.rust, asked.seed) if asked.rust else []
    print()
    for result in results:
        if result.outcome in ("survived", "not reached"):
            print(f"{result.outcome:12} {_told(result.mutant)}")
    print()
    print(table(results))
    if asked.json:
        written = {"seed": asked.seed, "results": [asdict(each) for each in results]}
        asked.json.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
