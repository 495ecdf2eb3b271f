"""The designs through everything that a real campaign goes through but the machine: stored, resumed, asked for more."""

from __future__ import annotations

import math
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fake_host import FakeHost

from strata import campaign as campaigns
from strata import layers, workloads
from strata.analysis import checks, doubts
from strata.analysis.evidence import CERTIFYING
from strata.analysis.modelled import ranking
from strata.model import Command, Design, Rule, View
from strata.run import campaign as running
from strata.run import plan as planning
from strata.run.parallel import Worker
from strata.run.progress import Decided, VisitEnded, VisitStarted
from strata.run.signals import Interrupts
from strata.run.sites import LastingSites
from strata.store import reader
from strata.store.writer import Store

STACKS = "existing(/srv) | null({a, b, c, d, e}) | null({f, g, h, i, j})"
GOOD = {"a": 0.0, "b": 0.3, "c": 0.1, "d": -0.2, "e": 0.2, "f": 0.0, "g": -0.3, "h": 0.25, "i": 0.1, "j": -0.1}


class Machine:
    """Whose trials take as long as the stack being visited is good, and some noise."""

    def __init__(self, directory: Path, expression: str = STACKS, noise: float = 0.02) -> None:
        self.directory = directory
        campaign = campaigns.from_expressions(
            [expression],
            ["null"],
            layers=layers.catalogue(),
            workloads=workloads.catalogue(),
            read_file=lambda name: "",
        )
        self.campaign = replace(campaign, seed=7)  # what a rule draws by
        self.noise = noise
        self.visits = 0
        self.stack = ""
        self.decisions: list[str] = []
        self.took_s: list[float] = []
        self.versions = {"strata": "test"}
        self.command_s = 0.0  # what a command takes
        self.step_s = 0.0  # by which somebody sets the wall clock after 30 commands

    def run(self, rule: Rule, visits: int | None = None) -> View:
        """Until it stops, or is killed before visit number `visits` of this call."""
        chance = random.Random(self.visits)

        def wall_s(path: str) -> float:
            level = sum(GOOD[tag] for tag in re.findall(r"null\((\w)\)", self.stack))
            return 10.0 * math.exp(-level + chance.gauss(0, self.noise))

        def respond(command: Command) -> str | None:
            return "directory\n" if command.argv[0] == "stat" else None

        def elapsed() -> float:
            return self.visits * (0.0 if self.command_s else 80.0) + len(host.commands) * self.command_s

        def clock() -> float:
            return 1e6 + elapsed() + (self.step_s if len(host.commands) > 30 else 0.0)

        host = FakeHost(wall_s=wall_s, respond=respond, clock=clock)
        drivers = layers.drivers()
        loads = [(call, workloads.find(call)) for call in self.campaign.workloads]
        facts = host.facts((), "/")
        plan = planning.make(self.campaign.stacks, loads, drivers, facts, (), None)
        order = running.Order(self.campaign, plan, rule, facts, self.versions, frozenset())
        there = (self.directory / "strata.db").exists()
        store = Store.resume(self.directory) if there else running.create(self.directory, order, 0.0)
        first = self.visits

        def listen(progress: object) -> None:
            if isinstance(progress, VisitStarted):
                if visits is not None and self.visits - first >= visits:
                    raise KeyboardInterrupt
                self.stack = progress.stack
                self.visits += 1
            elif isinstance(progress, Decided):
                self.decisions.append(progress.text)
            elif isinstance(progress, VisitEnded):
                self.took_s.append(progress.took_s)

        try:
            sites = LastingSites(host, store.identity().uuid, "/work", host.now, elapsed)
            running.execute(order, store, [Worker(sites, Interrupts())], drivers, listen)
        except KeyboardInterrupt:
            pass
        finally:
            store.close()
        return reader.view(self.directory)


