"""What `strata serve` answers when many ask at once, and when a run is not as Strata writes it."""

from __future__ import annotations

import html
import queue
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from strata.cli import serve, verdict
from strata.cli.serve import Site
from strata.errors import StoreError
from strata.hosts.web import Page
from strata.model import Call, Disk, Metric, Node, Outcome, Rule, Stack, View
from strata.store import reader
from strata.store.writer import Store

SPEED = Metric("speed", "MiB/s", "higher")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name in ("one", "two"):
        store = Store.create(
            tmp_path / "runs" / name, name=name, about="", source="", fingerprint="f", description={}, seed=5,
            version="1", now=1.0,
        )  # fmt: skip
        disk = Node(Call("disk", "disk", {"role": "disk"}))
        store.add_plan([Stack("a", disk)], [(Call("w", "w", {}), SPEED, (SPEED,))], (), (Disk("disk", 10),))
        store.set_rule(Rule(rounds=1), 1.0)
        store.add_visits([(0, "a")], 1.0)
        attempt = store.begin(1, 2.0)
        store.add_trial(
            attempt, "w", outcome=Outcome.OK, reason=None, at=3.0, wall_s=1.5, argv=(), figures={"speed": 2.0}
        )
        store.end(attempt, None, 5.0)
        store.close()
    return tmp_path / "runs"


def changed(run: Path, statement: str) -> None:
    with closing(sqlite3.connect(run / "strata.db")) as sql, sql:
        sql.execute(statement)


def test_pages_are_made_one_at_a_time_and_the_list_is_there_meanwhile(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Callable[..., View] = reader.view
    entered, go = threading.Event(), threading.Event()
    begun: list[Path] = []

    def slow(directory: Path, *, series: bool = False) -> View:
        begun.append(directory)
        entered.set()
        assert go.wait(60)
        return read(directory, series=series)

    monkeypatch.setattr(serve.reader, "view", slow)
    site = Site([runs])
    answered: queue.Queue[Page] = queue.Queue()

    def ask(number: int) -> None:
        answered.put(site.answer("/joined", {"run": ["one"]}) if number % 2 else site.answer("/factors/one", {}))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    try:
        for thread in threads:
            thread.start()
        refused = [answered.get(timeout=20) for _ in range(12 - serve._MAX_WAITING)]
        assert entered.wait(20) and len(begun) == 1
        assert {(page.status, page.refresh_s) for page in refused} == {(503, 3)}
        assert "asked for again" in refused[0].body
        assert site.answer("/", {}).status == 200
    finally:
        go.set()
        for thread in threads:
            thread.join()
    assert [answered.get(timeout=20).status for _ in range(serve._MAX_WAITING)] == [200] * serve._MAX_WAITING


@pytest.mark.parametrize("path", ["/run/one", "/factors/one", "/joined"])
def test_a_page_is_made_again_only_when_something_was_stored(
    runs: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Callable[..., View] = reader.view
    begun: list[Path] = []

    def counted(directory: Path, *, series: bool = False) -> View:
        begun.append(directory)
        return read(directory, series=series)

    monkeypatch.setattr(reader, "view", counted)
    site = Site([runs])
    first = site.answer(path, {"run": ["one", "two"]})
    assert first.status == 200, first.body
    made = len(begun)
    assert site.answer(path, {"run": ["one", "two"]}).body == first.body and len(begun) == made
    changed(runs / "one", "INSERT INTO event (at, kind, text, signature) VALUES (9, 'decision', 'new', x'')")
    assert site.answer(path, {"run": ["one", "two"]}).status == 200 and len(begun) > made


def test_no_more_than_so_many_pages_are_kept(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "_MAX_KEPT", 2)
    site = Site([runs])
    for name in ("one", "two"):
        assert site.answer(f"/factors/{name}", {}).status == site.answer("/joined", {"run": [name]}).status == 200
    assert len(site._kept) == 2


@pytest.mark.parametrize("statement", ["DROP TABLE workload", "UPDATE workload SET name = x'ff'"])
def test_a_run_that_is_not_as_written_takes_only_its_own_line(runs: Path, statement: str) -> None:
    with closing(sqlite3.connect(runs / "one" / "strata.db")) as sql, sql:
        for (trigger,) in sql.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            sql.execute(f"DROP TRIGGER {trigger}")
        sql.execute("PRAGMA foreign_keys = OFF")
        sql.execute(statement)
    with pytest.raises(StoreError):
        reader.workloads(runs / "one")
    page = Site([runs]).answer("/", {})
    assert page.status == 200 and "cannot be read" in page.body and 'href="/run/two"' in page.body


def test_what_nobody_foresaw_in_one_run_leaves_the_list(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = reader.status

    def odd(directory: Path) -> reader.Status:
        if directory.name == "one":
            raise RecursionError("too deep")
        return read(directory)

    monkeypatch.setattr(reader, "status", odd)
    page = Site([runs]).answer("/", {})
    assert page.status == 200 and "RecursionError: too deep" in page.body and 'href="/run/two"' in page.body


def test_the_list_shows_the_verdict_of_each_run(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed(runs / "one", "INSERT INTO event (at, kind, text, signature) VALUES (9, 'decision', 'all are done', x'')")
    sentence = verdict.model_of(runs / "one").verdict.sentence
    site = Site([runs])
    body = site.answer("/", {}).body
    assert html.escape(sentence) in body and "all are done" not in body
    monkeypatch.setattr(serve.verdict, "model_of", None)
    assert site.answer("/", {}).body == body, "made once"


def test_the_list_does_not_wait_for_verdicts(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed(runs / "one", "INSERT INTO event (at, kind, text, signature) VALUES (9, 'decision', 'all are done', x'')")
    monkeypatch.setattr(serve, "_VERDICTS_S", 0.0)
    assert "all are done" in Site([runs]).answer("/", {}).body
