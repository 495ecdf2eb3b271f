"""Several tenants at once on a host that only pretends: their windows, their sums, and one that fails."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping

import pytest
from tests.fake_host import FakeHost

from strata.errors import WorkloadFailed
from strata.model import (
    Call,
    Command,
    Completed,
    Guest,
    GuestImage,
    Kind,
    Measured,
    Metric,
    Outcome,
    Target,
    TrialOutput,
    TrialPlan,
)
from strata.run import clocks, merging, together, trial
from strata.run.outside import QEMU, Outside
from strata.run.served import Above
from strata.run.together import Part

SPEED = Metric("speed", "MiB/s", "higher", merge="sum")
DELAY = Metric("delay", "ms", "lower")


class Load:
    """Its figures are the number that its program printed, and ten divided by it."""

    class info:  # noqa: N801 - stands for a WorkloadInfo
        metrics = (SPEED, DELAY)
        primary = SPEED.name

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        return TrialPlan((), Command(("work", target.path)), {})

    def primary_of(self, spec: Call) -> Metric:
        return SPEED

    def data_bytes(self, spec: Call) -> int:
        return 0

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        if output.exit_code:
            raise WorkloadFailed(f"it ended with {output.exit_code}")
        value = float(output.stdout)
        return Measured({"speed": value, "delay": 10 / value}, bytes_read=0, bytes_written=0)


def samples(started: float, wall_s: float) -> str:
    rows = [{"started_unix_s": started}, {"t_s": 0.0}, {"t_s": wall_s}, {"end": True, "wall_s": wall_s}]
    return "\n".join(json.dumps(row) for row in rows)


def gate(scratch: str, started: float, took_s: float, code: int = 0) -> dict[str, str]:
    """What a load leaves there."""
    times = {"began": f"{started * 1000:.0f}\n", "ended": f"{(started + took_s) * 1000:.0f}\n", "gone": f"{code}\n"}
    return {f"{scratch}/gate/{name}": text for name, text in times.items()}


def measured(windows: Mapping[int, tuple[float, float]], codes: Mapping[int, int] | None = None) -> together.Together:
    """`windows`: tenant -> when it started, and for how long."""
    host = FakeHost()
    parts = []
    for tenant, (started, wall_s) in windows.items():
        scratch = f"/scratch/{tenant}"
        bench = trial.Bench(host, (), 1 << 30, frozenset())
        parts.append(Part(tenant, bench, Load(), Call("load", "load", {}), Target(Kind.DIRECTORY, "/t", None), scratch))  # type: ignore[arg-type]
        host.files |= {
            f"{scratch}/samples.jsonl": samples(started, wall_s),
            **gate(scratch, started, wall_s, (codes or {}).get(tenant, 0)),
            f"{scratch}/out": str(tenant),
            f"{scratch}/err": f"tenant {tenant} said this",
        }
    return together.run(parts, Outside(host, (), (), "/scratch"), 1)


def test_what_ran_together_is_added_up_and_kept_apart() -> None:
    found = merging.merged(measured({1: (100.0, 10.0), 2: (100.05, 10.0)}), [1, 2], (SPEED, DELAY))
    assert found.outcome is Outcome.OK and found.figures is not None
    assert found.figures["speed"] == 3 and found.figures["worst_tenant.delay"] == 10 and "delay" not in found.figures
    assert (found.figures["tenant1.speed"], found.figures["tenant2.speed"]) == (1, 2)
    assert {"tenant1.speed", "tenant2.delay"} <= {metric.name for metric in found.extra}
    assert found.figures["tenants.overlap_pct"] == pytest.approx(99.5)


@pytest.mark.parametrize("took_s", [0.719_999_9, 3.000_000_1, 0.1])
def test_one_alone_is_together_with_itself_to_the_last_digit(took_s: float) -> None:
    assert measured({1: (1_795_249_271.123_457, took_s)}).figures["tenants.overlap_pct"] == 100


def test_tenants_that_did_not_run_together_are_no_measurement() -> None:
    found = measured({1: (100.0, 10.0), 2: (100.2, 10.0)})
    assert found.figures["tenants.overlap_pct"] == pytest.approx(98.0)
    for each in found.trials:
        assert each.outcome is Outcome.INVALID and "98.0 %" in (each.reason or "") and each.figures


def test_one_that_fails_fails_all_with_what_everybody_said() -> None:
    found = measured({1: (100.0, 10.0), 2: (100.0, 10.0), 3: (100.0, 10.0)}, {2: 7})
    assert [each.outcome for each in found.trials] == [Outcome.FAILED] * 3
    assert {each.reason for each in found.trials} == {"tenant 2: it ended with 7"}
    whole = merging.merged(found, [1, 2, 3], (SPEED,))
    assert {seen.stderr for seen in whole.evidence} == {f"tenant {n} said this" for n in (1, 2, 3)}


def test_an_output_that_its_reader_cannot_calculate_with_fails_all() -> None:
    found = measured({0: (100.0, 10.0), 2: (100.0, 10.0)})  # ten divided by nought
    assert [each.outcome for each in found.trials] == [Outcome.FAILED] * 2
    assert all((each.reason or "").startswith("tenant 0: the output of load is not") for each in found.trials)


def test_the_wait_at_the_gate_is_not_in_the_samples_of_a_load() -> None:
    host, scratch = FakeHost(), "/scratch/1"
    rows = [{"started_unix_s": 95.0}, {"t_s": 0.0}, {"t_s": 5.0}, {"t_s": 15.0}, {"end": True, "wall_s": 15.0}]
    host.files |= {f"{scratch}/samples.jsonl": "\n".join(map(json.dumps, rows)), f"{scratch}/out": "1"}
    host.files |= gate(scratch, 100.0, 10.0)
    bench = trial.Bench(host, (), 1 << 30, frozenset())
    part = Part(1, bench, Load(), Call("load", "load", {}), Target(Kind.DIRECTORY, "/t", None), scratch)  # type: ignore[arg-type]
    (found,) = together.run([part], Outside(host, (), (), "/scratch"), 1).trials
    assert (found.outcome, found.wall_s) == (Outcome.OK, 10.0), found.reason


class Filled(Load):
    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        return TrialPlan((Command(("fill", target.path)),), Command(("work", target.path)), {})


BEGAN = time.time()


def ticking() -> str:
    """A guest's clock: one that stood still would be told to drift, the more the busier this machine is."""
    return f"{100.0 + time.time() - BEGAN:.6f}"


