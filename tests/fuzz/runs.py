"""Mutants of run directories through every command that reads one.

    python -m tests.fuzz.runs --mutants 10000 --seed 1

A mutant is given to each command in one process. Whatever it holds, a command must end by itself: with an answer, or
with one of Strata's own errors. No traceback, no abort, no hang, no process started, nothing written outside of the
directory, nothing of another file printed. Each mutant follows from the seed and its number: `--only N --seed S` makes
it again.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import functools
import io
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# Before numpy and polars are loaded: a mutant is too small for several threads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("POLARS_MAX_THREADS", "1")

# isort: split
import typer
from benchmarks.research import dataset
from tests.fuzz import bases, mutations
from tests.fuzz.guard import GUARD

from strata import cli
from strata.cli.serve import Site
from strata.errors import StrataError
from strata.store import reader

SECRET = "precious words of a file outside"
_TIMEOUT_S = 120  # of one command; the slowest takes about 3 s on an idle machine
_DATA_BYTES = 4 << 30
_STATE = Path(os.environ.get("STATE_DIRECTORY", os.devnull))  # where the key is kept that signs runs
_WEIGHTS = (4, 1, 3, 2)  # of bases.BASES: a model of the exact one takes longest
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(slots=True)
class Mutant:
    number: int
    base: str
    mutations: list[str]
    outcomes: dict[str, str] = field(default_factory=dict)  # command -> "answered", "refused: TYPE"
    faults: list[str] = field(default_factory=list)


class Place:
    """Where mutants lie, one at a time, beside whole runs to compare them with and files that must not change."""

    def __init__(self, scratch: Path) -> None:
        self.outside = scratch / "outside"
        self.outside.mkdir()
        self._precious = self.outside / "precious"
        self.mutants = scratch / "mutants"
        self.mutants.mkdir()
        # Made where the mutants lie, for a run is cleaned only at its place.
        self.runs = {
            base.__name__: base(self.mutants / base.__name__).relative_to(self.mutants) for base in bases.BASES
        }
        self._masters = scratch / "masters"
        self.mutants.rename(self._masters)
        self.temporary = scratch / "tmp"
        self._restore()

    def _restore(self) -> None:
        for path in (self.outside.parent / "moved", self.outside.parent / "moved.db"):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        for folder in (self.mutants, self.temporary, self.outside):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        self._precious.write_text(SECRET)

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """The current directory and that of temporary files are here."""
        before, tempfile.tempdir = tempfile.tempdir, str(self.temporary)
        try:
            with contextlib.chdir(self.temporary):
                yield
        finally:
            tempfile.tempdir = before

    def make(self, number: int, chance: random.Random) -> tuple[Mutant, Path, Path, Path]:
        """The mutant, its run, the directory that was copied (which may hold the run), and a whole run beside it."""
        self._restore()
        (base,) = chance.choices(list(self.runs), _WEIGHTS)
        shutil.copytree(self._masters / base, self.mutants / base, symlinks=True)
        other = self.mutants / "whole"
        shutil.copytree(self._masters / self.runs["ordinary"], other)
        run = self.mutants / self.runs[base]
        return Mutant(number, base, mutations.mutate(run, self.outside, chance)), run, self.mutants / base, other

    def changed(self) -> list[str]:
        """What is not as it was outside of the mutant."""
        faults = []
        if [path.name for path in self.outside.iterdir()] != ["precious"] or self._precious.read_text() != SECRET:
            faults.append("write: a file outside was changed")
        if left := [path.name for path in self.temporary.iterdir()]:
            faults.append(f"write: left in the temporary or current directory: {left[:3]}")
        return faults


# The tree of commands is the same for every mutant, and takes longer to make than some commands.
typer.main.get_command = functools.cache(typer.main.get_command)


def commands(
    run: Path, top: Path, other: Path, chance: random.Random, *, pages: bool
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Every command that reads a run directory, each in one of its forms. `pages`: with charts, which take seconds."""

    def strata(*words: str) -> Callable[[], object]:
        def command() -> None:
            sys.argv = ["strata", *words]
            cli.main()

        return command

    def serve() -> None:
        site = Site([run.parent if run.parent.name != "mutants" else run])
        runs = list(site.runs())
        for name in runs:
            print(site.answer(f"/features/{name}", {}))
            print(site.answer(f"/{'run' if pages else 'factors'}/{name}", {}))
        print(site.answer("/", {}), site.answer("/joined", {"run": runs[:2]}))

    verdicts = [[], ["--json"], ["--weights", "fio/randrw-75-25=2"], ["--pareto", "host.cpu_user_s,disk.write_bytes"]]
    reports = [[] if pages else ["--json"], ["--markdown"], [str(other), "--json"]]
    seconds = [str(other), "published:2017-host-guest-filesystems"]
    yield "status", strata("status", str(run), *chance.choice([[], ["--json"]]))
    yield "verdict", strata("verdict", str(run), *chance.choice(verdicts))
    yield "report", strata("report", str(run), *(reports[0] if pages else chance.choice(reports)))
    yield (
        "compare",
        strata("compare", *chance.choice([[str(run), second] for second in seconds] + [[str(other), str(run)]])),
    )
    yield "recipe", strata("recipe", str(run), *chance.choice([[], ["ext4"]]), "--map", "disk=/dev/disk/by-id/ata-X")
    if top != run or chance.random() < 0.3:
        yield "features", strata("features", str(top))
    if chance.random() < 0.1:
        yield "advise", strata("advise", "--from", str(run))
        yield "dataset", lambda: dataset.frame(reader.view(run, series=True))
    yield "serve", serve
    yield "clean", strata("clean", str(run))
    yield "status after clean", strata("status", str(run))


