"""What a run has stored is read at any moment, by every command at once, and the run does not notice."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from strata import cli
from strata.cli.serve import Site
from strata.errors import StoreError
from strata.store import reader as store

pytestmark = pytest.mark.host

STRATA = str(Path(sys.executable).with_name("strata"))
ROUNDS = 2
READERS = (
    ["status", "--json"],
    ["verdict", "--json"],
    ["report", "--json"],
    ["report", "--markdown"],
    ["report"],
)


def read(words: list[str], run: Path) -> str:
    """What the command prints, in this process: a new one for each would read less often."""
    streams = io.StringIO()
    argv, sys.argv = sys.argv, ["strata", words[0], str(run), *words[1:]]
    try:
        with contextlib.redirect_stdout(streams), contextlib.redirect_stderr(streams):
            cli.main()
    except SystemExit as ended:
        if ended.code:
            pytest.fail(streams.getvalue())
    finally:
        sys.argv = argv
    return streams.getvalue()


def visits_done(run: Path) -> int:
    return store.status(run).visits_done


def test_every_reader_sees_one_moment_of_a_run_on_a_loop_device(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ["run", "disk | {ext4, xfs}", "-w", "null", "--rounds", str(ROUNDS), "--size", "disk=400M"]
    pages: list[tuple[int, str]] = []
    stop = threading.Event()

    def browse() -> None:
        site = Site([tmp_path])
        while not stop.wait(0.2):
            for path in ("/", "/run/run", "/factors/run"):
                page = site.answer(path, {})
                pages.append((page.status, page.body))

    browser = threading.Thread(target=browse)
    seen: list[tuple[int, int, int]] = []
    with subprocess.Popen([STRATA, *words, "--out", str(run), "--json"], stdout=subprocess.PIPE, text=True) as going:
        try:
            while not begun(run):
                assert going.poll() is None
                time.sleep(0.1)
            browser.start()
            while going.poll() is None:
                for reader in READERS:
                    before = visits_done(run)
                    text = read(reader, run)
                    if found := re.search(r"(\d+) of \d+ visits done", text):
                        seen.append((before, int(found[1]), visits_done(run)))
            out, _ = going.communicate(timeout=110)
        finally:
            going.kill()
            stop.set()
            with contextlib.suppress(RuntimeError):
                browser.join()
    assert going.returncode == 0
    assert json.loads(out)["campaign"]
    assert seen and all(before <= told <= after for before, told, after in seen), seen
    assert visits_done(run) == 2 * ROUNDS
    assert pages and {status for status, _ in pages} == {200}
    counts = [int(found[1]) for _, page in pages if (found := re.search(r"(\d+) of \d+ visits done", page))]
    assert counts == sorted(counts)


def begun(run: Path) -> bool:
    try:
        store.view(run)
    except StoreError:
        return False
    return True