def test_guests_are_prepared_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=30)  # one that comes alone gives up

    def respond(command: Command) -> str:
        if command.argv[0] == "fill":
            meeting.wait()
        return ticking() if command.argv[0] == "date" else "0"

    clock = FakeHost(respond=lambda command: ticking() if command.argv[0] == "date" else "")
    outside = Outside(clock, (), (), "/scratch")
    parts = []
    for tenant in (1, 2):
        guest = FakeHost(respond=respond)
        guest.files[f"/scratch/{tenant}/samples.jsonl"] = samples(100.0, 10.0)
        guest.files |= {**gate(f"/scratch/{tenant}", 100.0, 10.0), f"/scratch/{tenant}/out": "1"}
        bench = trial.Bench(guest, (), 1 << 30, frozenset(), outside=outside)
        target = Target(Kind.DIRECTORY, "/t", None)
        parts.append(Part(tenant, bench, Filled(), Call("load", "load", {}), target, f"/scratch/{tenant}"))  # type: ignore[arg-type]
    found = together.run(parts, outside, 1)
    assert [each.outcome for each in found.trials] == [Outcome.OK] * 2, [each.reason for each in found.trials]


def lines(started: float, rows: list[dict[str, object]]) -> str:
    seen = [{"started_unix_s": started}, *rows, {"end": True, "wall_s": rows[-1]["t_s"]}]
    return "\n".join(map(json.dumps, seen))


def in_guests(pause_s: float = 0.0) -> together.Together:
    """Two guests whose loads go from 100 to 110 by their clocks, which they take `pause_s` to tell; the machine outside
    was watched from 95 to 120 and works the more the later it is."""

    def respond(command: Command) -> str:
        if command.argv[0] == "date":
            time.sleep(pause_s)
        return ticking() if command.argv[0] == "date" else "0"

    guests = [Guest(name, f"/guests/{name}", GuestImage("/image")) for name in ("one", "two")]
    machine = FakeHost(respond=lambda command: ticking() if command.argv[0] == "date" else "")
    outside = Outside(machine, [("disk", "/dev/vda")], guests, "/visit")
    disk = {"reads": 0, "read_bytes": 0, "write_bytes": 0, "flushes": 0, "busy_ms": 0, "in_flight": 0}
    rows: list[dict[str, object]] = [
        {"t_s": t, "devices": {"d0": {**disk, "writes": int(t * t)}}, "processes": {"one": t, "two": t * t}}
        for t in (0.0, 4.0, 16.0, 25.0)
    ]
    parts = []
    for tenant, guest in enumerate(guests, 1):
        scratch = f"/scratch/{tenant}"
        host = FakeHost(respond=respond)
        host.files |= {f"{scratch}/samples.jsonl": samples(95.0, 25.0), f"{scratch}/out": str(tenant)}
        host.files |= gate(scratch, 100.0, 10.0)
        bench = trial.Bench(host, (), 1 << 30, frozenset({"disk.writes", QEMU}), outside=outside)
        target, call = Target(Kind.DIRECTORY, "/t", None), Call("load", "load", {})
        parts.append(Part(tenant, bench, Load(), call, target, scratch, guest))  # type: ignore[arg-type]
    # The engine's own file is there before the watch reads it.
    machine.files["/visit/outside-1.jsonl"] = lines(95.0, rows)
    return together.run(parts, outside, 1)


