"""Guests take the same step at the same time; what one of them could not do is in the journal, and raised."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest
from tests.fake_host import FakeHost

from strata import campaign as campaigns
from strata import layers
from strata.errors import GuestLost, VisitFailed
from strata.model import Command, Completed, Disk, Guest, Step
from strata.run import layout
from strata.run.at_once import at_once
from strata.run.guests import Machines
from strata.run.layout import Placed

UUID = "0123456789abcdef0123456789abcdef"


@dataclass
class Journal:
    """Stands for the store: what was begun, and how it ended."""

    entries: list[str] = field(default_factory=list)
    ends: dict[int, str] = field(default_factory=dict)

    def journal(self, attempt: int, layer: str, why: str, do: Command, undo: Command | None, at: float) -> int:
        self.entries.append(layer)
        return len(self.entries) - 1

    def settle(self, entry: int, state: str, took_s: float | None, at: float, detail: str | None = None) -> None:
        self.ends[entry] = state


class Meeting(FakeHost):
    """Each of its commands waits until the other host has one too, and gives up in the end."""

    def __init__(self, meeting: threading.Barrier, broken: type[Exception] | None = None) -> None:
        super().__init__()
        self._meeting, self._broken = meeting, broken

    def run(self, command: Command, *, check: bool = True) -> Completed:
        self._meeting.wait()
        if self._broken is not None:
            raise self._broken("out of luck")
        return super().run(command, check=check)


def machines(
    broken: type[Exception] | None = None,
) -> tuple[Machines, Journal, list[tuple[Placed, Step]]]:
    (stack,) = campaigns.parse_stacks("ssd | ext4 | tenants(2) | raw(size=300M) | vm | xfs", layers.catalogue())
    disks = (Disk("ssd", 1 << 30),)
    laid = layout.lay_out(stack, layers.drivers(), disks, work_dir="/run", run_uuid=UUID, attempt=1)
    turn = next(turn for level in laid.levels() for turn in layout.turns(level) if len(turn) == 2)
    meeting, store = threading.Barrier(2, timeout=30), Journal()
    both = Machines(FakeHost(), store, 1, "mark", None)  # type: ignore[arg-type]
    guests: list[Guest] = [placed.guest for placed, _ in turn if placed.guest is not None]
    hosts = [Meeting(meeting), Meeting(meeting, broken)]
    both._open.update(zip(guests, hosts, strict=True))  # type: ignore[arg-type]
    return both, store, turn


def test_guests_take_a_step_at_the_same_time() -> None:
    both, store, turn = machines()
    both.carry_out_together(turn)
    assert store.ends == {0: "done", 1: "done"}


@pytest.mark.parametrize(("error", "ends"), [(VisitFailed, {0: "done", 1: "failed"}), (GuestLost, {0: "done"})])
def test_what_one_could_not_do_is_told(error: type[Exception], ends: dict[int, str]) -> None:
    both, store, turn = machines(error)
    with pytest.raises(error, match="out of luck"):
        both.carry_out_together(turn)
    assert store.ends == ends and len(store.entries) == 2


def test_machines_are_asked_at_the_same_time_and_answer_in_order() -> None:
    both, _, turn = machines()
    asked = [(placed, [Command(("look", str(number)))]) for number, (placed, _) in enumerate(turn)]
    assert [[seen.argv[1] for seen in answer] for answer in both.ask_all(asked)] == [["0"], ["1"]]


def test_one_alone_is_done_by_who_asks() -> None:
    seen: list[threading.Thread] = []
    at_once({"alone": lambda: seen.append(threading.current_thread())})
    assert seen == [threading.current_thread()]


def test_what_is_raised_in_any_of_them_is_raised_when_all_have_ended() -> None:
    ended: list[str] = []

    def wrong() -> None:
        raise ZeroDivisionError("no refusal of ours, a mistake")

    with pytest.raises(ZeroDivisionError):
        at_once({"wrong": wrong, "right": lambda: ended.append("right")})
    assert ended == ["right"]
