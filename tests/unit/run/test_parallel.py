"""Several visits at once: each once, the rest left when one fails, and only where they cannot disturb each other."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fake_host import FakeHost

from strata import campaign as campaigns
from strata import layers, workloads
from strata.errors import BadInput, HostLost, Interrupted, Refused
from strata.model import Command, Rule, Testbed
from strata.run import campaign as running
from strata.run import parallel
from strata.run import plan as planning
from strata.run.parallel import Worker
from strata.run.progress import Progress, TrialEnded, VisitEnded, VisitStarted
from strata.run.signals import Interrupts
from strata.run.sites import LastingSites
from strata.store import reader

STACKS = "existing(/srv) | null({a, b, c, d, e, f})"
EXACT = Testbed("lab", clock="virtual", memory_bytes=8 << 30)


def workers(number: int, host: Callable[[], FakeHost] = FakeHost) -> list[Worker]:
    return [Worker(LastingSites(host(), "1" * 32, "/work", lambda: 0.0), Interrupts()) for _ in range(number)]


@pytest.mark.parametrize("number", [1, 2, 5])
def test_every_item_once_and_all_at_work(number: int) -> None:
    together = threading.Barrier(number)
    done: list[int] = []

    def work(worker: Worker, item: int) -> None:
        if item < number:
            together.wait(30)  # would never pass if they came one after the other
        done.append(item)

    parallel.each(range(20), workers(number), work)
    assert sorted(done) == list(range(20))


def test_after_one_that_fails_none_begins_and_those_under_way_end() -> None:
    under_way, failed = threading.Event(), threading.Event()
    done: list[int] = []

    def work(worker: Worker, item: int) -> None:
        if item == 0:
            under_way.wait(30)
            failed.set()
            raise HostLost("gone")
        under_way.set()
        failed.wait(30)
        done.append(item)

    with pytest.raises(HostLost, match="gone"):
        parallel.each(range(50), workers(2), work)
    assert 1 in done and len(done) < 49


def test_only_by_the_virtual_clock_and_only_as_many_as_fit() -> None:
    parallel.check(Testbed(), 1, 0)
    parallel.check(EXACT, 1, 0)  # whether one fits is asked when it is started
    parallel.check(EXACT, 2, 16 << 30)
    with pytest.raises(BadInput, match="--on lab --clock virtual"):
        parallel.check(replace(EXACT, clock="real"), 2, 64 << 30)
    with pytest.raises(Refused, match=r"3 lab machines of 8\.0 GiB do not fit in the 20\.0 GiB .* take --jobs 2"):
        parallel.check(EXACT, 3, 20 << 30)


def run(directory: Path, number: int, told: list[Progress]) -> None:
    """Six stacks, two rounds, as many in parallel; how long a trial takes depends on the stack alone."""

    def host() -> FakeHost:
        def respond(command: Command) -> str | None:
            return "directory\n" if command.argv[0] == "stat" else None

        return FakeHost(wall_s=lambda path: 10.0, respond=respond)

    campaign = campaigns.from_expressions(
        [STACKS], ["null"], layers=layers.catalogue(), workloads=workloads.catalogue(), read_file=lambda name: ""
    )
    drivers = layers.drivers()
    loads = [(call, workloads.find(call)) for call in campaign.workloads]
    facts = host().facts((), "/")
    plan = planning.make(campaign.stacks, loads, drivers, facts, (), None)
    order = running.Order(campaign, plan, Rule(rounds=2), facts, {"strata": "test"}, frozenset())
    store = running.create(directory, order, 0.0)
    try:
        running.execute(order, store, workers(number, host), drivers, told.append)
    finally:
        store.close()


def test_a_run_has_every_visit_and_tells_one_after_the_other(tmp_path: Path) -> None:
    told: list[Progress] = []
    run(tmp_path / "run", 4, told)
    view = reader.view(tmp_path / "run")
    assert view.visits_done == view.visits_planned == 12 and not view.failed
    assert len({(trial.stack, trial.round) for trial in view.trials}) == 12
    words = [event for event in told if isinstance(event, VisitStarted | TrialEnded | VisitEnded)]
    assert len(words) == 36
    for number in range(12):
        started, trial, ended = words[3 * number : 3 * number + 3]
        assert isinstance(started, VisitStarted) and isinstance(trial, TrialEnded) and isinstance(ended, VisitEnded)
        assert started.stack == trial.stack == ended.stack
        assert started.number == ended.done == number + 1


def test_a_signal_reaches_all_that_go_on_and_each_holds_it_alone() -> None:
    main = Interrupts()
    listening = main.listening()
    listening.__enter__()
    first, second = main.beside(), main.beside()
    signal.raise_signal(signal.SIGTERM)
    with first.held():
        first.check()
        assert first.descriptor() is None and second.descriptor() is not None
        with pytest.raises(Interrupted, match="SIGTERM"):
            second.check()
        second.check()  # raised once
    with pytest.raises(Interrupted):
        first.check()
    with pytest.raises(Interrupted):
        listening.__exit__(None, None, None)
