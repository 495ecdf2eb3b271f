"""A run that goes on elsewhere says so: rounds measured there are no replicates of those before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.machine_facts import FACTS

from strata import campaign as campaigns
from strata import layers, workloads
from strata.errors import Refused
from strata.model import Rule, Testbed
from strata.run.campaign import Order, note_changes
from strata.store import reader
from strata.store.writer import Store

from .test_designs import Machine

LAB = {"lab 13": "image", "lab 13 machine": "key", "fio": "3.39"}


def test_another_machine_of_the_lab_is_told(tmp_path: Path) -> None:
    store = Store.create(
        tmp_path / "run", name="n", about="", source="", fingerprint="", description={}, seed=1, version="0", now=0.0
    )
    store.set_rule(Rule(), 0.0)
    nothing = cast("Any", None)
    asked = campaigns.from_expressions(
        ["disk | ext4"], ["null"], layers=layers.catalogue(), workloads=workloads.catalogue(), read_file=str
    )
    by_real_clock = replace(asked, testbed=Testbed("lab"))
    order = Order(by_real_clock, nothing, nothing, FACTS, LAB, ())
    note_changes(order, store, 1.0)
    assert store.versions() == {}
    store.add_facts(FACTS, LAB, {}, 1.0)
    note_changes(order, store, 2.0)
    assert store.versions() == LAB
    note_changes(replace(order, versions={**LAB, "lab 13 machine": "other", "fio": "3.40"}), store, 3.0)
    exact = replace(order, campaign=replace(asked, testbed=Testbed("lab", clock="virtual")))
    note_changes(exact, store, 4.0)
    with pytest.raises(Refused, match=r"the lab 13 machine was key and is other\. Give --out another directory"):
        note_changes(replace(exact, versions={**LAB, "lab 13 machine": "other"}), store, 5.0)
    told = [event.text for event in reader.view(store.directory).events if event.kind == "changed"]
    store.close()
    assert told == ["the lab 13 machine is another than before: key became other"]


MEASURED = {"strata": "1.0", "strata-engine": "1.0", "fio": "fio-3.33", "mkfs.ext4": "1.47.0", "lab 13": "image"}


@pytest.mark.parametrize("program", ["strata", "strata-engine", "fio", "mkfs.ext4"])
def test_a_run_does_not_go_on_with_another_version_of_a_program(tmp_path: Path, program: str) -> None:
    """Both halves would count as replicates."""
    machine = Machine(tmp_path / "run")
    machine.versions = dict(MEASURED)
    machine.run(Rule(rounds=2), visits=3)
    before = reader.view(tmp_path / "run")
    machine.versions[program] = "2.0"
    with pytest.raises(Refused, match=rf"3 visits .* {program} was {MEASURED[program]} and is 2\.0\. Continue with"):
        machine.run(Rule(rounds=5))
    after = reader.view(tmp_path / "run")
    assert (after.rule, after.events, len(after.trials)) == (before.rule, before.events, len(before.trials))
    machine.versions[program] = MEASURED[program]
    machine.versions["new"] = "1"  # asked for by a newer campaign loop only
    assert machine.run(Rule(rounds=2)).visits_done == 2 * 25


def test_before_anything_was_measured_another_version_is_as_good(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "run")
    machine.versions = dict(MEASURED)
    machine.run(Rule(rounds=1), visits=0)
    machine.versions["fio"] = "fio-3.40"
    assert machine.run(Rule(rounds=1)).visits_done == 25
