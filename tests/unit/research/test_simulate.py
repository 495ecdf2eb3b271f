"""The made-up campaigns, and the peers' rules on machines of known answers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from benchmarks.research.noise import Noise
from benchmarks.research.simulate.__main__ import main
from benchmarks.research.simulate.peers import halving, interleaved, phoronix, sequential
from benchmarks.research.simulate.tally import Campaign, at_most, judge, summary
from benchmarks.research.simulate.truth import LEVELS, NOISES, Pretended, Truth, machine_of, truth_of


class Scripted:
    """A machine that gives what it is told to, in order, for every stack."""

    def __init__(self, values: list[list[float]]) -> None:
        self.truth = Truth(np.zeros((len(values), 0), dtype=np.int64), np.zeros(len(values)))
        self.seconds = 0.0
        self.runs = [0] * len(values)
        self._values = values

    def visit(self, stack: int, trials: int = 1) -> list[float]:
        return [self.more(stack) for _ in range(trials)]

    def more(self, stack: int) -> float:
        value = self._values[stack][self.runs[stack] % len(self._values[stack])]
        self.runs[stack] += 1
        return value


def logs(*figures: float) -> list[float]:
    return [float(np.log(figure)) for figure in figures]


def test_phoronix_runs_three_times_where_runs_agree_and_up_to_fifteen_where_they_do_not() -> None:
    calm = logs(100, 101, 100)
    wild = logs(100, 130, 80)
    # The spread falls to less than half of the first: beyond 12 runs that is no reason to go on, so the code says.
    settling = logs(100, 130, 80, *[103] * 30)
    machine = Scripted([calm, wild, settling])
    phoronix(machine)
    assert machine.runs == [3, 15, 12]


def test_calm_after_more_runs_ends_it() -> None:
    machine = Scripted([logs(100, 100, 106, *[101.5] * 30)])
    phoronix(machine)
    assert 3 < machine.runs[0] < 15


def test_every_peer_names_the_best_on_a_calm_machine() -> None:
    truth = truth_of(30, 3)
    calm = Noise(1, spread=(0.0, 0.0), visit_share=0.0, bimodal=0.0, interference=0.0, drift=0.0)
    best = int(np.argmax(truth.level))
    chance = np.random.default_rng(1)
    assert sequential(Pretended(truth, calm), 3).chosen == best
    assert interleaved(Pretended(truth, calm), 3, chance).chosen == best
    assert phoronix(Pretended(truth, calm)).chosen == best
    assert halving(Pretended(truth, calm), chance).chosen == best


def test_hours_are_those_of_the_visits() -> None:
    machine = machine_of(truth_of(30, 1), 1)
    sequential(machine, 5)
    assert machine.seconds == 30 * (20 + 5 * 60)
    machine = machine_of(truth_of(30, 1), 1)
    interleaved(machine, 5, np.random.default_rng(1))
    assert machine.seconds == 30 * 5 * 80


@pytest.mark.parametrize("noise", list(NOISES))
@pytest.mark.parametrize("stacks", list(LEVELS))
def test_campaigns_are_the_same_again(stacks: int, noise: str) -> None:
    truth = truth_of(stacks, 4, noise)
    assert truth.level.size == stacks
    assert np.array_equal(truth.level, truth_of(stacks, 4, noise).level)
    first, second = (machine_of(truth, 4, noise).visit(7, 3) for _ in range(2))
    assert first == second


def test_an_error_is_more_than_the_margin_below_the_best() -> None:
    machine = machine_of(truth_of(30, 1), 1)
    ended = sequential(machine, 3)
    seen = judge(ended, machine)
    assert seen.wrong == (seen.below > -np.log(0.97))
    assert seen.hours == machine.seconds / 3600


def test_none_wrong_still_leaves_errors_possible() -> None:
    """Against the definition: as few as were seen wrong, or fewer, has a chance of 5 % at the limit."""
    assert at_most(0, 60) == pytest.approx(1 - 0.05 ** (1 / 60))
    limit = at_most(2, 40)
    assert sum(math.comb(40, k) * limit**k * (1 - limit) ** (40 - k) for k in range(3)) == pytest.approx(0.05)
    assert at_most(12, 12) == 1
    made = [Campaign(1.0, wrong, 0.0, None, True, 1, 1, True, None) for wrong in (False, False)]
    assert summary("s", made).wrong_at_most == pytest.approx(1 - 0.05**0.5)


def test_the_document_shows_the_table_that_was_made_and_the_limits_of_its_campaigns() -> None:
    documents = Path(__file__).parents[3] / "docs/concepts"
    assert (documents / "deciding/table.md").read_text() in (documents / "deciding.md").read_text()
    for path in documents.glob("deciding/**/*.json"):
        for row in json.loads(path.read_text())["strategies"]:
            limit = at_most(round(row["wrong"] * row["campaigns"]), row["campaigns"])
            assert row["wrong_at_most"] == pytest.approx(limit, abs=5e-5), path


def test_the_command_prints_what_a_program_can_read(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--stacks", "30", "--campaigns", "2", "--seed", "3", "--only", "x3", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert (said["stacks"], said["campaigns"], said["seed"], said["noise"]) == (30, 2, 3, "realistic")
    assert [row["strategy"] for row in said["strategies"]] == [
        "matrix x3, one after the other",
        "matrix x3, interleaved",
    ]
    main(["--stacks", "30", "--campaigns", "1", "--only", "halving"])
    assert "successive halving" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="no strategy is called"):
        main(["--only", "nothing like that"])
