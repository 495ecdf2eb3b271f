"""A data set of known make is taken apart rightly, and every strategy can be run on it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from benchmarks.research.dataset import frame, halves
from benchmarks.research.replay import Replayed, main, noise_of, recorded
from benchmarks.research.simulate.tally import STRATEGIES
from tests.unit.design.learning import campaign, empty, grid

from strata.errors import BadInput
from strata.model import Outcome, Rule, TrialResult

ROUNDS = 20
PILOT = Path(__file__).parents[3] / "docs" / "concepts" / "deciding" / "pilot" / "visits.parquet"


def made_up(seed: int = 1, spread: float = 0.03) -> pl.DataFrame:
    """16 stacks of two factors, 20 interleaved rounds; the machine gets 10 % slower."""
    chance = np.random.default_rng(seed)
    rows = []
    for number in range(ROUNDS):
        for place, k in enumerate(chance.permutation(16)):
            a, b = divmod(int(k), 4)
            hour = (number * 16 + place) / 45
            value = 0.3 * a - 0.2 * b - 0.1 * number / ROUNDS + chance.normal(0, spread)
            levels = {"factor: fs": f"fs{a}", "factor: cache": f"cache{b}"}
            rows.append({"stack": f"{a}-{b}", "round": number, "hour": hour, "value": value, **levels})
    return pl.DataFrame(rows)


def test_it_is_taken_apart() -> None:
    found = recorded(made_up())
    truth = dict(zip(found.stacks, found.truth.level, strict=True))
    assert max(truth, key=lambda stack: truth[stack]) == "3-0"
    assert truth["0-0"] - truth["3-0"] == pytest.approx(-0.9, abs=0.03)
    assert found.truth.codes.shape == (16, 2)
    noise = noise_of(found)
    assert noise.spread_middle == pytest.approx(0.03, rel=0.2)
    assert noise.drift_range == pytest.approx(0.095, abs=0.03)
    assert (noise.stacks, noise.visits) == (16, 16 * ROUNDS)


def known() -> pl.DataFrame:
    """Three stacks at 0, 0.3 and 0.5, eight rounds an hour apart that each gain 0.1. The first stack's visits swing by
    0.04, the second's by 0.01 the other way, and in the last two rounds by half. Nothing swings in the third.
    """
    swing = [(0.04, -0.01), (-0.04, 0.01)] * 3 + [(0.04, -0.5), (-0.04, 0.5)]
    rows = []
    for number, (first, second) in enumerate(swing):
        for place, (level, rest) in enumerate(((0.0, first), (0.3, second), (0.5, 0.0))):
            hour, value = 7.0 + number + 0.1 * place, level + 0.1 * number + rest
            rows.append({"stack": f"s{place}", "hour": hour, "value": value, "factor: fs": f"fs{place}"})
    return pl.DataFrame(rows)


def test_a_data_set_without_chance_is_taken_apart_exactly() -> None:
    found = recorded(known())
    assert found.stacks == ("s0", "s1", "s2") and found.factors == ("fs",)
    assert found.truth.level == pytest.approx([-0.5, -0.2, 0.0])
    assert found.drift == pytest.approx([0.1 * (number - 3.5) for number in range(8)])
    assert found.hours == pytest.approx([0.1 + number for number in range(8)])
    assert found.rest[0] == pytest.approx([0.04, -0.04] * 4)
    assert found.rest[1] == pytest.approx([-0.01, 0.01] * 3 + [-0.5, 0.5])
    assert found.rest[2] == pytest.approx([0.0] * 8)
    longer = pl.concat([known(), known().head(1).with_columns(hour=pl.lit(20.0), value=pl.lit(9.0))])
    again = recorded(longer)
    assert again.truth.level == pytest.approx(found.truth.level), "rounds that not all stacks have are left out"
    shuffled = recorded(known().sample(fraction=1.0, shuffle=True, seed=1))
    assert shuffled.rest[int(shuffled.stacks.index("s1"))] == pytest.approx(found.rest[1])


def test_the_course_of_the_machine_is_around_nothing() -> None:
    """Also where one stack was off in a round, and the middle of all stacks moves."""
    odd = (
        known()
        .with_row_index()
        .with_columns(value=pl.col("value") + pl.when(pl.col("index") == 21).then(1.0).otherwise(0.0))
    )
    assert recorded(odd).drift.mean() == pytest.approx(0.0, abs=1e-12)


def test_its_noise_is_that_of_its_parts() -> None:
    noise = noise_of(recorded(known()))
    assert (noise.stacks, noise.visits, noise.hours) == (3, 24, pytest.approx(7.0))
    assert noise.spread_low == pytest.approx(0.0, abs=1e-12)
    assert noise.spread_middle == pytest.approx(0.04 * (8 / 7) ** 0.5)
    assert noise.spread_high == pytest.approx(((6 * 0.01**2 + 2 * 0.5**2) / 7) ** 0.5)
    assert noise.drift_range == pytest.approx(0.7)
    assert noise.drift_spread == pytest.approx(0.1 * 6**0.5)
    assert noise.outliers == pytest.approx(2 / 24)
    assert noise.two_modes == pytest.approx(1 / 3), "the first stack's"
    assert (noise.visit_share, noise.pressure_share) == (None, None)


def test_visits_in_two_groups_are_seen_where_there_are_enough() -> None:
    assert noise_of(recorded(known().filter(pl.col("hour") < 14))).two_modes == 0.0


def test_a_replayed_machine_follows_the_recorded_course_over_and_over() -> None:
    machine = Replayed(recorded(known()), 1)
    machine.seconds = 3600 * 2.6 - 20
    # Half way between the rounds at 2.1 and 3.1 hours, and a trial of a minute later.
    assert machine.visit(2, 2) == pytest.approx([0.1 * (2.5 - 3.5), 0.1 * (2.5 + 1 / 60 - 3.5)])
    assert machine.seconds == pytest.approx(3600 * 2.6 + 120)
    machine.seconds = 3600 * (7.1 + 2.6)
    assert machine.more(2) == pytest.approx(0.1 * (2.5 - 3.5))
    machine.seconds = 0.0
    assert machine.more(2) == pytest.approx(-0.35)


def test_draw_n_of_a_stack_is_the_same_whatever_came_between() -> None:
    found = recorded(known().with_columns(value=pl.col("value") - 0.1 * (pl.col("hour") - 7.0).floor()))
    one, other, third = Replayed(found, 1), Replayed(found, 1), Replayed(found, 2)
    alone = [one.more(1) for _ in range(12)]
    between = []
    for _ in range(12):
        other.more(0)
        between.append(other.more(1))
    assert between == pytest.approx(alone)
    assert len({round(value, 6) for value in alone}) > 1
    assert [third.more(1) for _ in range(12)] != pytest.approx(alone)


def test_a_visit_is_drawn_from_the_stacks_own() -> None:
    found = recorded(made_up())
    machine, again = Replayed(found, 1), Replayed(found, 1)
    values = [machine.visit(0)[0] for _ in range(200)]
    assert values == [again.visit(0)[0] for _ in range(200)]
    assert np.mean(values) == pytest.approx(found.truth.level[0], abs=0.06)
    assert machine.seconds == 200 * 80


def test_every_strategy_runs_on_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pilot.parquet"
    made_up().write_parquet(file)
    main([str(file), "--campaigns", "3", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert [row["strategy"] for row in said["strategies"]] == list(STRATEGIES)
    rows = {row["strategy"]: row for row in said["strategies"]}
    assert rows["adaptive, 95 %"]["wrong"] == 0
    assert rows["matrix x10, interleaved"]["hours"] == pytest.approx(16 * 10 * 80 / 3600, abs=1e-3)
    main([str(file), "--campaigns", "1", "--only", "x3"])
    assert "16 stacks, 320 visits" in capsys.readouterr().out


def test_a_run_becomes_a_data_set() -> None:
    from strata.design.rounds import next_batch

    factors = grid(3, 2)
    view, _ = campaign(empty(factors, Rule(rounds=6)), next_batch, lambda stack, n: 0.1 * int(stack[0]) + 0.001 * n)
    data = frame(view)
    assert data.height == 36
    told = {"stack", "round", "hour", "value", "early", "late", "cpu_pressure", "io_pressure"}
    figures = {column for column in data.columns if column.endswith(")")}
    assert figures and set(data.columns) == told | figures | {"factor: factor 0", "factor: factor 1", "lab"}
    assert recorded(data).truth.codes.shape == (6, 2)


@pytest.mark.parametrize(("share", "load"), [(0.0, 0.0), (0.5, 0.0), (1.0, 0.0), (0.5, 0.8)])
def test_what_a_visit_shares_and_what_goes_with_load_is_found(share: float, load: float) -> None:
    chance = np.random.default_rng(3)
    data = made_up(spread=0.0)
    n, spread = data.height, 0.05
    busy = chance.normal(0, 1, n)
    visit = np.sqrt(share) * chance.normal(0, spread, n) + np.sqrt(load / (1 - load)) * spread * busy
    halves = [visit + np.sqrt(2 * (1 - share)) * chance.normal(0, spread, n) for _ in range(2)]
    value = data["value"].to_numpy()
    data = data.with_columns(
        value=pl.Series(value + np.mean(halves, axis=0)),
        early=pl.Series(value + halves[0]),
        late=pl.Series(value + halves[1] + 0.1),  # what all trials do alike says nothing
        cpu_pressure=pl.Series(50 + 10 * busy),
    )
    noise = noise_of(recorded(data), data)
    ours = (share + load / (1 - load)) / (1 + load / (1 - load))
    assert noise.visit_share == pytest.approx(ours, abs=0.12)
    assert noise.pressure_share == pytest.approx(load, abs=0.08)
    assert noise.effects["fs"] == pytest.approx(0.3 * np.std(range(4)), rel=0.4)
    assert list(noise.effects) == ["fs", "cache", "a stack's own"]


def test_the_halves_of_a_trial() -> None:
    def of(workload: str, figure: float, series: list[float], **more: float) -> tuple[float | None, float | None]:
        points = tuple((float(n + 1), value) for n, value in enumerate(series))
        figures = {"speed": figure, **more}
        return halves(
            TrialResult(1, "a", 0, 0, workload, Outcome.OK, None, 0.0, 1.0, figures, {"speed": points}, (), ()), "speed"
        )

    assert of("w(runtime=2s)", 100.0, [90.0]) == (90.0, 110.0)
    assert of("w(runtime=4s)", 100.0, [80.0, 100.0, 110.0, 110.0]) == (90.0, 110.0)
    assert of("w(runtime=2s)", 100.0, [90.0], speed_whole_run=100.0) == (90.0, 110.0)
    assert of("w(runtime=2s)", 100.0, [90.0], speed_whole_run=95.0) == (None, None), "its warm-up was cut"
    assert of("w", 100.0, [90.0]) == (None, None)
    assert of("w(runtime=2s)", 40.0, [90.0]) == (None, None), "the second half would have none"


def test_the_pilot_that_is_kept_is_large_enough() -> None:
    rows = pl.read_parquet(PILOT)
    found = recorded(rows)
    assert len(found.stacks) >= 30
    assert min(rest.size for rest in found.rest) >= 20
    assert found.truth.codes.shape[1] == 3
    noise = noise_of(found, rows)
    assert noise.visit_share is not None and noise.pressure_share is not None


def test_too_little_is_refused() -> None:
    with pytest.raises(BadInput, match="fewer than 5 visits"):
        recorded(made_up().filter(pl.col("round") < 3))
    with pytest.raises(BadInput, match="no column hour"):
        recorded(made_up().drop("hour"))
