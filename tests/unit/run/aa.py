"""A stack against itself, through everything that a real campaign goes through but the machine.

python tests/unit/run/aa.py 2000        prints how many of 2000 campaigns called the two different
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.research.noise import Noise
from scipy import stats
from tests.fake_host import FakeHost

from strata import campaign as campaigns
from strata import layers, workloads
from strata.analysis import rank
from strata.model import Command, Rule
from strata.planning import plan as planning
from strata.planning.resources import Resources
from strata.run import campaign as running
from strata.run.signals import Interrupts
from strata.run.sites.parallel import Worker
from strata.run.sites.site import LastingSites
from strata.store import reader

# Two names for one thing. A visit of the notes' machine takes 20 s to build and 60 s to measure.
EXPRESSION = "existing(/srv) | {null(a), null(b)}"
VISIT_H = 80 / 3600


def is_there(command: Command) -> str | None:
    """The answer of a machine on which every directory is as it should be."""
    return "directory\n" if command.argv[0] == "stat" else None


def called_different(seed: int, rounds: int, directory: Path) -> bool:
    """One campaign from its expression to its ranking; True when one of the two equals was said to be better."""
    noise = Noise(seed)
    done = 0

    def wall_s(path: str) -> float:
        nonlocal done
        done += 1
        return 10.0 * math.exp(-noise.draw("the one stack", done * VISIT_H, visit=done))

    host = FakeHost(wall_s=wall_s, respond=is_there, clock=lambda: done * 80.0)
    campaign = campaigns.from_expressions(
        [EXPRESSION],
        ["null"],
        layers=layers.catalogue(),
        workloads=workloads.catalogue(),
        read_file=lambda name: "",
    )
    drivers = layers.drivers()
    loads = [(call, workloads.find(call)) for call in campaign.workloads]
    facts = host.facts((), "/")
    plan = planning.make(campaign.stacks, loads, drivers, Resources(facts, ()))
    order = running.Order(campaign, plan, Rule(rounds=rounds), facts, {"strata": "test"}, frozenset())
    store = running.create(directory, order, 0.0)
    try:
        running.execute(
            order,
            store,
            [Worker(LastingSites(host, store.identity().uuid, "/work", host.now, host.now), Interrupts())],
            drivers,
            lambda progress: None,
        )
    finally:
        store.close()
    ranking = rank.rank(reader.view(directory))
    assert len(ranking.rows) == 2, ranking.unranked
    return any(row.decision in ("worse", "better") for row in ranking.rows) or len(ranking.tied) < 2


def rate(campaigns_: int, rounds: int = 5) -> dict[str, float]:
    """Share of campaigns that called equals different, with the upper end of its 95 % Clopper-Pearson interval."""
    root = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    try:
        wrong = 0
        for seed in range(campaigns_):
            directory = root / str(seed)
            wrong += called_different(seed, rounds, directory)
            shutil.rmtree(directory)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    upper = float(stats.beta.ppf(0.975, wrong + 1, campaigns_ - wrong)) if wrong < campaigns_ else 1.0
    return {"campaigns": campaigns_, "called_different": wrong, "rate": wrong / campaigns_, "upper_95": upper}


if __name__ == "__main__":
    print(json.dumps(rate(int(sys.argv[1]))))
