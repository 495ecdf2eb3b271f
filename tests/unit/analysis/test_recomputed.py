"""Figures held against raw records: what is the same is counted, what is not is named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fake_host import FakeHost

from strata.analysis import recomputed
from strata.errors import StoreError
from strata.model import Call, Command, Kind, Measured, Outcome, Target, TrialOutput, TrialPlan, TrialResult
from strata.run import machine, records, trial, trial_steps
from strata.run.outside import Outside, Watched
from strata.store import raw
from strata.workloads import _fio_json, find

FIO = Path(__file__).parents[1] / "workloads" / "fio_output" / "3.33-randrw.json"


def samples() -> str:
    def row(t_s: float, amount: int) -> dict[str, Any]:
        counters = dict.fromkeys(("reads", "writes", "flushes", "busy_ms", "in_flight"), amount)
        return {
            "t_s": t_s,
            "cpu_s": {"user": 1.0 * amount, "system": 0.5 * amount, "idle": 2.0 * amount, "iowait": 0.25 * amount},
            "psi": {"io_some_us": 1000 * amount},
            "memory": {"dirty_bytes": 4096 * amount},
            "devices": {"d0": {**counters, "read_bytes": amount << 20, "write_bytes": amount << 21}},
        }

    lines = [{"started_unix_s": 1000.0}, row(0.0, 0), row(15.0, 40), row(30.0, 100), {"end": True, "wall_s": 31.0}]
    return "".join(json.dumps(line) + "\n" for line in lines)


def part(**changes: Any) -> dict[str, Any]:
    call = Call("fio/randrw-75-25", "fio/randrw-75-25", {})
    program = records.of_program(call, TrialOutput(0, 31.0, "", "", {"fio.json": FIO.read_text()}), samples())
    load = records.of_load(program, None)
    assert load is not None
    return {**records.of_trial(load, [("disk", "/dev/x")], in_guest=False, cut_s=0.0), **changes}


def stored(**changes: float) -> TrialResult:
    measured = _fio_json.read(TrialOutput(0, 1e6, "", "", {"fio.json": FIO.read_text()}))
    figures = {**measured.metrics, **machine.figures(machine.parse(samples()), [("disk", "d0")], measured)}
    return TrialResult(1, "a", 0, 0, "w", Outcome.OK, None, 0.0, 31.0, {**figures, **changes}, {}, (), ())


def test_every_figure_of_a_run_of_fio_comes_out_again() -> None:
    held = recomputed.hold(stored(), [part()])
    assert held.different == () and held.untried == ()
    assert held.same == len(stored().metrics) > 35


@pytest.mark.parametrize("name", ["iops", "read_lat_p99_ms", "host.cpu_busy_pct", "disk.busy_pct", "psi.io_some_pct"])
def test_a_stored_figure_that_is_another_is_named(name: str) -> None:
    trial_ = stored()
    held = recomputed.hold(replace(trial_, metrics={**trial_.metrics, name: trial_.metrics[name] * 1.001}), [part()])
    assert len(held.different) == 1 and held.different[0].startswith(f"{name} is stored as ")


def test_what_no_record_gives_is_not_called_the_same() -> None:
    held = recomputed.hold(stored(**{"zfs.arc_hits": 3.0}), [part()])
    assert held.untried == ("zfs.arc_hits",) and not held.different


def test_only_a_trial_whose_warm_up_was_cut_may_have_the_mean_of_its_last_seconds() -> None:
    log = "".join(f"{second * 1000}, {value}, 0, 4096, 0\n" for second, value in enumerate([900, 100, 100, 100], 1))
    report = json.loads(FIO.read_text())
    for job in report["jobs"]:
        job["read"]["runtime"] = job["write"]["runtime"] = 4000
    record = part(files={"fio.json": json.dumps(report), "iops.log": log}, cut_s=1.0)
    whole = recomputed.recompute(record).figures["iops"]
    cut = replace(stored(), metrics={"iops": 100.0, "iops_whole_run": whole})
    assert recomputed.hold(cut, [record]).different == ()
    assert len(recomputed.hold(replace(cut, metrics={"iops": 100.0}), [record]).different) == 1
    for other in (900.0, whole):  # what the trial cut off is in the record, and nothing else will do
        assert len(recomputed.hold(replace(cut, metrics={**cut.metrics, "iops": other}), [record]).different) == 1
    uncut = {**record, "cut_s": 0.0}
    assert recomputed.hold(replace(cut, metrics={**cut.metrics, "iops": whole}), [uncut]).different == ()
    assert len(recomputed.hold(cut, [uncut]).different) == 1
    del uncut["cut_s"]  # as older versions wrote them
    for other in (100.0, whole):
        assert recomputed.hold(replace(cut, metrics={**cut.metrics, "iops": other}), [uncut]).different == ()


def busy(rows: list[dict[str, Any]], devices: list[tuple[str, str]] | None = None) -> dict[str, float]:
    header, end = {"started_unix_s": 1000.0}, {"end": True, "wall_s": 1.0}
    found = machine.parse("\n".join(map(json.dumps, (header, *rows, end))))
    return machine.figures(found, devices or [("disk", "d0")], Measured({}))


def test_the_window_of_a_load_is_cut_out_again_from_all_that_was_sampled() -> None:
    """So that one that was cut in the wrong place is found: the record has the gate, and every row."""
    rows = [json.loads(line) for line in samples().splitlines()[1:-1]]
    half = replace(stored(), metrics=busy(rows[:2]))
    record = part(gate=[1000.0, 1014.0])
    assert record["samples"] == samples() and "window" not in record
    assert recomputed.hold(half, [record]).different == ()
    assert recomputed.hold(half, [part(gate=[1001.0, 1015.0])]).different == ()
    for gate in ([1000.0, 1015.1], [1015.0, 1029.0], None):
        assert recomputed.hold(half, [part(gate=gate)]).different
    older = {name: value for name, value in part(window=[0.0, 15.0]).items() if name not in ("gate", "cut_s")}
    assert recomputed.hold(half, [older]).different == ()


def test_the_machine_that_carries_a_guest_is_cut_by_both_clocks() -> None:
    rows = tuple(json.loads(line) for line in samples().splitlines()[1:-1])
    seen = machine.Samples({"started_unix_s": 5000.0}, rows, {"wall_s": 30.0})
    outside = Outside(FakeHost(), [("disk", "/dev/x")], (), "/visit")
    kept = records.of_outside(outside, Watched(seen, seen), 4000.0)
    half = replace(stored(), metrics=busy(list(rows[:2])))
    # By the guest's clock, 70 s ahead of the controller's: 5 to 14 s after the outer samples began.
    record = part(outside=kept, in_guest=True, devices=[], gate=[1075.0, 1084.0], ahead_s=70.0)
    assert recomputed.hold(half, [record]).different == () and recomputed.hold(half, [record]).same > 5
    assert recomputed.hold(half, [{**record, "ahead_s": 60.0}]).different


def test_several_tenants_have_their_own_figures_again() -> None:
    iops = stored().metrics["iops"]
    both = replace(stored(), metrics={"tenant1.iops": iops, "tenant2.iops": iops + 1, "iops": 2 * iops + 1})
    held = recomputed.hold(both, [part(tenant=1), part(tenant=2)])
    assert held.same == 1 and held.untried == ("iops",) and "tenant2.iops" in held.different[0]


def test_a_record_of_another_shape_is_refused() -> None:
    for changes in ({"samples": "[]\n[]\n[]", "gate": [0.0, 1.0]}, {"files": {"fio.json": "{}"}}, {"gate": [0.0]}):
        with pytest.raises(ValueError, match=r"shape|values to unpack|arguments"):
            recomputed.hold(stored(), [part(**changes)])


def test_records_are_kept_small_and_read_back(tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    assert raw.read(tmp_path, 1) is None
    assert raw.write(tmp_path, 1, [part()])
    path = raw.path_of(tmp_path, 1)
    assert path.stat().st_mode & 0o777 == 0o600 and path.stat().st_size < 40_000
    assert raw.read(tmp_path, 1) == (part(),)
    noise = "".join(f"{number * 2654435761 % 2**32:08x}" for number in range(1 << 18))
    assert not raw.write(tmp_path, 2, [part(stdout=noise)]) and raw.read(tmp_path, 2) is None


def test_a_stranger_s_record_is_not_followed_and_not_unpacked_without_end(tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    path = raw.path_of(tmp_path, 1)
    path.symlink_to("/etc/passwd")
    with pytest.raises(StoreError):
        raw.read(tmp_path, 1)
    path.unlink()
    for content in (b"", b"not gzip", b"\x1f\x8b" + bytes(100)):
        path.write_bytes(content)
        with pytest.raises(StoreError, match="no raw record"):
            raw.read(tmp_path, 1)


def test_a_trial_keeps_what_its_figures_were_made_of() -> None:
    call = Call("null", "null", {})
    host = FakeHost()
    host.files |= {"/scratch/samples.jsonl": samples(), "/scratch/fio.json": FIO.read_text()}
    plan = TrialPlan((), Command(("fio",)), {"fio.json": "/scratch/fio.json"})
    steps = trial_steps.trial_steps("engine", (), plan, Target(Kind.DIRECTORY, "/t", None), "/scratch")
    measured, _ = trial.read(host, find(call), call, plan, steps, host.run(plan.measure))
    assert measured.raw is not None
    assert measured.raw["files"] == {"fio.json": FIO.read_text()} and measured.raw["samples"] == samples()
