"""A run directory from a stranger: every text in it tries to act. Each command on it, and each page of it."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from strata import cli
from strata.cli.serve import Site
from strata.text import visible

STRATA = Path(".venv/bin/strata").absolute()
pytestmark = pytest.mark.host

HOSTILE = (
    "\x1b]52;c;aGk=\x07\x1b[2J\x9b2J\x00\x08\u202e\u2066\u2028\ufffe\nnext line\r"
    "<script>alert(1)</script>'\"|`[red][link=x]{{7*7}}${HOME}$(id) " + '{"signal":"1"}'
)
# Words that the program itself compares; another reader of the store refuses others.
WORDS = {
    *("higher", "lower", "neither", "ok", "failed", "invalid", "local", "rounds"),
    *("decision", "quarantine", "cleaned", "done", "undone"),
}
# What a run is found by, and what only another part of Strata reads.
LEFT = {"uuid", "fingerprint", "source", "testbed", "description", "design", "objective", "state"}
OF_JSON = {"factors", "resolved", "facts", "versions", "flags", "notes", "argv", "do_argv", "undo_argv"}


def poisoned(data: Any) -> Any:
    if isinstance(data, str):
        return data if data in WORDS or not data else data + HOSTILE
    if isinstance(data, dict):
        return {key: poisoned(value) for key, value in data.items()}
    return [poisoned(each) for each in data] if isinstance(data, list) else data


def poison(database: Path, *, names: bool) -> None:
    """Change every text. `names`: also those of stacks, without which no command gets as far as their figures."""
    with contextlib.closing(sqlite3.connect(database)) as sql, sql:
        for (trigger,) in sql.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            sql.execute(f"DROP TRIGGER {trigger}")
        attempt, stack = sql.execute("SELECT attempt.id, stack FROM attempt JOIN visit ON visit.id = visit").fetchone()
        trial = sql.execute("SELECT id FROM trial ORDER BY id DESC").fetchone()[0]
        sql.execute("UPDATE trial SET outcome = 'failed', reason = 'why', flags = '[\"a\"]', notes = '[\"b\"]' "
                    "WHERE id = ?", (trial,))  # fmt: skip
        sql.execute("INSERT INTO evidence (attempt, layer, argv, exit_code, stdout, stderr, signature) "
                    "SELECT attempt, text, '[\"sh\"]', 1, 'out', 'err', x'' FROM trial "
                    "JOIN workload ON workload.id = workload WHERE trial.id = ?", (trial,))  # fmt: skip
        sql.execute(
            "INSERT INTO lost (attempt, at, reason, console, signature) VALUES (?, 0.0, 'lost', 'console', x'')",
            (attempt,),
        )
        sql.execute("UPDATE ending SET failure = 'visit failed' WHERE attempt = (SELECT max(attempt) FROM ending)")
        sql.execute(
            "INSERT INTO skip (facts, stack, reason, signature) SELECT max(id), ?, 'skipped', x'' FROM facts", (stack,)
        )
        sql.execute("INSERT INTO event (at, kind, text, signature) VALUES (0.0, 'decision', 'decided', x'')")
        sql.execute("INSERT INTO event (at, kind, text, signature) VALUES (0.0, 'quarantine', 'in the way', x'')")
        tables = [name for (name,) in sql.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for _, column, kind, *_ in sql.execute(f"PRAGMA table_info({table})").fetchall():
                if kind != "TEXT" or column in LEFT or (table == "stack" and not names):
                    continue
                for row, value in sql.execute(f"SELECT rowid, {column} FROM {table}").fetchall():
                    sql.execute(
                        f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (_poisoned_cell(column, value), row)
                    )


def _poisoned_cell(column: str, value: str | None) -> str | None:
    if value is None:
        return None
    if column in OF_JSON:
        return json.dumps(poisoned(json.loads(value)))
    return str(poisoned(value))


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    places = [tmp_path_factory.mktemp("place") for _ in range(2)]
    stacks = ", ".join(f"existing({place})" for place in places)
    words = ("run", f"{{{stacks}}}", "-w", "null", "--rounds", "3", "--out", str(root / "r1"))
    done = subprocess.run([str(STRATA), *words], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    return root


@pytest.fixture(scope="module", params=[False, True], ids=["texts", "names"])
def runs(request: pytest.FixtureRequest, pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """r1 and r2, and one that stands for what `strata features` makes."""
    root = tmp_path_factory.mktemp("hostile")
    shutil.copytree(pristine / "r1", root / "r1")
    poison(root / "r1" / "strata.db", names=request.param)
    shutil.copytree(root / "r1", root / "r2")
    features = shutil.copytree(root / "r1", root / "features" / "directory")
    with contextlib.closing(sqlite3.connect(features / "strata.db")) as sql, sql:
        sql.execute("UPDATE workload SET name = 'feature/' || name")
    return root


def strata(*argv: str) -> tuple[int | str | None, str]:
    """The command in this process, as `strata` runs it: exit code, and both streams."""
    streams = io.StringIO()
    words, sys.argv = sys.argv, ["strata", *argv]
    try:
        with contextlib.redirect_stdout(streams), contextlib.redirect_stderr(streams):
            cli.main()
    except SystemExit as ended:
        return ended.code, streams.getvalue()
    finally:
        sys.argv = words
    return 0, streams.getvalue()


COMMANDS = [
    ["status", "{r1}"],
    ["status", "{r1}", "--json"],
    ["verdict", "{r1}"],
    ["verdict", "{r1}", "--json"],
    ["verdict", "{r1}", "--weights", "nobody=1"],
    ["verdict", "{r1}", "--pareto", "nothing"],
    ["report", "{r1}", "--markdown"],
    ["report", "{r1}", "--json"],
    ["report", "{r1}", "{r2}", "--out", "{out}"],
    ["report", "{r1}", "{r2}", "--json"],
    ["compare", "{r1}", "{r2}", "--all"],
    ["compare", "{r1}", "{r2}", "--json"],
    ["recipe", "{r1}", "nothing"],
    ["recipe", "{r1}"],
    ["advise", "--from", "{r1}"],
    ["advise", "--from", "{r1}", "--json"],
    ["features", "{features}"],
    ["verify", "{r1}"],
    ["status", "{r1}\x1b[2J"],
    ["status", "{r1}", "\x1b[2J"],
    ["plan", "disk | ext4\x1b[2J"],
    ["show", "layers", "\x1b[2J"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: visible(" ".join(words)))
def test_nothing_of_it_acts_on_a_terminal(words: list[str], runs: Path, tmp_path: Path) -> None:
    places = {"r1": runs / "r1", "r2": runs / "r2", "features": runs / "features", "out": tmp_path / "joined.html"}
    code, printed = strata(*(word.format(**places) for word in words))
    assert visible(printed) == printed
    assert "\x1b" not in printed and "Traceback" not in printed and code in (0, 1, 2, 3, 4), printed[-2000:]
    if (tmp_path / "joined.html").exists():
        check_page((tmp_path / "joined.html").read_text())


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not [name for name, _ in attrs if name.startswith("on") or name == "style"]


def check_page(page: str) -> None:
    assert visible(page) == page
    assert not Tags(page).tags & {"script", "img", "iframe", "object", "embed", "base"}


def test_the_report_is_made_and_holds_no_script_of_theirs(runs: Path) -> None:
    """In a process of its own, for the fault was that the process ended in the middle."""
    (runs / "r1" / "report.html").unlink(missing_ok=True)
    done = subprocess.run([str(STRATA), "report", str(runs / "r1")], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr[-2000:]
    page = (runs / "r1" / "report.html").read_text()
    check_page(page)
    assert "<svg" in page and "&lt;script&gt;" in page and "\\x1b]52;c;aGk=\\x07" in page


def test_every_page_is_served_and_the_server_goes_on(runs: Path) -> None:
    site = Site([runs])
    for path in pages_of(site):
        page = site.answer(path, {})
        assert page.status < 500, page.body[-1500:]
        check_page(page.body)
    page = site.answer("/joined", {"run": ["r1", "r2"], "part": [HOSTILE], "factor": [f"{HOSTILE}={HOSTILE}"]})
    check_page(page.body)
    check_page(site.answer("/joined", {"run": ["r1", "r2"]}).body)


def pages_of(site: Site) -> Iterator[str]:
    yield "/"
    yield f"/{HOSTILE}"
    for kind in ("run", "factors", "features"):
        yield from (f"/{kind}/{key}" for key in site.runs())


def test_a_link_in_place_of_a_page_is_not_written_through(pristine: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(pristine / "r1", tmp_path / "r1"))
    mine = tmp_path / "mine"
    mine.write_text("mine")
    for name in ("report.html", "report.html.new"):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(mine)
    code, printed = strata("report", str(run))
    assert code == 0, printed
    assert mine.read_text() == "mine" and not (run / "report.html").is_symlink()
