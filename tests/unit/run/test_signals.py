"""A signal at any moment of a visit: everything is removed and the store can be used, or the visit has counted."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
from tests.fake_host import FakeHost

import strata
from strata.errors import Interrupted
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
from strata.run import visit
from strata.run.signals import Interrupts
from strata.run.sites import LastingSites
from strata.store import reader, signature
from strata.store.writer import Store

Trace = Callable[[FrameType, str, object], object]
SPEED = Metric("speed", "MiB/s", "higher")
STACK = Stack("toy", Node(Call("toy", "toy", {})))


@pytest.fixture(autouse=True)
def ordinary_signals() -> Iterator[None]:
    """As a process has them that nobody told to ignore any, whatever holds for pytest."""
    ours = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in ours.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class ToyLayer:
    info = LayerInfo("toy", "toy", (), frozenset(), Kind.DIRECTORY)

    def arity_reasons(self, spec: Call, inputs: int) -> list[str]:
        return []

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return []

    def provides(self, spec: Call, below: object, place: Place) -> Provides:
        return Provides(Kind.DIRECTORY, "/toy")

    def plan_create(self, spec: Call, below: object, place: Place) -> list[Step]:
        return [Step(Command(("make", name)), Command(("undo", name)), name) for name in ("disk", "mount")]

    def plan_inspect(self, spec: Call, below: object, place: Place) -> list[Command]:
        return [Command(("inspect",))]

    def differences(self, spec: Call, below: object, place: Place, seen: object) -> list[str]:
        return []


class ToyWorkload:
    info = WorkloadInfo("toy", "toy", (), (SPEED,), "speed", frozenset(Kind))

    def primary_of(self, spec: Call) -> Metric:
        return SPEED

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return []

    def checks(self, spec: Call) -> list[Command]:
        return []

    def data_bytes(self, spec: Call) -> int:
        return 0

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        return TrialPlan((), Command(("measure",)), {})

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        return Measured({"speed": 5.0})


class World(FakeHost):
    """Knows what was made and not undone, and starts nothing after a signal, as a real host."""

    def __init__(self) -> None:
        super().__init__()
        self.there: set[str] = set()
        self.interrupts = Interrupts()

    def run(self, command: Command, *, check: bool = True) -> Completed:
        self.interrupts.check()
        if command.argv[0] == "make":
            self.there.add(command.argv[1])
        elif command.argv[0] == "undo":
            self.there.discard(command.argv[1])
        return super().run(command, check=check)


# Where a handler that raises does harm: our own code, and the exits of what it calls. Signing is pure.
TRACED = (str(Path(strata.__file__).parent), contextlib.__file__)
UNTRACED = signature.__file__


class Signal:
    """Delivers SIGINT at event number `moment`, a call or a line, of the run while it is heard."""

    def __init__(self, moment: int) -> None:
        self.left = moment
        self.where: str | None = None

    def trace(self, frame: FrameType, event: str, argument: object) -> Trace | None:
        file = frame.f_code.co_filename
        if self.where is not None or not file.startswith(TRACED) or file == UNTRACED:
            return None
        handler = signal.getsignal(signal.SIGINT)
        if event in ("call", "line") and handler is not signal.default_int_handler:
            self.left -= 1
            if self.left == 0:
                self.where = f"{frame.f_code.co_qualname}:{frame.f_lineno}"
                assert callable(handler)
                handler(signal.SIGINT, frame)
        return self.trace


LOAD = (Call("toy", "toy", {}), ToyWorkload(), SPEED)


def planned_run(directory: Path) -> Path:
    """A run with one visit to make."""
    store = Store.create(
        directory, name="n", about="", source="", fingerprint="", description={}, seed=1, version="0", now=0.0
    )
    store.add_plan([STACK], [(LOAD[0], SPEED, (SPEED,))], (), ())
    store.set_rule(Rule(), 0.0)
    store.add_visits([(0, STACK.text)], 0.0)
    store.close()
    return directory


class Scene:
    def __init__(self, directory: Path) -> None:
        self.host = World()
        self.store = Store.resume(directory)
        self.store._sql.execute("PRAGMA synchronous = OFF")  # a thousand visits, and no power cut

    def visit(self, moment: int) -> tuple[Signal, bool]:
        """Makes the one visit, with a signal; whether it raised Interrupted."""
        (planned,) = self.store.open_visits()
        interrupts = self.host.interrupts = Interrupts()
        bench = visit.Workbench(
            sites=LastingSites(self.host, "0" * 32, "/work", self.host.now),
            store=self.store,
            drivers={"toy": ToyLayer()},
            workloads=[LOAD],
            disks=(),
            memory_bytes=1,
            machine_metrics=frozenset(),
            seed=1,
            interrupts=interrupts,
            listener=lambda progress: None,
        )
        coming, tracing = Signal(moment), sys.gettrace()
        sys.settrace(coming.trace)
        try:
            with interrupts.listening():
                visit.visit(bench, planned, STACK)
        except Interrupted:
            return coming, True
        finally:
            sys.settrace(tracing)
        return coming, False


@pytest.mark.timeout(600)  # a thousand visits
def test_at_any_moment_a_visit_is_removed_or_has_counted(tmp_path: Path) -> None:
    # A run can go on only where it was made.
    plan = planned_run(tmp_path / "run").rename(tmp_path / "plan")
    cut_short = counted = 0
    for moment in range(1, 10**6):
        scene = Scene(shutil.copytree(plan, tmp_path / "run"))
        coming, interrupted = scene.visit(moment)
        if coming.where is None:
            break
        assert interrupted, f"a signal was swallowed at {coming.where}"
        assert scene.host.there == set(), coming.where
        assert scene.store.to_undo() == [], coming.where
        if scene.store.open_visits():
            cut_short += 1
            # the same run goes on
            scene.visit(0)
        else:
            counted += 1
        view = reader.view(scene.store.directory)
        assert (view.visits_done, view.failed) == (1, ()), coming.where
        assert [trial.metrics["speed"] for trial in view.trials] == [5.0], coming.where
        scene.store.close()
        shutil.rmtree(scene.store.directory)
    assert cut_short > 300 and counted > 100, (cut_short, counted)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_word_is_left_and_raised_once_where_it_is_asked_for(number: signal.Signals) -> None:
    interrupts = Interrupts()
    with interrupts.listening():
        descriptor = interrupts.descriptor()
        assert descriptor is not None
        interrupts.check()
        signal.raise_signal(number)
        assert select.select([descriptor], [], [], 0)[0] == [descriptor], "who waits is woken"
        with interrupts.held():
            with interrupts.held():
                assert interrupts.descriptor() is None
            interrupts.check()
        with pytest.raises(Interrupted, match=number.name):
            interrupts.check()
        signal.raise_signal(number)
        interrupts.check()
        assert interrupts.descriptor() is None, "cleaning up is not disturbed"


def test_a_signal_that_came_too_late_for_any_boundary_is_raised_at_the_end() -> None:
    interrupts = Interrupts()
    with pytest.raises(Interrupted), interrupts.listening():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_an_error_is_not_hidden_by_a_signal() -> None:
    with pytest.raises(ZeroDivisionError), Interrupts().listening():
        1 // (signal.raise_signal(signal.SIGTERM) or 0)


def test_what_was_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interrupts = Interrupts()
    with interrupts.listening():
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) == interrupts._handle
        signal.raise_signal(signal.SIGHUP)
        interrupts.check()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_question_is_answered_or_cut_short() -> None:
    there, here = os.pipe()
    with os.fdopen(there) as stream, os.fdopen(here, "w") as answer:
        interrupts = Interrupts()
        with interrupts.listening():
            print("yes", file=answer, flush=True)
            interrupts.wait_for(stream)
            assert stream.readline() == "yes\n"
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(Interrupted):
                interrupts.wait_for(stream)