def attempt(name: str, call: Callable[[], object], mutant: Mutant, place: Place) -> None:
    """Note how the command ended, and what it did that it may not do."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        GUARD.watching(place.mutants, place.temporary, place.outside.parent / "moved", _STATE) as breaches,
    ):
        try:
            call()
            outcome = "answered"
        except SystemExit as end:
            outcome = "answered" if end.code in (None, 0) else f"exit code {end.code}"
        except StrataError as error:  # of what is called here without the command around it
            outcome = f"exit code {error.exit_code}"
        except BaseException as error:  # noqa: BLE001 - a panic of a library is no Exception
            outcome = "traceback"
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(last.filename).name}:{last.lineno}"
            mutant.faults.append(f"traceback: {name}: {type(error).__name__}: {str(error)[:150]!a} at {where}")
    text = printed.buffer.getvalue().decode()  # type: ignore[attr-defined]
    mutant.outcomes[name] = outcome
    mutant.faults += [
        f"{breach.partition(':')[0]}: {name}: {breach}"
        for breach in breaches
        # An undo of the run's own may be repeated: a row that says it was done may be missing.
        if not any(f"{list(undo)}" in breach for undo in bases.UNDOS)
    ]
    if SECRET in text:
        mutant.faults.append(f"secret: {name} printed a file outside")
    if name != "serve" and (control := _CONTROL.search(text)):
        mutant.faults.append(f"control: {name} printed {control[0]!a}")


def fuzz(
    place: Place, number: int, seed: int, *, pages: float, began: Callable[[str], None] = lambda command: None
) -> Mutant:
    """One mutant through all commands. `pages`: the share of mutants whose pages with charts are made too."""
    chance = random.Random(f"{seed}:{number}")
    mutant, run, top, other = place.make(number, chance)
    with place.current():
        for name, call in commands(run, top, other, chance, pages=chance.random() < pages):
            began(name)
            attempt(name, call, mutant, place)
    mutant.faults += place.changed()
    return mutant


# ------------------------------------------------------------ many, in processes that may die


def _work(first: int, last: int, seed: int, pages: float) -> None:
    """Mutants `first` to `last`, each told on stdout before and after. Ends with the process when one hangs."""
    resource.setrlimit(resource.RLIMIT_DATA, (_DATA_BYTES, _DATA_BYTES))
    faulthandler.enable()
    told = os.fdopen(os.dup(1), "w", buffering=1)
    with tempfile.TemporaryDirectory(prefix="strata-fuzz-") as scratch:
        place = Place(Path(scratch))

        def began(command: str) -> None:
            faulthandler.dump_traceback_later(_TIMEOUT_S, exit=True)
            print(json.dumps({"begun": command}), file=told)

        for number in range(first, last):
            print(json.dumps({"number": number}), file=told)
            before_s, before_kb = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            mutant = fuzz(place, number, seed, pages=pages, began=began)
            grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb) >> 10
            if grown_mb > 1500:
                mutant.faults.append(f"memory: {grown_mb} MiB")
            print(json.dumps({**{name: getattr(mutant, name) for name in Mutant.__slots__},
                              "took_s": round(time.monotonic() - before_s, 1)}), file=told)  # fmt: skip


def _read(number: int, last: int, seed: int, pages: float) -> Iterator[dict[str, object]]:
    """What became of each mutant; a process that dies is followed by another, after the one that it died of."""
    while number < last:
        with tempfile.TemporaryFile("w+") as errors:
            argv = [sys.executable, "-m", "tests.fuzz.runs", "--seed", str(seed), "--pages", str(pages)]
            process = subprocess.Popen(
                [*argv, "--work", str(number), str(min(last, number + 200))],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
            command = "?"
            assert process.stdout is not None
            for line in process.stdout:
                told = json.loads(line)
                if "begun" in told:
                    command = told["begun"]
                elif "outcomes" in told:
                    yield told
                    number = told["number"] + 1
            if process.wait() != 0:
                errors.seek(0)
                said = errors.read()
                kind = "hang" if "Timeout" in said else "abort"
                yield {"number": number, "outcomes": {command: kind}, "mutations": [], "base": "?", "took_s": 0,
                       "faults": [f"{kind}: {command}: exit code {process.returncode}: {said[-1500:]}"]}  # fmt: skip
                number += 1


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.runs", description=__doc__.split("\n\n")[0])
    parser.add_argument("--mutants", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant")
    parser.add_argument(
        "--pages", type=float, default=0.1, help="share of the mutants whose pages with charts are made"
    )
    parser.add_argument("--only", type=int, help="this mutant alone, in this process")
    parser.add_argument("--log", type=Path, help="one JSON object for each mutant")
    parser.add_argument("--work", type=int, nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if "STATE_DIRECTORY" not in os.environ:
        with tempfile.TemporaryDirectory(prefix="strata-state-") as state:
            again = [sys.executable, "-m", "tests.fuzz.runs", *(sys.argv[1:] if arguments is None else arguments)]
            return subprocess.run(again, env={**os.environ, "STATE_DIRECTORY": state}, check=False).returncode
    if given.work:
        first, last = given.work
        _work(first, last, given.seed, given.pages)
        return 0
    if given.only is not None:
        with tempfile.TemporaryDirectory(prefix="strata-fuzz-") as scratch:
            print(fuzz(Place(Path(scratch)), given.only, given.seed, pages=given.pages, began=print))
            return 0
    outcomes: Counter[tuple[str, str]] = Counter()
    faults: dict[str, list[int]] = {}
    log = given.log.open("w", buffering=1) if given.log else contextlib.nullcontext()
    with log:
        for told in _read(given.first, given.first + given.mutants, given.seed, given.pages):
            outcomes.update(told["outcomes"].items())
            for fault in told["faults"]:
                faults.setdefault(re.sub(r"0x[0-9a-f]+|'.*'", "_", fault)[:300], []).append(told["number"])
            if given.log:
                print(json.dumps(told), file=given.log and log)
    for (command, outcome), count in sorted(outcomes.items()):
        print(f"{command:24} {outcome:28} {count:6}")
    for fault, numbers in sorted(faults.items(), key=lambda each: -len(each[1])):
        print(f"{len(numbers):6} {fault}\n       mutants {numbers[:8]}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
