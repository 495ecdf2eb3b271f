"""A data set of known make is taken apart rightly, and every strategy can be run on it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from strata.cli.dataset import frame, halves
from strata.design.replay import Replayed, main, noise_of, recorded
from strata.design.simulate.tally import STRATEGIES
from strata.errors import BadInput
from strata.model import Outcome, Rule, TrialResult

from .learning import campaign, empty, grid

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
