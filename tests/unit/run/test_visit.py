"""The life of a visit on a host that only pretends: order, failures, removal, what counts and what does not."""

from __future__ import annotations

import json
import shlex
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pytest
from tests.fake_host import FakeHost

from strata.campaign import parse_stacks
from strata.errors import BadInput, CommandFailed, CommandTimedOut, HostLost, Interrupted, UndoFailed, WorkloadFailed
from strata.judge.risks import loses_acknowledged
from strata.layers import catalogue
from strata.model import (
    Call,
    Command,
    Completed,
    Disk,
    Facts,
    Kind,
    LayerInfo,
    Measured,
    Metric,
    Node,
    Outcome,
    Param,
    ParamType,
    Place,
    Provides,
    Rule,
    Stack,
    Step,
    Target,
    TrialOutput,
    TrialPlan,
    WorkloadInfo,
)
from strata.run import journal, machine_lock, served, trial_steps, visit
from strata.run.directories import Directory
from strata.run.layout import Layout
from strata.run.progress import Progress, TrialEnded
from strata.run.signals import Interrupts
from strata.run.sites import LastingSites, Site, Sites
from strata.run.trial import Trial
from strata.store import reader
from strata.store.writer import Store

SPEED = Metric("speed", "MiB/s", "higher")


class ToyLayer:
    """A layer `name` whose every step and undo is a word that the host remembers."""

    def __init__(self, name: str, differences: Callable[[], list[str]] = list) -> None:
        self.info = LayerInfo(name, "toy", (), frozenset(Kind), Kind.DIRECTORY)
        self._differences = differences

    def arity_reasons(self, spec: Call, inputs: int) -> list[str]:
        return []

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return []

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        return Provides(Kind.DIRECTORY, f"/{self.info.name}")

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        name = self.info.name
        return [Step(Command((f"make-{name}-{n}",)), Command((f"undo-{name}-{n}",)), f"{name} {n}") for n in (1, 2)]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [Command((f"inspect-{self.info.name}",))]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        return self._differences()


class ToyWorkload:
    def __init__(self, name: str, read: Callable[[Call], Measured]) -> None:
        runtime = Param("runtime", ParamType.TIME, "", default=10.0)
        self.info = WorkloadInfo(name, "toy", (runtime,), (SPEED,), "speed", frozenset(Kind))
        self._read = read

    def primary_of(self, spec: Call) -> Metric:
        return SPEED

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return []

    def checks(self, spec: Call) -> list[Command]:
        return []

    def data_bytes(self, spec: Call) -> int:
        return 0

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        measure = Command((f"measure-{self.info.name}", f"{spec['runtime']:g}", str(seed)))
        return TrialPlan((Command((f"prepare-{self.info.name}", target.path)),), measure, {})

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        return self._read(spec)


class Host(FakeHost):
    """Fails the commands in `broken`, and pretends that `strays` were found each time."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: set[str] = set()
        self.failure: Callable[..., Exception] = CommandFailed
        self.standing: Iterator[str] = iter(())
        self.strays: list[str] = []
        self.unkillable: list[str] = []

    def run(self, command: Command, *, check: bool = True) -> Completed:
        done = super().run(command, check=check)
        if command.argv[0] in self.broken:
            raise self.failure(command.argv, 1, "", "it broke")
        if "/proc/mounts" in command.argv[-1]:  # what stands on the machine
            done = replace(done, stdout=next(self.standing, ""))
        return done

    def end_strays(self, marker: str) -> list[str]:
        self.commands.append(Command(("end-strays", marker)))
        if self.unkillable:
            raise UndoFailed([f"{each} was killed and still lives" for each in self.unkillable])
        return self.strays

    def words(self) -> list[str]:
        """The toy words, in order; the engine's argument where it is what measures."""
        found = []
        for command in self.commands:
            word = command.argv[-3] if command.argv[0] == self.engine else command.argv[0]
            if "-" in word and word.split("-")[0] in ("make", "undo", "inspect", "prepare", "measure"):
                found.append(word)
        return found


