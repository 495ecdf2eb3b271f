"""The life of a visit on a host that only pretends: order, failures, removal, what counts and what does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from strata.errors import CommandFailed, Interrupted, UndoFailed, WorkloadFailed
from strata.hosts.fake import FakeHost
from strata.model import (
    Call,
    Command,
    Completed,
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
from strata.run import journal, visit
from strata.run.progress import Progress, TrialEnded
from strata.run.signals import Interrupts
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
    """Fails the commands in `broken`."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: set[str] = set()

    def run(self, command: Command, *, check: bool = True) -> Completed:
        done = super().run(command, check=check)
        if command.argv[0] in self.broken:
            raise CommandFailed(command.argv, 1, "", "it broke")
        return done

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

    def go(self) -> str | None:
        stack = Stack("low | top", Node(Call("top", "top", {}), (Node(Call("low", "low", {})),)))
        calls = [(Call(load.info.name, load.info.name, {"runtime": 10.0}), load, SPEED) for load in self.loads]
        self.store.add_plan([stack], [(call, metric, (metric,)) for call, _, metric in calls], (), ())
        self.store.set_rule(Rule(), 0.0)
        self.store.add_visits([(3, stack.text)], 0.0)
        bench = visit.Workbench(
            host=self.host,
            store=self.store,
            run_uuid="0" * 32,
            work_dir="/work",
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
    notes = [trial.notes for trial in reader.view(scene.store.directory).trials]
    assert len(notes) == 2 and all("only root may" in note for (note,) in notes)


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


def test_what_cannot_be_removed_keeps_what_carries_it_and_says_both_errors(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata.run.journal._UNDO_PAUSE_S", 0.0)
    scene.host.broken = {"undo-top-1", "prepare-a"}
    scene.layers["top"] = ToyLayer("top", lambda: ["not as asked"])
    with pytest.raises(UndoFailed) as caught:
        scene.go()
    assert "not as asked" in str(caught.value) and "it broke" in str(caught.value)
    assert "undo-low-2" not in scene.host.words()
    assert [undo.why for undo in scene.store.to_undo()] == [
        "top 1",
        "low 2",
        "low 1",
        "make the directories of the visit",
    ]
    assert len(scene.store.open_visits()) == 1, "it may be tried again"
    scene.host.broken = set()
    assert journal.undo(scene.store, scene.host) == 4
    assert scene.host.words()[-3:] == ["undo-top-1", "undo-low-2", "undo-low-1"]
