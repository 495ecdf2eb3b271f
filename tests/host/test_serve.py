"""`strata serve` and the report of several runs, over real runs of nothing."""

from __future__ import annotations

import html
import json
import re
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.cli.serve import Site
from strata.hosts import web
from strata.run.safety import lock

STRATA = Path(".venv/bin/strata").absolute()
pytestmark = pytest.mark.host


def strata(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(STRATA), *argv], capture_output=True, text=True, timeout=110)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of a workload that does nothing on a directory, one of them with a stack more."""
    root = tmp_path_factory.mktemp("runs")
    places = [root.parent / f"{root.name}-{name}" for name in ("one", "two")]
    for place in places:
        place.mkdir()
    for name, used in (("r1", places), ("r2", places[:1])):
        stacks = ", ".join(f"existing({place})" for place in used)
        done = strata("run", f"{{{stacks}}}", "-w", "null", "--rounds", "2", "--out", str(root / name))
        assert (root / name / "strata.db").exists(), done.stderr
    return root


@pytest.fixture
def served(runs: Path) -> Iterator[str]:
    with web.listening(0, Site([runs]).answer) as server:
        thread = threading.Thread(target=server.serve)
        thread.start()
        yield server.url
        server.stop()
        thread.join()


def get(url: str, **headers: str) -> tuple[int, str, dict[str, str]]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), dict(error.headers)


def test_the_list_leads_to_every_run_and_its_report(served: str, runs: Path) -> None:
    status, page, headers = get(served)
    assert status == 200 and headers["Refresh"] == "5"
    assert "2 of 2" in page and "4 of 4" in page and 'href="/run/r1"' in page and 'href="/run/r2"' in page
    status, page, headers = get(f"{served}run/r1")
    assert status == 200 and "Strata report" in page and "Refresh" not in headers
    with lock.locked(runs / "r1"):  # as while it goes on
        assert get(f"{served}run/r1")[2]["Refresh"] == "10"
        assert "running" in get(served)[1]


def test_several_runs_stand_side_by_side(served: str) -> None:
    status, page, _ = get(f"{served}joined?run=r1&run=r2")
    assert status == 200 and page.count("-one)") >= 1 and "r2 has not" not in page.replace("(r2) has not", "")
    assert "(r2) has not: existing(" in page
    assert "What changed from one to the other" in page
    filtered = get(f"{served}joined?run=r1&part=two")[1]
    assert "-two)" in filtered and "-one)</span>" not in filtered


def test_only_the_stacks_with_a_level_of_a_factor(served: str) -> None:
    page = get(f"{served}joined?run=r1&run=r2")[1]
    choice = re.search(r'<option value="([^"=]+=[^"]*-two[^"]*)"', page)
    assert choice is not None, "both stacks differ in what they stand on"
    only = get(f"{served}joined?run=r1&run=r2&factor={urllib.parse.quote(html.unescape(choice[1]))}")[1]
    assert " selected>" in only and "-one)</span>" not in only
    status, page, _ = get(f"{served}joined?run=r1&factor=layer%201=nosuch")
    assert status == 400 and "no stack of these runs has layer 1 nosuch" in page


def test_what_factors_do_is_a_page_too(served: str) -> None:
    status, page, _ = get(f"{served}factors/r1")
    assert status == 200 and "What the factors of r1 do" in page


def test_what_features_tried_is_led_to_and_is_no_load(runs: Path) -> None:
    tried = runs.parent / f"{runs.name}-features"
    place = runs.parent / f"{runs.name}-place"
    place.mkdir()
    asked = strata("features", f"existing({place})", "--out", str(tried))
    assert asked.returncode and "holds data of yours" in asked.stdout + asked.stderr
    out = str(tried / "directory")
    strata("run", f"existing({place})", "-w", "feature/compression", "--rounds", "1", "--out", out)
    done = strata("features", str(tried))
    assert (tried / "features.html").exists(), done.stderr
    site = Site([runs, tried])
    (name,) = [name for name in site.runs() if name.endswith("directory")]
    assert f'href="/features/{name}"' in site.answer("/", {}).body
    assert "What stacks can do" in site.answer(f"/features/{name}", {}).body
    refused = site.answer("/joined", {"run": [name]})
    assert refused.status == 400 and "no load" in refused.body


def test_what_is_not_there_is_said_in_a_sentence(served: str) -> None:
    assert get(f"{served}joined")[0] == 400
    status, body, _ = get(f"{served}joined?run=r1&run=nobody")
    assert status == 400 and "there is no run nobody here" in body
    assert get(f"{served}run/../../etc/passwd")[0] == 404
    assert get(f"{served}nope")[0] == 404
    assert get(f"{served}features/r1")[0] == 404
    status, page, _ = get(f"{served}joined?run=r1&part=zzz")
    assert status == 400 and "no stack of these runs has" in page


def test_only_this_machine_is_answered(served: str) -> None:
    assert served.startswith("http://127.0.0.1:")
    status, page, _ = get(served, Host="somebody.example:80")
    assert status == 403 and "Runs" not in page


def test_the_report_of_several_runs(runs: Path, tmp_path: Path) -> None:
    page = tmp_path / "joined.html"
    done = strata("report", str(runs / "r1"), str(runs / "r2"), "--out", str(page))
    assert done.returncode == 0, done.stderr
    assert page.exists() and "has not" in done.stdout
    told = json.loads(strata("report", str(runs / "r1"), str(runs / "r2"), "--json").stdout)
    assert [run["key"] for run in told["runs"]] == ["A", "B"]
    (table,) = told["tables"]
    assert len(table["rows"]) == 2 and table["rows"][1]["cells"][1]["value"] is None, "the second run has not this one"
    assert [column["title"] for column in table["columns"]] == ["A", "B", "B / A"]
    twice = strata("report", str(runs / "r1"), str(runs / "r1"))
    assert twice.returncode == 2 and "given twice" in twice.stderr


def test_a_port_that_another_has(served: str, runs: Path) -> None:
    done = strata("serve", str(runs), "--port", served.rstrip("/").rpartition(":")[2])
    assert done.returncode == 2 and "cannot be had" in done.stderr
    assert strata("serve", str(runs / "none")).returncode == 2
