"""What a trial does around its workload, and what it says of the figure, on a host that only pretends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import pytest
from tests.fake_host import FakeHost

from strata.errors import CommandFailed, CommandTimedOut, GuestLost, VisitFailed, WorkloadFailed
from strata.model import (
    Call,
    Command,
    Completed,
    DataStep,
    Facts,
    Kind,
    Meanwhile,
    Measured,
    Metric,
    Outcome,
    Param,
    ParamType,
    Provides,
    Step,
    Target,
    TrialOutput,
    TrialPlan,
    WorkloadInfo,
)
from strata.run import machine, trial, trial_steps
from strata.run.outside import Outside
from strata.run.served import Above
from strata.workloads import find
from strata.workloads.guest import Boot

SPEED = Metric("speed", "MiB/s", "higher")
RISING = tuple((t, 100.0 + 10 * t) for t in range(40))
BURST = tuple(enumerate([20447.0, 12829.0, *[275.0] * 27]))
SETTLING = tuple(enumerate([500.0] * 5 + [100.0 + (t % 2) for t in range(45)]))


class Load:
    """Buffered or not, with or without a run time, and a series of its own."""

    info = WorkloadInfo(
        "load",
        "toy",
        (Param("runtime", ParamType.TIME, ""),),
        (SPEED,),
        "speed",
        frozenset(Kind),
    )

    def __init__(
        self,
        series: tuple[tuple[float, float], ...] = (),
        *,
        buffered: bool = False,
        data_bytes: int = 1 << 40,
        fails: VisitFailed | None = None,
        uses_up: bool = False,
        groups: tuple[int, ...] = (),
    ) -> None:
        self.series, self.buffered, self.bytes, self.fails = series, buffered, data_bytes, fails
        self.uses_up, self.groups = uses_up, groups

    def primary_of(self, spec: Call) -> Metric:
        return SPEED

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return []

    def checks(self, spec: Call) -> list[Command]:
        return []

    def data_bytes(self, spec: Call) -> int:
        return self.bytes

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        return TrialPlan(
            (Command(("prepare",)),),
            Command(("measure", str(spec["runtime"]))),
            {"result": f"{scratch}/result"},
            put={f"{scratch}/job": "rw=randread\n"},
            buffered=self.buffered,
            uses_up=self.uses_up,
        )

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        if self.fails:
            raise self.fails
        series = {"speed": self.series} if self.series else {}
        return Measured({"speed": 140.0}, series=series, groups=self.groups)


@dataclass(eq=False)
class Machine(FakeHost):
    answers: Mapping[str, Completed | VisitFailed] = field(default_factory=dict)  # by a word of the command

    def __post_init__(self) -> None:
        super().__init__()

    def run(self, command: Command, *, check: bool = True) -> Completed:
        done = super().run(command, check=check)
        for word, answer in self.answers.items():
            if any(word in part for part in command.argv):
                if isinstance(answer, VisitFailed):
                    raise answer
                return replace(answer, argv=command.argv)
        return done

    def count(self, word: str) -> int:
        return sum(any(word in part for part in command.argv) for command in self.commands)


TARGET = Target(Kind.DIRECTORY, "/stack/strata-trial", None)


def run(
    load: Load,
    *,
    runtime: float | None = 10.0,
    host: FakeHost | None = None,
    memory: int = 1,
    above: Above = Above(),  # noqa: B008 (frozen)
) -> trial.Trial:
    bench = trial.Bench(host or Machine(), (("disk", "/dev/x"),), memory, frozenset(), above=above)
    return trial.run(bench, load, Call("load", "load", {"runtime": runtime}), TARGET, "/scratch", 1)


def words(host: FakeHost) -> list[str]:
    """What happened in its order, as far as the order matters."""
    known = ("remove", "prepare", "hold", "udevadm", "drop_caches", "measure")
    told = (next((word for word in known if word in " ".join(command.argv)), "") for command in host.commands)
    return [word for word in told if word]


def test_layers_change_the_data_of_a_trial_when_they_are_on_the_disks_and_reset_them_before_the_next() -> None:
    """A snapshot of data that are not there yet has none of them."""
    host = Machine()
    steps = (DataStep(Command(("hold",)), reset=Command(("remove",))), DataStep(Command(("hold",))))
    bench = trial.Bench(host, (), 1, frozenset(), data_steps=tuple((host, step) for step in steps))
    trial.run(bench, Load(RISING), Call("load", "load", {"runtime": 10.0}), TARGET, "/scratch", 1)
    # The figure does not settle, so it is measured again, on the same data and against fresh snapshots.
    changed = ["udevadm", "hold", "hold", "udevadm", "drop_caches", "measure"]
    assert words(host) == ["remove", "prepare", *changed, "remove", *changed]


def test_a_trial_whose_data_cannot_be_changed_has_failed() -> None:
    host = Machine({"hold": CommandFailed(("hold",), 1, "", "no room")})
    bench = trial.Bench(host, (), 1, frozenset(), data_steps=((host, DataStep(Command(("hold",)))),))
    result = trial.run(bench, Load(), Call("load", "load", {"runtime": 10.0}), TARGET, "/scratch", 1)
    assert result.outcome is Outcome.FAILED and host.count("measure") == 0


def test_a_trial_without_a_run_time_that_does_not_settle_is_marked_and_neither_repeated_nor_cut() -> None:
    host = Machine()
    result = run(Load(RISING), runtime=None, host=host)
    assert result.flags == ("unsteady",)
    assert host.count("measure") == 1
    assert result.figures == {"speed": 140.0}
    assert any("rises" in note or "steady" in note for note in result.notes)


def test_a_trial_that_runs_to_its_own_end_keeps_its_figure_though_its_series_settles_late() -> None:
    assert run(Load(SETTLING), runtime=None).figures == {"speed": 140.0}


def test_a_figure_that_counts_a_burst_in_its_first_seconds_is_marked() -> None:
    result = run(Load(BURST), runtime=None)
    assert result.flags == ("unsteady",)
    assert any("from the first sample" in note and "runtime=" in note for note in result.notes)


def test_a_figure_without_a_burst_in_its_first_seconds_is_not_marked() -> None:
    result = run(Load(BURST))
    assert result.flags == () and result.figures is not None and result.figures["speed"] == 275.0


def test_groups_that_follow_each_other_are_each_judged_alone_and_not_cut() -> None:
    steps = tuple(enumerate([900.0] * 20 + [10.0] * 20))
    assert run(Load(steps), runtime=None).flags == ("unsteady",)
    for runtime in (None, 10.0):
        result = run(Load(steps, groups=(20,)), runtime=runtime)
        assert (result.flags, result.figures) == ((), {"speed": 140.0})
    assert "unsteady" in run(Load((*steps, *BURST), groups=(20, 40)), runtime=None).flags


def test_a_primary_metric_without_a_series_is_judged_by_that_of_the_workload() -> None:
    class Latency(Load):
        def primary_of(self, spec: Call) -> Metric:
            return Metric("latency", "ms", "lower")

    result = run(Latency(BURST), runtime=None)
    assert result.flags == ("unsteady",)
    assert run(Latency(SETTLING)).figures == {"speed": 140.0}  # the mean of another metric is not its figure


def test_a_figure_without_its_warm_up_stands_beside_the_one_with_it() -> None:
    result = run(Load(SETTLING))
    assert result.figures == {"speed": pytest.approx(100.5, abs=0.2), "speed_whole_run": 140.0}
    (whole,) = result.extra
    assert (whole.name, whole.unit, whole.better) == ("speed_whole_run", "MiB/s", "higher")


def test_memory_is_cleared_before_the_repeat_too() -> None:
    host = Machine()
    result = run(Load(RISING), host=host)
    assert result.flags == ("extended", "unsteady")
    words = ["prepare", "sync", "drop_caches", "measure"]
    order = [word for command in host.commands for word in words if any(word in part for part in command.argv)]
    again = ["sync", "sync", "sync", "drop_caches", "measure"]
    assert order == ["prepare", *again, *again], "the file system, then all that holds data back, the rest, then memory"


def test_its_files_are_there_before_it_is_prepared_and_measured() -> None:
    there: list[tuple[str, str | None]] = []

    class Looking(Machine):
        def run(self, command: Command, *, check: bool = True) -> Completed:
            there.extend(
                (word, self.files.get("/scratch/job")) for word in ("prepare", "measure") if word in command.argv
            )
            return super().run(command, check=check)

    run(Load(), host=Looking())
    assert there == [("prepare", "rw=randread\n"), ("measure", "rw=randread\n")]


class Strict(Machine):
    """Where what fails is an error to whoever wants to know."""

    def run(self, command: Command, *, check: bool = True) -> Completed:
        done = super().run(command, check=check)
        if check and done.exit_code:
            raise CommandFailed(command.argv, done.exit_code, "", "")
        return done


@pytest.mark.parametrize(
    ("broken", "raised", "ran"),
    [
        ("", None, ["begin-1", "begin-2", "measure", "end-1", "end-2"]),
        ("measure", "measure", ["begin-1", "begin-2", "measure", "end-1", "end-2"]),
        ("begin-1", "begin-1", ["begin-1", "end-1"]),
        ("begin-2", "begin-2", ["begin-1", "begin-2", "end-1", "end-2"]),
        ("end-1", "end-1", ["begin-1", "begin-2", "measure", "end-1"]),
        ("measure end-1", "measure", ["begin-1", "begin-2", "measure", "end-1", "end-2"]),
    ],
)
def test_what_goes_on_beside_a_load_is_ended_whatever_becomes_of_it(
    broken: str, raised: str | None, ran: list[str]
) -> None:
    host = Strict({word: Completed((), 1, "", "", 0.0) for word in broken.split()})
    each = [(host, Meanwhile(Command((f"begin-{n}",)), Command((f"end-{n}",)))) for n in (1, 2)]
    with pytest.raises(CommandFailed, match=raised) if raised else nullcontext(), trial.under_way(each):
        host.run(Command(("measure",)))
    assert [command.argv[0] for command in host.commands] == ran


class Gated(Load):
    """It says itself when it begins and ends."""

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        return replace(super().plan(spec, target, scratch, seed), gated=Command(("measure", "at-the-gate")))


class Sampling(Machine):
    """Samples for 8 s from the 100th second on; the gate is at `files`."""

    def run(self, command: Command, *, check: bool = True) -> Completed:
        done = super().run(command, check=check)
        if command.argv[:2] == (self.engine, "sample"):
            header = {"version": 1, "interval_s": 1.0, "started_unix_s": 100.0, "cpus": 1, "devices": {}}
            end = {"end": True, "wall_s": 8.0, "exit_code": 0, "signal": None}
            path = command.argv[command.argv.index("--out") + 1]
            self.files[path] = "".join(json.dumps(row) + "\n" for row in (header, *({"t_s": t} for t in range(9)), end))
        return done


def test_a_load_with_a_gate_is_sampled_from_its_begin_to_its_end() -> None:
    host = Sampling()
    host.files |= {"/scratch/gate/began": "102000\n", "/scratch/gate/ended": "107500\n"}
    result = run(Gated(), host=host)
    assert (result.outcome, result.wall_s) == (Outcome.OK, 6.0), "from the last sample before to the first one after"
    assert run(Load(), host=host).wall_s == 8.0


@pytest.mark.parametrize("files", [{}, {"began": "102000"}, {"began": "102000", "ended": "soon"}])
def test_a_gate_that_does_not_say_when_is_a_failure(files: dict[str, str]) -> None:
    host = Sampling()
    host.files |= {f"/scratch/gate/{name}": text for name, text in files.items()}
    result = run(Gated(), host=host)
    assert result.outcome is Outcome.FAILED and "does not say when it began and ended" in (result.reason or "")


def test_what_a_load_has_used_up_is_prepared_again_before_the_repeat() -> None:
    host = Machine()
    assert run(Load(RISING, uses_up=True), host=host).flags == ("extended", "unsteady")
    words = ["prepare", "sync", "drop_caches", "measure"]
    order = [word for command in host.commands for word in words if any(word in part for part in command.argv)]
    assert order == ["prepare", "sync", "sync", "sync", "drop_caches", "measure"] * 2


def test_what_a_rehearsal_has_used_up_is_prepared_again() -> None:
    steps = trial_steps.trial_steps(
        "engine", (), Load(uses_up=True).plan(Call("load", "load", {"runtime": 1.0}), TARGET, "/s", 1), TARGET, "/s", 2
    )
    assert [command.argv[0] for command in steps.rehearse] == ["measure", "prepare", "measure", "prepare", "rm"]


def test_what_a_rehearsal_left_is_not_read_with_the_result() -> None:
    about = ("engine", (), Load().plan(Call("load", "load", {"runtime": 1.0}), TARGET, "/s", 1), TARGET, "/s")
    assert trial_steps.trial_steps(*about, 1).rehearse[-1].argv == ("rm", "--force", "--", "/s/result")
    assert trial_steps.trial_steps(*about).rehearse == ()


def test_a_cleanup_stands_around_the_trial_and_the_trial_is_not_rehearsed() -> None:
    step = Step(Command(("begin",)), Command(("end",)), "begin")
    plan = replace(Load().plan(Call("load", "load", {"runtime": 1}), TARGET, "/s", 1), cleanup=step)
    steps = trial_steps.trial_steps("engine", (), plan, TARGET, "/s", rehearsals=2, inside=("within",))
    assert steps.make[-1].argv == ("within", "begin") and steps.rehearse == ()
    assert [command.argv[:2] for command in steps.remove] == [("within", "end"), ("within", "rm")]


@pytest.mark.parametrize(("buffered", "data", "cached"), [(True, 19, True), (True, 20, False), (False, 1, False)])
def test_cached_is_a_buffered_data_set_under_twice_the_memory(buffered: bool, data: int, cached: bool) -> None:
    assert ("cache" in run(Load(buffered=buffered, data_bytes=data), memory=10).flags) == cached


@pytest.mark.parametrize(("name", "marked"), [("dd/seqwrite-sync@study", True), ("dd/seqwrite-sync", False)])
def test_a_figure_that_ends_before_the_sync_is_that_of_the_page_cache(name: str, marked: bool) -> None:
    """All bytes reach the disk within the trial, but after what dd itself prints."""
    size = 64 << 20
    said = f"{size} bytes (67 MB, 64 MiB) copied, 0.01 s, 6.7 GB/s\n"

    class Disk(Machine):
        def run(self, command: Command, *, check: bool = True) -> Completed:
            done = super().run(command, check=check)
            self.files["/scratch/samples.jsonl"] = written(size)
            return replace(done, stderr=said)

    names = frozenset({"disk.write_amplification"})
    bench = trial.Bench(Disk(), (("disk", "/dev/x"),), 1, names)
    call = Call("dd/seqwrite-sync", name, {"size": size}, variant="study" if marked else None)
    result = trial.run(bench, find(call), call, TARGET, "/scratch", 1)
    assert (result.figures or {})["disk.write_amplification"] == 1.0, result.reason
    assert ("cache" in result.flags) is marked
    assert any("ends before the sync" in note for note in result.notes) is marked


def written(size: int) -> str:
    """Samples of a disk that was given so many bytes in 10 s."""
    counters = ("reads", "writes", "flushes", "busy_ms", "in_flight", "read_bytes")
    disks = [{**dict.fromkeys(counters, at), "write_bytes": at * size} for at in (0, 1)]
    rows = [{"t_s": 10.0 * at, "devices": {"d0": disk}} for at, disk in enumerate(disks)]
    lines = [{"started_unix_s": 0.0}, *rows, {"end": True, "wall_s": 10.0}]
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_a_trial_says_how_long_its_caches_took_to_empty_and_what_was_not_emptied() -> None:
    wrote = Completed((), 0, "sync: error syncing '/dev/x': Input/output error\n", "", 40.0)
    forgot = replace(wrote, stdout="", duration_s=300.0)  # it writes out what else is dirty before
    host = Machine({"drop_caches": forgot, "udevadm": wrote, "--file-system": replace(forgot, duration_s=2.0)})
    bench = trial.Bench(host, (), 1, frozenset({"host.flush_s"}), holders=("/dev/top", "/dev/x"))
    result = trial.run(bench, Load(), Call("load", "load", {"runtime": None}), TARGET, "/scratch", 1)
    assert result.figures == {"speed": 140.0, "host.flush_s": 342.0}
    assert any("did not start with empty write caches" in note and "/dev/x" in note for note in result.notes)
    (quiesce,) = [command for command in host.commands if any("udevadm" in part for part in command.argv)]
    assert quiesce.argv[-2:] == ("/dev/top", "/dev/x") and quiesce.timeout_s >= 600
    assert not [note for note in run(Load()).notes if "write caches" in note]


def test_caches_are_emptied_in_the_guest_and_then_on_the_machine_that_carries_it() -> None:
    said: list[tuple[str, str]] = []

    class Named(Machine):
        name = ""

        def run(self, command: Command, *, check: bool = True) -> Completed:
            words = ("prepare", "udevadm", "drop_caches", "measure")
            said.extend((self.name, word) for word in words if any(word in part for part in command.argv))
            return replace(super().run(command, check=check), duration_s=1.0)

    guest, outer = Named(), Named()
    guest.name, outer.name = "guest", "outer"
    outside = Outside(outer, (), (), "/visit", holders=("/image", "/dev/disk"))
    bench = trial.Bench(guest, (), 1, frozenset({"host.flush_s"}), holders=("/mnt", "/dev/vdb"), outside=outside)
    result = trial.run(bench, Load(), Call("load", "load", {"runtime": None}), TARGET, "/scratch", 1)
    order = [(host, word) for host in ("guest", "outer") for word in ("udevadm", "drop_caches")]
    assert said == [("guest", "prepare"), *order, ("guest", "measure")]
    assert ("/mnt", "/dev/vdb") in [command.argv[-2:] for command in guest.commands]
    assert ("/image", "/dev/disk") in [command.argv[-2:] for command in outer.commands]
    assert result.figures is not None and result.figures["host.flush_s"] == 5.0, "file system, and each twice"


ARC = "size 4 {size}\nc_min 4 62484352\ndata_size 4 {size}\n"
MEMINFO = "Dirty: 512 kB\nWriteback: 8 kB\nCached: 5000 kB\nBuffers: 100 kB\nShmem: 1000 kB\n"


def test_what_memory_keeps_when_the_clock_starts_is_read_on_every_machine() -> None:
    outer, guest = Machine(), Machine()
    for host, size in ((outer, 1 << 20), (guest, 2 << 20)):
        host.files |= {"/proc/meminfo": MEMINFO, "/proc/spl/kstat/zfs/arcstats": ARC.format(size=size)}
    names = frozenset(metric.name for metric in (*machine.HOST_METRICS, *machine.GUEST_METRICS))
    bench = trial.Bench(guest, (), 1, names, outside=Outside(outer, (), (), "/visit"))
    figures = trial.run(bench, Load(), Call("load", "load", {"runtime": None}), TARGET, "/scratch", 1).figures or {}
    seen = {name: value for name, value in figures.items() if "start" in name}
    same = {"dirty_bytes": 520 << 10, "page_cache_bytes": 4100 << 10}
    assert seen == {
        **{f"{where}.start_{name}": value for where in ("host", "guest") for name, value in same.items()},
        "host.start_arc_bytes": 1 << 20,
        "guest.start_arc_bytes": 2 << 20,
    }


def test_an_arc_that_was_not_emptied_is_said() -> None:
    host = Machine()
    zfs = Above(("the ARC of ZFS",), frozenset({"host"}))
    host.files["/proc/spl/kstat/zfs/arcstats"] = ARC.format(size=59 << 20)
    result = run(Load(), host=host, above=zfs)
    assert any("the ARC of ZFS was not empty" in note and "59.0 MiB" in note for note in result.notes), result.notes
    assert result.flags == ("cache",)
    host.files["/proc/spl/kstat/zfs/arcstats"] = ARC.format(size=32 << 20)
    assert not [note for note in run(Load(), host=host, above=zfs).notes if "ARC" in note]


def test_an_arc_that_the_stack_does_not_have_may_be_full() -> None:
    """Of a machine whose root is on ZFS."""
    host = Machine()
    host.files["/proc/spl/kstat/zfs/arcstats"] = ARC.format(size=1 << 30)
    for above in (Above(), Above(("the ARC of ZFS",), frozenset({"guest"}))):
        result = run(Load(), host=host, above=above)
        assert result.flags == () and not [note for note in result.notes if "ARC" in note]


ROOT_ON_ZFS = "data_size 4 0\ndemand_data_hits 4 {hits}\ndemand_data_iohits 4 0\ndemand_data_misses 4 0\n"


class Counting(Machine):
    """Its ARC answers 1,000 reads while a load is measured."""

    def run(self, command: Command, *, check: bool = True) -> Completed:
        done = super().run(command, check=check)
        self.files["/proc/spl/kstat/zfs/arcstats"] = ROOT_ON_ZFS.format(hits=1000 * min(self.count("measure"), 1))
        return done


class Reading(Load):
    def read(self, spec: Call, output: TrialOutput) -> Measured:
        return replace(super().read(spec, output), bytes_read=1 << 30, bytes_written=0)


def read_there(above: Above, filesystem: str | None = None, *, in_guest: bool = False) -> trial.Trial:
    """`above`: of a stack on a machine whose ARC answers whatever is read meanwhile; with `in_guest` that is the
    machine which carries the guest."""
    names = frozenset(metric.name for metric in (*machine.HOST_METRICS, *machine.GUEST_METRICS))
    outer = Counting()
    bench = trial.Bench(outer, (), 1, names, filesystem, above=above)
    if in_guest:

        class Inner(Machine):
            def run(self, command: Command, *, check: bool = True) -> Completed:
                if any("measure" in part for part in command.argv):
                    outer.run(Command(("measure",)))
                return super().run(command, check=check)

        bench = replace(bench, host=Inner(), outside=Outside(outer, (), (), "/visit"))
    return trial.run(bench, Reading(), Call("load", "load", {"runtime": None}), TARGET, "/scratch", 1)


@pytest.mark.parametrize("in_guest", [False, True])
def test_an_arc_counts_only_on_a_machine_where_the_stack_has_zfs(in_guest: bool) -> None:
    """A machine whose root is on ZFS serves other programs from its ARC as well."""
    seen = read_there(Above(("the ARC of ZFS",), frozenset({"host"})), in_guest=in_guest)
    assert "cache" in seen.flags and (seen.figures or {})["host.arc_served_pct"] == 100
    for above in (Above(), Above(("the ARC of ZFS",), frozenset({"guest"}))):
        other = read_there(above, in_guest=in_guest)
        assert "cache" not in other.flags and "host.arc_served_pct" not in (other.figures or {})


def test_the_arc_counts_for_a_directory_of_the_users_that_is_on_zfs() -> None:
    assert "cache" in read_there(Above(), "zfs").flags
    assert "cache" not in read_there(Above(), "ext4").flags


def test_memory_that_was_not_cleared_is_a_mark_and_a_note() -> None:
    host = Machine({"drop_caches": Completed((), 1, "", "Permission denied", 0.0)})
    result = run(Load(), host=host)
    assert result.flags == ("cache",)
    assert any("only root may" in note for note in result.notes)


BUSY = (
    '{"version": 1, "started_unix_s": 0}\n'
    '{"t_s": 0, "devices": {}, "cpu_s": {"user": 0, "idle": 0}}\n'
    '{"t_s": 1, "devices": {}, "cpu_s": {"user": 1, "idle": 1}}\n'
    '{"end": true, "wall_s": 1}\n'
)


@pytest.mark.parametrize("earlier", [False, True])
def test_what_machines_did_says_nothing_of_a_figure_that_was_taken_before(earlier: bool) -> None:
    """guest/boot: the guest booted when the stack was built, and its trial only reads how long that took."""

    class Earlier(Load):
        def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
            return replace(super().plan(spec, target, scratch, seed), earlier=earlier)

    class Sampled(Machine):
        def run(self, command: Command, *, check: bool = True) -> Completed:
            done = super().run(command, check=check)
            self.files["/scratch/samples.jsonl"] = BUSY
            return done

    bench = trial.Bench(Sampled(), (), 1, frozenset({"host.cpu_busy_pct"}))
    result = trial.run(bench, Earlier(), Call("load", "load", {"runtime": None}), TARGET, "/scratch", 1)
    assert ("host.cpu_busy_pct" in (result.figures or {})) is not earlier
    assert Boot().plan(Call("guest/boot", "guest/boot", {}), TARGET, "/s", 1).earlier


def test_of_a_failed_trial_both_streams_and_the_files_are_kept_and_cut_to_size() -> None:
    long = "a" * (1 << 20) + "the end"
    host = Machine({"measure": Completed((), 1, "what it printed", long, 0.0)})
    host.files["/scratch/result"] = "half a result"
    result = run(Load(fails=WorkloadFailed("no figure")), host=host)
    assert (result.outcome, result.reason, result.figures) == (Outcome.FAILED, "no figure", None)
    said, file = result.evidence
    assert said.argv[-2:] == ("measure", "10.0") and (said.exit_code, said.stdout) == (1, "what it printed")
    assert said.stderr.startswith("aaa") and said.stderr.endswith("the end")
    assert len(said.stderr) < (64 << 10) + 100 and "bytes left out" in said.stderr
    assert (file.argv, file.stdout) == (("cat", "/scratch/result"), "half a result")


def in_a_guest_of_ones_own(host: Machine) -> trial.Trial:
    bench = trial.Bench(host, (), 1, frozenset(), inside=("ssh", "there"), pid_file="/visit/3/pid")
    load = Load(fails=WorkloadFailed("fio was cut off"))
    guest = Target(Kind.GUEST, "/dev/vdb", None)
    return trial.run(bench, load, Call("load", "load", {"runtime": 10.0}), guest, "/scratch", 1)


def test_a_guest_of_ones_own_that_does_not_answer_after_its_trial_is_what_failed() -> None:
    host = Machine({"exit": CommandFailed(("ssh", "there", "exit"), 255, "", "Connection refused")})
    host.files["/visit/3/console"] = "booting\r\n[ 9.1] Kernel panic - not syncing: sysrq\r\n"
    with pytest.raises(GuestLost, match=r"the guest was lost: \[ 9.1\] Kernel panic") as lost:
        in_a_guest_of_ones_own(host)
    assert lost.value.console.startswith("booting")
    host.files.clear()
    with pytest.raises(GuestLost, match="the guest was lost: fio was cut off"):
        in_a_guest_of_ones_own(host)


def test_a_trial_that_fails_in_a_guest_of_ones_own_that_lives_is_a_failed_trial() -> None:
    host = Machine()
    result = in_a_guest_of_ones_own(host)
    assert (result.outcome, result.reason) == (Outcome.FAILED, "fio was cut off")
    assert host.commands[-1].argv == ("ssh", "there", "exit")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CommandFailed(("prepare",), 7, "out", "err"), 7),
        (CommandFailed(("prepare",), None, "out", "err"), 127),
        (CommandTimedOut(("prepare",), None, "out", "err"), 124),
    ],
)
def test_a_command_that_fails_before_the_clock_starts_is_kept_with_what_it_said(
    error: CommandFailed, code: int
) -> None:
    result = run(Load(), host=Machine({"prepare": error}))
    assert result.outcome is Outcome.FAILED
    assert [(e.argv, e.exit_code, e.stdout, e.stderr) for e in result.evidence] == [(("prepare",), code, "out", "err")]


def test_an_engine_that_stops_half_way_is_quoted() -> None:
    class Full(Machine):
        def run(self, command: Command, *, check: bool = True) -> Completed:
            done = super().run(command, check=check)
            self.files.pop("/scratch/samples.jsonl", None)
            return replace(done, stderr="strata-engine: no space left\n")

    assert "no space left" in (run(Load(), host=Full()).reason or "")


def test_the_steps_of_a_trial_are_typed_in_the_order_in_which_they_run() -> None:
    assert trial_steps.target_on(Provides(Kind.DIRECTORY, "/stack", 5)) == replace(TARGET, size_bytes=5)
    plan = Load().plan(Call("load", "load", {"runtime": 1}), TARGET, "/scratch", 1)
    steps = trial_steps.trial_steps("engine", [("disk", "/dev/x")], plan, TARGET, "/scratch")
    assert [argv[0] for argv in steps.typed()] == [
        "mkdir",
        "mkdir",
        "sh",
        "prepare",
        "sync",
        *["sh"] * 2,
        "engine",
        "rm",
    ]
    assert steps.typed()[2][-2:] == ("/scratch/job", "rw=randread\n")
    assert "d0=/dev/x" in steps.measure.argv and steps.measure.argv[-2:] == ("measure", "1")
    device = trial_steps.target_on(Provides(Kind.BLOCK, "/dev/y", 5))
    on_device = trial_steps.trial_steps("engine", [], plan, device, "/scratch").typed()
    assert "--flushbufs" not in str(on_device), "it sends no flush to the disk"
    assert on_device[-3][-1] == "/dev/y" and on_device[-2] == trial_steps.forget(("/dev/y",)).argv
    assert [argv[0] for argv in on_device] == ["mkdir", "sh", "prepare", "sh", "sh", "engine"]