@dataclass
class Scene:
    store: Store
    host: Host
    layers: dict[str, ToyLayer]
    loads: list[ToyWorkload]
    told: list[Progress] = field(default_factory=list)
    sites: Sites | None = None

    def go(self, round_: int = 3) -> str | None:
        stack = Stack("low | top", Node(Call("top", "top", {}), (Node(Call("low", "low", {})),)))
        calls = [(Call(load.info.name, load.info.name, {"runtime": 10.0}), load, SPEED) for load in self.loads]
        self.store.add_plan([stack], [(call, metric, (metric,)) for call, _, metric in calls], (), ())
        self.store.set_rule(Rule(), 0.0)
        self.store.add_visits([(round_, stack.text)], 0.0)
        bench = visit.Workbench(
            sites=self.sites or LastingSites(self.host, "0" * 32, "/work", self.host.now),
            store=self.store,
            drivers=self.layers,
            workloads=calls,
            disks=(),
            memory_bytes=1,
            machine_metrics=frozenset(),
            seed=100,
            interrupts=Interrupts(),
            listener=self.told.append,
        )
        (planned,) = self.store.open_visits()
        return visit.visit(bench, planned, stack)

    def outcomes(self) -> Mapping[str, tuple[Outcome, tuple[str, ...], Mapping[str, float]]]:
        view = reader.view(self.store.directory)
        return {trial.workload: (trial.outcome, trial.flags, trial.metrics) for trial in view.trials}


@dataclass(frozen=True)
class LabSites(LastingSites):
    """Machines that are thrown away; those of the attempts in `doomed` are lost when they are to measure."""

    disposable: bool = True
    doomed: frozenset[int] = frozenset()
    left: str = ""  # what stands on the machine after the removal, and did not before
    without_disks: bool = False

    @contextmanager
    def site(self, stack: Stack, disks: Sequence[Disk], attempt: int, seed: int) -> Iterator[Site]:
        host = self.host
        assert isinstance(host, Host)
        if self.without_disks:
            raise CommandFailed(("strata-engine", "disk", "serve"), 1, "", "too fast")
        if attempt in self.doomed:
            host.broken, host.failure = {host.engine}, lost
        else:
            host.broken = set()
        host.standing = iter(["mount /a of x (y)", f"mount /a of x (y)\n{self.left}"])
        yield Site(host, (), "/lab", "1" * 32, 1)


def lost(argv: Sequence[str], *said: object) -> Exception:
    return HostLost("the machine is gone.", "Kernel panic - not syncing")


def steady(spec: Call) -> Measured:
    return Measured({"speed": 5.0})


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    store = Store.create(
        tmp_path / "run", name="n", about="", source="", fingerprint="", description={}, seed=1, version="0", now=0.0
    )
    layers = {"low": ToyLayer("low"), "top": ToyLayer("top")}
    yield Scene(store, Host(), layers, [ToyWorkload("a", steady), ToyWorkload("b", steady)])
    store.close()


BUILD = ["make-low-1", "make-low-2", "make-top-1", "make-top-2"]
PROVE = ["inspect-low", "inspect-top"]
REMOVE = ["undo-top-2", "undo-top-1", "undo-low-2", "undo-low-1"]


def test_the_order_of_a_visit(scene: Scene) -> None:
    assert scene.go() is None
    trials = ["prepare-a", "measure-a", *PROVE, "prepare-b", "measure-b", *PROVE]
    assert scene.host.words() == [*BUILD, *PROVE, *trials, *REMOVE]
    assert [outcome for outcome, _, _ in scene.outcomes().values()] == [Outcome.OK, Outcome.OK]
    measured = next(c.argv for c in scene.host.commands if "measure-a" in c.argv)
    assert measured[-1] == "103", "the seed is the run's plus the round: the same for every stack of a round"
    assert scene.store.to_undo() == []


class Changing(ToyWorkload):
    """One that changes more than its own files."""

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        name = self.info.name
        step = Step(Command((f"make-of-{name}",)), Command((f"undo-of-{name}",)), f"begin {name}")
        return replace(super().plan(spec, target, scratch, seed), cleanup=step)


@pytest.mark.parametrize("disposable", [False, True])
def test_the_limits_of_the_arc_are_put_back_on_a_machine_that_stays(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, disposable: bool
) -> None:
    monkeypatch.setattr(served, "above", lambda plan: served.Above(arcs=frozenset({"host"})))
    if disposable:
        scene.sites = LabSites(scene.host, "0" * 32, "/work", scene.host.now)
    scene.go()
    of_arc = [command.argv for command in scene.host.commands if command.argv[-1].endswith("/arc")]
    assert [argv[2] for argv in of_arc] == ([] if disposable else [trial_steps._NOTE_ARC, trial_steps._RESTORE_ARC])


