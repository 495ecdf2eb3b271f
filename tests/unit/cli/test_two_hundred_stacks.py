"""One campaign of 200 stacks on a fake machine: every command that reads it stays usable, in bounded memory."""

from __future__ import annotations

import re
import tracemalloc
from pathlib import Path

import pytest
from tests.fake_host import FakeHost

from strata import campaign as campaigns
from strata import layers, workloads
from strata.cli import report, status, verdict
from strata.model import Command, Rule
from strata.report import html, markdown
from strata.run import campaign as running
from strata.run import plan as planning
from strata.run.parallel import Worker
from strata.run.signals import Interrupts
from strata.run.sites import LastingSites
from strata.store import reader

pytestmark = pytest.mark.slow

COUNT, ROUNDS = 200, 2
TAGS = ", ".join(f"a-tag-long-enough-to-be-wrapped-{number:03}" for number in range(COUNT))
MOST_BYTES = 300 << 20
MOST_OF_A_PAGE = 10 << 20


def is_there(command: Command) -> str | None:
    return "directory\n" if command.argv[0] == "stat" else None


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    host = FakeHost(wall_s=lambda path: 10.0 + int(re.findall(r"\d+", path)[-1]) % 7, respond=is_there)
    campaign = campaigns.from_expressions(
        [f"existing(/srv) | null({{{TAGS}}})"],
        ["null"],
        layers=layers.catalogue(),
        workloads=workloads.catalogue(),
        read_file=lambda name: "",
    )
    drivers = layers.drivers()
    facts = host.facts((), "/")
    loads = [(call, workloads.find(call)) for call in campaign.workloads]
    plan = planning.make(campaign.stacks, loads, drivers, facts, (), None)
    assert len(plan.runnable) == COUNT
    order = running.Order(campaign, plan, Rule(rounds=ROUNDS), facts, {"strata": "test"}, frozenset())
    made = tmp_path_factory.mktemp("many") / "run"
    store = running.create(made, order, 0.0)
    try:
        worker = Worker(LastingSites(host, store.identity().uuid, "/work", host.now, host.now), Interrupts())
        running.execute(order, store, [worker], drivers, lambda progress: None)
    finally:
        store.close()
    return made


def test_every_visit_is_stored(directory: Path) -> None:
    view = reader.view(directory)
    assert (view.visits_done, view.visits_planned, len(view.stacks)) == (COUNT * ROUNDS, COUNT * ROUNDS, COUNT)


def test_every_command_that_reads_it_comes_to_its_end(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tracemalloc.start()
    try:
        status.status(directory, as_json=False)
        verdict.verdict(directory, False, None, None)
        report.report(directory, "html", None, report.Beside(None, None, (), ()))
        report.report(directory, "markdown", None, report.Beside(None, None, (), ()))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    said = capsys.readouterr().out
    assert f"{COUNT * ROUNDS} of {COUNT * ROUNDS} visits" in said
    assert peak_bytes < MOST_BYTES
    page = directory / "report.html"
    assert page.stat().st_size < MOST_OF_A_PAGE
    assert page.read_text().count("a-tag-long-enough-to-be-wrapped-199") >= 1


def test_the_answer_stands_before_the_two_hundred_rows(directory: Path) -> None:
    model = verdict.model_of(directory)
    for text in (markdown.render(model), html.render(model)):
        assert -1 < text.lower().find("tie") < text.find("a-tag-long-enough-to-be-wrapped-150")
