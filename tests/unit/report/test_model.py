"""What the model says of runs whose answers are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from statistics import median
from types import ModuleType
from typing import Any

import pytest

from strata import report
from strata.analysis.checks import warnings
from strata.analysis.rank import rank
from strata.campaign import parse_stacks
from strata.judge.risks import documented_risks
from strata.layers import catalogue
from strata.model import Outcome, Testbed, View
from strata.report import html, markdown, terminal, verdict_json
from strata.report.model import Cell, ReportModel, Table
from strata.report.numbers import MISSING

Build = Callable[[View], ReportModel]


def cells(table: Table, stack: str) -> dict[str, Cell]:
    row = next(row for row in table.rows if row.head == stack)
    return {column.title: cell for column, cell in zip(table.columns, row.cells, strict=True)}


def test_the_ranking_has_every_measured_stack_best_first(ordinary: ReportModel, synthetic: ModuleType) -> None:
    order = [synthetic.XFS, synthetic.EXT4, synthetic.NOCOW, synthetic.BTRFS]
    assert [row.head for row in ordinary.ranking.rows] == order
    assert [(standing.key, standing.stack) for standing in ordinary.standings] == list(zip("1234", order, strict=True))
    assert ordinary.verdict.best == synthetic.XFS
    assert ordinary.verdict.sentence.startswith(f"Best: {synthetic.XFS}.")
    assert [row.mark for row in ordinary.ranking.rows] == ["best", "", "", ""]


def test_scores_are_ratios_to_the_leader_with_intervals(ordinary: ReportModel, synthetic: ModuleType) -> None:
    leader, second = (cells(ordinary.ranking, stack)["Score"] for stack in (synthetic.XFS, synthetic.EXT4))
    assert (leader.value, leader.low, leader.span) == (1.0, None, "")
    assert second.low is not None and second.value is not None and second.high is not None
    assert second.low < second.value < second.high < 1
    assert second.span == f"{second.low:.3f} to {second.high:.3f}"


def test_ranking_figures_are_the_estimates(ordinary: ReportModel, synthetic: ModuleType) -> None:
    shown = cells(ordinary.ranking, synthetic.BTRFS)["fio/randrw-75-25 iops"]
    estimate = next(s for s in ordinary.standings if s.stack == synthetic.BTRFS).metrics[synthetic.FIO.text]["iops"]
    assert (shown.value, shown.low, shown.high) == (estimate.point, estimate.low, estimate.high)
    assert estimate.unit == "IOPS" and estimate.better == "higher" and estimate.n == 5


def test_the_figures_of_a_known_run_are_those_shown(synthetic: ModuleType) -> None:
    """XFS twice as fast as EXT4 under fio, four times as fast as BTRFS; all alike under dd."""
    speeds = {synthetic.XFS: 4000.0, synthetic.EXT4: 2000.0, synthetic.BTRFS: 1000.0}
    view = synthetic.run_of(speeds, rounds=3)
    trials = tuple(
        replace(
            trial,
            metrics={"iops": speeds[trial.stack] * (1 + 0.01 * trial.round)}
            if trial.workload == synthetic.FIO.text
            else {"throughput": 200.0 * (1 + 0.01 * trial.round)},
        )
        for trial in view.trials
    )
    view = replace(view, trials=trials)
    ranking = rank(view)
    chances = (0.994, 0.005, 0.004)
    ranking = replace(
        ranking, rows=tuple(replace(row, best=best) for row, best in zip(ranking.rows, chances, strict=True))
    )
    model = report.build(view, ranking, ())
    shown = [[cell.text for cell in row.cells] for row in model.ranking.rows]
    assert [column.title for column in model.ranking.columns] == [
        *("Score", "Verdict", "Visits", "P(best)", "fio/randrw-75-25 iops", "dd/seqwrite-sync throughput"),
    ]
    assert [(row[0], row[2], row[3]) for row in shown] == [
        ("1.000", "3", "0.99"),
        ("0.707", "3", "0.01"),  # the root of a half, with dd's 1
        ("0.500", "3", "< 0.01"),
    ]
    assert [row.cells[3].value for row in model.ranking.rows] == list(chances)
    assert [float(row[4].replace(",", "")) for row in shown] == pytest.approx([4040, 2020, 1010], rel=2e-4)
    fio, dd = ([row.cells[0].value for row in section.tables[0].rows] for section in model.workloads)
    assert fio == pytest.approx([1, 0.5, 0.25]) and dd == pytest.approx([1, 1, 1])
    assert [
        {workload: ratio.point for workload, ratio in standing.against_leader.items()} for standing in model.standings
    ] == [
        {},
        {synthetic.FIO.text: pytest.approx(0.5), synthetic.DD.text: pytest.approx(1)},
        {synthetic.FIO.text: pytest.approx(0.25), synthetic.DD.text: pytest.approx(1)},
    ]
    unknown = report.build(view, replace(ranking, rows=(ranking.rows[0], replace(ranking.rows[1], best=None))), ())
    assert [row.cells[3].text for row in unknown.ranking.rows] == ["0.99", MISSING]
    nobody = report.build(view, rank(view), ())
    assert ("P(best)" in [column.title for column in nobody.ranking.columns]) is (rank(view).rows[0].best is not None)


def test_a_workload_alone_is_compared_with_the_leader(ordinary: ReportModel, synthetic: ModuleType) -> None:
    ratio = cells(ordinary.workloads[0].tables[0], synthetic.BTRFS)["Ratio"]
    assert ratio.value == pytest.approx(1700 / 4600, rel=0.08)
    assert cells(ordinary.workloads[0].tables[0], synthetic.XFS)["Ratio"] == Cell("1.000", 1.0)


def test_every_visit_is_a_dot_and_marked_ones_are_flagged(ordinary: ReportModel, synthetic: ModuleType) -> None:
    chart = ordinary.workloads[0].dots
    assert chart is not None
    assert {row.label: len(row.dots) for row in chart.rows} == {
        synthetic.XFS: 5,
        synthetic.EXT4: 5,
        synthetic.NOCOW: 4,
        synthetic.BTRFS: 5,
    }
    flagged = [(row.label, dot.round) for row in chart.rows for dot in row.dots if dot.flagged]
    assert flagged == [(synthetic.BTRFS, 1)]


def test_percentiles_have_a_chart_for_each_kind_and_leave_the_plain_table(ordinary: ReportModel) -> None:
    section = ordinary.workloads[0]
    assert [chart.title for chart in section.percentiles] == ["Latency: read_clat, ms", "Latency: write_clat, ms"]
    assert section.percentiles[0].percentiles == (50.0, 90.0, 99.0, 99.9)
    assert len(section.percentiles[0].lines) == 4
    assert [column.title for column in section.tables[0].columns] == ["Ratio", "iops", "read_bw"]
    titles = [column.title for table in section.percentile_tables for column in table.columns]
    assert "read_clat_p99.9" in titles and "write_clat_p50" in titles
    assert ordinary.workloads[1].percentiles == () and ordinary.workloads[1].percentile_tables == ()


@pytest.mark.parametrize(
    ("metric", "parsed"),
    [
        ("read_clat_p99", ("read_clat", 99.0)),
        ("read_clat_p99.9", ("read_clat", 99.9)),
        ("lat_p99_9", ("lat", 99.9)),
        ("lat_p999", ("lat", 99.9)),
        ("lat_p9999", ("lat", 99.99)),
        ("lat_p100", ("lat", 100.0)),
        ("lat_p5", ("lat", 5.0)),
        ("read_lat_p50_ms", ("read_lat", 50.0)),
        ("read_lat_p99_9_ms", ("read_lat", 99.9)),
        ("read_lat_max_ms", None),
        ("iops", None),
        ("read_p", None),
    ],
)
def test_percentile_names(metric: str, parsed: tuple[str, float] | None) -> None:
    from strata.report.graphs import percentile

    assert percentile(metric) == parsed


def test_a_figure_that_nobody_measured_is_missing_and_not_zero(synthetic: ModuleType, model_of: Build) -> None:
    names = [f"read_clat_{p}" for p in synthetic.PERCENTILES]
    model = model_of(synthetic.without_metric(synthetic.ordinary(), names, synthetic.EXT4))
    cell = cells(model.workloads[0].percentile_tables[0], synthetic.EXT4)["read_clat_p99"]
    assert cell == Cell(MISSING)
    assert synthetic.EXT4 not in [line.label for line in model.workloads[0].percentiles[0].lines]

    everywhere = [m for m in synthetic.FIO.metrics if "clat" in m]
    model = model_of(synthetic.without_metric(synthetic.ordinary(), everywhere))
    assert model.workloads[0].percentiles == () and model.workloads[0].percentile_tables == ()


def test_series_are_the_workloads_own_or_else_the_disks(ordinary: ReportModel, synthetic: ModuleType) -> None:
    fio, dd = (section.series for section in ordinary.workloads)
    assert [chart.title for chart in fio] == ["iops over time, IOPS"]
    assert [(panel.label, len(panel.lines)) for panel in fio[0].panels] == [
        (synthetic.XFS, 5),
        (synthetic.EXT4, 5),
        (synthetic.NOCOW, 4),
        (synthetic.BTRFS, 5),
    ]
    assert [chart.title for chart in dd] == ["disk.write_bytes over time, MiB in each second"]
    assert fio[0].longest_s == 29


def test_long_series_are_thinned_to_means(synthetic: ModuleType, model_of: Build) -> None:
    view = synthetic.run_of({synthetic.EXT4: 100.0, synthetic.XFS: 110.0}, rounds=2)
    flat = tuple((float(s), 10.0 if s % 2 else 20.0) for s in range(3600))
    view = replace(view, trials=tuple(replace(trial, series={"iops": flat}) for trial in view.trials))
    chart = model_of(view).workloads[0].series[0]
    points = chart.panels[0].lines[0].points
    assert len(points) <= 121
    assert {value for _, value in points} == {15.0}
    assert "Means over 30 s" in chart.note


def test_the_machines_side_is_grouped_and_scaled(ordinary: ReportModel, synthetic: ModuleType) -> None:
    tables = ordinary.workloads[1].machine
    assert [table.title for table in tables] == [
        "Host, with intervals",
        "Disks, with intervals",
        "Time spent waiting (pressure), with intervals",
    ]
    column = next(column for column in tables[1].columns if column.title == "disk.write_bytes")
    assert column.unit == "GiB"
    assert cells(tables[1], synthetic.XFS)["disk.write_bytes"].value == pytest.approx(4.4, rel=0.05)


def test_building_times_are_sums_of_steps_and_medians_of_visits(ordinary: ReportModel, synthetic: ModuleType) -> None:
    assert ordinary.provisioning is not None
    view = synthetic.ordinary()
    visits: dict[int, float] = {}
    for step in view.steps:
        if step.stack == synthetic.XFS:
            visits[step.visit] = visits.get(step.visit, 0.0) + step.create_s
    cell = cells(ordinary.provisioning, synthetic.XFS)["Build"]
    assert cell.value == pytest.approx(1000 * median(visits.values()))
    assert cell.low == pytest.approx(1000 * min(visits.values()))
    assert ordinary.provisioning.columns[0].unit == "ms"


def test_a_step_of_unknown_time_makes_its_visit_unknown_rather_than_short(
    synthetic: ModuleType, model_of: Build
) -> None:
    view = synthetic.run_of({synthetic.EXT4: 100.0, synthetic.XFS: 110.0}, rounds=2)
    steps = tuple(
        replace(s, remove_s=None) if s.stack == synthetic.EXT4 and s.layer == "disk" else s for s in view.steps
    )
    model = model_of(replace(view, steps=steps))
    assert model.provisioning is not None
    assert cells(model.provisioning, synthetic.EXT4)["Remove"] == Cell(MISSING)
    assert cells(model.provisioning, synthetic.EXT4)["Build"].value is not None


def test_what_failed_and_what_was_skipped_is_said_with_reasons(ordinary: ReportModel, synthetic: ModuleType) -> None:
    assert [(left.stack, left.reasons) for left in ordinary.skipped] == [
        (synthetic.F2FS, ("This kernel has no f2fs: load the module f2fs or use another kernel.",))
    ]
    assert [(f.stack, f.workload, f.outcome) for f in ordinary.failed] == [
        (synthetic.NOCOW, None, "failed"),
        (synthetic.EXT4, synthetic.DD.text, "failed"),
    ]
    assert "wrong fs type" in ordinary.failed[0].reason
    assert any("1 failed visit" in line and "1 skipped stack" in line for line in ordinary.verdict.more)


def test_an_invalid_trial_is_listed_and_its_figures_are_not_shown(synthetic: ModuleType, model_of: Build) -> None:
    view = synthetic.run_of({synthetic.EXT4: 100.0, synthetic.XFS: 110.0}, rounds=3)
    bad = replace(view.trials[0], outcome=Outcome.INVALID, reason="the target was not the device")
    model = model_of(replace(view, trials=(bad, *view.trials[1:])))
    assert [(f.outcome, f.reason) for f in model.failed] == [("invalid", "the target was not the device")]
    assert model.workloads[0].dots is not None
    assert sum(len(row.dots) for row in model.workloads[0].dots.rows) == 5


def test_every_flag_is_explained_and_the_gravest_comes_first(synthetic: ModuleType, model_of: Build) -> None:
    view = synthetic.run_of({synthetic.EXT4: 100.0}, rounds=1)
    flags = ("extended", "unsteady", "unsafe", "cached", "memory", "new-kind")
    model = model_of(replace(view, trials=(replace(view.trials[0], flags=flags), view.trials[1])))
    assert [flag.name for flag in model.flags] == ["unsafe", "memory", "cached", "unsteady", "extended", "new-kind"]
    assert all(flag.about for flag in model.flags)
    assert model.flags[0].count == "1 of 2 trials"


def test_the_verdict_names_a_stack_that_may_be_best_and_loses_data(synthetic: ModuleType, model_of: Build) -> None:
    view = synthetic.run_of({synthetic.EXT4: 100.0, synthetic.XFS: 200.0}, rounds=5)

    def said(unsafe: str) -> str:
        trials = (replace(t, flags=("unsafe",)) if t.stack == unsafe else t for t in view.trials)
        return " ".join(model_of(replace(view, trials=tuple(trials))).verdict.more)

    assert f"Able to lose writes that were acknowledged, and so no choice for data that matter: {synthetic.XFS}." in (
        said(synthetic.XFS)
    )
    assert "Able to lose" not in said(synthetic.EXT4)  # it is not the one to take


def test_a_budget_and_a_length_that_are_not_known(synthetic: ModuleType, model_of: Build) -> None:
    view = synthetic.run_of({synthetic.EXT4: 100.0, synthetic.XFS: 110.0}, rounds=2)
    limited = replace(view, rule=replace(view.rule, budget_s=5400.0))
    facts = {fact.name: fact.text for fact in model_of(limited).method}
    assert facts["Time budget"] == "1 h 30 min"
    assert "Time budget" not in {fact.name for fact in model_of(view).method}
    first, *others = (replace(trial, started_at=1_790_000_000.0, wall_s=None) for trial in view.trials)
    once = replace(view, trials=(replace(first, wall_s=180.0), *others))
    assert {f.name: f.text for f in model_of(once).method}["Measured"] == "2026-09-21 14:13 to 2026-09-21 14:16 UTC"


def test_how_it_was_measured(ordinary: ReportModel) -> None:
    facts = {fact.name: fact.text for fact in ordinary.method}
    assert facts["Seed of the order"] == "7"
    assert facts["Measured"] == "2026-09-21 14:13 to 2026-09-21 14:42 UTC"
    assert "5 rounds" in facts["Replicates"]
    assert "this machine, these workloads and this day" in facts["What confidence means"]
    assert facts["Order of the measured visits"].count("round") == 5


def test_the_machine_and_the_commands(ordinary: ReportModel, synthetic: ModuleType) -> None:
    facts = {fact.name: fact.text for fact in ordinary.machine}
    assert facts["Kernel"] == "6.12.48+deb13-amd64"
    assert facts["Disk 'disk'"] == "8.0 GiB, a sparse file on a loop device"
    assert {c.stack: c.commands for c in ordinary.commands} == synthetic.COMMANDS
    assert [c.key for c in ordinary.commands] == ["1", "2", "3", "4"]


def test_the_verdict_for_scripts(ordinary: ReportModel, synthetic: ModuleType) -> None:
    said = verdict_json(ordinary)
    assert said["version"] == 1
    assert said["best"] == synthetic.XFS
    assert said["tied"] == [synthetic.XFS]
    assert said["undecided"] is False
    first = said["ranking"][0]
    assert (first["stack"], first["visits"]) == (synthetic.XFS, 5)
    figure = first["metrics"][synthetic.FIO.text]["iops"]
    assert set(figure) == {"point", "low", "high", "unit", "better", "n"}
    assert figure["n"] == 5 and said["weights"] == dict.fromkeys((w.text for w in ordinary.workloads), 1.0)
    against = said["ranking"][1]["against_leader"]
    assert set(against) == set(said["weights"]) and all(ratio["n"] >= 4 for ratio in against.values())
    assert figure["low"] < figure["point"] < figure["high"]
    assert said["skipped"][0]["stack"] == synthetic.F2FS
    assert said["skipped"][0]["reasons"]
    assert [failure["visit"] for failure in said["failed"]] == [f.visit for f in ordinary.failed]
    assert said["sentence"] == ordinary.verdict.sentence
    assert said["warnings"]
    assert said["seed"] == ordinary.seed and said["versions"] == {f.name: f.text for f in ordinary.versions} != {}


def test_figures_of_the_verdict_are_in_their_declared_units(ordinary: ReportModel, synthetic: ModuleType) -> None:
    figure = verdict_json(ordinary)["ranking"][0]["metrics"][synthetic.DD.text]["disk.write_bytes"]
    assert figure["unit"] == "bytes" and figure["point"] > 2**32


def test_one_stack(synthetic: ModuleType, model_of: Build) -> None:
    model = model_of(synthetic.run_of({synthetic.EXT4: 4000.0}))
    assert model.ranking_chart is None
    assert [row.head for row in model.ranking.rows] == [synthetic.EXT4]


def test_one_visit_has_no_interval(synthetic: ModuleType, model_of: Build) -> None:
    model = model_of(synthetic.run_of({synthetic.EXT4: 4000.0, synthetic.XFS: 4100.0}, rounds=1))
    cell = cells(model.ranking, synthetic.EXT4)["fio/randrw-75-25 iops"]
    assert cell.value is not None and cell.low is None and cell.high is None and cell.span == ""
    assert model.verdict.undecided


def test_undecided(synthetic: ModuleType, model_of: Build) -> None:
    model = model_of(synthetic.run_of({synthetic.EXT4: 4000.0, synthetic.XFS: 4000.0}, rounds=3, seed=1))
    assert model.verdict.undecided and model.verdict.best is None
    assert len(model.verdict.tied) == 2
    assert verdict_json(model)["best"] is None
    assert [row.mark for row in model.ranking.rows] == ["leads", ""]
    assert [row.tied for row in model.ranking.rows] == [True, True]
    assert [row.cells[1].text for row in model.ranking.rows] == ["leads", "may be the best"]


def test_nothing_measured_at_all(synthetic: ModuleType, model_of: Build) -> None:
    model = model_of(synthetic.all_skipped())
    assert model.standings == () and model.workloads == () and model.ranking.rows == ()
    assert model.provisioning is None and model.ranking_chart is None
    assert len(model.skipped) == 4
    said = verdict_json(model)
    assert said["best"] is None and said["tied"] == [] and said["ranking"] == []


def test_charts_of_many_stacks_show_the_leading_ones_and_say_so(synthetic: ModuleType, model_of: Build) -> None:
    model = model_of(synthetic.many(100))
    assert len(model.ranking.rows) == 100
    assert model.ranking_chart is not None and len(model.ranking_chart.marks) == 12
    section = model.workloads[0]
    assert section.dots is not None and len(section.dots.rows) == 12
    assert len(section.percentiles[0].lines) == 8 and len(section.series[0].panels) == 8
    assert len(section.tables[0].rows) == 100 and len(section.machine[0].rows) == 100
    assert "12" in model.leading and "8" in model.leading and "100" in model.leading


def test_few_stacks_need_no_such_words(ordinary: ReportModel) -> None:
    assert ordinary.leading == ""


def test_every_number_has_its_text_and_none_is_not_a_number(ordinary: ReportModel) -> None:
    found = 0

    def walk(part: Any) -> None:
        nonlocal found
        if isinstance(part, dict):
            if "span" in part and "text" in part:
                found += 1
                assert part["text"]
                assert (part["value"] is not None) or part["text"] == MISSING or not part["text"][0].isdigit()
            for inner in part.values():
                walk(inner)
        elif isinstance(part, list | tuple):
            for inner in part:
                walk(inner)
        elif isinstance(part, float):
            assert part == part and abs(part) != float("inf")

    walk(asdict(ordinary))
    assert found > 100


# ---------------------------------------------------------------- the lab


def test_the_lab_and_its_disks_are_named(synthetic: ModuleType, model_of: Build) -> None:
    model = model_of(synthetic.in_the_lab())
    facts = {fact.name: fact.text for fact in model.machine}
    assert facts["Testbed"] == model.testbed
    assert model.testbed == (
        "lab: Debian 13, kernel 6.12.48+deb13-amd64, QEMU 10.0.13, real clock, 2 CPUs, 2.0 GiB, with zfs"
    )
    assert facts["4 disks 'hdd'"] == "8.0 GiB, a file of the lab, model hdd-7200, write cache: volatile"
    assert facts["Disk 'ssd'"] == "4.0 GiB, a file of the lab"
    said = verdict_json(model)
    assert (said["testbed"], said["caveats"]) == (model.testbed, [synthetic.CAVEAT])
    assert len(said["disks"]) == 5
    assert said["disks"][0] == {
        "role": "hdd",
        "size_bytes": 8 << 30,
        "device": None,
        "model": "hdd-7200",
        "write_cache": "volatile",
    }
    virtual = model_of(synthetic.in_the_lab("virtual"))
    assert "virtual clock, 1 CPU, 8.0 GiB" in virtual.testbed
    assert any("memory of the lab machine" in fact.text for fact in virtual.machine)
    elsewhere = replace(synthetic.ordinary(), testbed=Testbed("ssh", "root@server"))
    assert model_of(elsewhere).testbed == "ssh: root@server"


def test_lost_attempts_are_told_with_what_became_of_their_visits(synthetic: ModuleType, model_of: Build) -> None:
    view = synthetic.in_the_lab()
    model = model_of(view)
    assert [lost.what.rpartition(", ")[2] for lost in model.lost] == ["made again", "given up", "to be made again"]
    assert model.lost[1].console == synthetic.CONSOLE
    assert any("3 lost attempts" in line for line in model.verdict.more)
    assert [lost["reason"] for lost in verdict_json(model)["lost"]] == [loss.reason for loss in view.losses]


def test_a_failed_trial_shows_what_its_programs_said(synthetic: ModuleType, model_of: Build) -> None:
    found = [failure for failure in model_of(synthetic.in_the_lab()).failed if failure.evidence]
    ((said,),) = [failure.evidence for failure in found]
    assert found[0].workload == synthetic.DD.text
    assert (said.command, said.exit_code, said.text) == ("dd bs=1M", 1, "dd: <i>No space</i> left")


def test_what_layers_report_stands_apart_from_what_is_counted_at_their_devices(
    synthetic: ModuleType, model_of: Build
) -> None:
    model = model_of(synthetic.in_the_lab())
    for section in model.workloads:
        (table,) = section.layers
        assert table.title == "Layer vdo, with intervals"
        assert [(column.title, column.unit) for column in table.columns] == [
            ("vdo.physical_bytes", "GiB"),
            ("vdo.saved_pct", "%"),
        ]
        assert cells(table, synthetic.XFS)["vdo.physical_bytes"].text == "3.00"
        assert cells(table, synthetic.EXT4)["vdo.physical_bytes"] == Cell(MISSING)
        counted = [column.title for group in section.machine for column in group.columns]
        assert "vdo.write_bytes" in counted and "vdo.saved_pct" not in counted
    figures = verdict_json(model)["ranking"][0]["metrics"][synthetic.FIO.text]
    assert figures["vdo.saved_pct"]["point"] == pytest.approx(25)


def test_exact_figures_are_called_so_and_their_spread_is_of_seeds(synthetic: ModuleType, model_of: Build) -> None:
    model = model_of(synthetic.in_the_lab("virtual"))
    assert any(line.startswith("Exact: ") and "spread of the seeds" in line for line in model.verdict.more)
    facts = {fact.name: fact.text for fact in model.method}
    assert facts["Seeds"].startswith("7 to 11; round 1 has the seed 7")
    assert "seed to the next" in facts["Intervals of single figures"]
    assert "this model of a machine" in facts["What confidence means"]
    view = synthetic.in_the_lab("virtual")
    several = model_of(replace(view, testbed=replace(view.testbed, cpus=2)))
    assert not any(line.startswith("Exact: ") for line in several.verdict.more), "there a repeat may differ"
    real = model_of(synthetic.in_the_lab())
    assert not any("xact" in line for line in real.verdict.more)
    assert "visit to the next" in {fact.name: fact.text for fact in real.method}["Intervals of single figures"]


def test_weights_that_decide_are_not_called_equal(synthetic: ModuleType) -> None:
    view = synthetic.ordinary()
    weights = [float(number) for number in range(1, len(view.workloads) + 1)]
    model = report.build(view, rank(view, weights), (), weights)
    (said,) = [fact.text for fact in model.method if fact.name == "What decides"]
    assert "equal weights" not in said and "with weights 1, 2" in said
    assert list(verdict_json(model)["weights"].values()) == weights


def test_a_report_in_every_form_has_the_documented_risks_of_each_stack(synthetic: ModuleType) -> None:
    view = synthetic.run_of({"disk | ext4(nobarrier)": 200.0, synthetic.XFS: 100.0}, rounds=5)
    (stack,) = parse_stacks("disk | ext4(nobarrier)", catalogue())
    risks = {stack.text: documented_risks(stack)}
    model = report.build(view, rank(view), warnings(view), risks=risks)
    assert f"so no choice for data that matter: {stack.text}." in " ".join(model.verdict.more)
    (noted,) = report.verdict_json(model)["risks"][stack.text]
    assert noted["loses"] == "power" and noted["remedy"] == "leave nobarrier out"
    forms = [terminal.render(model, width=400), markdown.render(model), html.render(model)]
    for text in forms:
        assert "may destroy the file system" in text and "leave nobarrier out" in text