def test_what_a_trial_changes_beside_its_files_is_undone_before_the_stack_is_proven(scene: Scene) -> None:
    scene.loads[:] = [Changing("a", steady)]
    assert scene.go() is None
    trial = ["make-of-a", "prepare-a", "measure-a", "undo-of-a", *PROVE]
    # again with all the others, as the journal has it
    assert scene.host.words() == [*BUILD, *PROVE, *trial, "undo-of-a", *REMOVE]
    view = reader.view(scene.store.directory)
    assert not [step for step in view.steps if step.layer == "a"], "it builds no part of the stack"


def test_a_trial_that_is_cut_short_is_undone_from_the_journal(scene: Scene) -> None:
    scene.loads[:] = [Changing("a", steady)]
    plain = scene.host.run

    def cut(command: Command, *, check: bool = True) -> Completed:
        if "measure-a" in command.argv:
            raise Interrupted("stop")
        return plain(command, check=check)

    scene.host.run = cut  # type: ignore[method-assign]
    with pytest.raises(Interrupted):
        scene.go()
    assert scene.host.words()[-5:] == ["undo-of-a", *REMOVE]


def test_what_a_trial_cannot_undo_is_its_reason_and_fails_the_visit(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_UNDO_PAUSE_S", 0.0)
    scene.loads[:] = [Changing("a", steady)]
    scene.host.broken = {"undo-of-a"}
    with pytest.raises(UndoFailed, match="begin a"):
        scene.go()
    (ended,) = (each for each in scene.told if isinstance(each, TrialEnded))
    assert ended.reason is not None and "could not be removed: `undo-of-a` ended with exit code 1" in ended.reason


def test_caches_are_dropped_between_preparing_and_measuring(scene: Scene) -> None:
    scene.go()
    argvs = [" ".join(command.argv) for command in scene.host.commands]
    drop = next(i for i, argv in enumerate(argvs) if "drop_caches" in argv)
    assert "prepare-a" in " ".join(argvs[:drop]) and "measure-a" not in " ".join(argvs[:drop])


def test_memory_that_could_not_be_cleared_is_noted(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = FakeHost.run

    def as_a_user(self: FakeHost, command: Command, *, check: bool = True) -> Completed:
        done = plain(self, command, check=check)
        return replace(done, exit_code=1) if "drop_caches" in " ".join(command.argv) else done

    monkeypatch.setattr(FakeHost, "run", as_a_user)
    assert scene.go() is None
    trials = reader.view(scene.store.directory).trials
    assert len(trials) == 2 and all("only root may" in " ".join(trial.notes) for trial in trials)
    assert all("cache" in trial.flags for trial in trials)


@pytest.mark.parametrize("broken", BUILD)
def test_a_step_that_fails_ends_the_visit_and_all_that_was_begun_is_undone(scene: Scene, broken: str) -> None:
    scene.host.broken = {broken}
    failure = scene.go()
    assert failure is not None and "it broke" in failure
    begun = BUILD[: BUILD.index(broken) + 1]
    assert scene.host.words() == [*begun, *(word.replace("make", "undo") for word in reversed(begun))]
    view = reader.view(scene.store.directory)
    assert [f.reason for f in view.failed] == [failure] and view.visits_done == 1


def test_a_stack_that_is_not_as_asked_is_never_measured(scene: Scene) -> None:
    scene.layers["top"] = ToyLayer("top", lambda: ["the top is upside down"])
    failure = scene.go()
    assert failure is not None and "upside down" in failure
    assert scene.host.words() == [*BUILD, *PROVE, *REMOVE]


def test_a_target_that_changed_under_a_trial_makes_its_figures_invalid_and_ends_the_visit(scene: Scene) -> None:
    answers = iter([[], ["somebody mounted over it"]])
    scene.layers["top"] = ToyLayer("top", lambda: next(answers))
    assert "mounted over it" in (scene.go() or "")
    assert "measure-a" in scene.host.words() and "measure-b" not in scene.host.words()
    outcome, _, figures = scene.outcomes()["a"]
    assert outcome is Outcome.INVALID and figures == {"speed": 5.0}


def test_a_workload_that_fails_is_a_failed_trial_and_the_next_one_runs(scene: Scene) -> None:
    def broken(spec: Call) -> Measured:
        raise WorkloadFailed("no space left on device")

    scene.loads[0] = ToyWorkload("a", broken)
    assert scene.go() is None
    outcome, _, figures = scene.outcomes()["a"]
    assert outcome is Outcome.FAILED and figures == {}
    assert scene.outcomes()["b"][0] is Outcome.OK
    assert [t.reason for t in scene.told if isinstance(t, TrialEnded)] == ["no space left on device", None]


def test_a_series_that_does_not_settle_is_measured_once_more_twice_as_long_and_then_marked(scene: Scene) -> None:
    def rising(spec: Call) -> Measured:
        return Measured({"speed": 5.0}, series={"speed": [(t, 100.0 + 10 * t) for t in range(40)]})

    scene.loads[:] = [ToyWorkload("a", rising)]
    scene.go()
    runs = [command.argv[-2] for command in scene.host.commands if "measure-a" in command.argv]
    assert runs == ["10", "20"]
    assert [word for word in scene.host.words() if word == "prepare-a"] == ["prepare-a"]
    assert scene.outcomes()["a"][1] == ("extended", "unsteady")


def test_a_series_that_settles_late_gives_the_figure_without_the_warm_up(scene: Scene) -> None:
    values = [500.0] * 5 + [100.0 + (t % 2) for t in range(45)]

    def settling(spec: Call) -> Measured:
        return Measured({"speed": 140.0}, series={"speed": list(enumerate(values))})

    scene.loads[:] = [ToyWorkload("a", settling)]
    scene.go()
    outcome, flags, figures = scene.outcomes()["a"]
    assert (outcome, flags) == (Outcome.OK, ())
    assert figures["speed"] == pytest.approx(100.5, abs=0.2)


def test_an_interrupted_visit_leaves_nothing_and_does_not_count(scene: Scene) -> None:
    def interrupting(spec: Call) -> Measured:
        raise Interrupted("stop")

    scene.loads[0] = ToyWorkload("a", interrupting)
    with pytest.raises(Interrupted):
        scene.go()
    assert scene.host.words()[-4:] == REMOVE
    assert scene.store.to_undo() == []
    assert len(scene.store.open_visits()) == 1


def test_a_machine_that_cannot_have_the_disks_fails_the_visit_and_not_the_run(scene: Scene) -> None:
    scene.sites = LabSites(scene.host, "0" * 32, "/work", scene.host.now, without_disks=True)
    failure = scene.go()
    assert failure is not None and "too fast" in failure
    view = reader.view(scene.store.directory)
    assert [f.reason for f in view.failed] == [failure] and view.visits_done == 1
    assert scene.store.to_undo() == [] and scene.store.open_visits() == []


def test_what_cannot_be_removed_keeps_what_carries_it_and_says_both_errors(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata.run.journal._UNDO_PAUSE_S", 0.0)
    scene.host.broken = {"undo-top-1", "prepare-a"}
    scene.layers["top"] = ToyLayer("top", lambda: ["not as requested"])
    with pytest.raises(UndoFailed) as caught:
        scene.go()
    assert "not as requested" in str(caught.value) and "it broke" in str(caught.value)
    assert "undo-low-2" not in scene.host.words()
    # also what was undone of it: that the next one fails may show that it did not hold
    assert [undo.why for undo in scene.store.to_undo()] == [
        "top 2",
        "top 1",
        "low 2",
        "low 1",
        "make the directories of the visit",
    ]
    assert len(scene.store.open_visits()) == 1, "it may be tried again"
    scene.host.broken = set()
    assert journal.undo(scene.store, scene.host) == 5
    assert scene.host.words()[-4:] == REMOVE


def test_an_undo_that_fails_is_tried_again_but_not_one_that_hung(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strata.run.journal._UNDO_PAUSE_S", 0.0)
    scene.host.broken = {"undo-top-2"}
    with pytest.raises(UndoFailed):
        scene.go()
    assert scene.host.words().count("undo-top-2") == 4
    scene.host.commands.clear()
    scene.host.failure = CommandTimedOut
    with pytest.raises(UndoFailed):
        journal.undo(scene.store, scene.host)
    assert scene.host.words() == ["undo-top-2"]


def test_what_commands_left_running_is_ended_before_the_proof_and_before_the_removal(scene: Scene) -> None:
    scene.host.strays = ["daemon (process 7)"]
    assert scene.go() is None
    argvs = [command.argv[0] for command in scene.host.commands]
    ends = [i for i, word in enumerate(argvs) if word == "end-strays"]
    assert len(ends) == 3, "after each of two trials, and at the end"
    assert argvs[ends[0] + 1] == argvs[ends[1] + 1] == "inspect-low"
    assert argvs[ends[2] + 1] == "undo-top-2"
    notes = [" ".join(trial.notes) for trial in reader.view(scene.store.directory).trials]
    assert len(notes) == 2 and all("daemon (process 7)" in note for note in notes)


def test_a_process_that_will_not_end_is_what_could_not_be_removed(scene: Scene) -> None:
    scene.host.unkillable = ["dd (process 7)"]
    scene.host.broken = {"make-top-2"}
    with pytest.raises(UndoFailed) as caught:
        scene.go()
    assert "process 7" in str(caught.value) and "make-top-2" in str(caught.value), "both errors"
    assert not [word for word in scene.host.words() if word.startswith("undo")]
    assert len(scene.store.to_undo()) == 5


def test_a_process_that_will_not_end_after_a_trial_keeps_the_machine_from_further_visits(scene: Scene) -> None:
    scene.host.unkillable = ["dd (process 7)"]
    with pytest.raises(UndoFailed, match=r"(?s)process 7.*strata clean"):
        scene.go()
    assert len(scene.store.open_visits()) == 1 and len(scene.store.to_undo()) == 5


def test_one_that_ends_before_the_removal_fails_only_its_visit(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([UndoFailed(["dd (process 7) was killed and still lives"])])  # after the trial alone

    def end_strays(marker: str) -> list[str]:
        for error in answers:
            raise error
        return []

    monkeypatch.setattr(scene.host, "end_strays", end_strays)
    failure = scene.go() or ""
    assert "dd (process 7) was killed and still lives" in failure
    assert scene.host.words()[-4:] == REMOVE and scene.store.to_undo() == []


def test_the_commands_kept_of_a_visit_are_those_that_ran_in_their_order(scene: Scene) -> None:
    def rising(spec: Call) -> Measured:
        return Measured({"speed": 5.0}, series={"speed": [(t, 100.0 + 10 * t) for t in range(40)]})

    scene.loads[1] = ToyWorkload("b", rising)  # measured twice
    scene.go()
    typed = [shlex.join(command.argv) for command in scene.host.commands]
    ran = [
        line
        for line in typed
        if not line.startswith(("inspect-", "end-strays", "sh -c 'mkdir -p"))
        and machine_lock.FOLDER not in line
        and ("findmnt" not in line or "rm --recursive" in line)
    ]
    (kept,) = reader.view(scene.store.directory).commands.values()
    assert list(kept) == ran
    for word in ("scratch/0", "scratch/1", "strata-trial", "sync", "drop_caches", "sample", "rm --recursive"):
        assert any(word in line for line in kept), word


def test_of_a_failed_trial_what_it_said_is_kept(scene: Scene) -> None:
    def broken(spec: Call) -> Measured:
        raise WorkloadFailed("no figure")

    scene.loads[0] = ToyWorkload("a", broken)
    scene.go()
    rows = evidence(scene, "a")
    assert [row[0][-3] for row in rows] == ["measure-a"]
    assert evidence(scene, "b") == [], "a trial that went well has its figures"


def test_a_failed_trial_under_which_the_stack_changed_has_both_reasons_and_no_figure(scene: Scene) -> None:
    def broken(spec: Call) -> Measured:
        raise WorkloadFailed("no figure")

    scene.loads[0] = ToyWorkload("a", broken)
    answers = iter([[], ["somebody mounted over it"]])
    scene.layers["top"] = ToyLayer("top", lambda: next(answers))
    failure = scene.go() or ""
    assert "no figure" in failure and "mounted over it" in failure
    assert scene.outcomes()["a"][0] is Outcome.FAILED


@pytest.mark.parametrize(
    ("own", "sampled", "flags", "noted"),
    [
        (Directory((), 1, "ext4", ("/dev/vda", "/dev/vdb")), ["d0=/dev/vda", "d1=/dev/vdb"], (), False),
        (Directory((), 1, "tmpfs", ()), [], ("cache",), True),
        (Directory((), 1, "overlay", ()), [], (), True),
    ],
)
def test_what_the_user_s_own_directory_lies_on_is_sampled_or_said_not_to_be_known(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    own: Directory,
    sampled: list[str],
    flags: tuple[str, ...],
    noted: bool,
) -> None:
    monkeypatch.setattr("strata.run.directories.look", lambda host, path: own)
    scene.go()
    engine = next(command.argv for command in scene.host.commands if "measure-a" in command.argv)
    assert [word for before, word in pairwise(engine) if before == "--device"] == sampled
    trial = reader.view(scene.store.directory).trials[0]
    assert trial.flags == flags
    assert any("no block device" in note for note in trial.notes) == noted


def evidence(scene: Scene, layer: str) -> list[tuple[list[str], int, str, str]]:
    sql = sqlite3.connect(scene.store.directory / "strata.db")
    try:
        found = sql.execute("SELECT argv, exit_code, stdout, stderr FROM evidence WHERE layer = ?", (layer,)).fetchall()
    finally:
        sql.close()
    return [(json.loads(row[0]), *row[1:]) for row in found]


def test_a_layer_that_does_not_fit_is_a_failed_visit(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        raise BadInput("a partition of 8G does not fit on 300M")

    monkeypatch.setattr(scene.layers["low"], "provides", no_room)
    assert "does not fit" in (scene.go() or "")
    assert reader.view(scene.store.directory).visits_done == 1


def test_a_figure_in_another_unit_than_before_is_a_failed_trial_and_shown_as_one(scene: Scene) -> None:
    def told(unit: str) -> Callable[[Call], Measured]:
        return lambda _: Measured({"speed": 5.0, "took": 1.2}, extra=(Metric("took", unit, "lower"),))

    scene.loads = [ToyWorkload("a", told("s"))]
    assert scene.go() is None
    scene.store.add_visits([(4, "low | top")], 0.0)
    scene.loads = [ToyWorkload("a", told("ms"))]
    assert scene.go() is None
    trials = reader.view(scene.store.directory).trials
    assert [trial.outcome for trial in trials] == [Outcome.OK, Outcome.FAILED]
    shown = [each for each in scene.told if isinstance(each, TrialEnded)]
    assert [each.primary for each in shown] == [("speed", 5.0, SPEED.unit), None]
    assert shown[1].reason == trials[1].reason is not None


def in_lab(scene: Scene, *doomed: int, left: str = "") -> None:
    scene.sites = LabSites(scene.host, "0" * 32, "/lab", scene.host.now, doomed=frozenset(doomed), left=left)


def test_a_lost_machine_is_recorded_and_the_visit_tried_again(scene: Scene) -> None:
    in_lab(scene, 1, 2)
    assert scene.go() is None
    rows = scene.store._sql.execute("SELECT attempt, reason, console FROM lost").fetchall()
    assert rows == [(n, "the machine is gone.", "Kernel panic - not syncing") for n in (1, 2)]
    assert {name: outcome for name, (outcome, _, _) in scene.outcomes().items()} == {"a": Outcome.OK, "b": Outcome.OK}
    assert scene.store.to_undo() == []
    assert scene.host.words()[-4:] == REMOVE


def test_a_machine_that_is_lost_every_time_fails_the_visit(scene: Scene) -> None:
    in_lab(scene, 1, 2, 3)
    failure = scene.go()
    assert failure is not None and "3 times" in failure and "the machine is gone" in failure
    (failed,) = reader.view(scene.store.directory).failed
    assert failed.reason == failure
    assert scene.store.open_visits() == []


def test_a_machine_that_stays_and_is_lost_ends_the_run(scene: Scene) -> None:
    scene.host.broken, scene.host.failure = {scene.host.engine}, lost
    with pytest.raises(HostLost):
        scene.go()
    assert len(scene.store.open_visits()) == 1  # it is tried again when the run goes on
    assert scene.store.to_undo() != []


def test_what_a_removal_leaves_in_a_lab_machine_fails_the_visit(scene: Scene) -> None:
    in_lab(scene, left="array md127")
    failure = scene.go()
    assert failure is not None and "array md127" in failure


def test_what_failed_in_a_lab_machine_is_thrown_away_and_not_undone(scene: Scene) -> None:
    in_lab(scene)
    scene.host.broken = set()
    scene.layers["top"] = ToyLayer("top", lambda: ["it is not so"])
    assert "it is not so" in (scene.go() or "")
    assert not set(REMOVE) & set(scene.host.words())
    assert scene.store.to_undo() == []


def test_a_process_that_cannot_be_killed_fails_its_visit_in_a_lab_and_not_the_run(scene: Scene) -> None:
    in_lab(scene)
    scene.host.unkillable = ["fio (process 7)"]
    failure = scene.go() or ""
    assert "fio (process 7) was killed and still lives" in failure and "does not answer" in failure
    assert "strata clean" not in failure, "the machine is gone, and there is nothing to clean"
    (failed,) = reader.view(scene.store.directory).failed
    assert failed.reason == failure
    assert not set(REMOVE) & set(scene.host.words()), "nothing is undone where such a process may hold it"
    assert scene.store.to_undo() == [] and scene.store.open_visits() == [] and scene.store.quarantined() is None


def test_a_removal_that_fails_in_a_lab_advises_no_clean(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strata.run.journal._UNDO_PAUSE_S", 0.0)
    in_lab(scene)
    broken = scene.host.run

    def run(command: Command, *, check: bool = True) -> Completed:
        if command.argv[0] == "undo-top-2":
            raise CommandFailed(command.argv, 1, "", "target is busy")
        return broken(command, check=check)

    monkeypatch.setattr(scene.host, "run", run)
    failure = scene.go() or ""
    assert "target is busy" in failure and "strata clean" not in failure


def test_each_trial_is_held_against_the_disks_of_its_site(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    sites = LabSites(scene.host, "0" * 32, "/work", scene.host.now)
    seen: list[Site] = []

    def judged(layout: Layout, site: Site, result: Trial) -> Trial:
        seen.append(site)
        return replace(result, outcome=Outcome.INVALID, reason="the disk did more than it can")

    monkeypatch.setattr(visit.within_bounds, "judged", judged)
    scene.sites = sites
    scene.go()
    assert [outcome for outcome, _, _ in scene.outcomes().values()] == [Outcome.INVALID, Outcome.INVALID]
    assert {site.work_dir for site in seen} == {"/lab"}


@dataclass
class FakeApart:
    """Notes when tenants are measured by themselves, and what is removed for that."""

    host: Host
    order: list[str]

    def measure(self, instead_of: list[tuple[Host, Command]] | None = None) -> None:
        self.order.append("apart")
        for host, command in instead_of or ():
            host.run(command)
        if instead_of is not None:
            instead_of.clear()
            self.order.append("removed for it")

    def compared(self, results: Sequence[Trial]) -> list[Trial]:
        return list(results)


@pytest.mark.parametrize(
    ("round_", "order"),
    [(2, ["apart", "trial", "apart", "trial"]), (3, ["trial", "apart", "removed for it"] * 2)],
)
def test_the_trial_of_all_comes_first_or_second_by_turns_and_its_directories_go_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, round_: int, order: list[str]
) -> None:
    """Who comes second finds room that was given out."""
    happened: list[str] = []
    trials = visit._trials

    def trial_of_all(*about: object) -> list[Trial]:
        happened.append("trial")
        return trials(*about)  # type: ignore[arg-type]

    monkeypatch.setattr(visit, "Apart", lambda *_: FakeApart(scene.host, happened))
    monkeypatch.setattr(visit, "_trials", trial_of_all)
    assert scene.go(round_) is None
    assert happened == order
    removals = [command for command in scene.host.commands if command.argv[0] == "rm"]
    assert len(removals) == 2, "once for each trial"


def test_what_a_trial_left_in_a_container_is_ended_and_told(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    swept = Command(("sweep",))
    plain = ToyLayer.provides

    def provides(self: ToyLayer, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        return replace(plain(self, spec, below, place), sweep=swept if self.info.name == "top" else None)

    monkeypatch.setattr(ToyLayer, "provides", provides)
    monkeypatch.setattr(scene.host, "_respond", lambda command: "fio\nbash\n" if command == swept else None)
    assert scene.go() is None
    left = "what it left running in the background was ended: bash (in the container), fio (in the container)"
    assert [trial.notes[-1] for trial in reader.view(scene.store.directory).trials] == [left, left]


def test_every_trial_of_a_stack_that_can_lose_acknowledged_data_is_marked(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    (risky,) = parse_stacks("disk | ext4(nobarrier)", catalogue())
    monkeypatch.setattr(visit, "loses_acknowledged", lambda stack: loses_acknowledged(risky))
    scene.go()
    for trial in reader.view(scene.store.directory).trials:
        assert "unsafe" in trial.flags
        assert any("a power cut may destroy" in note and "leave nobarrier out" in note for note in trial.notes)