def test_a_campaign_decides_for_itself_how_to_visit(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "run")
    view = machine.run(Rule(design="auto"))
    assert view.rule.design == "adaptive"
    said = [event.text for event in view.events if event.kind == "design"]
    assert len(said) == 1
    assert said[0].startswith("Design: adaptive, because 25 stacks share the levels of 2 factors (tag, tag 2), so ")
    seen = ranking(view)
    assert seen.best == "existing(/srv) | null(b) | null(h)"
    assert [event.text for event in view.events if event.kind == "decision"] == machine.decisions
    assert machine.decisions[-1].startswith("Stopped: existing(/srv) | null(b) | null(h) is the one to choose")
    assert view.visits_done == view.visits_planned == machine.visits
    assert reader.status(tmp_path / "run").decision == machine.decisions[-1]
    assert doubts.warnings(view) == ()


@pytest.mark.parametrize("step_s", [-3600.0, 3600.0])
def test_a_budget_and_durations_do_not_follow_a_clock_that_is_set(tmp_path: Path, step_s: float) -> None:
    """Every command takes a second. Within the third visit the wall clock goes an hour back or on."""
    machines = [Machine(tmp_path / name) for name in ("steady", "set")]
    machines[1].step_s = step_s
    for machine in machines:
        machine.command_s = 1.0
        machine.run(Rule(design="adaptive", budget_s=150.0))
    steady, stepped = machines
    assert stepped.took_s == steady.took_s
    assert 0.0 < min(steady.took_s) <= sum(steady.took_s) <= 150.0
    assert 3 < steady.visits < 25


def test_killed_in_a_batch_it_goes_on_and_counts_every_visit_once(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "run", noise=0.05)
    view = machine.run(Rule(design="adaptive"), visits=19)
    assert view.visits_done == 19
    view = machine.run(Rule(design="adaptive"))
    assert len({(trial.stack, trial.round) for trial in view.trials}) == len(view.trials) == view.visits_done
    assert view.visits_planned == view.visits_done
    assert ranking(view).best is not None


def test_more_confidence_later(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "run", noise=0.04)
    quick = machine.run(Rule(design="adaptive", confidence=0.8))
    view = machine.run(Rule(design="adaptive", confidence=0.95, certify=True))
    assert view.trials[: len(quick.trials)] == quick.trials
    assert any(trial.round >= CERTIFYING for trial in view.trials)
    assert any("ertified" in said for said in ranking(view).sentences)


def test_more_confidence_goes_on_from_the_visits_that_are_there(tmp_path: Path) -> None:
    """No visit is made again: the second step begins where the first ended, and needs fewer than a fresh run has."""
    machine = Machine(tmp_path / "run", noise=0.2)
    machine.campaign = replace(machine.campaign, seed=6)
    quick = machine.run(Rule(design="adaptive", confidence=0.6))
    assert ranking(quick).best is not None
    whole = machine.run(Rule(design="adaptive", confidence=0.99))
    assert whole.trials[: len(quick.trials)] == quick.trials
    assert machine.visits == whole.visits_done > quick.visits_done > 0
    assert ranking(whole).sure is not None and ranking(whole).sure >= 0.99  # type: ignore[operator]


def test_a_front_has_a_fixed_number_of_visits(tmp_path: Path) -> None:
    """Of two figures: how long a trial takes, and how long building does, which is the same for all here."""
    machine = Machine(tmp_path / "run", noise=0.04)
    view = machine.run(Rule(design="auto", objective="pareto:duration_s,create_s"))
    assert view.rule.design == "adaptive"
    assert "a front is wanted" in next(event.text for event in view.events if event.kind == "design")
    assert view.visits_done == 50
    assert machine.decisions[-1] == "Stopped: all 50 visits for the front of duration_s, create_s are made."
    seen = ranking(view)
    assert seen.best is None and not seen.undecided
    assert seen.sentences[0].startswith("On the front of duration_s, create_s: ")
    assert "existing(/srv) | null(b) | null(h): " in seen.sentences[1]
    quick = Machine(tmp_path / "quick").run(Rule(design="auto", confidence=0.8, objective="pareto:duration_s,create_s"))
    assert quick.visits_done == 25