def test_the_machine_outside_guests_counts_from_the_first_load_s_begin_to_the_last_one_s_end() -> None:
    found = in_guests()
    # The loads went from 5 to 15 s of it.
    assert found.figures["disk.writes"] == 16**2 - 4**2
    one, two = (each.figures for each in found.trials)
    assert one is not None and two is not None
    assert (one[QEMU], two[QEMU]) == (12.0, 240.0)
    assert QEMU not in found.figures
    both = merging.merged(found, [1, 2], (SPEED, DELAY)).figures
    assert both is not None
    assert both[QEMU] == one[QEMU] + two[QEMU] and both["tenant2.guest.qemu_cpu_s"] == two[QEMU]


def test_clocks_that_are_not_known_exactly_are_not_taken_to_agree() -> None:
    # Each is known within 10 ms at best, of 10 s.
    assert in_guests(pause_s=0.02).figures["tenants.overlap_pct"] <= 99.8


def test_a_clock_that_went_another_way_meanwhile_is_known_less_exactly() -> None:
    before = clocks.Clock(5.0, 0.01)
    assert clocks.kept(before, clocks.Clock(5.015, 0.01)) == before, "no more than its looks differ"
    drifted = clocks.kept(before, clocks.Clock(4.9, 0.01))
    assert drifted.ahead_s == 5.0 and drifted.within_s == pytest.approx(0.09)


class Buffered(Load):
    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        return TrialPlan((), Command(("work", target.path)), {}, buffered=True)

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        return Measured({"speed": 1.0}, bytes_read=1 << 30, bytes_written=0)


def buffered(read_bytes: int, arc_hits: int = 0, above: Above = Above()) -> together.Together:  # noqa: B008 (frozen)
    """Two tenants on one machine read 2 GiB, of which so much is read from its disk, and its ARC answers so many reads
    of the seconds between."""
    names = frozenset({"disk.read_ratio", "disk.read_bytes", "host.arc_served_pct"})

    def respond(command: Command) -> str:
        if command.argv[:2] == (host.engine, "sample"):
            host.files["/proc/spl/kstat/zfs/arcstats"] = f"demand_data_hits 4 {arc_hits}\n"
        return ""

    class Sampled(FakeHost):
        def run(self, command: Command, *, check: bool = True) -> Completed:
            done = super().run(command, check=check)
            counters = ("reads", "writes", "write_bytes", "flushes", "busy_ms", "in_flight")
            rows: list[dict[str, object]] = [
                {"t_s": 10.0 * at, "devices": {"d0": {**dict.fromkeys(counters, at), "read_bytes": at * read_bytes}}}
                for at in (0, 1)
            ]
            self.files["/scratch/together.jsonl"] = lines(100.0, rows)
            return done

    host = Sampled(respond=respond)
    parts = []
    for tenant in (1, 2):
        scratch = f"/scratch/{tenant}"
        bench = trial.Bench(host, (), 1 << 40, names, above=above)
        target, call = Target(Kind.DIRECTORY, "/t", None), Call("load", "load", {})
        parts.append(Part(tenant, bench, Buffered(), call, target, scratch))  # type: ignore[arg-type]
        host.files |= {f"{scratch}/samples.jsonl": samples(100.0, 10.0), **gate(scratch, 100.0, 10.0)}
        host.files |= {f"{scratch}/out": "", f"{scratch}/err": ""}
    return together.run(parts, Outside(host, (("disk", "/dev/x"),), (), "/scratch"), 1)


def test_buffered_tenants_are_marked_by_what_the_disks_of_all_counted() -> None:
    """Their own devices say nothing; the disk that they share does."""
    found = buffered(2 << 30)
    assert found.figures["disk.read_ratio"] == 1.0
    assert [each.flags for each in found.trials] == [(), ()], found.trials
    assert [each.flags for each in buffered(1 << 29).trials] == [("cache",)] * 2


def test_the_arc_is_counted_once_around_all_tenants() -> None:
    zfs = Above(("the ARC of ZFS",), frozenset({"host"}))
    found = buffered(4 << 30, 1000, zfs)
    assert found.figures["host.arc_served_pct"] == 100.0
    assert [each.flags for each in found.trials] == [("cache",)] * 2
    assert all("host.arc_served_pct" not in (each.figures or {}) for each in found.trials)
    assert [each.flags for each in buffered(4 << 30, 1000).trials] == [(), ()]