def test_a_front_of_one_visit_each_states_no_chance(tmp_path: Path) -> None:
    view = Machine(tmp_path / "run").run(Rule(rounds=1, objective="pareto:duration_s,create_s"))
    seen = ranking(view)
    assert seen.sentences[0].startswith("One visit each with a figure of duration_s, create_s: nothing is known of ")
    assert not any("1.00" in said for said in seen.sentences)


def test_a_race_of_few(tmp_path: Path) -> None:
    view = Machine(tmp_path / "run", "existing(/srv) | null({a, b, c, d})").run(Rule(design="auto"))
    assert view.rule.design == "race"
    assert ranking(view).best == "existing(/srv) | null(b)"


def test_a_race_that_was_to_be_certified_says_that_nothing_will_be(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "run", "existing(/srv) | null({a, b, c, d})")
    view = machine.run(Rule(design="auto", certify=True), visits=6)
    assert (view.rule.design, view.rule.certify) == ("race", False)
    said = [event.text for event in view.events if event.kind == "design"]
    assert said[0].startswith("Design: race, because for 4 stacks ")
    assert said[0].endswith("Nothing is certified: a race is judged without a model, so it is its own certificate.")
    assert ranking(machine.run(view.rule)).best == "existing(/srv) | null(b)"


def test_rounds_lowered_while_some_are_to_come_are_said(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "run", "existing(/srv) | null({a, b})")
    machine.run(Rule(rounds=6), visits=5)
    view = machine.run(Rule(rounds=3))
    assert any("rounds lowered from 6 to 3 after 5 of 12 visits" in caution.text for caution in checks.warnings(view))
    # A race may be looked at as often as one likes.
    view = machine.run(Rule(design="race"))
    assert [caution for caution in checks.warnings(view) if caution.kind == "peeked"] == []


def test_rounds_lowered_when_all_are_made_take_nothing_away(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "run", "existing(/srv) | null({a, b})")
    machine.run(Rule(rounds=4))
    view = machine.run(Rule(rounds=3))
    assert [caution for caution in checks.warnings(view) if caution.kind == "peeked"] == []


@pytest.mark.parametrize("design", ["race", "adaptive"])
def test_rounds_after_another_way_say_that_figures_were_seen_first(tmp_path: Path, design: Design) -> None:
    machine = Machine(tmp_path / "run", "existing(/srv) | null({a, b, c, d})")
    machine.run(Rule(design=design), visits=6)
    machine.run(Rule(design="rounds", rounds=3))
    view = machine.run(Rule(design="rounds", rounds=3))
    said = f"rounds were asked for after {design} had chosen visits by what it saw, 6 so far"
    assert [event.text for event in view.events if event.kind == "extended"] == [said]
    peeked = [caution.text for caution in checks.warnings(view) if caution.kind == "peeked"]
    assert len(peeked) == 1 and said in peeked[0]


def test_rounds_before_any_visit_and_another_way_after_rounds_are_no_looking_first(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "run", "existing(/srv) | null({a, b, c, d})")
    machine.run(Rule(design="race"), visits=0)
    machine.run(Rule(design="rounds", rounds=2), visits=3)
    machine.run(Rule(design="rounds", rounds=2))
    view = machine.run(Rule(design="race", rounds=5))
    assert [caution for caution in checks.warnings(view) if caution.kind == "peeked"] == []


def test_rounds_raised_are_said(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "run", "existing(/srv) | null({a, b})")
    machine.run(Rule(rounds=1))
    view = machine.run(Rule(rounds=3))
    # One round decides nothing, so nothing followed from that look.
    assert [caution for caution in checks.warnings(view) if caution.kind == "peeked"] == []
    view = machine.run(Rule(rounds=5))
    assert any("rounds raised from 3 to 5" in caution.text for caution in checks.warnings(view))


@pytest.mark.parametrize("noise", [0.5])
def test_noise_too_high_for_the_question_is_said(tmp_path: Path, noise: float) -> None:
    view = Machine(tmp_path / "run", noise=noise).run(Rule(design="adaptive"), visits=150)
    kinds = {doubt.kind for doubt in doubts.warnings(view)}
    assert "noise" in kinds
    assert ranking(view).best is None
    assert ranking(view).sentences[0].startswith("Not settled: ")
